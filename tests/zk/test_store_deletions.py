"""Topics that go with everything below them: the same in memory and on a real server."""

import pytest

from controllerd.core.model import TopicPartition
from controllerd.errors import ControllerMoved
from controllerd.ports.results import Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import Delete
from tests.fakes.store import FakeStore
from tests.zk.world import World, states_of

T0 = TopicPartition("t", 0)
TOPICS, PARTITIONS = 100, 100


async def a_topic(world: World, name: str = "t", partitions: int = 2) -> None:
    """A topic with states, overrides and the request to delete it."""
    await world.theirs.add_topic(name, [[1, 2]] * partitions)
    await world.ours.store.states.create_states(states_of(name, partitions))
    await world.theirs.put(paths.topic_config(name), codecs.encode_config({"retention.ms": "5"}))
    await world.theirs.put(paths.delete_topic(name))


async def left_of(world: World, name: str = "t") -> list[str]:
    """Which of a topic's znodes are still there."""
    wanted = [paths.topic(name), paths.topic_config(name), paths.delete_topic(name)]
    return [path for path, node in zip(wanted, await world.ours.zk.read(wanted), strict=True) if node is not None]


async def test_a_topic_is_deleted_with_its_states_its_overrides_and_its_marker(world: World) -> None:
    await world.ours.lead()
    await a_topic(world)

    assert await world.ours.store.topics.delete_topics(["t"]) == {"t": Written(-1)}

    assert await left_of(world) == []


async def test_the_topic_is_deleted_before_its_overrides_and_these_before_the_marker(world: World) -> None:
    await world.ours.lead()
    await a_topic(world)
    before = len(world.ours.transactions())

    await world.ours.store.topics.delete_topics(["t"])

    assert [path for record in world.ours.transactions()[before:] for path in record.paths] == [
        "/brokers/topics/t/partitions/1/state",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t",
        "/config/topics/t",
        "/admin/delete_topics/t",
    ]


async def test_a_topic_with_unknown_znodes_is_deleted_as_well(world: World) -> None:
    await world.ours.lead()
    await a_topic(world)
    await a_topic(world, "u")
    await world.theirs.put("/brokers/topics/t/partitions/0/what/is/this", b"?")
    await world.theirs.put("/brokers/topics/t/notes", b"?")

    results = await world.ours.store.topics.delete_topics(["t", "u"])

    assert results == {"t": Written(-1), "u": Written(-1)}
    assert await left_of(world) == await left_of(world, "u") == []


@pytest.mark.parametrize(
    "gone",
    [
        ["/brokers/topics/t/partitions/0/state", "/brokers/topics/t/partitions/0"],
        ["/brokers/topics/t/partitions/1/state"],
        ["/config/topics/t"],
        ["/admin/delete_topics/t"],
    ],
)
async def test_a_deletion_that_an_earlier_controller_began_is_finished_kafka_6650(
    world: World, gone: list[str]
) -> None:
    await world.ours.lead()
    await a_topic(world)
    await world.theirs.act(*map(Delete, gone))

    assert await world.ours.store.topics.delete_topics(["t"]) == {"t": Written(-1)}

    assert await left_of(world) == []


async def test_the_marker_of_a_topic_that_does_not_exist_is_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.delete_topic("t"))

    assert await world.ours.store.topics.delete_topics(["t", "u"]) == {"t": Written(-1), "u": Written(-1)}

    assert await left_of(world) == []


async def test_the_deletion_of_a_topic_does_not_change_other_znodes(world: World) -> None:
    await world.ours.lead()
    await a_topic(world)
    await a_topic(world, "t2")

    await world.ours.store.topics.delete_topics(["t"])

    assert len(await left_of(world, "t2")) == 3
    assert len((await world.ours.store.states.read_states(states_of("t2", 2))).states) == 2


async def test_a_deposed_controller_deletes_nothing(world: World) -> None:
    await world.ours.lead()
    await a_topic(world)
    await world.theirs.lead()

    with pytest.raises(ControllerMoved):
        await world.ours.store.topics.delete_topics(["t"])

    assert len(await left_of(world)) == 3


