"""The description of one kind of record: everything that readers of the audit log need to know about it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from controllerd.core.model import TopicPartition
from controllerd.record.facts import FactRows, Facts
from controllerd.record.records import Record
from controllerd.record.state import ClusterState

R = TypeVar("R", bound=Record)


class Touched(NamedTuple):
    """The topics, partitions and brokers of one record, for the line of its event in the daemon's own log."""

    topics: Iterable[str] = ()
    partitions: Iterable[int] = ()
    brokers: Iterable[int] = ()


@dataclass(frozen=True, slots=True)
class RecordCounter(Generic[R]):
    """A Prometheus counter with one label that counts records of a kind."""

    name: str
    """The name without the suffix ``_total``."""
    text: str
    label: str
    known: tuple[str, ...]
    """The label values that are exported as 0 from the start: Prometheus sees an increase only after a first value."""
    value_of: Callable[[R], str | None]
    """Gives the label's value; None if the record is not counted."""
    amount_of: Callable[[R], int] = lambda _record: 1
    """Gives the number to add for a record: 1 by default, and with ``envelope.rows_of`` the number of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind(Generic[R]):
    """The description of one kind. Fields without a default must be set for every kind; None means: not applicable."""

    record: type[R]
    sentence: Callable[[R], str]
    """Gives one sentence. It may contain text from clients, so show it by ``kinds.sentence_of``, which escapes it."""
    facts: Callable[[R], Facts]
    from_facts: Callable[[FactRows], R] | None
    """Restores a record from its facts; None for a kind that neither the fold nor the digests need."""
    fold: Callable[[ClusterState, R], None] | None
    """Applies the record to the folded state; None if the record changes nothing."""
    counter: RecordCounter[R] | None
    touched: Callable[[R], Touched] | None = None
    """Gives topics, partitions and brokers for the event's line in the daemon's own log; None if it has none."""
    notes: Callable[[R, TopicPartition], Iterator[str]] | None = None
    """Gives the sentences of the record about one partition, besides its state."""
    phase: Callable[[R], str | None] | None = None
    """Gives the phase of a failover that ends with the record; None if it ends none."""
    in_snapshot: bool = False
    """Whether periodic snapshots have records of the kind. Such a record repeats the state and is no change."""
    in_digest: bool = False
    """Whether the record changes what the digest of the state has of a topic (``record.digest``)."""
    in_summary: bool = True
    """Whether the kind is written with ``audit.level = summary``."""
    holds_texts: bool = True
    """Whether it may contain text from people or clients; then it is searched for secrets before it is written."""
