"""The in-memory ZooKeeper of dry runs does with transactions what the fake does, which is held to a real server."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.zk import paths
from controllerd.zk.access import (
    ANY_VERSION,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Operation,
    SetData,
    Transaction,
    Znode,
    ZooKeeper,
)
from controllerd.zk.image import ClusterImage, read_image
from controllerd.zk.in_memory import InMemoryZooKeeper
from tests.fakes.store import FakeStore
from tests.fakes.zookeeper import FakeZooKeeper, Tree

NAMES = ("/r", "/r/a", "/r/a/x", "/r/a/y", "/r/b", "/r/b/x")
T0 = TopicPartition("t", 0)
STATE = paths.partition_state(T0)

names = st.sampled_from(NAMES)
data = st.sampled_from((b"", b"1", b"2"))
versions = st.sampled_from((ANY_VERSION, 0, 1, 2))
operations = st.one_of(
    st.builds(Create, names, st.none() | data, st.booleans(), st.just(value=False)),
    st.builds(SetData, names, data, versions),
    st.builds(Delete, names, versions),
    st.builds(CheckVersion, names, versions),
)
transactions = st.lists(st.lists(operations, min_size=1, max_size=4), max_size=8)
beginnings = st.sets(names)


def tree_of(beginning: set[str]) -> Tree:
    """A tree with these znodes and their parents."""
    tree = Tree()
    for name in ("/r", *sorted(beginning)):
        tree.put(name, b"0")
    return tree


def image_of(tree: Tree) -> ClusterImage:
    """The whole of a tree."""
    children = {path: tuple(sorted(names)) for path, names in tree.below.items() if names and path != "/"}
    return ClusterImage(dict(tree.nodes), children)


async def seen(zk: ZooKeeper, script: Sequence[Transaction]) -> list[object]:
    """Carry the transactions out, and return everything that can be read after each of them."""
    looks: list[object] = []
    for transaction in script:
        (outcome,) = await zk.commit([transaction])
        looks.append(outcome.versions if isinstance(outcome, Committed) else outcome[1:])
        looks.append([node and (node.data, node.version, node.ephemeral_owner) for node in await zk.read(NAMES)])
        looks.append([await zk.children(name) for name in NAMES])
        looks.append(await zk.have_open_acl(NAMES))
    return looks


@settings(max_examples=300, deadline=None)
@given(beginning=beginnings, script=transactions)
async def test_an_in_memory_zookeeper_does_what_a_zookeeper_does(
    beginning: set[str], script: list[list[Operation]]
) -> None:
    tree = tree_of(beginning)
    in_memory = InMemoryZooKeeper(image_of(tree), session_id=1)

    assert await seen(in_memory, script) == await seen(FakeZooKeeper(tree, 1), script)


@settings(max_examples=100, deadline=None)
@given(beginning=beginnings, script=transactions)
async def test_the_image_is_not_changed(beginning: set[str], script: list[list[Operation]]) -> None:
    image, again = image_of(tree_of(beginning)), image_of(tree_of(beginning))
    in_memory = InMemoryZooKeeper(image)

    await in_memory.commit(script)

    assert image == again


# Of both: what a controller relies on.


def sessions(tree: Tree) -> Mapping[str, ZooKeeper]:
    """The fake and the in-memory ZooKeeper, on the same znodes."""
    return {"fake": FakeZooKeeper(tree, 1), "in memory": InMemoryZooKeeper(image_of(tree), 1)}


@pytest.fixture(params=["fake", "in memory"])
def zk(request: pytest.FixtureRequest) -> ZooKeeper:
    tree = Tree()
    tree.put("/r/a/x", b"0")
    return sessions(tree)[request.param]


async def node(zk: ZooKeeper, path: str) -> Znode:
    (found,) = await zk.read([path])
    assert found is not None
    return found


async def test_a_failed_transaction_leaves_nothing_behind(zk: ZooKeeper) -> None:
    await zk.commit([[Create("/r/b", None), SetData("/r/a/x", b"1", 0), Delete("/r/a/x"), CheckVersion("/r", 5)]])

    assert await zk.children("/r") == ["a"]
    assert (await node(zk, "/r/a/x"))[:2] == (b"0", 0)


async def test_a_znode_created_again_has_another_czxid(zk: ZooKeeper) -> None:
    before = await node(zk, "/r/a/x")
    await zk.commit([[Delete("/r/a/x"), Create("/r/a/x", b"0")]])

    assert (await node(zk, "/r/a/x")).czxid > before.czxid


async def test_an_ephemeral_znode_belongs_to_the_session(zk: ZooKeeper) -> None:
    await zk.commit([[Create("/r/e", b"", ephemeral=True)]])

    assert (await node(zk, "/r/e")).ephemeral_owner == zk.session_id


async def test_sequential_znodes_have_names_of_their_own(zk: ZooKeeper) -> None:
    outcomes = await zk.commit([[Create("/r/n_", None, sequential=True)]] * 2)

    names = await zk.children("/r")
    assert [isinstance(outcome, Committed) and outcome.versions for outcome in outcomes] == [(0,), (0,)]
    assert names is not None
    assert len([name for name in names if name.startswith("n_") and len(name) == 12]) == 2


async def test_sequential_znodes_of_one_transaction_have_names_of_their_own(zk: ZooKeeper) -> None:
    sequential = Create("/r/n_", None, sequential=True)

    outcomes = await zk.commit([[sequential, sequential]])

    names = await zk.children("/r")
    assert [isinstance(outcome, Committed) and outcome.versions for outcome in outcomes] == [(0, 0)]
    assert names is not None
    assert len([name for name in names if name.startswith("n_") and len(name) == 12]) == 2


# Of the in_memory alone.


async def test_a_sequential_znode_has_no_name_that_the_image_has() -> None:
    in_memory = InMemoryZooKeeper(image_of(tree_of({"/r/n_0000000000", "/r/n_0000000001"})))

    outcomes = await in_memory.commit([[Create("/r/n_", None, sequential=True)]] * 2)

    assert all(isinstance(outcome, Committed) for outcome in outcomes)


async def test_written_operations_are_kept_without_checks_and_refused_ones() -> None:
    in_memory = InMemoryZooKeeper(image_of(tree_of(set())))

    await in_memory.commit(
        [[CheckVersion("/r", 0), Create("/r/a", None)], [Create("/r/b", None), CheckVersion("/r", 5)]]
    )

    assert in_memory.written == [Create("/r/a", None)]


async def test_a_znode_set_without_a_transaction_is_no_write() -> None:
    in_memory = InMemoryZooKeeper(image_of(tree_of({"/r/a"})))
    fact = Znode(b"fact", 7, 4711)

    in_memory.set_node("/r/b", fact)

    assert await in_memory.read(["/r/b"]) == [fact]
    assert await in_memory.children("/r") == ["a", "b"]
    assert in_memory.written == []


async def test_a_znode_is_removed_with_everything_below_it() -> None:
    in_memory = InMemoryZooKeeper(image_of(tree_of({"/r/a/x", "/r/a/y"})))

    in_memory.set_node("/r/a", None)

    assert await in_memory.read(["/r/a", "/r/a/x"]) == [None, None]
    assert await in_memory.children("/r") == []


async def test_an_image_of_a_cluster_has_the_folders_of_partitions_that_have_a_state() -> None:
    in_memory = InMemoryZooKeeper(await image_of_a_cluster())

    assert await in_memory.children("/brokers/topics/t/partitions/0") == ["state"]
    assert await in_memory.children("/brokers/topics/t/partitions") == ["0"]
    found = await in_memory.read(["/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/1"])
    assert [node is not None for node in found] == [True, False]


async def test_a_topic_of_an_image_can_be_deleted_children_first() -> None:
    in_memory = InMemoryZooKeeper(await image_of_a_cluster())
    doomed = [STATE, paths.partition(T0), paths.topic_partitions("t"), paths.topic("t")]

    (too_early,) = await in_memory.commit([[Delete(doomed[-1])]])
    (outcome,) = await in_memory.commit([[Delete(path) for path in doomed]])

    assert not isinstance(too_early, Committed)
    assert isinstance(outcome, Committed)
    assert await in_memory.children("/brokers/topics") == []


async def image_of_a_cluster() -> ClusterImage:
    store = FakeStore()
    store.add_topic("t", {0: [1], 1: [1]})
    store.set_state(T0, LeaderAndIsr(BrokerId(1), 0, (BrokerId(1),), 1, 0))
    return await read_image(store.zk)
