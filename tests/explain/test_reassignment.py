"""Causes for which a reassignment waits."""

from controllerd.core.model import BrokerId
from controllerd.views import ChannelView
from tests.explain.seeding import Seeded, codes
from tests.fakes.reassigning import change_isr, reassign
from tests.fakes.world import tp


async def moving(*target: int) -> Seeded:
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): target})
    await seeded.disks.settle()
    return seeded


async def test_it_waits_for_a_replica_that_catches_up() -> None:
    why = await (await moving(5, 6)).why()

    assert (why.condition, why.severity) == ("reassigning", "ok")
    assert codes(why) == ["reassignment-waits-for-isr"]
    assert why.causes[0].broker == 6
    assert why.headline.startswith("payments-0 is being reassigned from 5,3 to 5,6 for 1m0s (since 10:00:00Z")
    assert "adding 6   removing 3" in why.facts[0]


async def test_it_is_stuck_on_a_dead_target_broker() -> None:
    seeded = await moving(5, 6)
    await seeded.kill(6)

    why = await seeded.why()

    assert (why.severity, codes(why)) == ("warning", ["reassignment-target-down", "broker-gone"])
    assert why.causes[0].sentence == "the reassignment of payments-0 is stuck: its target broker 6 is not online"
    assert why.next == [
        "bring broker 6 back",
        "or cancel the reassignment:",
        "controllerctl reassign cancel payments-0",
    ]


async def test_its_target_broker_does_not_answer_the_controller() -> None:
    seeded = await moving(5, 6)

    why = await seeded.why(channels={BrokerId(6): ChannelView(2, 60.0)})

    assert codes(why) == ["broker-slow", "reassignment-waits-for-isr"]


async def test_it_cannot_end_while_all_its_in_sync_targets_are_offline() -> None:
    seeded = await moving(6)
    await seeded.kill(6)
    await change_isr(seeded.world, "payments", 5, 3)

    why = await seeded.why()

    assert codes(why)[0] == "reassignment-target-down"


async def test_only_the_added_replicas_that_lag_are_named() -> None:
    seeded = await Seeded(3, 5, 6, 7).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (6, 7)})
    await change_isr(seeded.world, "payments", 5, 3, 7)

    why = await seeded.why()

    assert [(cause.code, cause.broker) for cause in why.causes] == [("reassignment-waits-for-isr", 6)]


async def test_the_missing_leader_comes_before_the_reassignment() -> None:
    seeded = await moving(5, 6)
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("offline", ["broker-gone", "unclean-off", "replica-being-added"])
