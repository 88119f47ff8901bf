"""The leader of a partition is shutting down, and no other replica can be elected."""

import pytest

from controllerd.core.model import BrokerId
from events.operator import DrainBroker
from tests.explain.seeding import NO_OVERRIDES, Seeded, codes, text

SHUTTING_DOWN = (
    "leader 5 is shutting down since 10:00:00Z and no other member of the ISR can lead: "
    "the partition is offline when it stops"
)


async def drain(seeded: Seeded, broker: int) -> None:
    """An operator drains the broker as a whole."""
    await seeded.world.call(DrainBroker(BrokerId(broker), leaders_only=False, reason="a new disk", by="ann"))
    await seeded.disks.settle()


async def test_there_is_no_other_replica() -> None:
    seeded = await Seeded(3, 5).start([5])
    await drain(seeded, 5)

    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False)

    assert (why.condition, why.severity, codes(why)) == ("healthy", "warning", ["leader-shutting-down"])
    assert text(why).splitlines()[2:] == [
        f"  {SHUTTING_DOWN}",
        "next: give it a replica on another broker before broker 5 stops:",
        "      controllerctl reassign plan --topics payments --from 5",
    ]


async def test_no_other_replica_is_in_sync() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await drain(seeded, 5)

    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False)

    assert (why.condition, why.severity) == ("at-min-isr", "warning")
    assert codes(why) == ["leader-shutting-down", "isr-of-one", "replica-lagging"]
    assert why.next[0] == "let broker 5 run until replica 3 is in sync"


async def test_the_topic_has_the_same_cause() -> None:
    seeded = await Seeded(3, 5).start([5])
    await drain(seeded, 5)

    assert codes(await seeded.why_topic()) == ["leader-shutting-down"]


@pytest.mark.parametrize("dead", [False, True])
async def test_the_shutdown_of_a_broker_without_leaderships_is_no_cause(dead: bool) -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3, 6])
    await drain(seeded, 5)
    if dead:
        await seeded.kill(5)

    assert "leader-shutting-down" not in codes(await seeded.why())