async def test_a_hundred_topics_of_a_hundred_partitions_take_few_transactions(world: World) -> None:
    await world.ours.lead()
    names = [f"t{number}" for number in range(TOPICS)]
    for name in names:
        await world.theirs.add_topic(name, [[1, 2]] * PARTITIONS)
        await world.theirs.put(paths.delete_topic(name))
    await world.ours.store.states.create_states(
        {tp: s for name in names for tp, s in states_of(name, PARTITIONS).items()}
    )
    before = len(world.ours.transactions())

    results = await world.ours.store.topics.delete_topics(names)

    assert set(results.values()) == {Written(-1)}
    assert await world.ours.zk.children(paths.BROKER_TOPICS) == []
    assert await world.ours.zk.children(paths.DELETE_TOPICS) == []
    znodes = TOPICS * (2 * PARTITIONS + 2)
    assert len(world.ours.transactions()) - before == -(-znodes // 500) + 1


async def test_the_partitions_of_a_topic_that_were_initialised_once_are_its_folders(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]] * 3)
    await world.ours.store.states.create_states({T0: states_of("t", 1)[T0]})
    await world.theirs.put("/brokers/topics/t/partitions/2")
    await world.theirs.put("/brokers/topics/t/partitions/two")
    await world.theirs.put("/brokers/topics/t/partitions/007")
    await world.theirs.add_topic("new", [[1]])

    folders = await world.ours.store.topics.read_partition_folders(["t", "new", "gone"])

    assert folders == {"t": frozenset({0, 2}), "new": frozenset(), "gone": frozenset()}


# -- in memory, where the moment can be chosen -------------------------------------------------------------------------


@pytest.fixture
def store() -> FakeStore:
    """A leading store with topics t and u of 400 partitions each, which are to be deleted."""
    store = FakeStore()
    store.lead()
    for name in ("t", "u"):
        store.add_topic(name, {p: [1, 2] for p in range(400)})
        for tp, state in states_of(name, 400).items():
            store.set_state(tp, state)
        store.tree.put(paths.topic_config(name))
        store.tree.put(paths.delete_topic(name))
    return store


async def test_no_partition_needs_a_round_trip_of_its_own(store: FakeStore) -> None:
    before = store.zk.round_trips
    await store.topics.delete_topics(["t", "u"])
    # A listing per topic; the znodes read once in slices of 500; transactions of 500; two more reads and writes.
    assert store.zk.round_trips - before == 2 + 4 + 4 + 2 * 2


@pytest.mark.parametrize("lost", range(1, 7))
async def test_a_deletion_whose_answer_was_lost_comes_to_its_end(store: FakeStore, lost: int) -> None:
    store.zk.lose_reply_of.add(lost)

    assert await store.topics.delete_topics(["t", "u"]) == {"t": Written(-1), "u": Written(-1)}

    assert store.tree.children(paths.BROKER_TOPICS) == []
    assert store.tree.children(paths.DELETE_TOPICS) == []


async def test_a_topic_that_grows_while_it_is_deleted_is_deleted_as_well(store: FakeStore) -> None:
    store.before_write(2, lambda: store.tree.put("/brokers/topics/t/partitions/7/late"))

    results = await store.topics.delete_topics(["t", "u"])

    assert results == {"t": Written(-1), "u": Written(-1)}
    assert store.tree.children(paths.BROKER_TOPICS) == []


async def test_a_topic_that_cannot_be_deleted_keeps_its_overrides_and_its_marker(store: FakeStore) -> None:
    for number in range(1, 60):
        store.before_write(number, lambda: _grow(store))

    results = await store.topics.delete_topics(["t", "u"])

    assert not isinstance(results["t"], Written)
    assert results["u"] == Written(-1)
    assert store.tree.children(paths.CONFIG_TOPICS) == store.tree.children(paths.DELETE_TOPICS) == ["t"]


async def test_a_topic_whose_overrides_cannot_be_deleted_keeps_its_marker(store: FakeStore) -> None:
    store.tree.put(f"{paths.topic_config('t')}/child")

    results = await store.topics.delete_topics(["t", "u"])

    assert not isinstance(results["t"], Written)
    assert store.tree.children(paths.DELETE_TOPICS) == ["t"]


def _grow(store: FakeStore) -> None:
    if paths.topic("t") in store.tree.nodes:
        store.tree.put(f"/brokers/topics/t/late{len(store.zk.transactions)}")
