"""Quarantine: znodes that cannot be understood are left alone, visibly, and served again once they are repaired."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import OfflineElection
from controllerd.core.model import LeaderAndIsr, PartitionState, Replica, ReplicaState, TopicPartition
from controllerd.errors import BadZnode
from controllerd.record.records import AlarmRecord
from controllerd.services.reassignments import expect_completion
from events.cluster import QuarantineCheck

log = structlog.get_logger(__name__)


def quarantine(c: Controller, broken: Iterable[BadZnode]) -> None:
    """Put these znodes in quarantine, visibly; the rest of the cluster goes on."""
    for bad in broken:
        c.context.put_in_quarantine(bad.path, bad.reason)
        c.audit.record(AlarmRecord("znode in quarantine", str(bad)))
        log.error("put znode in quarantine", path=bad.path, reason=bad.reason)


async def take_out_of_quarantine(c: Controller, path: str) -> None:
    """Take a znode out of quarantine. Recorded at once, so that no later write seems to touch a quarantined znode."""
    if path in c.context.quarantine:
        c.context.take_out_of_quarantine(path)
        await c.outbox.write_down_slowly()


CHECK_EVERY_S: Final = 10.0
_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


async def take_over_states(states: Mapping[TopicPartition, LeaderAndIsr], c: Controller) -> None:
    """Put the states that ZooKeeper has into the context, whatever it had, and serve the partitions."""
    for tp, leadership in states.items():
        restore_state(tp, leadership, c)
    await c.outbox.write_down_slowly()
    await serve_repaired(still_served(states, c), c)
    expect_completion(states, c)


async def serve_repaired(repaired: Collection[TopicPartition], c: Controller) -> None:
    """Elect leaders of partitions whose states were repaired, then start their live replicas and stop the others.

    A leader is elected even if the present leader is online: its proposals were refused while the state was in
    quarantine, and it waits for a newer leader epoch. Elections come before the ISRs shrink, as when a broker dies.
    """
    online = [tp for tp in repaired if c.context.partition_state(tp) is PartitionState.ONLINE]
    await c.partitions.handle(online, PartitionState.ONLINE, OfflineElection())
    await c.partitions.trigger_online()
    replicas = [Replica(tp, broker) for tp in repaired for broker in c.context.assignment(tp).replicas]
    live = [replica for replica in replicas if c.context.is_online(replica.broker, replica.tp)]
    await c.replicas.handle(live, ReplicaState.ONLINE)
    await c.replicas.handle([replica for replica in replicas if replica not in set(live)], ReplicaState.OFFLINE)


def still_served(partitions: Collection[TopicPartition], c: Controller) -> list[TopicPartition]:
    """The partitions of topics that are not hidden: a broker that has deleted a replica would start it again."""
    hidden = hidden_topics(c.context)
    return [tp for tp in partitions if tp.topic not in hidden]


def restore_state(tp: TopicPartition, leadership: LeaderAndIsr, c: Controller) -> None:
    """Take a state znode out of quarantine and put its content into the context.

    A partition whose topic deletion has begun stays in the state that the deletion gave it. Otherwise
    the state machine would elect a leader for it, and its LeaderAndIsr would create replicas again
    that brokers have deleted, and that nothing deletes any more.
    """
    c.context.take_out_of_quarantine(tp.state_path)
    c.context.set_leadership(tp, leadership)
    if tp.topic in c.context.deletions.started:
        return
    if c.context.partition_state(tp) is PartitionState.NON_EXISTENT:  # it was in quarantine when we loaded
        c.context.set_partition_state(tp, PartitionState.NEW)
    online = c.context.is_online(leadership.leader, tp)
    c.context.set_partition_state(tp, PartitionState.ONLINE if online else PartitionState.OFFLINE)


def quarantined_states(c: Controller) -> list[TopicPartition]:
    """The known partitions whose state znode is in quarantine."""
    found = [_STATE.fullmatch(path) for path in c.context.quarantine]
    partitions = [TopicPartition(match[1], int(match[2])) for match in found if match is not None]
    return [tp for tp in partitions if tp in c.context]


def schedule_quarantine_check(c: Controller) -> None:
    """Run after every event: while there are states in quarantine, check them from time to time."""
    if c.is_active and quarantined_states(c):
        c.timers.put_later(CHECK_EVERY_S, QuarantineCheck())
