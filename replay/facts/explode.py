"""Convert records of the audit log to facts: one row per record, or one per partition of the record. Pure.

The description of its kind says which field of a record goes into which column (``record.families``). The inverse, for
the records that a fold needs, is ``replay.facts.assemble``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from controllerd.record.envelope import NO_TERM, UnknownRecord
from controllerd.record.facts import Facts, one_row
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import (
    EventBegin,
    EventEnd,
    Record,
    ReplyRecord,
    TermRecord,
)
from replay.facts.buffer import FactBuffer, FactOrigin, short_hash

SOURCE: Final = "audit"
UNKNOWN_KIND: Final = "unknown_kind"
_FACTS: Final[Mapping[type[Record], Callable[[Any], Facts]]] = {
    **{record: kind.facts for record, kind in DESCRIPTIONS.items()},
    UnknownRecord: one_row(UnknownRecord, name="name"),
}


class Stamp(Protocol):
    """The fields of an ``Envelope`` that are needed. A decoded line has them, without being an ``Envelope``."""

    @property
    def kind(self) -> str: ...
    @property
    def cluster(self) -> str: ...
    @property
    def node(self) -> int: ...
    @property
    def boot(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def event(self) -> int: ...
    @property
    def ts_ms(self) -> int: ...
    @property
    def mono_ns(self) -> int: ...
    @property
    def prev(self) -> str: ...


def explode(
    buffer: FactBuffer, envelope: Stamp, record: Record, *, file: str, line: int, digest: str | None = None
) -> None:
    """Put the facts of one record into the buffer.

    :param file: name of the file that it was read from, and ``line`` the number of its line from 1
    :param digest: the hash of its line in hexadecimal, as in the next line's ``prev``; None: not calculated
    :raises ValueError: its columns differ in length, or a hash is invalid; no row was added
    """
    count, columns = _FACTS[type(record)](record)
    if not count:
        count, columns = 1, {}
    if digest is not None:
        columns["hash"] = (short_hash(digest),)
    if envelope.prev:
        columns["prev"] = (short_hash(envelope.prev),)
    buffer.put(_place(envelope, record, file, line), columns, count)


def _place(envelope: Stamp, record: Record, file: str, line: int) -> FactOrigin:
    epoch, event, kind = envelope.epoch, envelope.event, envelope.kind
    if isinstance(record, EventBegin | EventEnd | ReplyRecord):
        event = record.number
    elif isinstance(record, TermRecord) and record.change not in NO_TERM:
        epoch = record.controller_epoch
    elif isinstance(record, UnknownRecord):
        kind = UNKNOWN_KIND
    return FactOrigin(
        envelope.cluster,
        SOURCE,
        envelope.node,
        envelope.boot,
        epoch,
        envelope.seq,
        event,
        envelope.ts_ms,
        envelope.mono_ns // 1000,
        kind,
        file,
        line,
    )
