"""Brokers fail, bounce, return and change their registration."""

import json
from collections.abc import Callable

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.requests import UpdateMetadataPartition, UpdateMetadataRequest
from controllerd.record.records import AlarmRecord, PartitionStateRecord
from events.cluster import BrokerRefresh, QuarantineCheck
from tests.fakes.reassigning import reassign
from tests.fakes.world import World, registration, tp


async def with_topic(world: World, *replicas: int) -> World:
    world.put_topic("t", {0: list(replicas)})
    await world.settle()
    world.forget()
    return world


async def test_the_new_leader_after_a_broker_failure_comes_from_the_isr_and_is_sent_to_all_live_brokers_twice(
    world: World,
) -> None:
    await with_topic(world, 1, 2, 3)

    world.die(1)
    await world.settle()

    expected = ["LeaderAndIsr(t-0 2/1 [2, 3])", "UpdateMetadata(t-0 2/1 [2, 3] offline [1])"]
    assert world.state("t") == (2, 1, [2, 3], 1)
    assert world.brief(2) == expected * 2
    assert world.brief(3) == expected * 2
    assert world.channels.calls == [("remove", 1)]


async def test_a_returning_broker_gets_metadata_then_all_its_replicas_in_one_request(world: World) -> None:
    await with_topic(world, 1, 2, 3)
    world.die(1)
    await world.settle()
    world.forget()

    world.register(1)
    await world.settle()

    metadata = "UpdateMetadata(t-0 2/1 [2, 3])"
    assert world.brief(1) == [metadata, "LeaderAndIsr(t-0 2/1 [2, 3])", metadata]
    assert world.brief(2) == ["UpdateMetadata()", metadata]
    assert world.zk.writes == []


async def test_the_last_isr_member_stays_in_the_isr_and_leads_again_when_it_returns(world: World) -> None:
    await with_topic(world, 1)
    world.die(1)
    await world.settle()
    dead = (world.state("t"), world.snapshot.offline_partitions)

    world.register(1)
    await world.settle()

    assert dead == ((-1, 1, [1], 1), 1)
    assert world.state("t") == (1, 2, [1], 2)
    assert world.snapshot.offline_partitions == 0


async def test_a_bounced_broker_is_dead_then_new_with_a_fresh_channel(world: World) -> None:
    await with_topic(world, 1, 2, 3)

    epoch = world.bounce(1)
    await world.settle()

    assert world.channels.calls == [("remove", 1), ("add", 1)]
    assert world.state("t") == (2, 1, [2, 3], 1)
    assert world.context.epochs()[1] == epoch  # type: ignore[index]  # a plain id reads better here
    assert all(request.broker_epoch == epoch for request in world.channels.to(1))


async def test_the_fresh_channel_of_a_bounced_broker_holds_no_request_for_its_earlier_epoch(
    world: World,
) -> None:
    """One BrokerChange finds the bounce and a new broker, which is started first and announced to all live brokers."""
    await with_topic(world, 1, 2, 3)
    world.die(2)
    await world.settle()
    world.forget()

    world.register(2)
    epoch = world.bounce(1)
    await world.settle()

    fresh = world.channels.in_channel[BrokerId(1)]
    assert {request.broker_epoch for request in fresh} == {epoch}
    assert len(fresh) < len(world.channels.to(1))
    assert world.channels.calls == [("add", 2), ("remove", 1), ("add", 1)]


async def test_partitions_to_remove_come_first_in_the_fresh_channel_of_a_bounced_broker(
    world: World,
) -> None:
    """The group coordinator of the broker may know the topic. If the removal came later, a topic created anew would
    lose offsets.
    """
    await with_topic(world, 2)
    world.die(2)
    await world.settle()
    world.tree.put("/admin/delete_topics/t", b"")
    await world.settle()
    world.forget()
    world.channels.unconfirmed.add(BrokerId(3))

    world.register(2)
    epoch = world.bounce(3)
    await world.settle()

    first = world.channels.in_channel[BrokerId(3)][0]
    assert isinstance(first, UpdateMetadataRequest)
    assert [entry.state.leader for entry in first.body.partitions.values()] == [-2]
    assert first.broker_epoch == epoch
    assert world.channels.removals == {}


async def test_a_dead_broker_keeps_its_channel_until_a_new_one_is_started(world: World) -> None:
    """Requests that are sent meanwhile may remove partitions from its metadata: its channel keeps those removals."""
    await with_topic(world, 1, 2, 3)
    world.die(2)
    await world.settle()
    world.forget()

    world.register(2)
    world.die(3)
    await world.settle()

    assert world.channels.calls == [("add", 2), ("remove", 3)]
    assert world.channels.dropped == []


def keep_removals_unconfirmed(world: World, broker: int, *partitions: TopicPartition) -> None:
    """Have the closed channel of a broker keep removals of partitions from its metadata."""
    gone = LeaderAndIsr(BrokerId(-2), 0, (), 1, 0)
    entry = UpdateMetadataPartition(gone, (BrokerId(1),), ())
    world.channels.removals[BrokerId(broker)] = dict.fromkeys(partitions, entry)


