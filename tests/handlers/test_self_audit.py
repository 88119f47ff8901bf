"""The picture is compared with ZooKeeper, and put right, though nobody said that anything changed."""

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


def in_silence(world: World, change: Callable[[], object]) -> None:
    """Something changes, and no watch says so."""
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    change()
    world.zk.on_watch = watches


async def a_round(world: World) -> None:
    """One round comes, and the second look at what differed."""
    for within_s in (checks.EVERY_S, checks.LOOK_AGAIN_S):
        await due(world, within_s)


async def due(world: World, within_s: float) -> None:
    """The audit that was to come within so many seconds comes now."""
    due_now = [event for delay_s, event in world.timers.later if delay_s == within_s and isinstance(event, SelfAudit)]
    world.timers.later = [kept for kept in world.timers.later if kept[1] not in due_now]
    for event in due_now:
        world.queue.put(event)
    await world.settle()


async def told_of_brokers(world: World) -> None:
    """The watch on ``/brokers/ids`` fires after all."""
    world.zk.on_watch("/brokers/ids", Fired.CHILD)
    await world.settle()


def differed(world: World) -> list[str]:
    """The paths of which operators were told that they differed."""
    return [each.detail for each in world.audit.of(AlarmRecord) if each.what == "picture differs from ZooKeeper"]


async def test_nothing_differs_and_nothing_is_written_or_sent() -> None:
    world = await cluster()
    transactions = len(world.zk.transactions)

    await a_round(world)

    assert differed(world) == []
    assert world.channels.sent == []
    assert len(world.zk.transactions) == transactions


async def test_the_next_round_is_due_for_as_long_as_we_lead() -> None:
    world = await cluster()
    for _ in range(2):
        await a_round(world)
        assert [(delay_s, each) for delay_s, each in world.timers.later if isinstance(each, SelfAudit)] == [
            (checks.EVERY_S, SelfAudit())
        ]


async def test_a_broker_that_came_and_one_that_went_in_silence_are_noticed() -> None:
    world = await cluster()
    in_silence(world, lambda: world.die(1))
    in_silence(world, lambda: world.register(4))

    await a_round(world)

    assert sorted(world.context.brokers) == [2, 3, 4]
    assert world.state("t")[0] == 2
    assert differed(world) == ["/brokers/ids/1", "/brokers/ids/4"]
    await goes_on(world)


async def test_a_broker_that_bounced_in_silence_is_noticed() -> None:
    world = await cluster()
    in_silence(world, lambda: world.die(1))
    in_silence(world, lambda: world.register(1))

    await a_round(world)

    assert world.context.brokers[BrokerId(1)].epoch == world.tree.nodes["/brokers/ids/1"].czxid
    assert differed(world) == ["/brokers/ids/1"]


async def test_topics_that_came_grew_and_went_in_silence_are_noticed() -> None:
    world = await cluster()
    in_silence(world, lambda: world.put_topic("late", {0: [2, 1]}))
    in_silence(world, lambda: world.put_topic("t", {0: [1, 2], 1: [2, 3]}))
    in_silence(world, lambda: world.tree.remove("/brokers/topics/other"))

    await a_round(world)

    assert (world.state("late")[0], world.state("t", 1)[0]) == (2, 2)
    assert tp("other") not in world.context
    assert {"/brokers/topics/late", "/brokers/topics/other", "/brokers/topics/t"} <= set(differed(world))


async def test_a_state_that_a_stranger_wrote_is_gone_on_from_and_its_leader_told() -> None:
    world = await cluster()
    in_silence(world, lambda: world.tree.put(STATE, NEWER))

    await a_round(world)

    state = world.context.leadership(tp("t"))
    assert state is not None
    assert (state.leader, state.isr) == (2, ids(2))
    assert state.leader_epoch > 5
    assert differed(world) == [STATE]
    assert any(tp("t") in getattr(request, "partitions", ()) for request in world.channels.to(2))
    await a_round(world)
    assert differed(world) == [STATE]


async def test_a_state_that_broke_is_quarantined() -> None:
    world = await cluster()
    in_silence(world, lambda: world.tree.put(STATE, b"{"))

    await a_round(world)

    assert STATE in world.snapshot.quarantine
    assert world.tree.nodes[STATE].data == b"{"
    await goes_on(world)


async def test_a_state_that_vanished_is_an_alarm_and_is_not_invented() -> None:
    world = await cluster()
    in_silence(world, lambda: world.tree.remove(STATE))

    await a_round(world)

    assert differed(world) == [STATE]
    assert STATE not in world.tree.nodes


