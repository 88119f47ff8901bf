"""The fence and the records of writes of every store: the same in memory and on a real server."""

import pytest

from controllerd.core.model import TopicPartition
from controllerd.errors import ControllerMoved
from controllerd.zk import paths
from controllerd.zk.access import ANY_VERSION, Create, Delete, SetData
from tests.zk.world import World, states_of

T0 = TopicPartition("t", 0)


async def test_a_deposed_controller_writes_nothing(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]] * 3)
    states = states_of("t", 3)
    await world.ours.store.states.create_states(states)
    await world.theirs.lead()

    with pytest.raises(ControllerMoved):
        await world.ours.store.states.update_states(states)

    assert (await world.ours.store.states.read_states(states)).states == states
    assert world.ours.transactions()[-1].results == ["fenced"] * 3


async def test_without_a_term_nothing_is_written_or_sent(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    before = len(world.ours.transactions())
    with pytest.raises(ControllerMoved):
        await world.ours.store.states.update_states(states_of("t", 1))
    assert len(world.ours.transactions()) == before


async def test_every_transaction_is_recorded_with_its_fence_and_results(world: World) -> None:
    won = await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2], [1, 2]])
    await world.ours.store.states.create_states(states_of("t", 2))
    await world.theirs.put(paths.partition_state(T0), b"{}")

    await world.ours.store.states.update_states(states_of("t", 2))

    failed, written = world.ours.transactions()[-2:]
    assert failed.fence == written.fence == won.epoch_zk_version
    assert failed.results == ["BadVersion", "rolled back"]
    assert written.operations == ["setData"]
    assert (written.paths, written.expected, written.versions) == (["/brokers/topics/t/partitions/1/state"], [0], [1])
    assert written.zxid > failed.zxid > 0


async def test_the_operations_of_other_clients_in_these_tests_do_what_the_server_does(world: World) -> None:
    await world.theirs.store.cluster.ensure_paths()
    await world.theirs.act(Create("/a", b"1"))
    await world.theirs.act(SetData("/a", b"2", 0), Create("/a/b", None))
    outcomes = await world.theirs.zk.commit(
        [
            [SetData("/a", b"3", ANY_VERSION), SetData("/a", b"4", 7)],
            [Delete("/a")],
            [Create("/x/y", None)],
            [Create("/a", None)],
            [Delete("/nothing")],
        ]
    )
    assert [(getattr(o, "failed", None), getattr(o, "code", None)) for o in outcomes] == [
        (1, -103),
        (0, -111),
        (0, -101),
        (0, -110),
        (0, -101),
    ]
    node = await world.theirs.node("/a")
    assert node is not None
    assert (node.data, node.version) == (b"2", 1)