def bounces(world: World) -> None:
    world.bounce(3)


def is_opened_anew(world: World) -> None:
    world.queue.put(BrokerRefresh(BrokerId(3), reopen=True))


@pytest.mark.parametrize("happens", [bounces, is_opened_anew])
async def test_removals_that_a_broker_did_not_confirm_are_repeated_before_the_topic_made_anew(
    world: World, happens: Callable[[World], None]
) -> None:
    """The group coordinator of the broker drops the offsets of the earlier topic only when it receives the removal."""
    await with_topic(world, 1, 2)
    keep_removals_unconfirmed(world, 3, tp("t"), tp("gone"))
    world.forget()

    happens(world)
    await world.settle()

    assert world.brief(3)[:2] == ["UpdateMetadata(gone-0 -2/0 []; t-0 -2/0 [])", "UpdateMetadata(t-0 1/0 [1, 2])"]
    assert all("-2" not in request for broker in (1, 2) for request in world.brief(broker))
    assert {request.broker_epoch for request in world.channels.to(3)} == {world.context.epochs()[BrokerId(3)]}


async def test_removals_are_repeated_when_a_dead_broker_is_back_and_then_no_more(world: World) -> None:
    await with_topic(world, 1, 2)
    world.die(3)
    await world.settle()
    keep_removals_unconfirmed(world, 3, tp("t"))
    world.forget()

    world.register(3)
    await world.settle()
    returned = world.brief(3)
    world.forget()
    world.bounce(3)
    await world.settle()

    assert returned[:2] == ["UpdateMetadata(t-0 -2/0 [])", "UpdateMetadata(t-0 1/0 [1, 2])"]
    assert all("-2" not in request for request in world.brief(3))


async def test_a_replica_that_is_being_added_is_ordered_again_after_a_bounce_though_its_isr_cannot_be_read(
    world: World,
) -> None:
    """The ISR removal is refused, so the replica is as new as before. The earlier process lost its requests."""
    await with_topic(world, 1, 2)
    world.tree.put("/brokers/topics/t/partitions/0/state", b"not JSON")
    await reassign(world, {tp("t"): [1, 2, 3]})
    world.forget()

    world.bounce(3)
    await world.settle()

    assert world.brief(3)[1] == "LeaderAndIsr(t-0 1/0 [1, 2])"


async def test_a_replica_that_is_being_added_is_ordered_anew_when_the_channel_is_opened_anew(world: World) -> None:
    """The closed channel dropped its queue, so the reassignment starts again from its beginning."""
    await with_topic(world, 1, 2)
    await reassign(world, {tp("t"): [1, 2, 3]})
    world.forget()

    world.queue.put(BrokerRefresh(BrokerId(3), reopen=True))
    await world.settle()

    assert "LeaderAndIsr(t-0 1/2 [1, 2] new)" in world.brief(3)


async def test_a_refresh_of_a_broker_that_keeps_its_replica_moves_no_leader_epoch(world: World) -> None:
    await with_topic(world, 1, 2)
    await reassign(world, {tp("t"): [1, 2, 3]})
    before = world.state("t")
    world.forget()

    world.queue.put(BrokerRefresh(BrokerId(2), reopen=True))
    await world.settle()

    assert world.state("t") == before


async def test_a_refreshed_broker_is_sent_a_new_replica_that_the_reassignment_of_another_client_keeps(
    world: World,
) -> None:
    """The replica is new, and the topic znode does not list it among the adding replicas any more."""
    await with_topic(world, 1, 2)
    world.register(4)
    await world.settle()
    await reassign(world, {tp("t"): [1, 2, 3]})
    node = {"version": 2, "partitions": {"0": [1, 2, 3, 4]}, "adding_replicas": {"0": [4]}, "removing_replicas": {}}
    world.tree.put("/brokers/topics/t", json.dumps(node).encode())
    await world.settle()
    world.forget()

    world.queue.put(BrokerRefresh(BrokerId(3), reopen=True))
    await world.settle()

    assert any(request.startswith("LeaderAndIsr(t-0 1/") for request in world.brief(3))


async def test_the_failure_of_a_broker_without_replicas_is_announced_by_an_empty_update(world: World) -> None:
    world.die(3)

    await world.settle()

    assert world.brief(1) == ["UpdateMetadata()"]


async def test_the_death_of_a_broker_that_leads_nothing_writes_only_isrs(world: World) -> None:
    await with_topic(world, 1, 2, 3)

    world.die(3)
    await world.settle()

    assert world.state("t") == (1, 1, [1, 2], 1)
    assert len(world.zk.writes) == 1


