"""Causes for which a replica is not in sync, and brokers that do not apply requests."""

import json

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.errors import NotController
from controllerd.record.records import BrokerRow, BrokersRecord, ReplyRecord, ResponseRecord, SnapshotBegin, SnapshotEnd
from controllerd.views import ChannelView
from controllerd.zk.access import SetData
from events.admin import ControlledShutdown
from events.cluster import Reelect
from events.operator import DrainBroker
from tests.explain.seeding import Seeded, codes


async def three() -> Seeded:
    return await Seeded(3, 5, 6).start([5, 3, 6])


def answered(api: str, error: int = 0, **errors: int) -> ResponseRecord:
    """A response of broker 6."""
    return ResponseRecord(
        6, 5, api, 7, 1, 100, 1, 2.0, error, {name.replace("_", "-"): at for name, at in errors.items()}
    )


async def test_a_partition_without_causes_is_healthy() -> None:
    why = await (await three()).why()

    assert (why.condition, why.severity, codes(why), why.next) == ("healthy", "ok", [], [])
    assert why.headline == "payments-0 is healthy, led by broker 5"


async def test_only_one_replica_is_in_sync() -> None:
    seeded = await three()
    await seeded.isr(5)

    why = await seeded.why()

    assert (why.condition, why.severity) == ("at-min-isr", "warning")
    assert codes(why) == ["isr-of-one", "replica-lagging", "replica-lagging"]
    assert why.headline.startswith("payments-0 is AT MIN ISR (1 of 3 replicas in sync: no other may fail) for 1m0s")


async def test_fewer_replicas_are_in_sync_than_writes_need() -> None:
    seeded = await three()
    await seeded.isr(5)

    why = await seeded.why(configs={"payments": {"min.insync.replicas": "2"}})

    assert (why.condition, why.severity) == ("under-min-isr", "critical")
    assert "takes no writes with acks=all (1 of 3 replicas in sync, 2 needed)" in why.headline
    assert "min.insync.replicas 2" in why.facts[0]


async def test_all_replicas_are_in_sync_and_fewer_than_writes_need() -> None:
    why = await (await three()).why(configs={"payments": {"min.insync.replicas": "4"}})

    assert (why.condition, codes(why)) == ("under-min-isr", ["min-isr-above-replicas"])
    assert (
        why.causes[0].sentence == "all its replicas are in sync, but they are too few: 3 where min.insync.replicas is 4"
    )
    assert why.next == [
        "give the topic more replicas:",
        "controllerctl reassign plan --topics payments --rf 4 -f plan.json",
        "or lower its min.insync.replicas with kafka-configs.sh",
    ]


async def test_a_dead_broker_is_missing() -> None:
    seeded = await three()
    await seeded.kill(6)

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("under-replicated", ["broker-gone"])
    assert why.next == ["bring broker 6 back"]


async def test_an_orderly_shutdown_is_no_crash() -> None:
    seeded = await three()
    await shut_down(seeded, 6)
    await seeded.kill(6)

    why = await seeded.why()

    assert codes(why) == ["broker-shut-down"]
    assert "(after an orderly shutdown)" in why.causes[0].sentence


async def test_an_earlier_orderly_shutdown_is_not_the_cause_of_a_kill_under_another_controller() -> None:
    seeded = await three()
    await shut_down(seeded, 6)
    await seeded.kill(6)
    await lose_role(seeded)
    await seeded.bring_back(6)
    await seeded.kill(6)
    await lead_again(seeded)

    why = await seeded.why()

    assert codes(why) == ["broker-gone"]
    assert why.causes[0].since is None
    assert why.causes[0].sentence == (
        "broker 6 is not in /brokers/ids, at least since this controller's term at 10:06:00Z; "
        "before that it left at 10:02:00Z (after an orderly shutdown), and may have come back since"
    )


