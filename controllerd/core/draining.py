"""Which leaderships of a broker others can take over, and why not the rest.

PURE. The same answer before it is done, for a plan, and when it is done.
"""

from collections.abc import Container, Iterable
from typing import NamedTuple

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition

_BEING_DELETED = "its topic is being deleted"
_IN_QUARANTINE = "its state cannot be understood: see the quarantine"
_ALONE = "it has no other replica"


class Led(NamedTuple):
    """A partition that the broker leads. ``online``: its replicas on live brokers with good log directories."""

    tp: TopicPartition
    assignment: ReplicaAssignment
    leadership: LeaderAndIsr
    online: Container[BrokerId]
    is_hidden: bool
    """The topic of the partition is being deleted."""


class DrainPlan(NamedTuple):
    """What can be moved, in order, and why the rest cannot."""

    movable: list[TopicPartition]
    remaining: dict[TopicPartition, str]


def plan_drain(broker: BrokerId, partitions: Iterable[Led], quarantine: Container[str], plan: DrainPlan) -> None:
    """Add these partitions of the broker to the plan."""
    for led in partitions:
        reason = _why_not(broker, led, quarantine)
        if reason is None:
            plan.movable.append(led.tp)
        else:
            plan.remaining[led.tp] = reason


def _why_not(broker: BrokerId, led: Led, quarantine: Container[str]) -> str | None:
    others = [replica for replica in led.assignment.replicas if replica != broker]
    if led.is_hidden:
        return _BEING_DELETED
    if led.tp.state_path in quarantine:
        return _IN_QUARANTINE
    if not others:
        return _ALONE
    in_sync = [replica for replica in others if replica in led.leadership.isr]
    if not in_sync:
        return f"no other replica is in its ISR {list(led.leadership.isr)}"
    if not any(replica in led.online for replica in in_sync):
        return f"the others in its ISR {in_sync} are not online, or are shutting down"
    return None
