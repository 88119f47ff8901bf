"""Registrations and notifications of brokers: the same in memory and on a real server."""

from controllerd.core.model import Broker, BrokerId, Endpoint, TopicPartition
from controllerd.zk import codecs, paths
from tests.zk.world import World

ENDPOINT = Endpoint("PLAINTEXT", "host", 9092)
T0 = TopicPartition("t", 0)


async def test_brokers_are_read_with_the_creating_transaction_as_epoch(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.broker(BrokerId(7)), codecs.encode_broker(Broker(BrokerId(7), 0, (ENDPOINT,))))

    read = await world.ours.store.brokers.read_brokers()

    node = await world.ours.node("/brokers/ids/7")
    assert node is not None
    assert read.brokers == {7: Broker(BrokerId(7), node.czxid, (ENDPOINT,))}
    assert await world.ours.store.brokers.read_broker(BrokerId(7)) == read.brokers[BrokerId(7)]


async def test_a_broker_that_is_not_registered_is_none(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.brokers.read_broker(BrokerId(9)) is None


async def test_registrations_that_cannot_be_used_are_reported_beside_the_good_ones(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put("/brokers/ids/1", codecs.encode_broker(Broker(BrokerId(1), 0, (ENDPOINT,))))
    await world.theirs.put("/brokers/ids/2", b"\xff\xfe")
    await world.theirs.put("/brokers/ids/two", b"{}")

    read = await world.ours.store.brokers.read_brokers()

    assert list(read.brokers) == [1]
    assert sorted(bad.path for bad in read.broken) == ["/brokers/ids/2", "/brokers/ids/two"]


async def test_isr_notifications_are_read_and_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put("/isr_change_notification/isr_change_0000000001", codecs.encode_isr_change([T0]))
    await world.theirs.put("/isr_change_notification/isr_change_0000000002", b"nonsense")
    await world.theirs.put("/isr_change_notification/isr_change_0000000003", b'{"version":9,"partitions":[]}')

    read = await world.ours.store.notifications.read_isr_notifications()
    await world.ours.store.notifications.delete_isr_notifications([*read.names, "isr_change_0000000099"])

    assert read.partitions == {T0}
    assert len(read.broken) == 2
    assert await world.ours.zk.children(paths.ISR_CHANGES) == ["isr_change_0000000003"]


async def test_log_dir_notifications_are_read_and_deleted(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(f"{paths.LOG_DIR_EVENT_PREFIX}0000000001", codecs.encode_log_dir_event(BrokerId(3)))

    read = await world.ours.store.notifications.read_log_dir_notifications()
    await world.ours.store.notifications.delete_log_dir_notifications(read.names)

    assert read.brokers == {3}
    assert await world.ours.zk.children(paths.LOG_DIR_EVENTS) == []