async def test_an_orderly_shutdown_is_not_the_cause_of_a_kill_after_the_broker_came_back() -> None:
    seeded = await three()
    await shut_down(seeded, 6)
    await seeded.kill(6)
    await seeded.bring_back(6)
    await seeded.isr(5, 3, 6)
    await seeded.kill(6)

    why = await seeded.why()

    assert codes(why) == ["broker-gone"]
    assert "(its ZooKeeper session ended)" in why.causes[0].sentence


async def test_a_drained_broker_that_is_gone_need_not_have_shut_itself_down() -> None:
    seeded = await three()
    drain = DrainBroker(BrokerId(6), leaders_only=False, reason="a test", by="User:test")
    await seeded.world.call(drain)
    await seeded.kill(6)

    why = await seeded.why()

    assert codes(why) == ["broker-shut-down"]
    assert "(after it was drained)" in why.causes[0].sentence


async def test_a_kill_after_a_controlled_shutdown_that_was_not_finished_is_no_orderly_shutdown() -> None:
    seeded = await three()
    await seeded.isr(5)
    await shut_down(seeded, 5)
    await seeded.kill(5)

    why = await seeded.why()

    (gone,) = [cause for cause in why.causes if cause.broker == 5]
    assert gone.code == "broker-gone"
    assert gone.sentence == (
        "broker 5 left /brokers/ids at 10:03:00Z (it had begun a controlled shutdown at 10:02:00Z, "
        "1 partition had not been moved, and it left without the answer that it may stop)"
    )


async def test_a_later_answer_with_nothing_left_to_move_makes_a_shutdown_orderly() -> None:
    seeded = await three()
    await seeded.create("audit", [5, 3])
    await seeded.isr(5, topic="audit")
    await shut_down(seeded, 5)
    seeded.world.tree.put("/admin/delete_topics/audit", b"")
    await seeded.disks.settle()
    await shut_down(seeded, 5)
    await seeded.kill(5)

    why = await seeded.why()

    assert codes(why)[0] == "broker-shut-down"
    assert why.causes[0].sentence == "broker 5 left /brokers/ids at 10:04:00Z (after an orderly shutdown)"


async def test_the_answer_to_a_request_with_an_earlier_broker_epoch_does_not_count() -> None:
    seeded = await three()
    await seeded.isr(5)
    await shut_down(seeded, 5)
    await seeded.world.call(ControlledShutdown(BrokerId(5), 0))
    await seeded.kill(5)

    why = await seeded.why()

    (gone,) = [cause for cause in why.causes if cause.broker == 5]
    assert "1 partition had not been moved" in gone.sentence


async def test_the_answer_to_another_broker_does_not_count() -> None:
    seeded = await three()
    await seeded.isr(5)
    await shut_down(seeded, 5)
    await shut_down(seeded, 6)
    await seeded.kill(5)

    why = await seeded.why()

    (gone,) = [cause for cause in why.causes if cause.broker == 5]
    assert "1 partition had not been moved" in gone.sentence


async def test_a_controlled_shutdown_that_was_never_answered_is_no_orderly_one() -> None:
    seeded = await three()
    await shut_down(seeded, 6)
    await seeded.kill(6)
    entries = [entry for entry in seeded.recent.newest_first() if not isinstance(entry.record, ReplyRecord)]

    why = await seeded.why(entries=tuple(entries))

    assert codes(why) == ["broker-gone"]
    assert "(it had begun a controlled shutdown at 10:01:00Z, and it left without an answer)" in why.causes[0].sentence


async def test_an_answer_older_than_the_recent_records_is_not_reported_as_missing() -> None:
    seeded = await three()
    await shut_down(seeded, 6)
    forgotten = seeded.recent.newest
    record_snapshot(seeded, 6)
    await seeded.kill(6)
    entries = [entry for entry in seeded.recent.newest_first() if entry.number > forgotten]

    why = await seeded.why(entries=tuple(entries))

    assert codes(why) == ["broker-gone"]
    assert "(it was in controlled shutdown, and the last answer to it is no longer recorded)" in (
        why.causes[0].sentence
    )


