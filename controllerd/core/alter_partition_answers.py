"""How leaders of each release react to AlterPartition answers, and which answers make them react as they should.

When the controller refuses a change of an ISR, the leader must do one of three things: ask again (the
state cannot be read now), go back to the committed ISR (the proposal is not allowed now, and the
leader's state is right), or wait for a LeaderAndIsr with a newer leader epoch (the leader's
state is wrong). Codes for all three exist since 3.3 only. Earlier brokers freeze the partition on a
code that they do not know:

- 2.7, 2.8 and 3.0 (``Partition.handleAlterIsrResponse``) know the codes of the third kind alone. On
  every other code the callback submits the same change again while the answered one is still in the
  queue of ``AlterIsrManager``. The queue refuses it, the change stays pending for good, and the ISR
  neither shrinks nor grows until the leader epoch rises. 2.7 and 2.8 also throw out of the callback,
  so that the rest of the answer is not read.
- 3.1 (``Partition.handleAlterIsrError``) has the same queue, and takes its refusal for
  OPERATION_NOT_ATTEMPTED: the leader goes back to the committed ISR. This is unsafe where the change
  may have been written after all.
- 3.2.0 has that queue, too. Since 3.2.1 the queue is cleared first
  (``AlterIsrManager.handleAlterPartitionResponse``), so that the leader asks again at once.
  ApiVersions does not tell patch releases apart: every 3.2 gets answers that 3.2.0 understands.

Two answers mean the same to every release, and replace the codes that a release does not know. A
partition that is left out of an answer without top-level error stays in the leader's queue, and the
leader asks for it again. A success that carries the present state replaces the pending ISR with the
committed one: a leader takes the ISR of the answer, not its own (``leaderAndIsr.isr``). Such a
success is safe for the same reason as INELIGIBLE_REPLICA (KIP-841): it is given only when the leader
epoch and the partition epoch of the proposal are the present ones, and no other controller can have
written the proposal, since each of them is fenced by its epoch.

Leaders of 2.7.0, 2.7.1 and 2.8.0 ignore a success whose partition epoch is not newer than their own
(``leaderAndIsr.zkVersion <= zkVersion``), and keep the change pending. 2.7.2 and 2.8.1 read an equal
one, and cannot be distinguished from them. So the present state is written once more for every leader older
than 3.0, which raises its partition epoch, and the answer carries the state with the new epoch.

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
    """The reaction of a leader to the answer to its proposed change."""

    RETRIES = auto()
    """The leader sends the same proposal again."""
    REVERTS = auto()
    """The leader goes back to the committed ISR, and may propose another."""
    AWAITS_LEADER_EPOCH = auto()
    """The leader proposes nothing more before a LeaderAndIsr with a newer leader epoch."""
    STALLS = auto()
    """The leader means to retry and cannot: it proposes nothing before a newer leader epoch."""


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
    Release(3, 2): _reactions(otherwise=LeaderReaction.REVERTS, awaits=(KafkaError.INVALID_REQUEST,)),
    Release(3, 3): _reactions(
        otherwise=LeaderReaction.RETRIES,
        reverts=(KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA),
        awaits=(KafkaError.INVALID_REQUEST, KafkaError.UNKNOWN_TOPIC_ID),
    ),
})  # fmt: skip
"""Reactions by the first release that has them; 2.7 is the first that sends AlterPartition (as AlterIsr, KIP-497)."""

_READS_EQUAL_EPOCHS: Final = Release(3, 0)
"""The first release all of whose patch releases read a success whose partition epoch equals the leader's."""
_FIRST_BY_VERSION: Final = (Release(2, 7), Release(3, 2), Release(3, 3), Release(3, 5))
"""The oldest release that sends each version of AlterPartition to a controller that serves all of them."""


def release_of_leader(known: Release | None, version: int) -> Release:
    """Return the release of a leader, by its ApiVersions answer, else by the version of its request."""
    oldest = _FIRST_BY_VERSION[min(version, len(_FIRST_BY_VERSION) - 1)]
    return oldest if known is None else max(known, oldest)


def reaction(release: Release, code: KafkaError) -> LeaderReaction:
    """Return the reaction of a leader of this release to this error of a partition."""
    return REACTIONS[max(first for first in REACTIONS if first <= max(release, Release(2, 7)))].to(code)


def needs_newer_partition_epoch(error: KafkaError, release: Release) -> bool:
    """Whether a leader of this release is to go back to the committed ISR and needs a newer partition epoch for it."""
    is_understood = reaction(release, error) is LeaderReaction.REVERTS
    is_to_revert = reaction(NEWEST, error) is LeaderReaction.REVERTS
    return is_to_revert and not is_understood and reads_newer_epochs_only(release)


def reads_newer_epochs_only(release: Release) -> bool:
    """Whether a leader of this release may ignore a success whose partition epoch equals its own."""
    return release < _READS_EQUAL_EPOCHS


def understood(error: KafkaError, current: LeaderAndIsr | None, release: Release) -> KafkaError | LeaderAndIsr | None:
    """Return the answer that makes a leader of this release react as the newest release does to ``error``.

    ``current`` is the present state. None: the partition is left out, and the leader asks again.
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
