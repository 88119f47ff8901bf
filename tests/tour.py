"""A tour through all events: the writes and requests of each, from the audit log. For the page about events."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import understood
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Features, TopicPartition
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.protocol_versions import features_of
from controllerd.core.releases import Release
from controllerd.core.scram import ScramChange, ScramCredential
from controllerd.core.topic_creation import TopicRequest
from controllerd.record.records import EventBegin, EventEnd, Record, RequestRecord, ZkWriteRecord
from events import admin, cluster, elections, operator, reassignments, responses, topics
from events.base import Event
from tests.fakes.requester import ALICE
from tests.fakes.world import World
from tests.traces.fake_rig import FakeRun
from tests.traces.scenarios import SERVED, served

_SHAPES: Final = (
    (re.compile(r"^/brokers/topics/[^/]+/partitions/\d+/state$"), "/brokers/topics/…/partitions/…/state"),
    (re.compile(r"^/brokers/topics/[^/]+/partitions/\d+$"), "/brokers/topics/…/partitions/…"),
    (re.compile(r"^/brokers/topics/[^/]+/partitions$"), "/brokers/topics/…/partitions"),
    (re.compile(r"^/([a-z_/]+)/(?:isr_change|log_dir_event|config_change)_\d+$"), r"/\1/…"),
    (re.compile(r"^/(brokers/topics|config/(?:topics|brokers)|admin/delete_topics)/[^/]+$"), r"/\1/…"),
    (re.compile(r"^/(controllerd/owed_deletions)/[^/]+$"), r"/\1/…"),
)


@dataclass
class Effects:
    """The writes of an event, as operation and shape of the path, and the requests it sent."""

    writes: set[str] = field(default_factory=set)
    sends: set[str] = field(default_factory=set)


def shape_of(path: str) -> str:
    """A path without the names in it."""
    for pattern, shape in _SHAPES:
        if pattern.match(path):
            return pattern.sub(shape, path)
    return path


def note(records: Iterable[Record], seen: dict[str, Effects]) -> None:
    """Add what the records of a log show."""
    name = ""
    for record in records:
        match record:
            case EventBegin():
                name = record.name
            case EventEnd():
                name = ""
            case ZkWriteRecord() if name:
                written = zip(record.operations, record.paths, record.results, strict=True)
                seen[name].writes.update(f"{op} {shape_of(path)}" for op, path, result in written if result == "ok")
            case RequestRecord() if name:
                seen[name].sends.add(record.api + ("(delete)" if any(record.delete) else ""))
            case _:
                pass


async def tour() -> dict[str, Effects]:
    """Everything that was seen, by the name of the event."""
    seen: dict[str, Effects] = defaultdict(Effects)
    for scenario in SERVED:
        run = FakeRun(served(scenario))
        await run.play()
        note(run.world.audit.records, seen)
    note(await _stories(), seen)
    return dict(seen)


async def _stories() -> list[Record]:
    """Records that no trace has: the role, configurations, quarantine, features, brokers that never return."""
    return [*await _role(), *await _cluster(), *await _topics(), *await _operators(), *await _old_protocol()]


async def _small(features: Features | None = None) -> World:
    world = World(features=features)
    for broker in (1, 2, 3):
        world.register(broker)
    world.put_topic("orders", {0: [1, 2, 3], 1: [2, 1]})
    return await world.start()


async def _put(world: World, *events: Event) -> None:
    for event in events:
        world.queue.put(event)
        await world.settle()


async def _role() -> list[Record]:
    world = await _small()
    await _put(world, cluster.Resync(), cluster.ControllerChange())
    await world.call(cluster.Resign("a tour"))
    await world.call(cluster.Takeover("a tour"))
    await world.call(cluster.Resign("the tour goes on"))
    world.clock.now += world.c.local.stand_by_s
    await _put(world, cluster.RegisterBrokerAndReelect(), cluster.Expire(1), cluster.Reelect())
    await _put(world, cluster.ShutdownEventThread())
    return list(world.audit.records)


async def _cluster() -> list[Record]:
    world = await _small()
    epoch = world.context.brokers[BrokerId(1)].epoch
    await _put(world, responses.UpdateMetadataResponseReceived(BrokerId(1), epoch, 1, KafkaError.NONE))
    await _put(world, responses.ApiVersionsReceived(BrokerId(1), epoch, Release(3, 9)))
    said = SettingsAnswer(epoch, understood({"num.partitions": "6"}))
    await _put(world, responses.BrokerSettingsReceived({BrokerId(1): said}, world.context.epochs()))
    await _put(world, cluster.BrokerRefresh(BrokerId(1)))
    await world.call(reassignments.ListPartitionReassignments(None))
    await world.call(admin.UpdateFeatures(ALICE, {"a.feature": admin.FeatureUpdate(1, allow_downgrade=False)}))
    state = world.tree.nodes["/brokers/topics/orders/partitions/1/state"].data
    world.tree.put("/brokers/topics/orders/partitions/1/state", b"rubbish")
    world.bounce(2)
    await world.settle()
    world.tree.put("/brokers/topics/orders/partitions/1/state", state or b"")
    await _put(world, cluster.QuarantineCheck())
    path = "/brokers/topics/orders/partitions/1/state"
    world.tree.put(path, world.tree.nodes[path].data or b"")  # by another client
    suspect = cluster.Difference(path, world.context.leadership(TopicPartition("orders", 1)), None)
    await _put(world, cluster.SelfAudit(suspects=frozenset({suspect})))
    world.die(3)
    await world.settle()
    world.tree.put("/admin/delete_topics/orders")
    await world.settle()
    await _put(world, topics.TopicDeletionRetry())
    await world.call(admin.ForgetBroker(BrokerId(3), "burnt"))
    return list(world.audit.records)


async def _topics() -> list[Record]:
    """A topic that a client creates, enlarges and deletes, and credentials that it sets."""
    world = await _small()
    by = admin.Requester("User:alice", "alice", "tour", 7, "127.0.0.1")
    await world.call(admin.CreateTopics(by, (TopicRequest("payments", 2, 2),)))
    await world.call(admin.CreatePartitions(by, (GrowthRequest("payments", 3),)))
    await world.call(admin.DeleteTopics(by, ("payments",)))
    password = ScramCredential(1, 4096, b"salt", b"salted password")
    await world.call(admin.AlterScram(by, {"alice": ScramChange(upsertions=(password,))}))
    return list(world.audit.records)


async def _operators() -> list[Record]:
    """Pauses that end by themselves and by hand, a drained broker, a throttle that is taken away."""
    world = await _small()
    until_ms = world.clock.now_ms() + 60_000
    await world.call(operator.Pause("deletions", until_ms, "a tour", "alice"))
    world.tree.put("/admin/delete_topics/orders")
    await world.settle()
    await world.call(operator.Pause("auto-rebalance", until_ms + 1, "a tour", "alice"))
    await world.call(operator.Resume("auto-rebalance", "a tour", "alice"))
    world.tree.remove("/admin/delete_topics/orders")
    world.clock.now += 60
    await _put(world, operator.PauseCheck(until_ms))
    one, moved = BrokerId(1), TopicPartition("orders", 1)
    await world.call(operator.DrainBroker(one, leaders_only=True, reason="a tour", by="alice"))
    targets = {moved: (BrokerId(3), one)}
    await world.call(operator.ThrottleReassignments(1_000_000, targets, "alice"))
    await world.call(reassignments.ApiPartitionReassignment(ALICE, dict(targets)))
    await world.call(reassignments.ApiPartitionReassignment(ALICE, {moved: None}))
    await _put(world, operator.ThrottleCheck())
    await world.call(operator.DrainBroker(one, leaders_only=False, reason="a tour", by="alice"))
    return list(world.audit.records)


async def _old_protocol() -> list[Record]:
    """Unclean elections switched on, and a leader that writes its ISR itself."""
    world = await _small(features_of("2.6"))
    world.die(1)
    await world.settle()
    world.die(2)
    world.register(1)
    await world.settle()
    world.tree.put("/config/brokers/<default>", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    world.tree.put("/config/changes/config_change_0000000001", b'{"version":2,"entity_path":"brokers/<default>"}')
    await world.settle()
    await _put(world, elections.UncleanLeaderElectionEnable())
    moved = TopicPartition("orders", 1)
    await world.call(reassignments.ApiPartitionReassignment(ALICE, {moved: (BrokerId(3), BrokerId(1))}))
    node = world.tree.nodes[moved.state_path]
    world.tree.put(moved.state_path, node.data or b"")
    await world.settle()
    await _put(world, reassignments.ReassignmentRetry())
    return list(world.audit.records)
