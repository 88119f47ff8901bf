"""The description of one kind of record: everything that readers of the audit log need to know of it, in one place."""

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
    """Without the suffix ``_total``."""
    text: str
    label: str
    known: tuple[str, ...]
    """Values of the label that are exported as 0 from the start: an increase shows only where there was a 0 before."""
    value_of: Callable[[R], str | None]
    """The label's value; None if this record is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[R]):
    """The description of one kind. Fields without a default must be decided for every kind; None says "nothing"."""

    record: type[R]
    sentence: Callable[[R], str]
    """One sentence for people; it may hold what clients sent, so ``kinds.sentence_of`` makes it safe to show."""
    facts: Callable[[R], Facts]
    from_facts: Callable[[FactRows], R] | None
    """The way back; None for a kind that neither the fold nor the comparison of digests needs."""
    fold: Callable[[ClusterState, R], None] | None
    """Changes the state that is folded; None if the record changes nothing."""
    counter: RecordCounter[R] | None
    touched: Callable[[R], Touched] | None = None
    """The topics, partitions and brokers of an event's line in the daemon's own log; None for no part in it."""
    notes: Callable[[R, TopicPartition], Iterator[str]] | None = None
    """The sentences that the record has about one partition beside its state."""
    phase: Callable[[R], str | None] | None = None
    """The phase of a failover that ends with this record; None if it ends none."""
    in_summary: bool = True
    """Whether it is written with ``audit.level = summary``."""
    holds_texts: bool = True
    """Whether people or clients may have written a part of it: then it is searched for secrets before it is written."""
