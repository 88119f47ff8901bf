"""Requested elections: their answers, their writes, and the requests that must not be lost."""

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.errors import NotController
from controllerd.record.records import AlarmRecord
from events.cluster import Expire, RegisterBrokerAndReelect
from events.elections import (
    AutoPreferredReplicaLeaderElection,
    ElectionTrigger,
    ElectionType,
    ReplicaLeaderElection,
)
from events.responses import LeaderAndIsrResponseReceived
from tests.fakes.world import World, tp
from tests.scenarios.acts import (
    PREFERRED_ELECTION,
    UNCLEAN,
    alarms,
    alter_isr,
    bring_back,
    cluster,
    configure,
    election_request,
    fire,
    kill,
    leader,
    request_election,
    take_over,
    with_topic,
)

PREFERRED, ANY_LIVE = ElectionType.PREFERRED, ElectionType.UNCLEAN
CHECK = AutoPreferredReplicaLeaderElection()


async def led_by_the_second(*topics: str, policy: Policy | None = None) -> World:
    """Topics on brokers 1 and 2, all in sync and led by broker 2. Broker 1 is their preferred leader."""
    world = await cluster(1, 2, policy=policy)
    for topic in topics:
        await with_topic(world, topic, 1, 2)
    await kill(world, 1)
    await bring_back(world, 1)
    for topic in topics:
        await alter_isr(world, topic, 2, 1)
    world.forget()
    return world


async def elect(
    world: World, *topics: str, kind: ElectionType = PREFERRED, trigger: ElectionTrigger = ElectionTrigger.ADMIN_CLIENT
) -> dict[str, object]:
    """Request an election of partition 0 of these topics, or of all partitions."""
    wanted = frozenset(map(tp, topics)) if topics else None
    outcomes = await world.call(ReplicaLeaderElection(wanted, kind, trigger))
    return {partition.topic: outcome for partition, outcome in outcomes.items()}


# -- by request --------------------------------------------------------------------------------------------------------


async def test_the_preferred_replica_is_elected_and_named_in_the_answer() -> None:
    world = await led_by_the_second("t")

    assert await elect(world, "t") == {"t": BrokerId(1)}
    assert leader(world, "t") == (1, 2)


async def test_all_partitions_of_an_election_are_one_transaction_and_one_request_per_broker() -> None:
    world = await led_by_the_second("t", "u", "v")

    await elect(world, "t", "u", "v")

    assert len(world.zk.transactions) == 1
    expected = "t-0 1/2 [2, 1]; u-0 1/2 [2, 1]; v-0 1/2 [2, 1]"
    assert world.brief(2) == [f"LeaderAndIsr({expected})", f"UpdateMetadata({expected})"]


