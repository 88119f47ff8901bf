"""Values that the controller does not act on: unsound ones that can be parsed, and znodes in quarantine.

Both are judged per partition, so that one bad entry does not stop a whole topic.
"""

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Final

from controllerd.core.context import ControllerContext
from controllerd.core.model import NO_LEADER, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition

MAX_TOPIC_NAME_LENGTH: Final = 249
_REMEMBERED: Final = 4096
"""Judgements that are kept: a cluster of 100,000 partitions has a few hundred different ones."""
_LEGAL_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class AssignmentFlaw(Enum):
    """A flaw of the assignment of one partition."""

    DUPLICATE_REPLICAS = "a broker holds two replicas"
    """The controller does not act on the partition."""
    REASSIGNMENT_OUTSIDE_REPLICAS = "adding or removing names a broker that is not among the replicas"
    """The controller does not act on its reassignment, but elects its leaders."""
    NO_REPLICAS = "no replicas"
    """The partition cannot be created and stays New."""


def assignment_flaw(assignment: ReplicaAssignment) -> AssignmentFlaw | None:
    """The gravest flaw of an assignment, or None."""
    return _assignment_flaw(assignment)


@lru_cache(maxsize=_REMEMBERED)
def _assignment_flaw(assignment: ReplicaAssignment) -> AssignmentFlaw | None:
    if _repeats(assignment.replicas):
        return AssignmentFlaw.DUPLICATE_REPLICAS
    if not assignment.replicas:
        return AssignmentFlaw.NO_REPLICAS
    if not {*assignment.adding, *assignment.removing} <= set(assignment.replicas):
        return AssignmentFlaw.REASSIGNMENT_OUTSIDE_REPLICAS
    return None


class LeadershipFlaw(Enum):
    """A flaw of a partition state. It is alarmed and not repaired as such; elections follow the normal rules."""

    EMPTY_ISR = "the ISR is empty"
    DUPLICATE_ISR = "the ISR names a broker twice"
    ISR_OUTSIDE_REPLICAS = "no ISR member is among the replicas"
    LEADER_OUTSIDE_ISR = "the leader is not in the ISR"


def leadership_flaw(leadership: LeaderAndIsr, replicas: Iterable[BrokerId]) -> LeadershipFlaw | None:
    """The gravest flaw of a partition state, or None."""
    return _leadership_flaw(leadership.leader, leadership.isr, tuple(replicas))


@lru_cache(maxsize=_REMEMBERED)
def _leadership_flaw(
    leader: BrokerId, isr: tuple[BrokerId, ...], replicas: tuple[BrokerId, ...]
) -> LeadershipFlaw | None:
    if not isr:
        return LeadershipFlaw.EMPTY_ISR
    if set(isr).isdisjoint(replicas):
        return LeadershipFlaw.ISR_OUTSIDE_REPLICAS
    if leader not in {NO_LEADER, *isr}:
        return LeadershipFlaw.LEADER_OUTSIDE_ISR
    if _repeats(isr):
        return LeadershipFlaw.DUPLICATE_ISR
    return None


def _repeats(brokers: tuple[BrokerId, ...]) -> bool:
    return len(set(brokers)) < len(brokers)


def topic_name_problem(name: str) -> str | None:
    """Why this is not a legal topic name (error 17, INVALID_TOPIC_EXCEPTION), or None."""
    if name in {"", ".", ".."}:
        return f"topic name {name!r} is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"topic name is longer than {MAX_TOPIC_NAME_LENGTH} characters"
    if _LEGAL_TOPIC_NAME.fullmatch(name) is None:
        return "topic name has characters outside a-z, A-Z, 0-9, dot, underscore and hyphen"
    return None


def is_in_quarantine(context: ControllerContext, topic: str) -> bool:
    """Whether the topic must be left alone, because its znode cannot be parsed."""
    return f"/brokers/topics/{topic}" in context.quarantine


def is_in_doubt(context: ControllerContext, tp: TopicPartition) -> bool:
    """Whether something of the partition is in quarantine: its state, its folder, or its topic."""
    if not context.quarantine:
        return False
    topic = f"/brokers/topics/{tp.topic}"
    paths = (topic, f"{topic}/partitions/{tp.partition}", tp.state_path)
    return any(path in context.quarantine for path in paths)