async def test_a_shutdown_began_with_its_request_and_not_with_a_later_snapshot() -> None:
    seeded = await three()
    await shut_down(seeded, 6)
    record_snapshot(seeded, 6)

    why = await seeded.why()

    assert why.causes[0].sentence == "broker 6 is shutting down since 10:01:00Z"


async def test_a_broker_killed_after_an_incomplete_drain_is_gone() -> None:
    seeded = await three()
    await seeded.isr(5)
    await seeded.world.call(DrainBroker(BrokerId(5), leaders_only=False, reason="a test", by="User:test"))
    await seeded.kill(5)

    why = await seeded.why()

    (gone,) = [cause for cause in why.causes if cause.broker == 5]
    assert gone.code == "broker-gone"
    assert gone.sentence == (
        "broker 5 left /brokers/ids at 10:02:00Z (it had been drained at 10:01:00Z, and 1 partition had not been moved)"
    )


async def test_a_broker_is_shutting_down() -> None:
    seeded = await three()
    await shut_down(seeded, 6)

    why = await seeded.why()

    assert codes(why) == ["broker-shutting-down"]
    assert why.causes[0].sentence == "broker 6 is shutting down since 10:01:00Z"


async def test_a_log_directory_failed() -> None:
    seeded = await three()
    await seeded.fail_dir(6)

    why = await seeded.why()

    assert codes(why) == ["log-dir-failed"]
    assert why.causes[0].sentence == (
        "the log directory of payments-0 on broker 6 failed, reported at 10:01:00Z; the broker itself is alive"
    )
    assert why.next == ["repair the log directory of broker 6 and restart it"]


async def test_a_follower_lags() -> None:
    seeded = await three()
    await seeded.isr(5, 3)

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("under-replicated", ["replica-lagging"])
    assert "broker 6 is alive and lags behind leader 5: outside the ISR since 10:01:00Z" in why.causes[0].sentence
    assert "controllerctl describe broker 6" in why.next


async def test_a_follower_that_just_came_back_catches_up() -> None:
    seeded = await three()
    await seeded.kill(6)
    await seeded.bring_back(6)

    why = await seeded.why()

    assert codes(why) == ["replica-catching-up"]
    assert why.causes[0].sentence == "broker 6 is back since 10:02:00Z and catches up with leader 5"


async def test_a_follower_that_came_back_and_fell_behind_later_lags() -> None:
    seeded = await three()
    await seeded.kill(6)
    await seeded.bring_back(6)
    await seeded.isr(5, 3, 6)
    await seeded.isr(5, 3)

    assert codes(await seeded.why()) == ["replica-lagging"]


async def test_the_controller_cannot_reach_a_broker() -> None:
    seeded = await three()
    channels = {BrokerId(6): ChannelView(14, 93.0, connected=False, error="Connection refused")}

    why = await seeded.why(channels=channels)

    assert (why.condition, why.severity, codes(why)) == ("healthy", "warning", ["broker-unreachable"])
    assert why.causes[0].sentence == (
        "broker 6 cannot be reached: Connection refused; 14 requests wait for it, the oldest for 1m33s"
    )
    assert why.next[-1] == "controllerctl get requests --broker 6"


async def test_a_broker_is_slow() -> None:
    seeded = await three()
    await seeded.isr(5, 3)

    why = await seeded.why(channels={BrokerId(6): ChannelView(3, 45.0)})

    assert codes(why) == ["broker-slow"]
    assert why.causes[0].sentence == ("broker 6 does not answer the controller: 3 requests wait, the oldest for 45s")


async def test_a_short_queue_is_no_cause() -> None:
    seeded = await three()

    why = await seeded.why(channels={BrokerId(6): ChannelView(3, 0.4)})

    assert codes(why) == []


