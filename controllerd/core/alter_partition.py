"""The rules for a leader's proposal to change the ISR of a partition (KIP-497, KIP-704, KIP-841)."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment


class Proposal(NamedTuple):
    """The request of a leader for one partition, with the id of the leader."""

    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovery_state: LeaderRecoveryState


class AlreadySo(NamedTuple):
    """The partition has this state already: the request repeats one that succeeded."""

    current: LeaderAndIsr


class Accepted(NamedTuple):
    """The state to write, on the condition of its partition epoch."""

    wanted: LeaderAndIsr


Verdict = AlreadySo | Accepted | KafkaError


def judge(
    proposal: Proposal,
    current: LeaderAndIsr | None,
    assignment: ReplicaAssignment,
    live: AbstractSet[BrokerId],
    controller_epoch: int,
    *,
    ineligible: KafkaError = KafkaError.INELIGIBLE_REPLICA,
) -> Verdict:
    """Judge a proposal by the first rule that applies.

    ``live`` leaves out brokers that are shutting down. ``ineligible`` is the error for an ISR member that is not live,
    in the version of the request. Beyond Kafka's rules, INVALID_REQUEST refuses an ISR that is empty, names a broker
    twice or without a replica, lacks its leader, or comes from a broker that does not lead.
    """
    if current is None:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    if proposal.partition_epoch > current.partition_epoch or proposal.leader_epoch > current.leader_epoch:
        return KafkaError.NOT_CONTROLLER  # the broker has a newer epoch: this controller may be the stale one
    if proposal.leader_epoch < current.leader_epoch:
        return KafkaError.FENCED_LEADER_EPOCH
    if (proposal.leader, proposal.isr, proposal.recovery_state) == (
        current.leader,
        current.isr,
        current.recovery_state,
    ):
        return AlreadySo(current)
    if proposal.partition_epoch < current.partition_epoch:
        return KafkaError.INVALID_UPDATE_VERSION
    if not _may_recover(proposal, current):
        return KafkaError.INVALID_REQUEST
    if any(member not in live for member in proposal.isr):
        return ineligible
    if not _is_sound(proposal, current, assignment):
        return KafkaError.INVALID_REQUEST
    return Accepted(
        current._replace(isr=proposal.isr, recovery_state=proposal.recovery_state, controller_epoch=controller_epoch)
    )


def _may_recover(proposal: Proposal, current: LeaderAndIsr) -> bool:
    if proposal.recovery_state is LeaderRecoveryState.RECOVERED:
        return True
    return len(proposal.isr) <= 1 and current.recovery_state is LeaderRecoveryState.RECOVERING


def _is_sound(proposal: Proposal, current: LeaderAndIsr, assignment: ReplicaAssignment) -> bool:
    return (
        proposal.leader == current.leader
        and proposal.leader in proposal.isr
        and len(set(proposal.isr)) == len(proposal.isr)
        and set(proposal.isr) <= set(assignment.replicas)
    )
