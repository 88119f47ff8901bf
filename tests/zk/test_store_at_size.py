"""Reads of more znodes than fit into one request, and what they leave in memory; over the tree in memory."""

import json

import pytest

from controllerd.core.model import TopicPartition
from controllerd.zk import paths
from tests.fakes.store import FakeStore
from tests.turns import Turns
from tests.zk.world import states_of

PARTITIONS = 1_200
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def store() -> FakeStore:
    """A leading store with one topic of 1,200 partitions, each with a state."""
    store = FakeStore()
    store.lead()
    store.add_topic("t", {p: [1, 2] for p in range(PARTITIONS)})
    for tp, state in states_of("t", PARTITIONS).items():
        store.set_state(tp, state)
    return store


async def test_states_of_several_requests_are_all_there(store: FakeStore) -> None:
    wanted = [*states_of("t", PARTITIONS), TopicPartition("gone", 0)]
    store.tree.put(paths.partition_state(T1), b"no state")

    read = await store.states.read_states(wanted)

    assert read.states.keys() == set(wanted) - {T1, TopicPartition("gone", 0)}
    assert read.missing == {TopicPartition("gone", 0)}
    assert read.broken.keys() == {T1}


async def test_equal_states_are_one_object(store: FakeStore) -> None:
    read = await store.states.read_states(states_of("t", PARTITIONS))

    assert len({id(state) for state in read.states.values()}) == 1


async def test_assignments_and_isrs_that_are_equal_are_one_object(store: FakeStore) -> None:
    topics = await store.topics.read_topics(["t"])
    states = await store.states.read_states([T0])

    assignments = topics.topics["t"].assignments
    assert assignments[0] is assignments[1]
    assert assignments[0].replicas is states.states[T0].isr


async def test_other_tasks_run_while_many_topics_are_read(store: FakeStore) -> None:
    for number in range(1_000):
        store.add_topic(f"topic-{number}", {0: [1]})

    with Turns() as turns:
        read = await store.topics.read_topics([f"topic-{number}" for number in range(1_000)])

    assert len(read.topics) == 1_000
    assert turns.count > 0


async def test_unknown_fields_survive_a_rewrite_until_another_client_removes_them(store: FakeStore) -> None:
    path = paths.partition_state(T0)
    plain = json.loads(store.tree.nodes[path].data or b"")
    store.tree.put(path, json.dumps(plain | {"colour": "red"}).encode())
    state = (await store.states.read_states([T0])).states[T0]
    await store.states.update_states({T0: state})
    assert json.loads(store.tree.nodes[path].data or b"")["colour"] == "red"

    store.tree.put(path, json.dumps(plain).encode())
    state = (await store.states.read_states([T0])).states[T0]
    await store.states.update_states({T0: state})

    assert "colour" not in json.loads(store.tree.nodes[path].data or b"")


async def test_only_missing_parents_are_created(store: FakeStore) -> None:
    store.add_topic("u", {0: [1], 1: [1]})
    store.tree.put(paths.partition(TopicPartition("u", 0)))
    store.add_topic("new", {0: [1]})
    store.zk.writes.clear()

    await store.states.create_states(states_of("u", 2) | states_of("new", 1))

    assert [write.path.removeprefix("/brokers/topics/") for write in store.writes] == [
        "new/partitions",
        "u/partitions/1",
        "new/partitions/0",
        "u/partitions/0/state",
        "u/partitions/1/state",
        "new/partitions/0/state",
    ]
