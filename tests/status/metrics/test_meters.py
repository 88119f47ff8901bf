"""The metrics that are counted all the time."""

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client import Metric

from channel_manager.observer import Exchange
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlResponse, StopReplicaRequest
from controllerd.record.description import RecordCounter
from controllerd.record.envelope import rows_of
from controllerd.record.families.partitions import REFUSED
from controllerd.record.records import EventEnd, RefusedRecord
from controllerd.status.metrics.meters import (
    IDLE_S,
    ChannelMeters,
    EventMeters,
    Meters,
    OfflineTime,
    RecordMeters,
    ZooKeeperMeters,
)
from events.base import ControllerState

REQUEST = StopReplicaRequest(2_000_000_001, 7, 42, {})


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def value(metrics: Iterable[Metric], name: str, **labels: str) -> float | None:
    """Return the value of the sample with this name and these labels."""
    found = (
        sample.value
        for metric in metrics
        for sample in metric.samples
        if (sample.name, sample.labels) == (name, labels)
    )
    return next(found, None)


def test_an_event_counts_by_its_state_and_by_its_name() -> None:
    events = EventMeters(Clock())

    events.observe(ControllerState.BROKER_CHANGE, "BrokerChange", 0.004, 0.25)

    assert events.timer(ControllerState.BROKER_CHANGE).sample.quantiles([0.5]) == [250.0]
    assert events.waited.sample.quantiles([0.5]) == [4.0]
    assert value(events.collect(), "controllerd_event_seconds_count", event="BrokerChange") == 1
    assert value(events.collect(), "controllerd_event_seconds_sum", event="BrokerChange") == 0.25
    assert events.timer(ControllerState.TOPIC_CHANGE).count == 0


def test_the_first_failure_of_an_event_is_an_increase_from_zero() -> None:
    records = RecordMeters()
    assert value(records.collect(), "controllerd_event_failures_total", event="TopicChange") == 0

    records.count(EventEnd(1, "TopicChange", "error", 1.0, "boom"))

    assert value(records.collect(), "controllerd_event_failures_total", event="TopicChange") == 1


def test_a_counter_of_rows_adds_each_row_of_a_record() -> None:
    counter: RecordCounter[RefusedRecord] = RecordCounter(
        "refused", "Refused partitions.", "what", (), lambda record: record.what, amount_of=rows_of
    )
    records = RecordMeters([replace(REFUSED, counter=counter)])

    records.count(RefusedRecord("partition transition", ["a", "a", "b"], [0, 1, 0], ["illegal"] * 3))
    records.count(RefusedRecord("partition transition", ["c"], [0], ["illegal"]))

    assert value(records.collect(), "refused_total", what="partition transition") == 4


def test_waiting_times_are_reset_after_a_time_without_events() -> None:
    clock = Clock()
    events = EventMeters(clock)
    events.observe(0, "Startup", 0.5, 0.1)

    clock.now += IDLE_S
    assert events.waited.count == 1
    clock.now += 1
    assert events.waited.count == 0
    assert events.timer(0).count == 1


def test_bytes_count_for_each_attempt_and_seconds_for_each_answer() -> None:
    channels = ChannelMeters(Clock())
    channels.on_taken(BrokerId(1), 0.02)
    channels.on_request(BrokerId(1), REQUEST, 4, 1, 100)
    channels.on_request(BrokerId(1), REQUEST, 4, 1, 100)
    response = ControlResponse("StopReplica", KafkaError.NONE, {})
    channels.on_response(Exchange(BrokerId(1), REQUEST, response, 4, 1, 100, 2, 0.3))

    found = list(channels.collect())
    assert value(found, "controllerd_request_bytes_total", api="StopReplica", broker_id="1") == 200
    assert value(found, "controllerd_request_seconds_sum", api="StopReplica") == 0.3
    assert channels.queued[BrokerId(1)].sample.quantiles([0.5]) == [20.0]


def test_requests_to_zookeeper_count_by_operation() -> None:
    zookeeper = ZooKeeperMeters()
    zookeeper.on_answer("Multi", 0.01)
    zookeeper.on_commit(500)

    found = list(zookeeper.collect())
    assert value(found, "controllerd_zk_request_seconds_count", op="Multi") == 1
    assert value(found, "controllerd_zk_multi_ops_sum") == 500


def test_seconds_without_a_leader_add_up_over_partitions() -> None:
    clock = Clock()
    unavailable = OfflineTime(clock)

    unavailable.note(3)
    clock.now += 10
    assert unavailable.seconds == 30
    unavailable.note(1)
    clock.now += 5
    unavailable.note(0)
    clock.now += 100
    assert unavailable.seconds == 35


def test_no_series_is_the_creation_time_of_another() -> None:
    meters = Meters(Clock())
    meters.events.observe(0, "Startup", 0.5, 0.1)
    meters.http.count("GET", "/livez", 200, 0.001)

    names = {sample.name for metric in meters.collect() for sample in metric.samples}
    assert "controllerd_http_requests_total" in names
    assert not {name for name in names if name.endswith("_created")}
