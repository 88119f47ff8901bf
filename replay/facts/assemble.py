"""Convert facts back to the records that a fold needs: the inverse of ``replay.facts.explode``. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from controllerd.record.envelope import Envelope
from controllerd.record.facts import FactRows
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import SCHEMA_VERSION, Record

Values = Mapping[str, Sequence[Any]]
"""Facts by column, in the order of the log; a column in which every row is null may be absent."""
_FROM_FACTS: Final[Mapping[str, Callable[[FactRows], Record]]] = {
    record.kind: kind.from_facts for record, kind in DESCRIPTIONS.items() if kind.from_facts is not None
}
FOLDED_KINDS: Final = frozenset(_FROM_FACTS)
"""The kinds whose facts are needed; facts of other kinds are not assembled."""
_ENVELOPE: Final = ("cluster", "node", "boot", "seq", "epoch", "event", "ts_ms", "mono_us", "kind")


def assemble(columns: Values) -> Iterator[tuple[Envelope, Record]]:
    """Yield the records of these facts, with envelopes without ``prev``; kinds that no fold needs are left out.

    :param columns: facts sorted by ``cluster, epoch, node, boot, seq, row``. They may be a part of the log: a record
        whose rows are in several parts becomes several records, which fold to the same state
    """
    count = len(columns["seq"])
    keys = zip(*(columns[name] for name in ("cluster", "node", "boot", "seq")), strict=True)
    start, last = 0, next(keys, None)
    for index, key in enumerate(keys, 1):
        if key != last:
            yield from _record(columns, start, index)
            start, last = index, key
    if count:
        yield from _record(columns, start, count)


def _record(columns: Values, start: int, stop: int) -> Iterator[tuple[Envelope, Record]]:
    kind = columns["kind"][start]
    build = _FROM_FACTS.get(kind)
    if build is None:
        return
    cluster, node, boot, seq, epoch, event, ts_ms, mono_us, _ = (columns[name][start] for name in _ENVELOPE)
    envelope = Envelope(SCHEMA_VERSION, kind, cluster, node, boot, seq, epoch, event, ts_ms, mono_us * 1000, "")
    yield envelope, build(FactRows(columns, start, stop))
