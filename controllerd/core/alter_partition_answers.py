"""What a leader does with each answer to AlterPartition, by its release, and the answer that it understands.

The controller means one of three things when it refuses a change of an ISR. The leader is to ask again (the state
cannot be read now), to go back to the committed ISR (the proposal is not allowed now, and what the leader knows is
right), or to wait for a LeaderAndIsr with a newer leader epoch (what the leader knows is wrong). Codes for all three
exist since 3.3 only. Before, a code that a broker does not know freezes the partition:

- 2.7, 2.8 and 3.0 (``Partition.handleAlterIsrResponse``) know the codes of the third kind alone. On every other code
  the callback submits the same change again while the answered one is still in the queue of ``AlterIsrManager``; the
  queue refuses it, the change stays pending for good, and the ISR neither shrinks nor grows until the leader epoch
  rises. 2.7 and 2.8 throw out of the callback besides, so that the rest of the answer is not read.
- 3.1 (``Partition.handleAlterIsrError``) has the same queue, and takes its refusal for OPERATION_NOT_ATTEMPTED: the
  leader goes back to the committed ISR. That is unsafe where the change may have been written after all.
- 3.2 clears the queue first (``AlterIsrManager.handleAlterPartitionResponse``), so that it asks again at once.

Two answers mean the same to every release, and stand in for the codes that one does not know. A partition that is
left out of an answer without top-level error stays in the queue, and is asked for again. A success that carries the
state that holds replaces the pending ISR with the committed one: a leader takes the ISR of the answer, not its own
(``leaderAndIsr.isr``). Such a success is safe for the reason for which INELIGIBLE_REPLICA is (KIP-841): it is given
only when the leader epoch and the partition epoch of the proposal are those that hold, and nobody else can have
written the proposal, since every other controller is fenced by its epoch.

Errors at the top need no table: every release keeps all of its changes and sends them again (2.7 with its next round
of 50 ms, later ones 50 ms after the answer), and on NOT_CONTROLLER, at the top or of a partition, the whole request
goes to the controller of newer metadata (``BrokerToControllerChannelManager.handleResponse``).
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderAndIsr
from controllerd.core.releases import NEWEST, Release


class LeaderReaction(Enum):
    """What a leader does with the change that it proposed, when it reads the answer."""

    RETRIES = auto()
    """It sends the same proposal again."""
    REVERTS = auto()
    """It goes back to the committed ISR, and may propose another."""
    AWAITS_LEADER_EPOCH = auto()
    """It proposes nothing more before a LeaderAndIsr with a newer leader epoch."""
    STALLS = auto()
    """It means to retry and cannot: nothing more is proposed before a newer leader epoch, which nobody owes it."""


class _Reactions(NamedTuple):
    by_code: Mapping[KafkaError, LeaderReaction]
    otherwise: LeaderReaction

    def to(self, code: KafkaError) -> LeaderReaction:
        return self.by_code.get(code, self.otherwise)


def _reactions(
    *, otherwise: LeaderReaction, reverts: tuple[KafkaError, ...] = (), awaits: tuple[KafkaError, ...] = ()
) -> _Reactions:
    by_code = dict.fromkeys(reverts, LeaderReaction.REVERTS)
    by_code |= dict.fromkeys((*_EVER_FINAL, *awaits), LeaderReaction.AWAITS_LEADER_EPOCH)
    # The channel to the controller reads this code before the partition does, in every release.
    by_code[KafkaError.NOT_CONTROLLER] = LeaderReaction.RETRIES
    return _Reactions(MappingProxyType(by_code), otherwise)


_EVER_FINAL: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.INVALID_UPDATE_VERSION,
)

REACTIONS: Final[Mapping[Release, _Reactions]] = MappingProxyType({
    Release(2, 7): _reactions(otherwise=LeaderReaction.STALLS),
    Release(3, 1): _reactions(otherwise=LeaderReaction.REVERTS),
    Release(3, 2): _reactions(
        otherwise=LeaderReaction.RETRIES,
        reverts=(KafkaError.OPERATION_NOT_ATTEMPTED,),
        awaits=(KafkaError.INVALID_REQUEST,),
    ),
    Release(3, 3): _reactions(
        otherwise=LeaderReaction.RETRIES,
        reverts=(KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA),
        awaits=(KafkaError.INVALID_REQUEST, KafkaError.UNKNOWN_TOPIC_ID),
    ),
})  # fmt: skip
"""By the first release of which it is true; 2.7 is the first that sends AlterPartition (as AlterIsr, KIP-497)."""

_FIRST_BY_VERSION: Final = (Release(2, 7), Release(3, 2), Release(3, 3), Release(3, 5))
"""The oldest release that sends each version of AlterPartition to a controller that serves all of them."""


def release_of_leader(known: Release | None, version: int) -> Release:
    """The release of a leader, as its ApiVersions answer or at least the version of its request tells it."""
    oldest = _FIRST_BY_VERSION[min(version, len(_FIRST_BY_VERSION) - 1)]
    return oldest if known is None else max(known, oldest)


def reaction(release: Release, code: KafkaError) -> LeaderReaction:
    """What a leader of this release does on this error of a partition."""
    return REACTIONS[max(first for first in REACTIONS if first <= max(release, Release(2, 7)))].to(code)


def understood(error: KafkaError, current: LeaderAndIsr | None, release: Release) -> KafkaError | LeaderAndIsr | None:
    """The answer that makes a leader of this release do what the newest one does on ``error``.

    ``current`` is the state that holds. None: the partition is left out, and the leader asks again.
    """
    meant = reaction(NEWEST, error)
    if reaction(release, error) is meant:
        return error
    match meant:
        case LeaderReaction.REVERTS:
            return current
        case LeaderReaction.AWAITS_LEADER_EPOCH:
            return KafkaError.INVALID_UPDATE_VERSION
        case _:
            return None
