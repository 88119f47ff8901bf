"""Online and offline replicas, remembered per assignment and forgotten when a broker changes."""

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.core.records import PartitionRecord

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def context() -> ControllerContext:
    """Brokers 1 and 2 live, two partitions with the same replicas on 3, 1 and 2."""
    context = ControllerContext()
    for broker in (B1, B2):
        context.add_broker(Broker(broker, 1, ()))
    context.add_topic(TopicImage("t", dict.fromkeys((0, 1), ReplicaAssignment((B3, B1, B2))), None, 0))
    return context


@pytest.fixture
def record(context: ControllerContext) -> PartitionRecord:
    return context.record(T0)


def test_online_replicas_come_in_assignment_order(context: ControllerContext, record: PartitionRecord) -> None:
    assert (context.liveness.online(record), context.liveness.offline(record)) == ((B1, B2), (B3,))


def test_a_broker_that_comes_is_online_at_once(context: ControllerContext, record: PartitionRecord) -> None:
    context.liveness.online(record)

    context.add_broker(Broker(B3, 1, ()))

    assert (context.liveness.online(record), context.liveness.offline(record)) == ((B3, B1, B2), ())


def test_a_broker_that_shuts_down_is_offline_unless_such_brokers_are_included(
    context: ControllerContext, record: PartitionRecord
) -> None:
    context.mark_shutting_down(B1)

    assert context.liveness.online(record) == (B2,)
    assert context.liveness.online(record, include_shutting_down=True) == (B1, B2)
    assert context.liveness.offline(record) == (B3, B1)


def test_a_failed_directory_concerns_its_partitions_alone(context: ControllerContext, record: PartitionRecord) -> None:
    context.set_offline_dirs(B2, frozenset({T0}))

    assert (context.liveness.online(record), context.liveness.offline(record)) == ((B1,), (B3, B2))
    assert context.liveness.online(context.record(T1)) == (B1, B2)