async def test_every_partition_has_its_own_answer() -> None:
    world = await led_by_the_second("t", "behind")
    await alter_isr(world, "behind", 2)
    await with_topic(world, "good", 2, 1)
    world.put_topic("waiting", {0: [9]})
    await world.settle()

    assert await elect(world, "t", "behind", "good", "waiting", "unknown") == {
        "t": BrokerId(1),
        "behind": KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        "good": KafkaError.ELECTION_NOT_NEEDED,
        "waiting": KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        "unknown": KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_a_topic_that_is_being_deleted_gets_no_election() -> None:
    world = await led_by_the_second("t")
    world.context.queued_for_deletion.add("t")

    assert await elect(world, "t") == {"t": KafkaError.INVALID_TOPIC_EXCEPTION}
    assert leader(world, "t") == (2, 1)


async def test_a_partition_in_quarantine_is_answered_and_left_alone() -> None:
    world = await led_by_the_second("t", "u")
    world.context.put_in_quarantine(tp("t").state_path, "planted")

    assert await elect(world, "t", "u") == {
        "t": KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        "u": BrokerId(1),
    }


async def test_an_answer_for_all_partitions_leaves_out_partitions_that_need_no_election() -> None:
    world = await led_by_the_second("t")
    await with_topic(world, "good", 2, 1)

    assert await elect(world) == {"t": BrokerId(1)}
    assert await elect(world) == {}


async def test_an_election_that_lost_the_race_is_decided_anew_kafka_1382() -> None:
    world = await led_by_the_second("t")
    path = tp("t").state_path
    data = world.tree.nodes[path].data
    world.zk.before_transaction[len(world.zk.transactions) + 1] = lambda: world.tree.put(path, data)

    assert await elect(world, "t") == {"t": BrokerId(1)}


async def test_a_standby_elects_no_leader() -> None:
    with pytest.raises(NotController):
        await elect(World(), "t")


async def test_an_unclean_election_takes_any_live_replica_without_asking_the_configuration() -> None:
    world = await cluster(1, 2)
    await with_topic(world, "t", 1, 2)
    await alter_isr(world, "t", 1)
    await kill(world, 1)

    assert await elect(world, "t", kind=ANY_LIVE) == {"t": BrokerId(2)}
    assert world.state("t")[:3] == (2, 2, [2])
    assert world.metrics.unclean == 1


async def test_only_an_admin_client_may_override_the_configuration() -> None:
    world = await cluster(1, 2)
    await with_topic(world, "t", 1, 2)
    await alter_isr(world, "t", 1)
    await kill(world, 1)

    outcomes = await elect(world, "t", kind=ANY_LIVE, trigger=ElectionTrigger.AUTO)

    assert outcomes == {"t": KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert leader(world, "t") == (-1, 1)


async def test_an_unclean_election_is_not_needed_while_the_leader_lives() -> None:
    world = await led_by_the_second("t")

    assert await elect(world, "t", kind=ANY_LIVE) == {"t": KafkaError.ELECTION_NOT_NEEDED}


async def test_an_unclean_election_fails_without_a_live_replica() -> None:
    world = await cluster(1, 2)
    await with_topic(world, "t", 1)
    await kill(world, 1)
    world.put_topic("waiting", {0: [9]})
    await world.settle()

    assert await elect(world, "t", "waiting", kind=ANY_LIVE) == {
        "t": KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "waiting": KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }


async def test_an_unclean_election_prefers_a_live_isr_member() -> None:
    world = await cluster(1, 2, 3)
    await with_topic(world, "t", 1, 2, 3)
    await alter_isr(world, "t", 1, 3)
    world.queue.put(_storage_error(world, 1))
    await world.settle()

    assert leader(world, "t") == (3, 1)
    assert await elect(world, "t", kind=ANY_LIVE) == {"t": KafkaError.ELECTION_NOT_NEEDED}


# -- by znode ----------------------------------------------------------------------------------------------------------


async def test_a_request_is_served_once_and_every_later_one_too() -> None:
    world = await led_by_the_second("t", "u")

    for topic in ("t", "u"):
        await request_election(world, tp(topic))

    assert leader(world, "t") == leader(world, "u") == (1, 2)
    assert PREFERRED_ELECTION not in world.tree.nodes


@pytest.mark.parametrize("data", [b"{", b"", b'{"version":1}', b'{"version":1,"partitions":[{"topic":"t"}]}'])
async def test_an_unreadable_request_is_removed_and_the_next_one_served_input_24(data: bytes) -> None:
    world = await led_by_the_second("t")

    world.tree.put(PREFERRED_ELECTION, data)
    await world.settle()
    assert PREFERRED_ELECTION not in world.tree.nodes
    assert alarms(world) == ["request cannot be read and was removed"]

    await request_election(world, tp("t"))
    assert leader(world, "t") == (1, 2)


async def test_a_request_of_a_later_format_is_left_alone_and_shown() -> None:
    world = await led_by_the_second("t")

    world.tree.put(PREFERRED_ELECTION, b'{"version":2,"partitions":[]}')
    await world.settle()

    assert PREFERRED_ELECTION in world.tree.nodes
    assert PREFERRED_ELECTION in world.snapshot.quarantine


async def test_unknown_partitions_in_a_request_harm_no_other_input_24() -> None:
    world = await led_by_the_second("t")

    await request_election(world, tp("unknown"), tp("t", 99), tp("t"))

    assert leader(world, "t") == (1, 2)
    assert PREFERRED_ELECTION not in world.tree.nodes


async def test_a_request_that_waits_at_the_start_of_a_term_is_served_once_machines_started_kafka_828() -> None:
    world = await led_by_the_second("t", "u")
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put(PREFERRED_ELECTION, election_request(tp("t"), tp("unknown")))

    successor = await take_over(world)

    assert leader(successor, "t") == (1, 2)
    assert leader(successor, "u") == (2, 1)
    assert PREFERRED_ELECTION not in world.tree.nodes


async def test_an_unreadable_request_does_not_keep_a_controller_from_leading_kafka_6146() -> None:
    world = await led_by_the_second("t")
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put(PREFERRED_ELECTION, b"{")

    successor = await take_over(world)

    assert successor.c.is_active
    assert PREFERRED_ELECTION not in world.tree.nodes
    await request_election(successor, tp("t"))
    assert leader(successor, "t") == (1, 2)


async def test_a_request_for_a_partition_that_was_never_led_is_removed_kafka_840() -> None:
    world = await led_by_the_second("t")
    world.put_topic("waiting", {0: [9]})
    await world.settle()

    await request_election(world, tp("waiting"), tp("t"))

    assert leader(world, "t") == (1, 2)
    assert PREFERRED_ELECTION not in world.tree.nodes
    assert world.c.context.epoch == 1


# -- by the timer ------------------------------------------------------------------------------------------------------


async def test_no_leader_moves_up_to_the_allowed_percentage() -> None:
    world = await led_by_the_second("t", policy=Policy(leader_imbalance_per_broker_percentage=50))
    await with_topic(world, "good", 1, 2)
    await fire(world, CHECK)
    assert leader(world, "t") == (2, 1)

    await with_topic(world, "u", 1, 2)
    await kill(world, 1)
    await bring_back(world, 1)
    for topic in ("t", "good", "u"):
        await alter_isr(world, topic, 2, 1)
    await fire(world, CHECK)

    assert [leader(world, topic)[0] for topic in ("t", "good", "u")] == [1, 1, 1]


async def test_only_partitions_whose_preferred_replica_is_in_sync_are_tried_kafka_9866() -> None:
    world = await led_by_the_second("t", "behind")
    await alter_isr(world, "behind", 2)
    world.forget()

    await fire(world, CHECK)

    assert leader(world, "t") == (1, 2)
    assert leader(world, "behind") == (2, 1)
    assert world.audit.of(AlarmRecord) == []


async def test_a_topic_that_is_being_deleted_does_not_count_as_imbalanced() -> None:
    world = await led_by_the_second("t")
    world.context.queued_for_deletion.add("t")
    world.forget()

    await fire(world, CHECK)

    assert world.zk.writes == []


async def test_no_check_is_scheduled_where_auto_leader_rebalance_is_disabled() -> None:
    world = await cluster(1, policy=Policy(auto_leader_rebalance_enable=False))

    assert CHECK not in world.timers.fire()


async def test_a_check_that_fails_is_followed_by_the_next_one() -> None:
    world = await led_by_the_second("t")
    await alter_isr(world, "t", 2, 1)

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    handle, world.c.partitions.handle = world.c.partitions.handle, broken  # type: ignore[method-assign,assignment]
    await fire(world, CHECK)
    world.c.partitions.handle = handle  # type: ignore[method-assign]
    await fire(world, CHECK)

    assert leader(world, "t") == (1, 2)


async def test_a_controller_that_lost_the_role_schedules_no_check_kafka_4360() -> None:
    world = await led_by_the_second("t")
    world.timers.fire()
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put("/controller_epoch", b"2")
    world.tree.remove("/controller")
    world.tree.put("/controller", b'{"version":2,"brokerid":7,"timestamp":"1"}')

    world.queue.put(CHECK)
    await world.settle()

    assert not world.c.is_active
    assert CHECK not in world.timers.fire()


async def test_an_instance_that_is_elected_after_many_expiries_checks_the_imbalance_again_kafka_4229() -> None:
    world = await led_by_the_second("t")
    for session in range(2, 52):
        world.zk.expire()
        world.queue.clear_and_put(Expire(session - 1))
        await world.settle()
        assert world.timers.later == []
        world.zk.reconnect_as(session)
        world.queue.put(RegisterBrokerAndReelect())
        await world.settle()

    await fire(world, CHECK)

    assert leader(world, "t") == (1, 2)
    assert world.context.epoch == 51


# -- by a changed configuration ----------------------------------------------------------------------------------------


async def test_allowing_unclean_elections_of_one_topic_affects_no_other_kafka_6835() -> None:
    world = await cluster(1, 2)
    for topic in ("t", "u"):
        await with_topic(world, topic, 1, 2)
        await alter_isr(world, topic, 1)
    await kill(world, 1)
    world.forget()

    await configure(world, "topics/t", {UNCLEAN: "true"})

    assert [write.path for write in world.zk.writes] == [tp("t").state_path]


def _storage_error(world: World, broker: int) -> LeaderAndIsrResponseReceived:
    epoch = world.context.epochs()[BrokerId(broker)]
    errors = {tp("t"): KafkaError.KAFKA_STORAGE_ERROR}
    return LeaderAndIsrResponseReceived(
        BrokerId(broker), epoch, world.context.epoch, KafkaError.NONE, errors, frozenset(errors)
    )