async def test_what_its_event_tells_before_the_second_look_is_no_alarm() -> None:
    world = await cluster()
    in_silence(world, lambda: world.die(1))
    await due(world, checks.EVERY_S)
    await told_of_brokers(world)

    await due(world, checks.LOOK_AGAIN_S)

    assert sorted(world.context.brokers) == [2, 3]
    assert differed(world) == []


async def test_a_newer_registration_whose_event_is_on_its_way_at_the_second_look_is_no_alarm_yet() -> None:
    world = await cluster()
    in_silence(world, lambda: world.die(1))
    await due(world, checks.EVERY_S)
    await told_of_brokers(world)
    in_silence(world, lambda: world.register(1))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/ids/1"]
    assert sorted(world.context.brokers) == [1, 2, 3]


async def test_an_unknown_broker_that_came_went_and_came_again_is_no_alarm_yet() -> None:
    world = await cluster()
    in_silence(world, lambda: world.register(4))
    await due(world, checks.EVERY_S)
    await told_of_brokers(world)
    world.die(4)
    await world.settle()
    in_silence(world, lambda: world.register(4))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/ids/4"]


async def test_a_topic_that_was_taken_in_and_grew_before_the_second_look_is_no_alarm_yet() -> None:
    world = await cluster()
    in_silence(world, lambda: world.put_topic("late", {0: [2, 1]}))
    await due(world, checks.EVERY_S)
    world.zk.on_watch("/brokers/topics", Fired.CHILD)
    await world.settle()
    in_silence(world, lambda: world.put_topic("late", {0: [2, 1], 1: [1, 2]}))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/topics/late"]
    assert world.state("late", 1)[0] == 1


async def test_a_topic_of_the_name_of_one_that_was_deleted_before_the_second_look_is_no_alarm_yet() -> None:
    world = await cluster()
    in_silence(world, lambda: world.put_topic("late", {0: [2, 1]}))
    await due(world, checks.EVERY_S)
    world.zk.on_watch("/brokers/topics", Fired.CHILD)
    await world.settle()
    world.tree.remove("/brokers/topics/late")
    await world.settle()
    in_silence(world, lambda: world.put_topic("late", {0: [1, 2]}))

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == []

    await due(world, checks.LOOK_AGAIN_S)
    assert differed(world) == ["/brokers/topics/late"]


async def test_what_changes_again_and_again_in_silence_is_an_alarm_at_the_second_look() -> None:
    world = await cluster()
    in_silence(world, lambda: world.put_topic("t", {0: [1, 2], 1: [2, 3]}))
    in_silence(world, lambda: world.die(1))
    await due(world, checks.EVERY_S)
    in_silence(world, lambda: world.put_topic("t", {0: [1, 2], 1: [2, 3], 2: [2, 3]}))
    in_silence(world, lambda: world.register(1))

    await due(world, checks.LOOK_AGAIN_S)

    assert {"/brokers/ids/1", "/brokers/topics/t"} <= set(differed(world))


async def test_a_topic_that_cannot_be_read_and_came_in_silence_is_noticed() -> None:
    world = await cluster()
    in_silence(world, lambda: world.tree.put("/brokers/topics/late", b"{"))

    await a_round(world)

    assert differed(world) == ["/brokers/topics/late"]
    assert "/brokers/topics/late" in world.snapshot.quarantine


async def test_what_is_in_quarantine_does_not_differ() -> None:
    world = await fed_before_the_term(STATE, b"{")

    await a_round(world)

    assert differed(world) == []


async def test_below_2_7_an_isr_that_its_leader_wrote_is_not_our_business_yet() -> None:
    world = await cluster(features=Features(alter_partition=False))
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    in_silence(world, lambda: world.tree.put(STATE, state))

    await a_round(world)

    assert differed(world) == []


async def test_a_round_goes_through_all_topics_in_several_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PARTITIONS_AT_ONCE", 2)
    world = await cluster()
    for number in range(5):
        world.put_topic(f"n{number}", {0: [2, 3]})
    await world.settle()
    for path in (paths := [f"/brokers/topics/n{number}/partitions/0/state" for number in range(5)]):
        in_silence(world, partial(world.tree.put, path, NEWER))
    world.metrics.events.clear()

    await a_round(world)

    assert differed(world) == paths
    assert world.metrics.events.count("SelfAudit") > 4


async def test_a_standby_looks_at_nothing() -> None:
    world = World()
    world.queue.put(SelfAudit())
    before = world.zk.round_trips
    await world.settle()
    assert world.zk.round_trips == before
