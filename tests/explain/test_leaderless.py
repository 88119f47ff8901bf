"""Causes for which a partition has no leader."""

import pytest

from controllerd.core.model import BrokerId
from controllerd.zk.access import SetData
from events.elections import UncleanLeaderElectionEnable
from tests.explain.seeding import NO_OVERRIDES, Seeded, codes, text
from tests.fakes.reassigning import reassign
from tests.fakes.world import NODE_ID, tp
from tests.scenarios.acts import configure, write_config

UNCLEAN = "unclean.leader.election.enable"


async def test_the_only_in_sync_replica_is_dead() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3, 6])
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why(configs={"payments": {UNCLEAN: "false"}}, unclean_by_default=True)

    assert (why.condition, why.severity) == ("offline", "critical")
    assert codes(why) == ["broker-gone", "unclean-off-topic"]
    assert why.causes[0].broker == 5
    assert text(why).splitlines() == [
        "payments-0 is OFFLINE for 1m0s (since 10:02:00Z, event 17 BrokerChange)",
        "  replicas 5,3,6   isr 5   leader -1 (was 5, epoch 0)   unclean election: disabled (topic)",
        "  broker 5 left /brokers/ids at 10:02:00Z (its ZooKeeper session ended)",
        f"  3,6 are alive but not in the ISR; unclean election is disabled by the topic payments: {UNCLEAN}=false",
        "next: bring broker 5 back, or accept data loss:",
        "      controllerctl elect unclean --topic payments --partition 0",
    ]


async def test_the_cluster_forbids_unclean_elections() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False)

    assert codes(why) == ["broker-gone", "unclean-off-cluster"]
    assert "unclean election: disabled (cluster)" in why.facts[0]
    assert "3 is alive but not in the ISR" in why.causes[1].sentence


async def test_brokers_that_have_not_answered_whether_unclean_elections_are_allowed_are_named() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    awaited = (BrokerId(3), BrokerId(6))
    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False, unclean_awaits=awaited)

    assert codes(why) == ["broker-gone", "unclean-awaits-brokers"]
    assert why.causes[1].sentence == (
        "3 is alive but not in the ISR; unclean election is off until brokers 3,6 have answered whether it is allowed"
    )


async def test_without_a_known_configuration_the_refused_election_is_the_cause() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why()

    assert codes(why) == ["broker-gone", "unclean-off"]
    assert "unclean election: not known here" in why.facts[0]


async def test_the_reassignment_is_cancelled_before_an_election_that_would_choose_an_added_replica() -> None:
    """An unclean election takes the first live replica: here one that may be almost empty, before one that lags."""
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False)

    assert codes(why) == ["broker-gone", "unclean-off-cluster", "replica-being-added"]
    assert why.causes[2].sentence == "6 is being added and may be almost empty, but would be elected before 3"
    assert why.next == [
        "bring broker 5 back, or accept data loss, after a cancellation of the reassignment:",
        "controllerctl reassign cancel payments-0",
        "controllerctl elect unclean --topic payments --partition 0",
    ]


async def test_the_only_live_replica_is_one_that_is_being_added() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})
    await seeded.isr(5)
    await seeded.kill(3, 5)

    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False)

    assert why.causes[-1].sentence == "6 is being added and may be almost empty, and is the only one alive"
    assert why.next == [
        "bring broker 5 back, or accept data loss:",
        "controllerctl elect unclean --topic payments --partition 0",
    ]


async def test_a_warning_says_that_an_empty_disk_in_place_of_the_failed_one_loses_records() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.fail_dir(5)

    why = await seeded.why(configs=NO_OVERRIDES, unclean_by_default=False)

    assert why.next[0] == (
        "bring broker 5 back (repair its log directory and restart it; with an empty one every record is lost), "
        "or accept data loss:"
    )


async def test_all_replicas_are_dead() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3, 6])
    await seeded.kill(6, 3, 5)

    why = await seeded.why()

    assert codes(why) == ["all-replicas-down", "broker-gone", "broker-gone", "broker-gone"]
    assert [cause.broker for cause in why.causes] == [None, 5, 3, 6]
    assert why.next == ["bring broker 5 back first: it has every record"]
    assert why.since == "2023-11-15T10:03:00.000Z"


async def test_the_only_replica_is_dead() -> None:
    seeded = await Seeded(3, 5).start([5])
    await seeded.kill(5)

    why = await seeded.why()

    assert codes(why) == ["broker-gone"]
    assert why.next == ["bring broker 5 back: no other broker has a copy"]


