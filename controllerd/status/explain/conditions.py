"""In which condition a partition is: the worst of all that apply, at a price that 10,000 partitions can be asked."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import NO_LEADER, PartitionState
from controllerd.snapshot import PartitionView, TopicView
from controllerd.status.explain.scene import CRITICAL, OK, WARNING

UNKNOWN: Final = "unknown"
OFFLINE: Final = "offline"
WAITING: Final = "waiting"
QUARANTINED: Final = "quarantined"
UNDER_MIN_ISR: Final = "under-min-isr"
AT_MIN_ISR: Final = "at-min-isr"
UNDER_REPLICATED: Final = "under-replicated"
DELETING: Final = "deleting"
REASSIGNING: Final = "reassigning"
NON_PREFERRED: Final = "non-preferred"
HEALTHY: Final = "healthy"

SEVERITIES: Final[Mapping[str, str]] = {
    OFFLINE: CRITICAL,
    WAITING: CRITICAL,
    QUARANTINED: CRITICAL,
    UNDER_MIN_ISR: CRITICAL,
    AT_MIN_ISR: WARNING,
    UNDER_REPLICATED: WARNING,
    UNKNOWN: WARNING,
    DELETING: OK,
    REASSIGNING: OK,
    NON_PREFERRED: OK,
    HEALTHY: OK,
}
"""Worst first, each with its severity where nothing else is the matter."""


class Rules(NamedTuple):
    """What a topic brings along for the judgement of its partitions."""

    min_isr: int | None
    """None where it is not known."""
    is_being_deleted: bool
    """Whether brokers were told that it is gone."""
    quarantined: frozenset[int]
    """The partitions that are left alone."""


def condition_of(view: PartitionView, rules: Rules) -> str:
    """The worst that applies to the partition."""
    if rules.is_being_deleted:
        return DELETING
    leadership = view.leadership
    if view.state is PartitionState.OFFLINE or (leadership is not None and leadership.leader == NO_LEADER):
        return OFFLINE
    if leadership is None or view.state is PartitionState.NEW:
        return QUARANTINED if view.partition in rules.quarantined else WAITING
    if view.partition in rules.quarantined:
        return QUARANTINED
    return _in_sync(view, len(leadership.isr), rules.min_isr) or _at_rest(view)


def _in_sync(view: PartitionView, isr: int, min_isr: int | None) -> str | None:
    replicas = len(view.assignment.replicas) - len(view.assignment.adding)
    if min_isr is not None and isr < min_isr:
        return UNDER_MIN_ISR
    if isr >= replicas:
        return None
    return AT_MIN_ISR if isr <= (min_isr or 1) else UNDER_REPLICATED


def _at_rest(view: PartitionView) -> str:
    if view.assignment.is_being_reassigned:
        return REASSIGNING
    return NON_PREFERRED if is_imbalanced(view) else HEALTHY


def rules_of(topic: TopicView, min_isr: int | None, quarantine: Mapping[str, str]) -> Rules:
    """The rules of one topic."""
    prefix = f"/brokers/topics/{topic.name}/partitions/"
    numbers = (path.removeprefix(prefix).removesuffix("/state") for path in quarantine if path.startswith(prefix))
    left_alone = {int(number) for number in numbers if number.isdecimal()}
    if f"/brokers/topics/{topic.name}" in quarantine:
        left_alone.update(view.partition for view in topic.partitions)
    is_gone = topic.deletion is not None and topic.deletion.has_begun
    return Rules(min_isr, is_gone, frozenset(left_alone))
