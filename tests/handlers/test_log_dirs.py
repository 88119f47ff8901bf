"""Failed log directories: the LeaderAndIsr that finds the offline replicas. The scenarios of group K have the rest."""

from controllerd.core.requests import LeaderAndIsrRequest
from events.cluster import Resync
from events.replicas import LogDirEventNotification
from tests.fakes.world import World, tp

NOTE = b'{"version":1,"broker":1,"event":1}'
PATH = "/log_dir_event_notification/log_dir_event_0000000000"


async def two_topics(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    world.put_topic("u", {0: [2, 1]})
    await world.settle()
    world.forget()


async def test_the_request_to_a_broker_with_a_failed_log_directory_has_the_known_states(world: World) -> None:
    await two_topics(world)

    world.tree.put(PATH, NOTE)
    await world.settle()

    (asked,) = [request for request in world.channels.to(1) if isinstance(request, LeaderAndIsrRequest)]
    assert set(asked.partitions) == {tp("t"), tp("u")}
    assert not any(entry.is_new for entry in asked.partitions.values())
    assert [write.path for write in world.zk.writes] == [PATH]


async def test_the_request_leaves_out_topics_that_are_being_deleted(world: World) -> None:
    await two_topics(world)
    world.context.queued_for_deletion.add("t")

    world.tree.put(PATH, NOTE)
    await world.settle()

    assert world.brief(1)[0] == "LeaderAndIsr(u-0 2/0 [2, 1])"


async def test_several_notifications_of_a_broker_cause_one_request(world: World) -> None:
    await two_topics(world)
    fired, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    for number in range(3):
        world.tree.put(f"/log_dir_event_notification/log_dir_event_{number:010}", NOTE)
    world.zk.on_watch = fired

    world.queue.put(LogDirEventNotification())
    await world.settle()

    assert len([each for each in world.channels.to(1) if isinstance(each, LeaderAndIsrRequest)]) == 1
    assert world.tree.children("/log_dir_event_notification") == []


async def test_a_notification_during_the_handling_of_another_is_handled_next_kafka_5879(world: World) -> None:
    await two_topics(world)
    later = "/log_dir_event_notification/log_dir_event_0000000001"
    world.zk.before_transaction[len(world.zk.transactions) + 1] = lambda: world.tree.put(later, NOTE)

    world.tree.put(PATH, NOTE)
    await world.settle()

    assert len([each for each in world.channels.to(1) if isinstance(each, LeaderAndIsrRequest)]) == 2
    assert world.tree.children("/log_dir_event_notification") == []


async def test_a_notification_during_a_lost_connection_is_handled_after_the_reconnect(world: World) -> None:
    await two_topics(world)
    fired, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.tree.put(PATH, NOTE)
    world.zk.on_watch = fired

    world.queue.put(Resync())
    await world.settle()

    assert any(isinstance(request, LeaderAndIsrRequest) for request in world.channels.to(1))
    assert PATH not in world.tree.nodes


async def test_a_standby_reads_no_notification() -> None:
    world = World()

    world.queue.put(LogDirEventNotification())
    await world.settle()

    assert world.zk.round_trips == 0
