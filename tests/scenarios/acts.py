"""Steps of the scenarios about elections, shutdowns and log directories, over a world in memory."""

import json
from collections.abc import Mapping
from itertools import count

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Features, LeaderRecoveryState, TopicPartition
from controllerd.record.records import AlarmRecord
from controllerd.zk.access import Create, SetData
from events.base import Event
from events.replicas import AlterPartitionReceived, AlterPartitionReply, ProposedIsr
from events.responses import LeaderAndIsrResponseReceived
from tests.fakes.world import World, ids, tp

UNCLEAN = "unclean.leader.election.enable"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
_CHANGES = count()


async def cluster(*brokers: int, policy: Policy | None = None, features: Features | None = None) -> World:
    """Make these brokers live, with an active controller."""
    world = World(policy=policy, features=features)
    for broker in brokers:
        world.register(broker)
    return await world.start()


async def with_topic(world: World, topic: str, *replicas: int) -> World:
    """Create a topic with one partition on these replicas, online."""
    world.put_topic(topic, {0: list(replicas)})
    return await world.settle()


async def kill(world: World, broker: int) -> None:
    """End the broker's session, and let the controller notice."""
    world.die(broker)
    await world.settle()


async def bring_back(world: World, broker: int) -> None:
    """Register the broker again, and let the controller notice."""
    world.register(broker)
    await world.settle()


async def take_over(world: World) -> World:
    """Stop the controller without a resignation, and let another instance lead."""
    world.zk.expire()
    successor = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1, policy=world.policy)
    return await successor.start()


async def alter_isr(world: World, topic: str, *isr: int, version: int = 3) -> AlterPartitionReply:
    """Let the partition's leader propose this ISR, with the current epochs and the recovery state RECOVERED."""
    state = world.context.leadership(tp(topic))
    assert state is not None
    ask = ProposedIsr(state.leader_epoch, state.partition_epoch, ids(*isr), LeaderRecoveryState.RECOVERED)
    by_id = {(world.context.topic_id(topic) or "", 0): ask} if version >= 2 else {}
    by_name = {} if version >= 2 else {tp(topic): ask}
    epoch = world.context.epochs()[state.leader]
    return await world.call(AlterPartitionReceived(state.leader, epoch, version, by_name, by_id))


async def answer(world: World, broker: int, errors: Mapping[TopicPartition, KafkaError]) -> None:
    """Let the broker answer a LeaderAndIsr with all its partitions."""
    known = BrokerId(broker)
    partitions = frozenset(world.context.partitions_on(known))
    epoch = world.context.epochs()[known]
    event = LeaderAndIsrResponseReceived(known, epoch, world.context.epoch, KafkaError.NONE, errors, partitions)
    world.queue.put(event)
    await world.settle()


async def configure(world: World, entity: str, config: Mapping[str, str]) -> None:
    """Configure ``topics/<topic>`` or ``brokers/<default>``, as Kafka's tools do."""
    await write_config(world, entity, json.dumps({"version": 1, "config": dict(config)}).encode())


async def write_config(world: World, entity: str, data: bytes) -> None:
    """Write any bytes as such a configuration."""
    path = f"/config/{entity}"
    node = world.tree.nodes.get(path)
    world.tree.outsider(Create(path, data) if node is None else SetData(path, data, node.version))
    note = json.dumps({"version": 2, "entity_path": entity}).encode()
    world.tree.outsider(Create(f"/config/changes/config_change_{next(_CHANGES):010}", note))
    await world.settle()


async def request_election(world: World, *partitions: TopicPartition) -> None:
    """Request a preferred election by znode, as a tool does."""
    world.tree.put(PREFERRED_ELECTION, election_request(*partitions))
    await world.settle()


def election_request(*partitions: TopicPartition) -> bytes:
    """The content of the preferred election znode."""
    named = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return json.dumps({"version": 1, "partitions": named}).encode()


async def fire(world: World, event: Event) -> None:
    """Handle the event of a timer that is due."""
    assert event in world.timers.fire()
    world.queue.put(event)
    await world.settle()


def alarms(world: World) -> list[str]:
    """The alarms of the controller."""
    return [record.what for record in world.audit.of(AlarmRecord)]


def leader(world: World, topic: str) -> tuple[int, int]:
    """Leader and leader epoch in ZooKeeper."""
    return world.state(topic)[:2]
