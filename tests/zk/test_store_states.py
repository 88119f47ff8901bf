"""Partition states: the same in memory and on a real server."""

import json

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.errors import ControllerMoved
from controllerd.ports.results import Conflict, WriteFailed, Written
from controllerd.zk import codecs, paths
from events.reassignments import PartitionReassignmentIsrChange
from tests.zk.world import World, states_of

T0 = TopicPartition("t", 0)
LATER = b'{"controller_epoch":9,"leader":2,"version":1,"leader_epoch":5,"isr":[2]%s}'
T1 = TopicPartition("t", 1)
U0 = TopicPartition("u", 0)


async def test_states_are_created_with_their_parents(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)

    assert await world.ours.store.states.create_states(states) == dict.fromkeys(states, Written(0))

    assert (await world.ours.store.states.read_states(states)).states == states


async def test_creating_the_very_same_states_again_is_written_and_other_ones_are_conflicts(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)
    await world.ours.store.states.create_states(states)

    same = await world.ours.store.states.create_states({T0: states[T0]})
    other = await world.ours.store.states.create_states(states_of("t", 2, leader=2))

    assert same == {T0: Written(0)}
    assert all(isinstance(result, Conflict) for result in other.values())


async def test_a_state_below_a_topic_that_is_gone_is_a_conflict(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    results = await world.ours.store.states.create_states(states_of("gone", 1) | states_of("t", 1))

    assert isinstance(results[TopicPartition("gone", 0)], Conflict)
    assert results[T0] == Written(0)


async def test_states_are_updated_at_their_partition_epoch(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    state = states_of("t", 1)[T0]
    await world.ours.store.states.create_states({T0: state})

    first = await world.ours.store.states.update_states({T0: state})
    second = await world.ours.store.states.update_states({T0: state})

    assert first == {T0: Written(1)}
    assert isinstance(second[T0], Conflict)
    assert (await world.ours.store.states.read_states([T0])).states[T0].partition_epoch == 1


async def test_states_without_a_conflict_are_written_beside_conflicts(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 40)
    states = states_of("t", 40)
    await world.ours.store.states.create_states(states)
    for partition in (3, 17, 39):
        await world.theirs.put(paths.partition_state(TopicPartition("t", partition)), b"{}")
    await world.theirs.remove(paths.partition_state(TopicPartition("t", 5)))

    results = await world.ours.store.states.update_states(states)

    conflicts = {tp.partition for tp, result in results.items() if isinstance(result, Conflict)}
    assert conflicts == {3, 5, 17, 39}
    assert all(result == Written(1) for tp, result in results.items() if tp.partition not in conflicts)


async def test_unknown_fields_of_a_state_survive_the_rewrite(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(
        paths.partition_state(T0),
        b'{"version":1,"leader":1,"leader_epoch":4,"controller_epoch":1,"isr":[1],"colour":"red"}',
    )
    state = (await world.ours.store.states.read_states([T0])).states[T0]

    await world.ours.store.states.update_states({T0: state})

    node = await world.ours.node(paths.partition_state(T0))
    assert node is not None
    assert json.loads(node.data or b"")["colour"] == "red"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xff", b'{"leader":1}', b'{"version":1,"leader":1,"isr":"x"}'])
async def test_a_state_that_cannot_be_decoded_concerns_its_partition_alone(world: World, data: bytes) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    await world.ours.store.states.create_states(states_of("t", 2))
    await world.theirs.put(paths.partition_state(T0), data)

    read = await world.ours.store.states.read_states([*states_of("t", 2), TopicPartition("t", 2)])

    assert list(read.states) == [TopicPartition("t", 1)]
    assert read.broken[T0].path == paths.partition_state(T0)
    assert read.missing == {TopicPartition("t", 2)}


async def test_two_thousand_partitions_take_few_transactions(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    states = states_of("t", 2000)

    before = len(world.ours.transactions())
    created = await world.ours.store.states.create_states(states)
    between = len(world.ours.transactions())
    updated = await world.ours.store.states.update_states(states)

    assert set(created.values()) == {Written(0)}
    assert set(updated.values()) == {Written(1)}
    assert between - before == 9  # 1 + 2,000 parents and 2,000 states in chunks of 500
    assert len(world.ours.transactions()) - between == 4


async def test_one_write_beyond_the_size_of_a_request_fails_alone_kafka_13270(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1]])
    await world.theirs.add_topic("u", [[1]])
    images = dict((await world.ours.store.topics.read_topics(["t", "u"])).topics)
    huge = {p: ReplicaAssignment((BrokerId(1),)) for p in range(100_000)}
    images["t"] = type(images["t"])("t", huge, None, 0)

    results = await world.ours.store.topics.write_topics(images)

    assert isinstance(results["t"], WriteFailed)
    assert results["u"] == Written(1)


async def test_a_state_keeps_the_order_of_its_isr(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[3, 1, 2]])
    state = LeaderAndIsr(BrokerId(3), 0, (BrokerId(3), BrokerId(1), BrokerId(2)), 1, 0)
    await world.ours.store.states.create_states({T0: state})
    assert (await world.ours.store.states.read_states([T0])).states[T0] == state


@pytest.mark.parametrize("more", [b"", b',"colour":"red"'])
async def test_input_13_a_state_of_a_later_controller_ends_our_term_at_once(world: World, more: bytes) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 2)
    await world.ours.store.states.create_states(states_of("t", 2))
    await world.theirs.lead()
    await world.theirs.put(paths.partition_state(T0), LATER % more)
    before = len(world.ours.transactions())

    with pytest.raises(ControllerMoved):
        await world.ours.store.states.read_states(states_of("t", 2))

    assert len(world.ours.transactions()) == before


async def test_input_13_a_state_that_names_a_later_controller_that_was_never_elected_is_read(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 2)
    await world.ours.store.states.create_states(states_of("t", 2))
    await world.theirs.put(paths.partition_state(T0), LATER % b"")

    read = await world.ours.store.states.read_states(states_of("t", 2))

    assert read.states[T0].controller_epoch == 9


def changed_states(world: World) -> list[TopicPartition]:
    """Return the partitions of the events of changed states."""
    return [event.tp for event in world.ours.events.all if isinstance(event, PartitionReassignmentIsrChange)]


@pytest.mark.parametrize("partitions", [2, 40])
async def test_a_state_that_its_leader_writes_itself_is_seen(world: World, partitions: int) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * partitions)
    states = states_of("t", partitions)
    await world.ours.store.states.create_states(states)

    read = await world.ours.store.states.watch_states([*states, U0])
    await world.theirs.put(paths.partition_state(T1), codecs.encode_state(states[T1]))

    await world.ours.saw(PartitionReassignmentIsrChange(T1))
    assert read.states == states
    assert read.missing == {U0}
    assert changed_states(world) == [T1]


async def test_reading_states_arms_no_watch(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 2)
    states = states_of("t", 2)
    await world.ours.store.states.create_states(states)
    await world.ours.store.states.watch_states([T1])
    await world.ours.store.states.read_states([T0])

    for tp in states:
        await world.theirs.put(paths.partition_state(tp), codecs.encode_state(states[tp]))

    await world.ours.saw(PartitionReassignmentIsrChange(T1))
    assert changed_states(world) == [T1]