async def test_an_unclean_election_may_have_lost_records() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await configure(seeded.world, "topics/payments", {UNCLEAN: "true"})
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why()

    assert "unclean-election" in codes(why)
    lost = next(cause for cause in why.causes if cause.code == "unclean-election")
    assert lost.sentence == "broker 3 was elected outside the ISR at 10:02:00Z: records may be lost"
    assert why.severity == "warning"


async def test_an_unclean_election_of_long_ago_shows_while_the_leader_recovers() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await configure(seeded.world, "topics/payments", {UNCLEAN: "true"})
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why(entries=())

    assert "unclean-election" in codes(why)


async def test_an_unclean_election_of_last_week_is_over_once_the_leader_recovered() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await configure(seeded.world, "topics/payments", {UNCLEAN: "true"})
    await seeded.isr(5)
    await seeded.kill(5)
    await seeded.isr(3)
    seeded.clock.now += 7 * 86_400

    assert "unclean-election" not in codes(await seeded.why())


async def test_a_configuration_that_cannot_be_read_refuses_the_election() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await write_config(seeded.world, "topics/payments", b"{")
    await seeded.kill(5)

    why = await seeded.why()

    assert codes(why) == ["broker-gone", "unclean-refused"]
    assert "the topic's configuration cannot be read" in why.causes[1].sentence


async def test_a_state_of_a_later_controller_refuses_the_election() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(5, 3)
    path = "/brokers/topics/payments/partitions/0/state"
    node = seeded.world.tree.nodes[path]
    assert node.data is not None
    data = node.data.replace(b'"controller_epoch":1', b'"controller_epoch":9')
    seeded.world.tree.outsider(SetData(path, data, node.version))
    await seeded.bring_back(3)

    why = await seeded.why()

    assert codes(why)[0] == "election-refused"
    assert "written by controller epoch 9" in why.causes[0].sentence


async def test_a_new_topic_waits_for_any_live_replica() -> None:
    seeded = await Seeded(3).start([7, 8])

    why = await seeded.why()

    assert (why.condition, why.severity) == ("waiting", "critical")
    assert codes(why) == ["no-live-replica", "broker-gone", "broker-gone"]
    assert why.headline == "payments-0 is WAITING for its first leader for 1m0s (since 10:00:00Z, event 4 TopicChange)"
    assert why.next == ["start any of the brokers 7,8, or delete the topic and create it on live brokers"]


async def test_a_new_topic_on_controllerd_itself_waits_for_a_broker() -> None:
    seeded = await Seeded().start([NODE_ID])

    why = await seeded.why()

    assert codes(why) == ["replica-on-controllerd"]
    assert why.next == ["start a broker: it gets the replica"]


async def test_a_new_topic_that_counts_controllerd_waits_for_a_broker_though_another_replica_is_alive() -> None:
    """A broker created it with as many replicas as there are live brokers and controllerd."""
    seeded = await Seeded(5).start([5, NODE_ID])

    why = await seeded.why()

    assert (why.condition, why.severity) == ("waiting", "critical")
    assert codes(why) == ["counts-controllerd", "replica-on-controllerd"]
    assert why.causes[0].sentence == (
        "it was created by counting controllerd among the live brokers, and no live broker is left to take that "
        "replica: clients get LEADER_NOT_AVAILABLE until one comes"
    )
    assert why.next == [
        "start another broker: it gets the replica, and the partition gets a leader",
        "or delete the topic, and create it with fewer replicas",
    ]


@pytest.mark.parametrize("replicas", [[1, NODE_ID], [2]])
async def test_the_deletion_of_a_topic_with_records_is_not_suggested(replicas: list[int]) -> None:
    seeded = await Seeded(1, 2).start([1, 2])
    await seeded.kill(2)
    await seeded.grow(1, replicas)

    why = await seeded.why(partition=1)

    assert why.condition == "waiting"
    assert "delete" not in " ".join(why.next)


async def test_the_only_replica_is_on_a_failed_log_directory() -> None:
    seeded = await Seeded(3, 5).start([5])
    await seeded.fail_dir(5)

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("offline", ["log-dir-failed"])
    repair = "repair its log directory and restart it; with an empty one every record is lost"
    assert why.next == [f"bring broker 5 back ({repair}): no other broker has a copy"]


async def test_a_later_attempt_does_not_change_the_start_of_the_condition() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)
    seeded.clock.now += 600
    seeded.world.queue.put(UncleanLeaderElectionEnable())
    await seeded.disks.settle()

    why = await seeded.why()

    assert why.headline == "payments-0 is OFFLINE for 11m0s (since 10:02:00Z, event 13 BrokerChange)"


async def test_a_condition_older_than_the_recent_records_has_no_start() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why(entries=())

    assert (why.headline, why.since) == ("payments-0 is OFFLINE", None)
    assert codes(why) == ["broker-gone", "unclean-off"]
