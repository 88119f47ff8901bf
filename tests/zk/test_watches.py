"""Each watch means one event, and is armed by the read that the ports name: the same on the fake and on a server."""

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint, TopicPartition
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Fired
from controllerd.zk.watches import event_for
from events.base import Event
from events.cluster import BrokerChange, BrokerModifications, ControllerChange, Reelect
from events.elections import ConfigChange, ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ZkPartitionReassignment
from events.replicas import IsrChangeNotification, LogDirEventNotification
from events.topics import PartitionModifications, TopicChange, TopicDeletion
from tests.zk.world import World

ZK_ELECTION = ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
REGISTRATION = codecs.encode_broker(Broker(BrokerId(1), 0, (Endpoint("PLAINTEXT", "host", 9092),)))


@pytest.mark.parametrize(
    ("path", "fired", "event"),
    [
        ("/controller", Fired.CREATED, ControllerChange()),
        ("/controller", Fired.CHANGED, ControllerChange()),
        ("/controller", Fired.DELETED, Reelect()),
        ("/brokers/ids", Fired.CHILD, BrokerChange()),
        ("/brokers/ids/4", Fired.CHANGED, BrokerModifications(BrokerId(4))),
        ("/brokers/ids/4", Fired.DELETED, None),
        ("/brokers/ids/four", Fired.CHANGED, None),
        ("/brokers/topics", Fired.CHILD, TopicChange()),
        ("/brokers/topics/t", Fired.CHANGED, PartitionModifications("t")),
        ("/brokers/topics/t", Fired.DELETED, PartitionModifications("t")),
        ("/admin/delete_topics", Fired.CHILD, TopicDeletion()),
        ("/isr_change_notification", Fired.CHILD, IsrChangeNotification()),
        ("/log_dir_event_notification", Fired.CHILD, LogDirEventNotification()),
        ("/config/changes", Fired.CHILD, ConfigChange()),
        ("/brokers", Fired.CHILD, None),
    ],
)
def test_each_watch_becomes_its_event(path: str, fired: Fired, event: Event | None) -> None:
    assert event_for(path, fired) == event


async def test_brokers_that_come_and_change_are_seen(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.brokers.read_brokers()
    await world.theirs.put("/brokers/ids/1", REGISTRATION)
    await world.ours.saw(BrokerChange())

    await world.ours.store.brokers.read_brokers()
    await world.theirs.put("/brokers/ids/1", REGISTRATION)

    await world.ours.saw(BrokerModifications(BrokerId(1)))


async def test_topics_that_come_and_change_are_seen(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.topics.read_topic_names()
    await world.theirs.add_topic("t", [[1]])
    await world.ours.saw(TopicChange())

    await world.ours.store.topics.read_topics(["t"])
    await world.theirs.add_topic("t", [[1], [2]])

    await world.ours.saw(PartitionModifications("t"))


async def test_notifications_and_deletions_are_seen(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.notifications.read_isr_notifications()
    await world.ours.store.notifications.read_log_dir_notifications()
    await world.ours.store.admin.read_topic_deletions()

    await world.theirs.put("/isr_change_notification/isr_change_1", codecs.encode_isr_change([TopicPartition("t", 0)]))
    await world.theirs.put("/log_dir_event_notification/log_dir_event_1", codecs.encode_log_dir_event(BrokerId(1)))
    await world.theirs.put("/admin/delete_topics/t")

    await world.ours.saw(IsrChangeNotification())
    await world.ours.saw(LogDirEventNotification())
    await world.ours.saw(TopicDeletion())


async def test_a_watch_fires_once_until_the_next_read(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.topics.read_topic_names()
    await world.theirs.add_topic("a", [[1]])
    await world.theirs.add_topic("b", [[1]])
    await world.ours.store.topics.read_topic_names()
    await world.theirs.add_topic("c", [[1]])
    await world.ours.saw(TopicChange(), times=2)
    assert world.ours.events.all.count(TopicChange()) == 2


async def test_requests_that_exist_already_are_returned_and_not_enqueued(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.put(paths.REASSIGN_PARTITIONS, b"{}")
    assert await world.ours.store.admin.arm_admin_watches() == {paths.REASSIGN_PARTITIONS}
    assert world.ours.events.all == []


async def test_every_creation_of_a_request_is_enqueued_even_after_deletions(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.admin.arm_admin_watches()
    for times in (1, 2, 3):
        await world.theirs.put(paths.REASSIGN_PARTITIONS, b"{}")
        await world.ours.saw(ZkPartitionReassignment(), times=times)
        await world.theirs.remove(paths.REASSIGN_PARTITIONS)
    assert world.ours.events.all == [ZkPartitionReassignment()] * 3


async def test_a_corrected_request_is_enqueued_again(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.admin.arm_admin_watches()
    for times, says in enumerate((b"rubbish", b"{}", b"[]"), 1):
        await world.theirs.put(paths.REASSIGN_PARTITIONS, says)
        await world.ours.saw(ZkPartitionReassignment(), times=times)
    assert world.ours.events.all == [ZkPartitionReassignment()] * 3


async def test_a_request_for_a_preferred_election_is_enqueued(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.admin.arm_admin_watches()
    await world.theirs.put(paths.PREFERRED_REPLICA_ELECTION, b"{}")
    await world.ours.saw(ZK_ELECTION)


async def test_config_changes_are_seen(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.ours.store.admin.arm_admin_watches()
    await world.theirs.put("/config/changes/config_change_1", codecs.encode_config_change("topics/t"))
    await world.ours.saw(ConfigChange())


async def test_many_topics_are_watched_at_once(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    names = [f"t{number}" for number in range(1_200)]
    for start in range(0, len(names), 400):
        await world.theirs.act(*_topics(names[start : start + 400]))
    read = await world.ours.store.topics.read_topics(names)
    assert len(read.topics) == 1_200

    await world.theirs.add_topic("t0", [[1], [2]])
    await world.theirs.add_topic("t1199", [[1], [2]])

    await world.ours.saw(PartitionModifications("t0"))
    await world.ours.saw(PartitionModifications("t1199"))
    assert len(world.ours.events.all) == 2


def _topics(names: list[str]) -> list[Create]:
    return [Create(paths.topic(name), b'{"version":1,"partitions":{"0":[1]}}') for name in names]
