"""Parents, cluster id, features and producer ids: the same in memory and on a real server."""

import json

import pytest

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode, NewerZnode
from controllerd.ports.results import AllocatedProducerIds, Conflict, FeaturesRead, Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from tests.fakes.store import FakeStore
from tests.zk.world import World

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
B1 = BrokerId(1)
B2 = BrokerId(2)
B3 = BrokerId(3)
MOVES = {T1: (B3, B2), T0: (B1, B2)}


async def test_paths_that_are_missing_are_created_once(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.store.cluster.ensure_paths()
    assert None not in await world.ours.zk.read(list(paths.PERSISTENT_PATHS))


async def test_both_contenders_see_the_same_cluster_id(world: World) -> None:
    first = await world.ours.store.cluster.cluster_id()
    assert len(first) == 22
    assert await world.theirs.store.cluster.cluster_id() == first


async def test_producer_ids_are_allocated_on_the_condition_of_the_version(world: World) -> None:
    await world.ours.lead()
    none = await world.ours.store.producer_ids.read_producer_ids()
    block = AllocatedProducerIds(BrokerId(1), 0, 999, none.version)

    assert none == AllocatedProducerIds(None, 0, -1, -1)
    assert await world.ours.store.producer_ids.write_producer_ids(block) == Written(0)
    assert await world.ours.store.producer_ids.read_producer_ids() == block._replace(version=0)
    assert await world.ours.store.producer_ids.write_producer_ids(
        AllocatedProducerIds(BrokerId(2), 1000, 1999, 0)
    ) == Written(1)
    assert isinstance(
        await world.ours.store.producer_ids.write_producer_ids(AllocatedProducerIds(BrokerId(2), 1000, 1999, 0)),
        Conflict,
    )


async def test_null_data_of_the_producer_ids_means_that_none_was_allocated(world: World) -> None:
    await world.ours.lead()
    await world.theirs.act(Create(paths.LATEST_PRODUCER_ID_BLOCK, None))
    assert await world.ours.store.producer_ids.read_producer_ids() == AllocatedProducerIds(None, 0, -1, 0)


async def test_the_feature_znode_is_created_then_left_alone_then_corrected(world: World) -> None:
    await world.ours.lead()

    await world.ours.store.cluster.ensure_feature_znode(enabled=True)
    created = await world.ours.node(paths.FEATURE)
    await world.ours.store.cluster.ensure_feature_znode(enabled=True)
    kept = await world.ours.node(paths.FEATURE)
    await world.ours.store.cluster.ensure_feature_znode(enabled=False)
    corrected = await world.ours.node(paths.FEATURE)

    assert created == kept
    assert created is not None
    assert corrected is not None
    assert json.loads(created.data or b"") == {"version": 2, "status": 1, "features": {}}
    assert json.loads(corrected.data or b"")["status"] == 0


async def test_a_feature_znode_that_cannot_be_decoded_is_not_changed(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.FEATURE, b"?")
    with pytest.raises(BadZnode):
        await world.ours.store.cluster.ensure_feature_znode(enabled=True)
    node = await world.ours.node(paths.FEATURE)
    assert node is not None
    assert node.data == b"?"


async def test_features_are_finalized_at_a_version_and_unknown_fields_stay(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.cluster.read_features() == FeaturesRead({}, -1)
    await world.theirs.put(
        paths.FEATURE, b'{"version":2,"status":1,"features":{"old":{"max_version_level":4}},"colour":"red"}'
    )

    assert await world.ours.store.cluster.read_features() == FeaturesRead({"old": 4}, 0, enabled=True, format_version=2)
    assert await world.ours.store.cluster.write_features({"new": 1, "old": 5}, 0) == Written(1)
    assert isinstance(await world.ours.store.cluster.write_features({}, 0), Conflict)

    assert await world.ours.store.cluster.read_features() == FeaturesRead(
        {"new": 1, "old": 5}, 1, enabled=True, format_version=2
    )
    node = await world.ours.node(paths.FEATURE)
    assert node is not None
    assert json.loads(node.data or b"")["colour"] == "red"


async def test_features_of_the_first_format_are_kept_when_it_is_raised_and_finalized_afterwards(world: World) -> None:
    await world.ours.lead()
    old = b'{"max_version_level":4,"min_version_level":1}'
    await world.theirs.put(paths.FEATURE, b'{"version":1,"status":1,"features":{"old":%b},"colour":"red"}' % old)

    await world.ours.store.cluster.ensure_feature_znode(enabled=True)
    assert await world.ours.store.cluster.read_features() == FeaturesRead({"old": 4}, 1, enabled=True, format_version=2)
    assert await world.ours.store.cluster.write_features({"old": 4, "new": 1}, 1) == Written(2)

    node = await world.ours.node(paths.FEATURE)
    assert node is not None
    document = json.loads(node.data or b"")
    assert (document["version"], document["status"], document["colour"]) == (2, 1, "red")
    assert {name: level["max_version_level"] for name, level in document["features"].items()} == {"old": 4, "new": 1}


async def test_features_of_a_newer_format_are_never_written(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.FEATURE, b'{"version":9,"status":1,"features":{}}')
    with pytest.raises(NewerZnode):
        await world.ours.store.cluster.write_features({"new": 1}, 0)


async def test_features_without_their_znode_are_a_conflict(world: World) -> None:
    await world.ours.lead()
    assert isinstance(await world.ours.store.cluster.write_features({"new": 1}, -1), Conflict)


@pytest.fixture
def store() -> FakeStore:
    """A leading store with reassignments to do, the answer to whose next transaction will be lost."""
    store = FakeStore()
    store.lead()
    store.tree.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    store.zk.lose_reply_of.add(1)
    return store


async def test_features_whose_answer_was_lost_are_written(store: FakeStore) -> None:
    store.tree.put(paths.FEATURE, b'{"version":2,"status":1,"features":{}}')
    assert await store.cluster.write_features({"new": 1}, 0) == Written(1)
