"""Reassignments in the words of tools and brokers, over a world in memory."""

import json
from collections.abc import Mapping, Sequence

from channel_manager.manager import event_of
from channel_manager.observer import Exchange
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import ControlResponse, StopReplicaRequest, api_name
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReceived, AlterPartitionReply, ProposedIsr
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, topic_id_of

REASSIGN = "/admin/reassign_partitions"
OWED = "/controllerd/owed_deletions"


def assigned(world: World, topic: str, partition: int = 0) -> tuple[list[int], list[int], list[int]]:
    """Replicas, adding and removing as the topic znode has them."""
    data = world.tree.nodes[f"/brokers/topics/{topic}"].data
    assert data is not None
    body, name = json.loads(data), str(partition)
    adding, removing = (body[key].get(name, []) for key in ("adding_replicas", "removing_replicas"))
    return body["partitions"][name], adding, removing


def requested(world: World) -> dict[str, list[int]] | None:
    """What ``/admin/reassign_partitions`` asks for, None without znode."""
    node = world.tree.nodes.get(REASSIGN)
    if node is None:
        return None
    moves = json.loads(node.data or b"")["partitions"]
    return {f"{move['topic']}-{move['partition']}": move["replicas"] for move in moves}


def owed(world: World, broker: int) -> list[str]:
    """What a broker has to delete according to ZooKeeper."""
    node = world.tree.nodes.get(f"{OWED}/{broker}")
    entries = json.loads(node.data or b"")["owed"] if node is not None else []
    return [f"{entry['topic']}-{partition}" for entry in entries for partition in entry["partitions"]]


async def ask_by_znode(world: World, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """A tool creates ``/admin/reassign_partitions``."""
    moves = [{"topic": at.topic, "partition": at.partition, "replicas": list(to)} for at, to in targets.items()]
    world.tree.put(REASSIGN, json.dumps({"version": 1, "partitions": moves}).encode())
    await world.settle()


async def reassign(
    world: World, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> Mapping[TopicPartition, KafkaError]:
    """AlterPartitionReassignments; None cancels."""
    wanted = {at: None if to is None else ids(*to) for at, to in targets.items()}
    return await world.call(ApiPartitionReassignment(ALICE, wanted))


async def change_isr(world: World, topic: str, *isr: int, partitions: Sequence[int] = (0,)) -> AlterPartitionReply:
    """The leader of these partitions, the same of all, asks for this ISR with the epochs that ZooKeeper has."""
    states = {partition: world.state(topic, partition) for partition in partitions}
    (leader,) = {state[0] for state in states.values()}
    asked = {
        (topic_id_of(topic), partition): ProposedIsr(state[1], state[3], ids(*isr))
        for partition, state in states.items()
    }
    epoch = world.tree.nodes[f"/brokers/ids/{leader}"].czxid
    return await world.call(AlterPartitionReceived(BrokerId(leader), epoch, 3, {}, asked))


async def deletions_answered(world: World, error: KafkaError = KafkaError.NONE) -> None:
    """Every broker answers the deletions that it was asked for, each with this error for its partitions."""
    for broker, request in list(world.channels.sent):
        if isinstance(request, StopReplicaRequest) and broker in world.channels.open:
            errors = {} if error is KafkaError.NONE else dict.fromkeys(request.partitions, error)
            response = ControlResponse(api_name(request), KafkaError.NONE, errors)
            event = event_of(Exchange(broker, request, response, 0, 0, 0, 1, 0.0))
            if event is not None:
                world.queue.put(event)
    await world.settle()


def deleted_on(world: World, broker: int) -> list[str]:
    """The replicas that a broker was told to delete, in order."""
    return [
        str(at)
        for request in world.channels.to(broker)
        if isinstance(request, StopReplicaRequest)
        for at, partition in sorted(request.partitions.items())
        if partition.delete
    ]


async def successor(world: World) -> World:
    """The controller is gone, and the next one leads over the same ZooKeeper."""
    if not world.zk.is_lost:
        world.zk.expire()
    after = World(tree=world.tree, session_id=world.zk.session_id + 1)
    return await after.start()
