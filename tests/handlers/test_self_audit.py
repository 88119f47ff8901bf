"""The controller compares its image with ZooKeeper, and corrects it, though no watch has fired."""

from collections.abc import Callable
from functools import partial

import pytest

from controllerd.core.model import BrokerId, Features
from controllerd.record.records import AlarmRecord
from controllerd.zk.access import Fired
from events.cluster import SelfAudit
from handlers import checks
from tests.fakes.world import World, ids, tp
from tests.scenarios.inputs import STATE, cluster, fed_before_the_term, goes_on

NEWER = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":5,"isr":[2]}'


def without_watches(world: World, change: Callable[[], object]) -> None:
    """Change ZooKeeper, and let no watch fire."""
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    change()
    world.zk.on_watch = watches


async def a_round(world: World) -> None:
    """One round of the comparison, and the second check of the differences."""
    for within_s in (checks.EVERY_S, checks.LOOK_AGAIN_S):
        await due(world, within_s)


async def due(world: World, within_s: float) -> None:
    """The comparison that is scheduled in so many seconds takes place now."""
    due_now = [event for delay_s, event in world.timers.later if delay_s == within_s and isinstance(event, SelfAudit)]
    world.timers.later = [kept for kept in world.timers.later if kept[1] not in due_now]
    for event in due_now:
        world.queue.put(event)
    await world.settle()


async def fire_watch_on_brokers(world: World) -> None:
    """The watch on ``/brokers/ids`` fires late."""
    world.zk.on_watch("/brokers/ids", Fired.CHILD)
    await world.settle()


def differed(world: World) -> list[str]:
    """The paths that an alarm named as different."""
    return [each.detail for each in world.audit.of(AlarmRecord) if each.what == "picture differs from ZooKeeper"]


async def test_without_a_difference_nothing_is_written_or_sent() -> None:
    world = await cluster()
    transactions = len(world.zk.transactions)

    await a_round(world)

    assert differed(world) == []
    assert world.channels.sent == []
    assert len(world.zk.transactions) == transactions


async def test_a_next_round_is_scheduled_for_as_long_as_the_instance_leads() -> None:
    world = await cluster()
    for _ in range(2):
        await a_round(world)
        assert [(delay_s, each) for delay_s, each in world.timers.later if isinstance(each, SelfAudit)] == [
            (checks.EVERY_S, SelfAudit())
        ]


async def test_brokers_that_start_and_fail_without_a_watch_are_noticed() -> None:
    world = await cluster()
    without_watches(world, lambda: world.die(1))
    without_watches(world, lambda: world.register(4))

    await a_round(world)

    assert sorted(world.context.brokers) == [2, 3, 4]
    assert world.state("t")[0] == 2
    assert differed(world) == ["/brokers/ids/1", "/brokers/ids/4"]
    await goes_on(world)


async def test_a_broker_that_bounces_without_a_watch_is_noticed() -> None:
    world = await cluster()
    without_watches(world, lambda: world.die(1))
    without_watches(world, lambda: world.register(1))

    await a_round(world)

    assert world.context.brokers[BrokerId(1)].epoch == world.tree.nodes["/brokers/ids/1"].czxid
    assert differed(world) == ["/brokers/ids/1"]


async def test_topics_that_are_created_enlarged_and_removed_without_a_watch_are_noticed() -> None:
    world = await cluster()
    without_watches(world, lambda: world.put_topic("late", {0: [2, 1]}))
    without_watches(world, lambda: world.put_topic("t", {0: [1, 2], 1: [2, 3]}))
    without_watches(world, lambda: world.tree.remove("/brokers/topics/other"))

    await a_round(world)

    assert (world.state("late")[0], world.state("t", 1)[0]) == (2, 2)
    assert tp("other") not in world.context
    assert {"/brokers/topics/late", "/brokers/topics/other", "/brokers/topics/t"} <= set(differed(world))


async def test_a_state_that_another_client_wrote_is_taken_over_and_sent_to_its_leader() -> None:
    world = await cluster()
    without_watches(world, lambda: world.tree.put(STATE, NEWER))

    await a_round(world)

    state = world.context.leadership(tp("t"))
    assert state is not None
    assert (state.leader, state.isr) == (2, ids(2))
    assert state.leader_epoch > 5
    assert differed(world) == [STATE]
    assert any(tp("t") in getattr(request, "partitions", ()) for request in world.channels.to(2))
    await a_round(world)
    assert differed(world) == [STATE]


async def test_a_state_that_becomes_unreadable_is_quarantined() -> None:
    world = await cluster()
    without_watches(world, lambda: world.tree.put(STATE, b"{"))

    await a_round(world)

    assert STATE in world.snapshot.quarantine
    assert world.tree.nodes[STATE].data == b"{"
    await goes_on(world)


