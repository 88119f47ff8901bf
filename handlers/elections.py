"""Elections that are requested by znode or by an admin client, and those that the timer or a configuration causes."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import OfflineElection, PreferredElection
from controllerd.core.imbalance import Imbalance, can_lead
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.errors import BadZnode, NewerZnode
from controllerd.ports.results import ElectionsRead
from controllerd.record.records import AlarmRecord
from controllerd.services.pauses import drained_now, is_rebalance_paused
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from events.elections import (
    AutoPreferredReplicaLeaderElection,
    ElectionTrigger,
    ElectionType,
    ReplicaLeaderElection,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)

log = structlog.get_logger(__name__)

FIRST_CHECK_S: Final = 5.0
"""Seconds from the election of the controller to the first check of the leader imbalance."""
_PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"

Outcomes = dict[TopicPartition, BrokerId | KafkaError]


async def initialise_elections(c: Controller) -> None:
    """At the start of a term: hold the elections that a znode requests, and schedule the check of the imbalance."""
    await _elect_by_znode(c)
    if c.policy.auto_leader_rebalance_enable:
        c.timers.put_later(FIRST_CHECK_S, AutoPreferredReplicaLeaderElection())


# -- by znode and by request -------------------------------------------------------------------------------------------


async def on_replica_leader_election(
    event: ReplicaLeaderElection, c: Controller
) -> Mapping[TopicPartition, BrokerId | KafkaError]:
    """Elect preferred replicas or, by an unclean election, any live replicas at the risk of losing records.

    The unclean type allows replicas outside the ISR only if an admin client asks. With any other trigger, it allows no
    more than the configuration does. The answer names every requested partition. A request without partitions means all
    partitions; then a partition that needs no election is left out of the answer (KIP-460).
    """
    if event.trigger is ElectionTrigger.ZOOKEEPER:
        return await _elect_by_znode(c)
    wanted = c.context.partitions() if event.partitions is None else sorted(event.partitions)
    outcomes = await _elect(wanted, event.election_type, event.trigger, c)
    if event.partitions is not None:
        return outcomes
    return {tp: outcome for tp, outcome in outcomes.items() if outcome is not KafkaError.ELECTION_NOT_NEEDED}


async def _elect_by_znode(c: Controller) -> Outcomes:
    """Serve the znode until it is gone: a client may write another request into it meanwhile (KAFKA-6146)."""
    outcomes: Outcomes = {}
    while (request := await _request(c)) is not None:
        outcomes = await _elect(request.partitions, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER, c)
        refused = {tp: error for tp, error in outcomes.items() if isinstance(error, KafkaError)}
        log.info("received preferred election request by znode", partitions=len(outcomes), refused=len(refused))
        if await c.store.admin.delete_preferred_election(request.version):
            return outcomes
    return outcomes


async def _request(c: Controller) -> ElectionsRead | None:
    """The request of the znode; a znode that cannot be parsed is removed, because it would block the next one."""
    try:
        request = await c.store.admin.read_preferred_election()
    except NewerZnode as newer:
        quarantine(c, [newer])
        return None
    except BadZnode as bad:
        log.error("request for a preferred election cannot be read", reason=bad.reason)
        c.audit.record(AlarmRecord("request cannot be read and was removed", str(bad)))
        await c.store.admin.delete_preferred_election()
        request = None
    await take_out_of_quarantine(c, _PREFERRED_ELECTION)
    return request


async def _elect(
    wanted: Iterable[TopicPartition], kind: ElectionType, trigger: ElectionTrigger, c: Controller
) -> Outcomes:
    """Elect in one batch what can be elected; every partition has an outcome."""
    outcomes: Outcomes = {}
    electable: list[TopicPartition] = []
    hidden = hidden_topics(c.context)
    async for tp in c.outbox.slicer.each(wanted):
        error = _refusal(tp, kind, hidden, c)
        if error is KafkaError.NONE:
            electable.append(tp)
        else:
            outcomes[tp] = error
    is_unclean = kind is ElectionType.UNCLEAN
    allowed = is_unclean and trigger is ElectionTrigger.ADMIN_CLIENT
    strategy = OfflineElection(allow_unclean=allowed) if is_unclean else PreferredElection()
    elections = await c.partitions.handle(electable, PartitionState.ONLINE, strategy)
    for tp in electable:
        elected = elections.elected.get(tp)
        outcomes[tp] = _no_leader(kind) if elected is None else elected.leader
    return outcomes


def _refusal(tp: TopicPartition, kind: ElectionType, hidden: AbstractSet[str], c: Controller) -> KafkaError:
    record = c.context.find(tp)
    if record is None:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    if tp.topic in hidden:
        return KafkaError.INVALID_TOPIC_EXCEPTION
    if record.leadership is None:
        return _no_leader(kind)  # it never had a leader: there is no ISR to elect from
    return KafkaError.NONE if _is_needed(record, kind, c) else KafkaError.ELECTION_NOT_NEEDED


def _is_needed(record: PartitionRecord, kind: ElectionType, c: Controller) -> bool:
    leader = record.leadership.leader if record.leadership is not None else None
    if kind is ElectionType.PREFERRED:
        return leader not in record.assignment.replicas[:1]
    return leader not in c.context.liveness.online(record)


def _no_leader(kind: ElectionType) -> KafkaError:
    is_preferred = kind is ElectionType.PREFERRED
    return KafkaError.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE


# -- by the timer ------------------------------------------------------------------------------------------------------


async def on_auto_preferred_election(event: AutoPreferredReplicaLeaderElection, c: Controller) -> None:
    """Give leadership back to every broker whose leader imbalance is too great."""
    if not c.policy.auto_leader_rebalance_enable:
        # No next check is scheduled. The next term schedules its own, and so does the setting once it is turned on.
        return
    try:
        if is_rebalance_paused(c):
            log.info("skipped leader imbalance check during pause")
            return
        await _elect(await _out_of_balance(c), ElectionType.PREFERRED, ElectionTrigger.AUTO, c)
    finally:
        c.timers.put_later(c.policy.leader_imbalance_check_interval_s, event)


async def _out_of_balance(c: Controller) -> list[TopicPartition]:
    """The partitions of imbalanced brokers that another broker leads and that the preferred replica can lead.

    Partitions whose reassignment is about to complete are left out: the completion raises their leader epoch anyway,
    and one new epoch is enough.
    """
    tally, hidden = Imbalance(), hidden_topics(c.context)
    await c.outbox.slicer.for_each_slice(
        list(c.context.records()),
        lambda part: tally.add(record for record in part if record.tp.topic not in hidden),
    )
    found: list[TopicPartition] = []
    drained = drained_now(c)
    for broker, records in tally.above(c.policy.leader_imbalance_per_broker_percentage):
        if broker in drained:
            continue
        able = [record.tp for record in records if can_lead(record, c.context.liveness)]
        able = [tp for tp in able if not c.reassigner.may_soon_complete(tp)]
        log.info("found leader imbalance", broker=broker, led_by_others=len(records), electable=len(able))
        found += able
        await c.outbox.slicer.yield_to_loop()
    return found


# -- by a changed configuration ----------------------------------------------------------------------------------------


async def on_unclean_enabled(_event: UncleanLeaderElectionEnable, c: Controller) -> None:
    """Elect leaders for leaderless partitions, as unclean elections are allowed by default now (KAFKA-6526)."""
    await c.partitions.trigger_online()


async def on_topic_unclean_enabled(event: TopicUncleanLeaderElectionEnable, c: Controller) -> None:
    """The same for one topic (KAFKA-6835)."""
    await c.partitions.trigger_online(event.topic)
