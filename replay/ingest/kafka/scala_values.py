"""Parse values as Kafka's Scala code prints them: partitions, sets, leaderships, assignments. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from replay.facts.engine import Value

Fields = dict[str, Value]
"""Columns of a fact."""

TP: Final = r"([\w.-]+)-(\d+)"
"""A partition. Topics may contain dashes and dots, so the last dash separates the number."""
LEADER_AND_ISR: Final = re.compile(
    r"LeaderAndIsr\(leader=(-?\d+), leaderEpoch=(-?\d+), isr\w*=\w+\((.*?)\)"
    r"(?:, leaderRecoveryState=(\w+))?, (?:zkVersion|partitionEpoch)=(-?\d+)\)"
)
LEADER_COLON: Final = re.compile(
    r"\(Leader:(-?\d+),ISR:([\d,]*)(?:,LeaderRecoveryState:(\w+))?,LeaderEpoch:(-?\d+)"
    r"(?:,ZkVersion:(-?\d+))?,ControllerEpoch:(-?\d+)\)"
)
ASSIGNMENT: Final = re.compile(
    r"ReplicaAssignment\(replicas=([\d,]*), addingReplicas=([\d,]*), removingReplicas=([\d,]*)\)"
)
_NAMED_ASSIGNMENT: Final = re.compile(rf"{TP} -> {ASSIGNMENT.pattern}")
_NAMED_LEADERSHIP: Final = re.compile(rf"{TP} -> {LEADER_COLON.pattern}")
_NAMED_STATE: Final = re.compile(rf"{TP} -> (\w+)")
_TOPIC_ID: Final = re.compile(r"TopicIdReplicaAssignment\(([\w.-]+),(?:Some\(([\w-]+)\)|None)")
_PARTITION: Final = re.compile(TP)
_BROKER_EPOCH: Final = re.compile(r"(\d+) -> (\d+)")
_BROKER_IN_ISR: Final = re.compile(r"brokerId=(\d+)")
_NUMBER: Final = re.compile(r"-?\d+")
_COLLECTION: Final = re.compile(r"^\w*\((.*)\)$", re.DOTALL)
_RECOVERY: Final = {"RECOVERED": 0, "RECOVERING": 1}


def numbers(text: str) -> list[int]:
    """Return the numbers of ``1,2,3``, ``Set(1, 2, 3)`` or ``[1,2,3]``."""
    return [int(number) for number in _NUMBER.findall(text)]


def names(text: str) -> list[str]:
    """Return the topics of ``a,b``, ``Set(a, b)`` or ``HashSet()``."""
    inside = _COLLECTION.match(text)
    return [name.strip() for name in (inside[1] if inside else text).split(",") if name.strip()]


def partitions(text: str) -> Iterator[tuple[str, int]]:
    """Return the partitions of ``a-0,b-1``."""
    return ((topic, int(number)) for topic, number in _PARTITION.findall(text))


def leader_and_isr(text: str) -> Fields | None:
    """Return the columns of ``LeaderAndIsr(...)``, as versions from 2.6 to 3.9 print it; None if there is none."""
    match = LEADER_AND_ISR.search(text)
    if match is None:
        return None
    leader, leader_epoch, isr, recovery, partition_epoch = match.groups()
    return {
        "leader": int(leader),
        "leader_epoch": int(leader_epoch),
        "isr": [int(broker) for broker in _BROKER_IN_ISR.findall(isr)] if "brokerId" in isr else numbers(isr),
        "partition_epoch": int(partition_epoch),
        "recovery": _RECOVERY.get(recovery),
    }


def leader_colon(text: str) -> Fields | None:
    """Return the columns of ``(Leader:1,ISR:1,2,...)``; None if there is none."""
    match = LEADER_COLON.search(text)
    return None if match is None else _colon_fields(match.groups())


def _colon_fields(groups: tuple[str | None, ...]) -> Fields:
    leader, isr, recovery, leader_epoch, partition_epoch, state_epoch = groups
    return {
        "leader": int(leader or 0),
        "leader_epoch": int(leader_epoch or 0),
        "isr": numbers(isr or ""),
        "partition_epoch": None if partition_epoch is None else int(partition_epoch),
        "state_epoch": int(state_epoch or 0),
        "recovery": _RECOVERY.get(recovery or ""),
    }


def named_leaderships(text: str) -> Iterator[Fields]:
    """Yield the leaderships of ``a-0 -> (Leader:1,...),b-1 -> (Leader:2,...)``, with topic and partition."""
    for match in _NAMED_LEADERSHIP.finditer(text):
        topic, partition, *rest = match.groups()
        yield {"topic": topic, "partition": int(partition), **_colon_fields(tuple(rest))}


def named_states(text: str) -> Iterator[tuple[str, int, str]]:
    """Return the states of ``Map(a-0 -> OnlinePartition, ...)``."""
    return ((topic, int(number), state) for topic, number, state in _NAMED_STATE.findall(text))


def assignment(text: str) -> Fields | None:
    """Return the columns of the first ``ReplicaAssignment(...)``; None if there is none."""
    match = ASSIGNMENT.search(text)
    return None if match is None else _assignment_fields(*match.groups())


def _assignment_fields(replicas: str, adding: str, removing: str) -> Fields:
    return {"replicas": numbers(replicas), "adding": numbers(adding), "removing": numbers(removing)}


def named_assignments(text: str) -> Iterator[Fields]:
    """Yield the assignments of ``Map(a-0 -> ReplicaAssignment(...), ...)``, with topic and partition."""
    for topic, partition, *lists in _NAMED_ASSIGNMENT.findall(text):
        yield {"topic": topic, "partition": int(partition), **_assignment_fields(*lists)}


def topic_ids(text: str) -> Iterator[tuple[str, str | None]]:
    """Return the topics of ``TopicIdReplicaAssignment(a,Some(id),...)`` with their ids."""
    return ((name, topic_id or None) for name, topic_id in _TOPIC_ID.findall(text))


def broker_epochs(text: str) -> Iterator[tuple[int, int]]:
    """Return the brokers of ``HashMap(1 -> 25, ...)`` with their epochs."""
    return ((int(broker), int(epoch)) for broker, epoch in _BROKER_EPOCH.findall(text))