async def test_a_state_that_is_missing_is_an_alarm_and_is_not_created_again() -> None:
    world = await cluster()
    without_watches(world, lambda: world.tree.remove(STATE))

    await a_round(world)

    assert differed(world) == [STATE]
    assert STATE not in world.tree.nodes


async def test_a_difference_whose_event_is_handled_before_the_second_check_is_no_alarm() -> None:
    world = await cluster()
    without_watches(world, lambda: world.die(1))
    await due(world, checks.EVERY_S)
    await fire_watch_on_brokers(world)

    await due(world, checks.LOOK_AGAIN_S)

    assert sorted(world.context.brokers) == [2, 3]
    assert differed(world) == []


async def test_a_newer_registration_whose_event_is_pending_at_the_second_check_is_no_alarm_yet() -> None:
    world = await cluster()
    without_watches(world, lambda: world.die(1))
    await due(world, checks.EVERY_S)
    await fire_watch_on_brokers(world)
    without_watches(world, lambda: world.register(1))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/ids/1"]
    assert sorted(world.context.brokers) == [1, 2, 3]


async def test_an_unknown_broker_that_started_failed_and_started_again_is_no_alarm_yet() -> None:
    world = await cluster()
    without_watches(world, lambda: world.register(4))
    await due(world, checks.EVERY_S)
    await fire_watch_on_brokers(world)
    world.die(4)
    await world.settle()
    without_watches(world, lambda: world.register(4))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/ids/4"]


async def test_a_topic_that_was_loaded_and_enlarged_before_the_second_check_is_no_alarm_yet() -> None:
    world = await cluster()
    without_watches(world, lambda: world.put_topic("late", {0: [2, 1]}))
    await due(world, checks.EVERY_S)
    world.zk.on_watch("/brokers/topics", Fired.CHILD)
    await world.settle()
    without_watches(world, lambda: world.put_topic("late", {0: [2, 1], 1: [1, 2]}))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/topics/late"]
    assert world.state("late", 1)[0] == 1


async def test_a_topic_that_was_deleted_and_created_before_the_second_check_is_no_alarm_yet() -> None:
    world = await cluster()
    without_watches(world, lambda: world.put_topic("late", {0: [2, 1]}))
    await due(world, checks.EVERY_S)
    world.zk.on_watch("/brokers/topics", Fired.CHILD)
    await world.settle()
    world.tree.remove("/brokers/topics/late")
    await world.settle()
    without_watches(world, lambda: world.put_topic("late", {0: [1, 2]}))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/topics/late"]


async def test_znodes_that_keep_changing_without_a_watch_are_an_alarm_at_the_second_check() -> None:
    world = await cluster()
    without_watches(world, lambda: world.put_topic("t", {0: [1, 2], 1: [2, 3]}))
    without_watches(world, lambda: world.die(1))
    await due(world, checks.EVERY_S)
    without_watches(world, lambda: world.put_topic("t", {0: [1, 2], 1: [2, 3], 2: [2, 3]}))
    without_watches(world, lambda: world.register(1))

    await due(world, checks.LOOK_AGAIN_S)

    assert {"/brokers/ids/1", "/brokers/topics/t"} <= set(differed(world))


async def test_an_unreadable_topic_that_is_created_without_a_watch_is_noticed() -> None:
    world = await cluster()
    without_watches(world, lambda: world.tree.put("/brokers/topics/late", b"{"))

    await a_round(world)

    assert differed(world) == ["/brokers/topics/late"]
    assert "/brokers/topics/late" in world.snapshot.quarantine


async def test_a_state_in_quarantine_does_not_count_as_different() -> None:
    world = await fed_before_the_term(STATE, b"{")

    await a_round(world)

    assert differed(world) == []


async def test_below_2_7_an_isr_that_its_leader_wrote_is_no_difference() -> None:
    world = await cluster(features=Features(alter_partition=False))
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    without_watches(world, lambda: world.tree.put(STATE, state))

    await a_round(world)

    assert differed(world) == []


async def test_a_round_goes_through_all_topics_in_several_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PARTITIONS_AT_ONCE", 2)
    world = await cluster()
    for number in range(5):
        world.put_topic(f"n{number}", {0: [2, 3]})
    await world.settle()
    for path in (paths := [f"/brokers/topics/n{number}/partitions/0/state" for number in range(5)]):
        without_watches(world, partial(world.tree.put, path, NEWER))
    world.metrics.events.clear()

    await a_round(world)

    assert differed(world) == paths
    assert world.metrics.events.count("SelfAudit") > 4


async def test_a_standby_compares_nothing() -> None:
    world = World()
    world.queue.put(SelfAudit())
    before = world.zk.round_trips
    await world.settle()
    assert world.zk.round_trips == before