async def test_a_broker_refuses_a_partition() -> None:
    seeded = await three()
    seeded.recent.record(answered("LeaderAndIsr", payments_0=KafkaError.KAFKA_STORAGE_ERROR))

    why = await seeded.why()

    assert (why.severity, codes(why)) == ("warning", ["broker-refuses"])
    assert why.causes[0].sentence == "broker 6 answered LeaderAndIsr with KAFKA_STORAGE_ERROR at 10:00:00Z"


async def test_a_leader_epoch_that_a_broker_knows_already_is_no_refusal() -> None:
    seeded = await three()
    seeded.recent.record(answered("LeaderAndIsr", payments_0=KafkaError.STALE_CONTROLLER_EPOCH))

    assert codes(await seeded.why()) == []


async def test_a_broker_refuses_whole_requests_with_an_unknown_code() -> None:
    seeded = await three()
    seeded.recent.record(answered("UpdateMetadata", 777))

    assert "with error 777" in (await seeded.why()).causes[0].sentence


async def test_a_refusal_before_the_last_decision_is_no_cause() -> None:
    seeded = await three()
    seeded.recent.record(answered("LeaderAndIsr", payments_0=KafkaError.KAFKA_STORAGE_ERROR))
    await seeded.isr(5, 3)
    await seeded.isr(5, 3, 6)

    assert codes(await seeded.why()) == []


async def test_a_refusal_before_the_last_registration_of_the_broker_is_no_cause() -> None:
    seeded = await three()
    seeded.recent.record(answered("UpdateMetadata", 31))
    seeded.world.bounce(6)
    await seeded.disks.settle()
    await seeded.isr(5, 3, 6)

    assert "broker-refuses" not in codes(await seeded.why())


async def test_a_refusal_for_another_partition_is_no_cause() -> None:
    seeded = await three()
    seeded.recent.record(answered("LeaderAndIsr", audit_0=KafkaError.STALE_CONTROLLER_EPOCH))

    assert codes(await seeded.why()) == []


async def test_a_registration_that_cannot_be_understood() -> None:
    seeded = await three()
    await seeded.kill(6)
    seeded.world.tree.put("/brokers/ids/6", b"{")
    await seeded.disks.settle()

    why = await seeded.why()

    assert codes(why) == ["broker-quarantined"]
    assert "its registration cannot be understood" in why.causes[0].sentence


async def lose_role(seeded: Seeded) -> None:
    """Let the built-in controller of a broker take the role."""
    body = {"version": 2, "brokerid": 3, "timestamp": "1", "kraftControllerEpoch": -1}
    seeded.world.tree.outsider(
        SetData("/controller_epoch", str(seeded.world.context.epoch + 1).encode(), -1),
        SetData("/controller", json.dumps(body).encode(), -1),
    )
    with pytest.raises(NotController):
        await seeded.isr(5)
    assert not seeded.world.snapshot.is_active


async def lead_again(seeded: Seeded) -> None:
    """Remove that broker a minute later, so that this instance becomes the active controller."""
    seeded.clock.now += 60
    seeded.world.tree.remove("/controller")
    seeded.world.queue.put(Reelect())
    await seeded.disks.settle()
    assert seeded.world.snapshot.is_active


def record_snapshot(seeded: Seeded, broker: int) -> None:
    """Record a periodic snapshot a minute later, with a broker that is shutting down."""
    seeded.clock.now += 60
    brokers = BrokersRecord([BrokerRow(broker, 3, [], None)]), BrokersRecord(shutting_down=[broker])
    seeded.recent.record(SnapshotBegin(1, periodic=True), *brokers, SnapshotEnd(3, 1, 1))


async def shut_down(seeded: Seeded, broker: int) -> None:
    """Request the controlled shutdown of the broker, a minute later."""
    seeded.clock.now += 60
    epoch = seeded.world.context.epochs()[BrokerId(broker)]
    await seeded.world.call(ControlledShutdown(BrokerId(broker), epoch))
    await seeded.disks.settle()
