"""Bad input about the role, the cluster and time (``scenarios.md`` section 7): we stand by and delete nothing."""

import pytest

from controllerd.daemon.freeze_guard import FreezeGuard
from controllerd.record.records import EventEnd
from controllerd.views import Role
from events.cluster import Reelect, Resign
from tests.fakes.world import World
from tests.scenarios.inputs import alarms, cluster, data, goes_on, successor

BY_A_BROKER = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'


async def contender(**znodes: bytes) -> World:
    """A candidate for the role of a cluster in which these znodes existed before."""
    world = World()
    for broker in (1, 2):
        world.register(broker)
    for name, content in znodes.items():
        world.tree.put(f"/{name}", content)
    return await world.start()


def stands_by(world: World) -> bool:
    """Whether it leaves the role to other controllers."""
    return not world.c.is_active and world.snapshot.role is Role.STANDBY


@pytest.mark.parametrize("epoch", [b"", b"x", b"-1", b"1.5", b"99999999999", b"\xff"])
async def test_input_15_a_controller_epoch_that_is_no_number_is_not_contended_for(epoch: bytes) -> None:
    world = await contender(controller_epoch=epoch)
    assert stands_by(world)
    assert data(world, "/controller_epoch") == epoch
    assert "/controller" not in world.tree.nodes
    assert "Repair the znode" in alarms(world)


async def test_input_15_a_missing_epoch_is_not_begun_anew_while_a_controller_leads() -> None:
    world = await contender(controller=BY_A_BROKER)
    assert stands_by(world)
    assert "/controller_epoch" not in world.tree.nodes
    assert "restore it" in alarms(world)


async def test_input_15_a_missing_epoch_is_not_begun_anew_where_partitions_have_leaders() -> None:
    world = await cluster()
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.remove("/controller_epoch")
    other = await successor(world)
    assert stands_by(other)
    assert "/controller_epoch" not in other.tree.nodes
    assert "restore it" in alarms(other)


async def test_input_15_we_contend_again_once_the_epoch_is_mended() -> None:
    world = await contender(controller_epoch=b"x")
    world.tree.put("/controller_epoch", b"7")
    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()
    assert world.context.epoch == 8


@pytest.mark.parametrize("holder", [b"", b"garbage", b"[]", b'{"version":2}', b"\xff"])
async def test_input_16_an_unreadable_controller_keeps_the_role(holder: bytes) -> None:
    world = await contender(controller=holder, controller_epoch=b"3")
    assert stands_by(world)
    assert data(world, "/controller") == holder
    assert data(world, "/controller_epoch") == b"3"


async def test_input_16_a_kraft_controller_keeps_the_role() -> None:
    holder = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
    world = await contender(controller=holder, controller_epoch=b"3")
    assert stands_by(world)
    assert data(world, "/controller") == holder
    assert "KRaft" in alarms(world)


async def test_input_17_a_cluster_that_is_being_migrated_is_not_led() -> None:
    world = await contender(migration=b'{"version":0}', controller_epoch=b"3")
    assert stands_by(world)
    assert "/controller" not in world.tree.nodes
    assert "migrat" in alarms(world)


async def test_input_36_a_wall_clock_that_jumps_delays_and_orders_nothing() -> None:
    world = await cluster()
    for jump_s in (-86_400.0, 86_400.0, -31_536_000.0):
        world.clock.wall_offset += jump_s
        world.put_topic(f"at{int(jump_s)}", {0: [1, 2]})
        await world.settle()
        assert world.state(f"at{int(jump_s)}")[0] == 1
    assert all(end.took_ms >= 0 for end in world.audit.of(EventEnd))
    await goes_on(world)


async def test_input_36_a_takeover_that_an_operator_postponed_waits_by_the_monotonic_clock() -> None:
    world = await cluster()
    await world.call(Resign("to look at something"))
    (pause_s,) = [delay_s for delay_s, event in world.timers.later if event == Reelect()]
    world.clock.wall_offset += 86_400.0
    await contend(world)
    assert stands_by(world)
    world.clock.wall_offset -= 172_800.0
    world.clock.now += pause_s
    await contend(world)
    assert world.c.is_active


async def contend(world: World) -> None:
    """Let it check whether it may lead."""
    world.queue.put(Reelect())
    await world.settle()


def test_input_37_after_a_sleep_longer_than_the_session_nothing_leaves_before_zookeeper_was_asked() -> None:
    now = [100.0]
    closed: list[bool] = []
    guard = FreezeGuard(12.0, lambda: now[0], lambda: closed.append(True))
    assert guard.may_send()

    now[0] += 60.0

    assert not guard.may_send()
    assert closed == [True]
    guard.revalidated(guard.doubts)
    assert guard.may_send()
