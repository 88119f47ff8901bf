"""Group K: log directories fail."""

import json

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, ReplicaState
from tests.fakes.world import World, tp
from tests.scenarios.acts import alarms, answer, bring_back, cluster, kill, take_over, with_topic

FOLDER = "/log_dir_event_notification"
FAILED = KafkaError.KAFKA_STORAGE_ERROR


async def notify(world: World, broker: int, number: int = 0) -> None:
    """Notify the controller that the broker lost a log directory; the notification does not name it."""
    data = json.dumps({"version": 1, "broker": broker, "event": 1}).encode()
    world.tree.put(f"{FOLDER}/log_dir_event_{number:010}", data)
    await world.settle()


def left(world: World) -> list[str]:
    """The notifications that still exist."""
    return world.tree.children(FOLDER) or []


async def two_topics() -> World:
    world = await cluster(1, 2)
    await with_topic(world, "t", 1, 2)
    await with_topic(world, "u", 1, 2)
    world.forget()
    return world


async def test_k1_the_leader_moves_away_from_a_failed_directory() -> None:
    world = await two_topics()
    await notify(world, 1)
    assert world.brief(1)[0] == "LeaderAndIsr(t-0 1/0 [1, 2]; u-0 1/0 [1, 2])"
    assert left(world) == []

    await answer(world, 1, {tp("t"): FAILED, tp("u"): KafkaError.STALE_CONTROLLER_EPOCH})

    assert world.state("t")[:3] == (2, 1, [2])
    assert world.state("u")[:3] == (1, 0, [1, 2])
    record = world.context.record(tp("t"))
    assert record.replica_states[BrokerId(1)] is ReplicaState.OFFLINE
    assert world.brief(1)[-1] == "StopReplica(t-0 1)"
    assert BrokerId(1) in world.context.live


async def test_k1_a_new_partition_without_a_good_directory_is_led_by_another() -> None:
    """The failure shows in the answer to the very first request, without any notification."""
    world = await with_topic(await cluster(1, 2), "t", 1, 2)

    await answer(world, 1, {tp("t"): FAILED})

    assert world.state("t")[:3] == (2, 1, [2])


async def test_k1_without_another_replica_the_partition_is_offline_until_the_broker_restarts() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1)
    await answer(world, 1, {tp("t"): FAILED})
    assert world.state("t")[:3] == (-1, 1, [1])

    await kill(world, 1)
    await bring_back(world, 1)

    assert world.state("t")[0] == 1
    assert world.context.offline_dirs == {}


async def test_k2_a_follower_leaves_the_isr_and_the_other_partitions_go_on() -> None:
    world = await two_topics()
    await notify(world, 2)
    world.forget()

    await answer(world, 2, {tp("t"): FAILED})

    assert world.state("t")[:3] == (1, 1, [1])
    assert world.state("u")[:3] == (1, 0, [1, 2])
    assert all("u-0" not in sentence for broker in (1, 2) for sentence in world.brief(broker))


async def test_k2_a_replica_on_a_failed_directory_gets_no_further_request() -> None:
    """Kafka sends the request, and counts the replica as online from then on though it is not."""
    world = await two_topics()
    await notify(world, 1)
    await answer(world, 1, {tp("t"): FAILED})
    world.forget()

    await notify(world, 1, 1)

    assert world.brief(1)[0] == "LeaderAndIsr(u-0 1/0 [1, 2])"
    assert world.context.record(tp("t")).replica_states[BrokerId(1)] is ReplicaState.OFFLINE


async def test_k3_no_notification_is_left_over() -> None:
    world = await two_topics()
    await notify(world, 1, 0)
    await notify(world, 2, 1)

    assert left(world) == []


async def test_k3_notifications_of_before_the_term_are_dropped_as_the_first_responses_have_the_same() -> None:
    world = await two_topics()
    world.zk.on_watch = lambda _path, _fired: None
    await notify(world, 1)
    assert left(world)

    successor = await take_over(world)

    assert left(successor) == []
    await answer(successor, 1, {tp("t"): FAILED})
    assert successor.state("t")[0] == 2


async def test_k4_a_notification_of_an_unknown_broker_is_dropped() -> None:
    world = await two_topics()

    await notify(world, 9)

    assert left(world) == []
    assert world.channels.sent == []


async def test_k4_an_unreadable_notification_is_dropped_once_it_is_recorded_input_26() -> None:
    world = await two_topics()

    world.tree.put(f"{FOLDER}/log_dir_event_0000000000", b"{")
    world.tree.put(f"{FOLDER}/log_dir_event_0000000001", b'{"version":2,"broker":1,"event":1}')
    await world.settle()

    assert left(world) == ["log_dir_event_0000000001"]
    assert "notification cannot be read" in alarms(world)
