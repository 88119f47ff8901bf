"""Requests by znode: deletions, reassignments, preferred elections; the same in memory and on a real server."""

import pytest

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode
from controllerd.ports.results import Conflict, ElectionsRead, ReassignmentsRead, Written
from controllerd.zk import codecs, paths
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ZkPartitionReassignment
from tests.fakes.store import FakeStore
from tests.zk.world import World

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
B1 = BrokerId(1)
B2 = BrokerId(2)
B3 = BrokerId(3)
MOVES = {T1: (B3, B2), T0: (B1, B2)}
U0 = TopicPartition("u", 0)


async def test_topic_deletions_are_the_children(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.delete_topic("t"))
    assert await world.ours.store.admin.read_topic_deletions() == {"t"}


async def test_deletion_markers_are_deleted_and_the_topics_stay(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]])
    for name in ("t", "u", "v"):
        await world.theirs.put(paths.delete_topic(name))

    await world.ours.store.admin.delete_deletion_markers(["t", "u", "gone"])

    assert await world.ours.store.admin.read_topic_deletions() == {"v"}
    assert await world.ours.node(paths.topic("t")) is not None


async def test_requests_to_delete_are_made_once(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.delete_topic("t"), b"")

    results = await world.ours.store.admin.create_deletion_markers(["t", "u"])

    assert results == {"t": Written(0), "u": Written(0)}
    assert await world.ours.store.admin.read_topic_deletions() == {"t", "u"}
    made = await world.ours.node(paths.delete_topic("u"))
    assert made is not None
    assert made.data is None


async def test_without_deletion_markers_nothing_is_written(world: World) -> None:
    await world.ours.lead()
    before = len(world.ours.transactions())
    await world.ours.store.admin.delete_deletion_markers(["gone"])
    await world.ours.store.admin.delete_preferred_election()
    assert len(world.ours.transactions()) == before


async def test_reassignments_are_read_in_the_order_of_the_file(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))

    read = await world.ours.store.admin.read_reassignments()

    assert read == ReassignmentsRead(MOVES, 0)
    assert list(read.targets) == [T1, T0]


async def test_without_the_znode_nothing_is_to_be_reassigned(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.admin.read_reassignments() is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"version":1,"partitions":{}}'])
async def test_reassignments_that_cannot_be_decoded_are_an_error_and_stay(world: World, data: bytes) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, data)

    with pytest.raises(BadZnode):
        await world.ours.store.admin.read_reassignments()

    node = await world.ours.node(paths.REASSIGN_PARTITIONS)
    assert node is not None
    assert node.data == data


async def test_the_remaining_reassignments_are_written_at_their_version(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))

    assert await world.ours.store.admin.write_reassignments({T0: (B1, B2)}, 0) == Written(1)

    assert await world.ours.store.admin.read_reassignments() == ReassignmentsRead({T0: (B1, B2)}, 1)


async def test_without_remaining_reassignments_the_znode_is_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    assert await world.ours.store.admin.write_reassignments({}, 0) == Written(-1)
    assert await world.ours.store.admin.read_reassignments() is None


@pytest.mark.parametrize("left", [{}, {T0: (B1, B2)}])
async def test_reassignments_that_another_client_wrote_meanwhile_are_a_conflict(
    world: World, left: dict[TopicPartition, tuple[BrokerId, ...]]
) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments({U0: (B1,)}))

    assert isinstance(await world.ours.store.admin.write_reassignments(left, 0), Conflict)

    assert await world.ours.store.admin.read_reassignments() == ReassignmentsRead({U0: (B1,)}, 1)


async def test_the_reassignments_after_the_ones_that_were_read_are_seen_kafka_9478(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.admin.arm_admin_watches()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, b"nonsense")
    await world.ours.saw(ZkPartitionReassignment())
    with pytest.raises(BadZnode):
        await world.ours.store.admin.read_reassignments()

    await world.theirs.remove(paths.REASSIGN_PARTITIONS)
    await world.theirs.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))

    await world.ours.saw(ZkPartitionReassignment(), times=2)


async def test_a_preferred_election_is_read_and_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, codecs.encode_preferred_election([T1, T0, T1]))

    assert await world.ours.store.admin.read_preferred_election() == ElectionsRead((T1, T0), 0)
    await world.ours.store.admin.delete_preferred_election()

    assert await world.ours.store.admin.read_preferred_election() is None


async def test_a_preferred_election_that_cannot_be_decoded_is_an_error_and_can_be_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, b"?")

    with pytest.raises(BadZnode):
        await world.ours.store.admin.read_preferred_election()
    await world.ours.store.admin.delete_preferred_election()

    assert await world.ours.node(paths.PREFERRED_REPLICA_ELECTION) is None


async def test_two_preferred_elections_in_a_row_are_both_seen_kafka_6146(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.admin.arm_admin_watches()
    for times in (1, 2):
        await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, codecs.encode_preferred_election([T0]))
        event = ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
        await world.ours.saw(event, times=times)
        await world.ours.store.admin.delete_preferred_election()


@pytest.fixture
def store() -> FakeStore:
    """A leading store with reassignments to do, the answer to whose next transaction will be lost."""
    store = FakeStore()
    store.lead()
    store.tree.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    store.zk.lose_reply_of.add(1)
    return store


@pytest.mark.parametrize(("left", "version"), [({}, -1), ({T0: (B1, B2)}, 1)])
async def test_written_reassignments_whose_answer_was_lost_are_written(
    store: FakeStore, left: dict[TopicPartition, tuple[BrokerId, ...]], version: int
) -> None:
    assert await store.admin.write_reassignments(left, 0) == Written(version)


async def test_a_request_for_an_election_with_another_content_by_now_is_kept(world: World) -> None:
    await world.ours.lead()
    path = paths.PREFERRED_REPLICA_ELECTION
    await world.theirs.put(path, codecs.encode_preferred_election([T0]))
    read = await world.ours.store.admin.read_preferred_election()
    assert read is not None
    await world.theirs.put(path, codecs.encode_preferred_election([T1]))

    assert not await world.ours.store.admin.delete_preferred_election(read.version)
    assert await world.ours.store.admin.read_preferred_election() == ElectionsRead((T1,), 1)
    assert await world.ours.store.admin.delete_preferred_election(1)
    assert await world.ours.store.admin.delete_preferred_election(1)
