"""The simulated cluster when its faults end."""

import asyncio
from random import Random

from tests.sim.loop import VirtualLoop, run
from tests.sim.plan import plan_of
from tests.sim.story_late import freeze_behind, self_audit
from tests.sim.world import SimWorld

LAG_S = 5.0
SOON_S = 0.01


def test_no_server_lags_once_faults_have_ended() -> None:
    """A client that stays connected to a lagging server would wait for each of its writes."""

    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, plan_of(0).options)
        follower = world.server.follower((LAG_S, LAG_S))
        world.heal()
        world.server.put("/a", b"1")
        await asyncio.sleep(SOON_S)
        assert follower.zxid == world.server.zxid

    run(story, 0)


def test_what_was_on_its_way_to_a_server_arrives_in_order_when_faults_end() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, plan_of(0).options)
        follower = world.server.follower((LAG_S, LAG_S))
        world.server.put("/a", b"1")
        world.heal()
        world.server.put("/a", b"2")
        await asyncio.sleep(LAG_S + SOON_S)
        assert follower.tree.nodes["/a"].data == b"2"

    run(story, 0)


def test_nothing_of_a_freeze_behind_a_lagging_server_begins_after_faults_have_ended() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, plan_of(0).options)
        world.open()
        await asyncio.sleep(LAG_S)
        assert any(each.is_active for each in world.instances.values())
        freeze_behind(world, Random(0))
        world.heal()
        await asyncio.sleep(LAG_S)
        assert not any(loop.is_frozen(each.owner) for each in world.instances.values())
        assert world.topics == {}

    run(story, 0)


def test_the_active_instance_audits_its_context_when_the_story_says_so() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, plan_of(0).options)
        world.open()
        await asyncio.sleep(LAG_S)
        self_audit(world, Random(0))
        await asyncio.sleep(SOON_S)
        assert any("SelfAudit" in line for line in loop.traced())

    run(story, 0)


def test_the_judge_knows_how_far_an_instance_has_come_with_its_queue() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, plan_of(0).options)
        world.open()
        await asyncio.sleep(LAG_S)
        active = next(each for each in world.instances.values() if each.is_active)
        is_done = world.oracle.requests.is_done
        assert is_done(active.owner, loop.time())
        active.kazoo.clients[-1].delay_s = (LAG_S / 10, LAG_S / 10)
        before = loop.time()
        await asyncio.sleep(SOON_S)
        self_audit(world, Random(0))
        await asyncio.sleep(SOON_S)
        assert is_done(active.owner, before)
        assert not is_done(active.owner, loop.time())
        active.kazoo.clients[-1].heal()
        await asyncio.sleep(2 * LAG_S)
        assert is_done(active.owner, loop.time())

    run(story, 0)
