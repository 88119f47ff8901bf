"""Reassignments as tools request them and brokers carry them out, over a world in memory."""

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
PENDING_DELETIONS = "/controllerd/owed_deletions"


def assigned(world: World, topic: str, partition: int = 0) -> tuple[list[int], list[int], list[int]]:
    """Return replicas, adding and removing as the topic znode has them."""
    data = world.tree.nodes[f"/brokers/topics/{topic}"].data
    assert data is not None
    body, name = json.loads(data), str(partition)
    adding, removing = (body[key].get(name, []) for key in ("adding_replicas", "removing_replicas"))
    return body["partitions"][name], adding, removing


def requested(world: World) -> dict[str, list[int]] | None:
    """Return the content of ``/admin/reassign_partitions``, None without znode."""
    node = world.tree.nodes.get(REASSIGN)
    if node is None:
        return None
    moves = json.loads(node.data or b"")["partitions"]
    return {f"{move['topic']}-{move['partition']}": move["replicas"] for move in moves}


def pending_deletions_of(world: World, broker: int) -> list[str]:
    """Return the pending deletions of a broker that ZooKeeper has."""
    node = world.tree.nodes.get(f"{PENDING_DELETIONS}/{broker}")
    entries = json.loads(node.data or b"")["owed"] if node is not None else []
    return [f"{entry['topic']}-{partition}" for entry in entries for partition in entry["partitions"]]


async def ask_by_znode(world: World, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Create ``/admin/reassign_partitions`` as a tool does."""
    moves = [{"topic": at.topic, "partition": at.partition, "replicas": list(to)} for at, to in targets.items()]
    world.tree.put(REASSIGN, json.dumps({"version": 1, "partitions": moves}).encode())
    await world.settle()


async def reassign(
    world: World, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> Mapping[TopicPartition, KafkaError]:
    """Request a reassignment (AlterPartitionReassignments); None cancels."""
    wanted = {at: None if to is None else ids(*to) for at, to in targets.items()}
    return await world.call(ApiPartitionReassignment(ALICE, wanted))


async def change_isr(world: World, topic: str, *isr: int, partitions: Sequence[int] = (0,)) -> AlterPartitionReply:
    """Propose an ISR in the name of the common leader of these partitions, with the epochs that ZooKeeper has."""
    states = {partition: world.state(topic, partition) for partition in partitions}
    (leader,) = {state[0] for state in states.values()}
    asked = {
        (topic_id_of(topic), partition): ProposedIsr(state[1], state[3], ids(*isr))
        for partition, state in states.items()
    }
    epoch = world.tree.nodes[f"/brokers/ids/{leader}"].czxid
    return await world.call(AlterPartitionReceived(BrokerId(leader), epoch, 3, {}, asked))


async def deletions_answered(world: World, error: KafkaError = KafkaError.NONE) -> None:
    """Answer the deletions that each broker was sent, with this error for their partitions."""
    for broker, request in list(world.channels.sent):
        if isinstance(request, StopReplicaRequest) and broker in world.channels.open:
            errors = {} if error is KafkaError.NONE else dict.fromkeys(request.partitions, error)
            response = ControlResponse(api_name(request), KafkaError.NONE, errors)
            event = event_of(Exchange(broker, request, response, 0, 0, 0, 1, 0.0))
            if event is not None:
                world.queue.put(event)
    await world.settle()


def deleted_on(world: World, broker: int) -> list[str]:
    """Return the replicas that a broker was sent to delete, in order."""
    return [
        str(at)
        for request in world.channels.to(broker)
        if isinstance(request, StopReplicaRequest)
        for at, partition in sorted(request.partitions.items())
        if partition.delete
    ]


async def successor(world: World) -> World:
    """End the controller, and return the next one, which leads over the same ZooKeeper."""
    if not world.zk.is_lost:
        world.zk.expire()
    after = World(tree=world.tree, session_id=world.zk.session_id + 1)
    return await after.start()
