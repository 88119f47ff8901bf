"""The election rules: the next leader of a partition, as pure functions of values.

The assignment is ordered; during a reassignment the target replicas come first. A result of ``None`` means that no
replica is electable: then nothing is written and no state changes.
"""

from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from controllerd.core.model import (
    INITIAL_LEADER_EPOCH,
    MAX_LEADER_EPOCH,
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
)


@dataclass(frozen=True, slots=True)
class OfflineElection:
    """Elect because the partition has no online leader; ``allow_unclean`` overrides the topic's own setting."""

    allow_unclean: bool = False


@dataclass(frozen=True, slots=True)
class ReassignmentElection:
    """Elect among the target replicas of a reassignment that is about to complete."""


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """Elect the first assigned replica, or none."""


@dataclass(frozen=True, slots=True)
class ControlledShutdownElection:
    """Move leadership away from the brokers that are shutting down."""


@dataclass(frozen=True, slots=True)
class MoveLeadershipAway:
    """Move leadership away from a broker that stays a follower."""

    broker: BrokerId


ElectionStrategy = (
    OfflineElection | ReassignmentElection | PreferredElection | ControlledShutdownElection | MoveLeadershipAway
)

_RECORDED_NAMES: Final[Mapping[type[ElectionStrategy], str]] = {
    OfflineElection: "Offline",
    ReassignmentElection: "Reassign",
    PreferredElection: "Preferred",
    ControlledShutdownElection: "ControlledShutdown",
    MoveLeadershipAway: "Relieve",
}
"""The strategies as decision records name them: names in the audit log do not change."""


def recorded_name(strategy: ElectionStrategy) -> str:
    """Return the name of the strategy in the decision records of the audit log."""
    return _RECORDED_NAMES[type(strategy)]


class Elected(NamedTuple):
    """The result of an election that found a leader."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    recovery_state: LeaderRecoveryState | None = None
    """None keeps the stored state: a partition that is RECOVERING stays so through clean elections (KIP-704)."""
    unclean: bool = False
    """The leader was not in the ISR: records may be lost."""


class LeaderEpochExhausted(NamedTuple):
    """The leader epoch has its maximum, 2^31-1. It never wraps: the change is refused and needs an operator."""

    leader_epoch: int


def elect_offline(
    assignment: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    online: AbstractSet[BrokerId],
    *,
    unclean_allowed: bool,
    leader_recovery: bool,
) -> Elected | None:
    """Elect the first online in-sync replica in assignment order; if unclean is allowed, else the first online one.

    ``online`` leaves out brokers that are shutting down. ``leader_recovery`` says whether this cluster knows KIP-704.
    """
    leader = _first(assignment, online, among=isr)
    if leader is not None:
        return Elected(leader, tuple(broker for broker in isr if broker in online))
    if not unclean_allowed:
        return None
    return _elect_unclean(assignment, online, leader_recovery=leader_recovery)


def _elect_unclean(
    assignment: Sequence[BrokerId], online: AbstractSet[BrokerId], *, leader_recovery: bool
) -> Elected | None:
    leader = _first(assignment, online, among=assignment)
    if leader is None:
        return None
    recovery_state = LeaderRecoveryState.RECOVERING if leader_recovery else None
    return Elected(leader, (leader,), recovery_state, unclean=True)


def elect_reassign(
    target: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId]
) -> Elected | None:
    """Elect the first target replica that is online and in the ISR; the ISR does not change."""
    leader = _first(target, online, among=isr)
    return Elected(leader, tuple(isr)) if leader is not None else None


def elect_preferred(
    assignment: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId]
) -> Elected | None:
    """Elect the first assigned replica if it is online and in the ISR; the ISR does not change.

    The present leader is not looked at. Callers leave out partitions that the preferred replica leads already.
    """
    leader = _first(assignment[:1], online, among=isr)
    return Elected(leader, tuple(isr)) if leader is not None else None


def elect_controlled_shutdown(
    assignment: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    online_or_shutting_down: AbstractSet[BrokerId],
    shutting_down: AbstractSet[BrokerId],
) -> Elected | None:
    """Elect the first replica in the ISR that is online and not shutting down; brokers shutting down leave the ISR."""
    leader = _first(assignment, online_or_shutting_down - shutting_down, among=isr)
    if leader is None:
        return None
    return Elected(leader, tuple(broker for broker in isr if broker not in shutting_down))


def elect_move_away(
    assignment: Sequence[BrokerId], isr: Sequence[BrokerId], online: AbstractSet[BrokerId], drained: BrokerId
) -> Elected | None:
    """Elect the first replica besides ``drained`` that is online and in the ISR; the ISR does not change."""
    return elect_reassign(assignment, isr, online - {drained})


def _first(
    candidates: Sequence[BrokerId], online: AbstractSet[BrokerId], *, among: Sequence[BrokerId]
) -> BrokerId | None:
    return next((broker for broker in candidates if broker in online and broker in among), None)


def initial_leadership(
    assignment: Sequence[BrokerId], online: Container[BrokerId], controller_epoch: int
) -> LeaderAndIsr | None:
    """Return the first leadership of a new partition: its online replicas are the ISR, the first of them leads."""
    isr = tuple(broker for broker in assignment if broker in online)
    if not isr:
        return None
    return LeaderAndIsr(isr[0], INITIAL_LEADER_EPOCH, isr, controller_epoch, partition_epoch=0)


def next_leadership(
    current: LeaderAndIsr, elected: Elected, controller_epoch: int
) -> LeaderAndIsr | LeaderEpochExhausted:
    """Return the leadership to write after an election: leader epoch + 1, with our controller epoch.

    ``partition_epoch`` is still the one of ``current``, which is the condition of the write. The result of the write
    has the new one.
    """
    if current.leader_epoch >= MAX_LEADER_EPOCH:
        return LeaderEpochExhausted(current.leader_epoch)
    recovery_state = current.recovery_state if elected.recovery_state is None else elected.recovery_state
    leader_epoch = current.leader_epoch + 1
    fields = (elected.leader, leader_epoch, elected.isr, controller_epoch, current.partition_epoch, recovery_state)
    return LeaderAndIsr.of(fields)


def bump_leader_epoch(current: LeaderAndIsr, controller_epoch: int) -> LeaderAndIsr | LeaderEpochExhausted:
    """Return the same leadership with leader epoch + 1, so that brokers accept a changed assignment (KIP-455)."""
    if current.leader_epoch >= MAX_LEADER_EPOCH:
        return LeaderEpochExhausted(current.leader_epoch)
    return current._replace(leader_epoch=current.leader_epoch + 1, controller_epoch=controller_epoch)


def shrink_isr(
    current: LeaderAndIsr, broker: BrokerId, controller_epoch: int
) -> LeaderAndIsr | LeaderEpochExhausted | None:
    """Return the leadership to write when a replica goes offline; None if it is not in the ISR.

    The last member stays in the ISR whatever the unclean setting, because the ISR is the only record of which replica
    has the data; but it no longer leads.
    """
    leader, leader_epoch, isr, _, partition_epoch, recovery_state = current
    if broker not in isr:
        return None
    if leader_epoch >= MAX_LEADER_EPOCH:
        return LeaderEpochExhausted(leader_epoch)
    if leader == broker:
        leader = NO_LEADER
    fields = (leader, leader_epoch + 1, _without(isr, broker), controller_epoch, partition_epoch, recovery_state)
    return LeaderAndIsr.of(fields)


@lru_cache(maxsize=1024)
def _without(isr: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """Return the ISR without the broker: one object for equal results."""
    return tuple(member for member in isr if member != broker) or isr