async def test_an_unclean_election_needs_the_topic_to_allow_it(world: World) -> None:
    await with_topic(world, 1, 2)
    world.die(2)
    await world.settle()
    world.tree.put("/config/topics/t", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    world.register(2)
    await world.settle()

    world.die(1)
    await world.settle()

    assert world.state("t")[:3] == (2, 2, [2])
    assert world.metrics.unclean == 1


async def test_without_permission_the_partition_is_offline_rather_than_led_uncleanly(world: World) -> None:
    await with_topic(world, 1, 2)
    world.die(2)
    await world.settle()
    world.register(2)
    await world.settle()

    world.die(1)
    await world.settle()

    assert world.state("t")[:3] == (-1, 2, [1])
    assert world.context.partition_state(tp("t")) is PartitionState.OFFLINE


async def test_an_unusable_registration_is_quarantined_and_the_others_are_served(world: World) -> None:
    world.tree.put("/brokers/ids/4", b"not json")
    world.register(5)

    await world.settle()

    assert sorted(world.context.brokers) == [1, 2, 3, 5]
    assert "/brokers/ids/4" in world.snapshot.quarantine
    assert world.audit.of(AlarmRecord)


async def test_changed_endpoints_are_announced_and_the_channel_follows(world: World) -> None:
    world.tree.put("/brokers/ids/1", registration(1, 9999))

    await world.settle()

    assert world.brief(2) == ["UpdateMetadata()"]
    assert world.channels.calls == [("add", 1)]
    assert world.context.brokers[1].endpoints[0].port == 9999  # type: ignore[index]


async def test_a_changed_rack_alone_is_not_announced(world: World) -> None:
    world.tree.put("/brokers/ids/1", registration(1, 9001, "r1"))

    await world.settle()

    assert world.channels.sent == []


async def test_a_state_that_a_leader_changed_meanwhile_is_read_again_before_the_election(world: World) -> None:
    await with_topic(world, 1, 2, 3)
    state = "/brokers/topics/t/partitions/0/state"
    foreign = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,3]}'
    world.zk.before_transaction[1] = lambda: world.tree.put(state, foreign)

    world.die(1)
    await world.settle()

    assert world.state("t") == (3, 1, [3], 2)


async def test_a_broken_state_znode_is_quarantined_and_other_partitions_are_elected(world: World) -> None:
    world.put_topic("t", {0: [1, 2], 1: [1, 2]})
    await world.settle()
    broken = "/brokers/topics/t/partitions/0/state"
    world.tree.put(broken, b"{")

    world.die(1)
    await world.settle()

    assert world.tree.nodes[broken].data == b"{"
    assert broken in world.snapshot.quarantine
    assert world.state("t", 1) == (2, 1, [2], 1)


async def test_a_state_znode_that_was_repaired_is_found_and_served_again(world: World) -> None:
    await with_topic(world, 1, 2)
    path = "/brokers/topics/t/partitions/0/state"
    world.tree.put(path, b"{")
    world.die(1)
    await world.settle()
    world.tree.put(path, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}')

    assert QuarantineCheck() in world.timers.fire()
    world.queue.put(QuarantineCheck())
    await world.settle()

    assert world.state("t")[:3] == (2, 4, [2])
    assert world.snapshot.quarantine == {}
    assert world.timers.later == []


async def test_a_registration_that_is_repaired_in_place_is_taken_in(world: World) -> None:
    """The children of /brokers/ids do not change then: only the watch on the znode itself fires."""
    world.tree.put("/brokers/ids/4", b"not json")
    await world.settle()

    world.tree.put("/brokers/ids/4", registration(4, 9004))
    await world.settle()

    assert sorted(world.context.brokers) == [1, 2, 3, 4]
    assert world.snapshot.quarantine == {}


async def test_a_live_broker_whose_registration_is_repaired_leaves_the_quarantine(world: World) -> None:
    world.tree.put("/brokers/ids/1", b"not json")
    await world.settle()
    assert "/brokers/ids/1" in world.snapshot.quarantine

    world.tree.put("/brokers/ids/1", registration(1, 9001))
    await world.settle()

    assert world.snapshot.quarantine == {}
    assert sorted(world.context.brokers) == [1, 2, 3]


async def test_a_state_that_was_broken_at_the_load_is_served_again_by_legal_transitions_once_it_is_repaired() -> None:
    world = World()
    for broker in (1, 2):
        world.register(broker)
    world.put_topic("t", {0: [1, 2]})
    path = "/brokers/topics/t/partitions/0/state"
    world.tree.put("/controller_epoch", b"1")
    world.tree.put(path, b"{")
    await world.start()
    world.tree.put(path, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}')

    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()

    records = world.audit.of(PartitionStateRecord)
    moves = [move for record in records for move in zip(record.before, record.after, strict=True)]
    assert moves == [("NonExistentPartition", "NewPartition"), ("NewPartition", "OnlinePartition")]
    assert world.brief(2)[-2:] == ["LeaderAndIsr(t-0 1/4 [1, 2])", "UpdateMetadata(t-0 1/4 [1, 2])"]
