"""Causes for which the preferred replica does not lead."""

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.intents import AUTO_REBALANCE
from controllerd.core.model import BrokerId
from events.operator import DrainBroker, Pause
from tests.explain.seeding import Seeded, codes
from tests.fakes.reassigning import change_isr


async def led_by_another(policy: Policy | None = None) -> Seeded:
    """Broker 5, the preferred replica, left and is in sync again; broker 3 leads."""
    seeded = await Seeded(3, 5, 6, policy=policy).start([5, 3, 6])
    await seeded.kill(5)
    await seeded.bring_back(5)
    await seeded.isr(3, 6, 5)
    return seeded


async def test_the_rebalance_is_due_at_the_next_check() -> None:
    why = await (await led_by_another()).why()

    assert (why.condition, why.severity, codes(why)) == ("non-preferred", "ok", ["rebalance-due"])
    assert why.causes[0].sentence == (
        "replica 5 is in sync and could lead: the automatic rebalance elects it within 5m0s"
    )
    assert why.next == ["controllerctl elect preferred --topic payments --partition 0"]


async def test_the_rebalance_is_off() -> None:
    why = await (await led_by_another(Policy(auto_leader_rebalance_enable=False))).why()

    assert codes(why) == ["auto-rebalance-off"]
    assert "auto.leader.rebalance.enable=false" in why.causes[0].sentence


async def test_the_rebalance_is_paused() -> None:
    seeded = await led_by_another()
    until = seeded.world.clock.now_ms() + 3_600_000
    await seeded.world.call(Pause(AUTO_REBALANCE, until, "migration", "alice"))

    why = await seeded.why()

    assert codes(why) == ["auto-rebalance-paused"]
    assert "paused by alice until" in why.causes[0].sentence
    assert why.next[0] == "controllerctl resume auto-rebalance"


async def test_the_preferred_broker_is_drained() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3, 6])
    await seeded.world.call(DrainBroker(BrokerId(5), leaders_only=True, reason="new disks", by="alice"))

    why = await seeded.why()

    assert codes(why) == ["broker-drained"]
    assert why.next[0] == "controllerctl resume drain-5"


async def test_a_small_imbalance_is_tolerated() -> None:
    seeded = await Seeded(3, 5, 6).start()
    await seeded.create("payments", *[[5, 3, 6]] * 20)
    await seeded.kill(5)
    await seeded.bring_back(5)
    await change_isr(seeded.world, "payments", 3, 6, 5, partitions=range(20))
    await seeded.elect_preferred("payments", *range(1, 20))

    why = await seeded.why()

    assert codes(why) == ["imbalance-tolerated"]
    assert "only 5.0% of broker 5's partitions are led by others, rebalanced above 10%" in why.causes[0].sentence


async def test_the_preferred_replica_is_out_of_sync() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3, 6])
    await seeded.kill(5)
    await seeded.bring_back(5)

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("under-replicated", ["replica-catching-up", "preferred-not-in-isr"])
    assert why.causes[1].sentence == "preferred replica 5 does not lead payments-0: it is not in the ISR 3,6"


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_partition_that_its_preferred_replica_leads_is_healthy(partition: int) -> None:
    seeded = await Seeded(3, 5).start([5, 3], partitions=2)

    assert codes(await seeded.why(partition=partition)) == []
