"""A takeover waits for no broker, and the known settings outlive a time in which no broker answers."""

import asyncio
from dataclasses import replace

from controllerd.core.cluster_settings import PROTOCOL_VERSION, REPLICATION_FACTOR
from controllerd.core.protocol_versions import LOWEST, parse_broker_version
from controllerd.core.resolved_settings import Source
from controllerd.daemon.discovering import FIRST_ANSWERS_S
from tests.sim.instance import SESSION_S, SimInstance
from tests.sim.loop import VirtualLoop, run
from tests.sim.plan import Options, plan_of
from tests.sim.world import SimWorld

SETTLED_S = 5.0
SOON_S = 0.2


def options(instances: int) -> Options:
    """Three brokers without random faults."""
    plain = replace(plan_of(0).options, breaths=0.0, loses_calls=0.0, only_clean=0)
    return replace(plain, instances=instances, brokers=3, takes=True)


def leading(world: SimWorld) -> SimInstance | None:
    """The active instance."""
    return next((each for each in world.instances.values() if each.is_active), None)


def lowest_protocol(world: SimWorld) -> str:
    """The protocol version on which these brokers, of several releases, agree."""
    return min((each.configured[PROTOCOL_VERSION] for each in world.cluster.brokers.values()), key=parse_broker_version)


def silence(world: SimWorld) -> None:
    """Let no broker answer any more, though all of them stay registered."""
    for broker in world.cluster.brokers.values():
        broker.is_silent = True


def test_a_takeover_is_not_delayed_when_brokers_do_not_answer() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, options(2))
        for_all = {REPLICATION_FACTOR: "3"}
        world.open()
        for broker in world.cluster.brokers.values():
            assert broker.life is not None
            broker.life.configured.update(for_all)
        await asyncio.sleep(SETTLED_S)
        first = leading(world)
        assert first is not None
        silence(world)
        first.terminate()
        await asyncio.sleep(SOON_S)

        second = leading(world)
        assert second is not None
        assert second is not first
        assert second.instance is not None
        assert second.instance.settings.policy.default_replication_factor == 3

    run(story, 0)


def test_a_restarted_instance_takes_over_at_once_by_what_it_kept() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, options(1))
        world.open()
        await asyncio.sleep(SETTLED_S)
        silence(world)
        (number,) = world.instances
        world.instances[number].kill()
        await asyncio.sleep(2 * SESSION_S)
        world.start_instance(number)
        await asyncio.sleep(SOON_S)

        again = leading(world)
        assert again is not None
        assert again.instance is not None
        known = again.instance.settings.current.settings
        assert known[PROTOCOL_VERSION].value == lowest_protocol(world) != LOWEST
        assert known[REPLICATION_FACTOR].source is Source.CACHE

    run(story, 0)


def test_the_first_election_of_an_instance_that_knows_nothing_waits_a_moment_and_no_longer() -> None:
    async def story(loop: VirtualLoop) -> None:
        world = SimWorld(loop, options(1))
        world.open()
        silence(world)
        await asyncio.sleep(FIRST_ANSWERS_S / 2)
        assert leading(world) is None
        await asyncio.sleep(FIRST_ANSWERS_S / 2 + SOON_S)

        first = leading(world)
        assert first is not None
        assert first.instance is not None
        assert not first.instance.settings.policy.auto_leader_rebalance_enable
        assert not first.instance.context.features.leader_recovery

    run(story, 0)
