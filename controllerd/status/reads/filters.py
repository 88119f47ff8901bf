"""Which partitions a caller wants to see, in the words of Kafka's own tools."""

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta

from controllerd.core.model import PartitionState
from controllerd.status.counts import Counts, is_non_preferred, is_under_replicated
from controllerd.status.queries import Page, TopicGlob
from controllerd.views import PartitionView

Predicate = Callable[[PartitionView], bool]
BrokerNumber = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Order = Literal["topic", "leader", "-leader", "isr", "-isr", "replicas", "-replicas", "leader_epoch", "-leader_epoch"]


class PartitionQuery(Page, frozen=True, kw_only=True):
    """Which partitions. A filter that is false wants those for which it does not hold."""

    topic: TopicGlob = ""
    offline: Annotated[bool | None, Meta(description="Nobody leads them.")] = None
    waiting: Annotated[bool | None, Meta(description="New, and nobody has led them yet.")] = None
    under_replicated: Annotated[bool | None, Meta(description="Some replica is not in the ISR.")] = None
    at_min_isr: Annotated[bool | None, Meta(description="The ISR is as small as min.insync.replicas allows.")] = None
    under_min_isr: Annotated[bool | None, Meta(description="The ISR is smaller than min.insync.replicas.")] = None
    non_preferred: Annotated[bool | None, Meta(description="The preferred replica does not lead them.")] = None
    reassigning: Annotated[bool | None, Meta(description="Replicas are being added or removed.")] = None
    leader: Annotated[BrokerNumber | None, Meta(description="Led by this broker; -1: by nobody.")] = None
    on: Annotated[BrokerNumber | None, Meta(description="With a replica on this broker.")] = None
    sort: Annotated[Order, Meta(description="What they are in order of; -: the largest first.")] = "topic"

    @property
    def needs_min_isr(self) -> bool:
        """Whether ``min.insync.replicas`` of the topics must be known."""
        return self.at_min_isr is not None or self.under_min_isr is not None


_KEYS: Final[Mapping[str, Callable[[PartitionView], int]]] = {
    "leader": lambda partition: -2 if partition.leadership is None else partition.leadership.leader,
    "isr": lambda partition: -1 if partition.leadership is None else len(partition.leadership.isr),
    "replicas": lambda partition: len(partition.assignment.replicas),
    "leader_epoch": lambda partition: -1 if partition.leadership is None else partition.leadership.leader_epoch,
}


def sort_value(order: str) -> Callable[[PartitionView], int] | None:
    """The value that partitions are sorted by; None for the order of topics."""
    if order == "topic":
        return None
    value = _KEYS[order.removeprefix("-")]
    return value if not order.startswith("-") else lambda partition: -value(partition)


def glob(pattern: str) -> Callable[[str], object] | None:
    """Whether a name matches; None when all do."""
    return re.compile(fnmatch.translate(pattern)).match if pattern else None


def predicates_of(query: PartitionQuery, min_isr: int | None) -> list[Predicate]:
    """What must be true of a partition of a topic with this ``min.insync.replicas`` (None: not known)."""
    wanted: list[tuple[bool | None, Predicate]] = [
        (query.offline, is_offline),
        (query.waiting, is_waiting),
        (query.under_replicated, is_under_replicated),
        (query.at_min_isr, lambda partition: _is_isr(partition, lambda isr: isr == min_isr)),
        (query.under_min_isr, lambda partition: _is_isr(partition, lambda isr: min_isr is not None and isr < min_isr)),
        (query.non_preferred, is_non_preferred),
        (query.reassigning, lambda partition: partition.assignment.is_being_reassigned),
    ]
    chosen = [_as_wanted(predicate, value) for value, predicate in wanted if value is not None]
    if query.leader is not None:
        chosen.append(lambda partition: partition.leadership is not None and partition.leadership[0] == query.leader)
    if query.on is not None:
        chosen.append(lambda partition: query.on in partition[2][0])  # by place: it is asked of every partition
    return chosen


def is_offline(partition: PartitionView) -> bool:
    """Whether it had a leader and has none."""
    return partition.state is PartitionState.OFFLINE


def is_waiting(partition: PartitionView) -> bool:
    """Whether it is new, and waits for its first leader."""
    return partition.state is PartitionState.NEW


def _is_isr(partition: PartitionView, size_is: Callable[[int], bool]) -> bool:
    return partition.leadership is not None and size_is(len(partition.leadership.isr))


def _as_wanted(predicate: Predicate, value: bool) -> Predicate:
    return predicate if value else lambda partition: not predicate(partition)


def known_number(query: PartitionQuery, counts: Counts) -> int | None:
    """How many partitions of a topic with these counts are wanted; None when the counts do not tell.

    Most topics are quickly passed over, and what is on later pages need not be looked at.
    """
    told = (
        (query.offline, counts.offline),
        (query.waiting, counts.waiting),
        (query.under_replicated, counts.under_replicated),
        (query.non_preferred, counts.non_preferred),
        (query.reassigning, counts.reassigning),
    )
    wanted = [(value, number) for value, number in told if value is not None]
    if any(value and not number for value, number in wanted):
        return 0
    if len(wanted) != 1 or query.leader is not None or query.on is not None or query.needs_min_isr:
        return None
    value, number = wanted[0]
    return number if value else counts.partitions - number


def matching(partitions: Sequence[PartitionView], predicates: Sequence[Predicate]) -> Sequence[PartitionView]:
    """Those of which everything is true."""
    for predicate in predicates:
        partitions = [partition for partition in partitions if predicate(partition)]
    return partitions
