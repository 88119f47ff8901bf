"""States of a cluster that the page must show correctly."""

from types import MappingProxyType

from controllerd.core.intents import PauseView
from controllerd.core.model import Broker, BrokerId, Endpoint, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.core.throttles import ThrottleView
from controllerd.record.records import AlarmRecord, BrokersRecord, EventBegin, EventEnd
from controllerd.views import ChannelView, PartitionView
from tests.status.fake_controller import NOW_MS, FakeController, broker, partition

MARKUP = "<script>complain()</script><img src=x onerror=complain()>\"'&"
"""Markup that would run if it was not escaped."""


def calm() -> FakeController:
    """A healthy cluster of three brokers."""
    controller = FakeController()
    controller.lead(12)
    snapshot = controller.snapshot
    snapshot.brokers = MappingProxyType({BrokerId(n): broker(n) for n in (1, 2, 3)})
    controller.channels = {BrokerId(n): ChannelView() for n in (1, 2, 3)}
    snapshot.topics.clear()
    controller.put_topic("orders", *(partition(n, 1 + n % 3, (1, 2, 3), rotated(n)) for n in range(6)))
    controller.put_topic("audit-log", partition(0, 1, (1, 2, 3)))
    snapshot.offline_partitions = 0
    return controller


def rotated(number: int) -> tuple[int, int, int]:
    """The replicas of a partition, the preferred one first."""
    first = number % 3
    return (1 + first, 1 + (first + 1) % 3, 1 + (first + 2) % 3)


def lose_broker_2(controller: FakeController) -> None:
    """Kill broker 2: three partitions had no other replica in sync, and the others become under-replicated."""
    snapshot = controller.snapshot
    snapshot.brokers = MappingProxyType({BrokerId(n): broker(n) for n in (1, 3)})
    controller.channels = {BrokerId(n): ChannelView() for n in (1, 3)}
    controller.put_topic(
        "orders",
        *(partition(n, -1, (2,), (2, 1, 3)) for n in range(3)),
        *(partition(n, 1, (1, 3), (1, 3, 2)) for n in range(3, 6)),
    )
    snapshot.offline_partitions = 3
    controller.recent.record(
        EventBegin(41, "BrokerChange", 3, 1.5, {}),
        BrokersRecord(live=[], gone=[2], shutting_down=[]),
        EventEnd(41, "BrokerChange", "done", 12.5, None),
    )


def hold_much(controller: FakeController) -> None:
    """Add a pause, a throttle, a deletion that waits, a reassignment, a quarantined znode and an alarm."""
    snapshot = controller.snapshot
    pause = PauseView(NOW_MS + 1_800_000, "release weekend", "anna")
    snapshot.pauses = MappingProxyType({"auto-rebalance": pause})
    moving = TopicPartition("audit-log", 0)
    snapshot.throttle = ThrottleView(50_000_000, "anna", NOW_MS - 60_000, frozenset({moving}))
    assignment = ReplicaAssignment(*(tuple(map(BrokerId, ids)) for ids in ((4, 1, 2, 3), (4,), (3,))))
    plain = partition(0, 1, (1, 2, 3))
    moved = PartitionView(0, PartitionState.ONLINE, assignment, plain.leadership, ())
    controller.put_topic("audit-log", moved)
    controller.delete("orders", held_up_by="broker 2 not online")
    snapshot.quarantine = MappingProxyType({"/brokers/topics/broken": "not JSON"})
    controller.recent.record(AlarmRecord("topic znode was not written", "broken: it is not ours"))


def talk_markup(controller: FakeController) -> None:
    """Use markup for everything that comes from outside."""
    snapshot = controller.snapshot
    evil = Broker(BrokerId(1), 101, (Endpoint("PLAINTEXT", MARKUP, 9092),), rack=MARKUP)
    snapshot.brokers = MappingProxyType({BrokerId(1): evil})
    controller.channels = {BrokerId(1): ChannelView(3, 1.5, connected=False, error=MARKUP)}
    snapshot.cluster_id, snapshot.reason = MARKUP, MARKUP
    snapshot.quarantine = MappingProxyType({f"/brokers/topics/{MARKUP}": MARKUP})
    snapshot.pauses = MappingProxyType({"deletions": PauseView(NOW_MS + 60_000, MARKUP, MARKUP)})
    controller.put_topic(MARKUP, partition(0, -1, (2,), (2, 1)))
    snapshot.offline_partitions = 1
    controller.delete(MARKUP, held_up_by=MARKUP)
    controller.recent.record(AlarmRecord(MARKUP, MARKUP))
