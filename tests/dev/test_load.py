"""A load: how it counts its gaps, how it ends, and its description of librdkafka's statistics."""

import json
import re
import threading
import weakref
from collections.abc import Container

import pytest

from controllerd.dev import load as load_module
from controllerd.dev.load import UNKNOWN_OFFSET, LoadRecord, LoadResult, ProducerLoad, describe_waiting


def acknowledged_at(*times_s: float, partition: int = 0) -> LoadResult:
    """The result of a load to one partition."""
    records = [LoadRecord(partition, number, number) for number in range(len(times_s))]
    return LoadResult(acknowledged=records, acknowledged_at_s=list(times_s))


def round_the_partitions(*, leaderless: Container[int], between_s: tuple[float, float], until_s: float) -> LoadResult:
    """Acknowledgements of six partitions in turn, every 4 ms; of some of them none for a while."""
    result = LoadResult()
    for number in range(int(until_s / 0.004)):
        partition, at_s = number % 6, number * 0.004
        if not (partition in leaderless and between_s[0] < at_s < between_s[1]):
            result.acknowledged_at_s.append(at_s)
            result.acknowledged.append(LoadRecord(partition, number // 6, number // 6))
    return result


def test_the_worst_gap_is_the_longest_silence_between_acknowledgements() -> None:
    assert acknowledged_at(1.0, 2.0, 7.0, 7.5).worst_gap_s() == 5.0


def test_the_worst_gap_of_a_window_counts_the_gaps_that_end_in_it() -> None:
    assert acknowledged_at(1.0, 2.0, 7.0, 7.5).worst_gap_s(since_s=7.2, until_s=8.0) == 0.5


def test_partitions_without_a_leader_are_a_gap_while_the_others_are_acknowledged() -> None:
    result = round_the_partitions(leaderless={2, 5}, between_s=(10.0, 22.0), until_s=30.0)
    assert result.worst_gap_s() == pytest.approx(12.0, abs=0.05)


def test_a_partition_without_further_acknowledgements_is_an_open_gap() -> None:
    result = round_the_partitions(leaderless={4}, between_s=(10.0, 99.0), until_s=30.0)
    assert result.worst_gap_s(since_s=25.0) == pytest.approx(20.0, abs=0.05)
    assert result.worst_gap_s(until_s=15.0) == pytest.approx(5.0, abs=0.05)


def test_partitions_that_are_acknowledged_in_turn_have_the_gap_of_a_round() -> None:
    result = round_the_partitions(leaderless=(), between_s=(0.0, 0.0), until_s=30.0)
    assert result.worst_gap_s() == pytest.approx(6 * 0.004)


def test_without_acknowledgements_there_is_no_gap() -> None:
    assert LoadResult().worst_gap_s() == 0.0


def test_a_record_that_the_log_had_already_is_acknowledged_without_an_offset() -> None:
    load = ProducerLoad("nowhere:1", "orders", 1)
    load._note(None, 0, 5, None)
    assert load.result.acknowledged == [LoadRecord(0, 5, UNKNOWN_OFFSET)]


def test_a_load_misses_partitions_without_an_acknowledgement_of_their_own_and_then_records() -> None:
    load = ProducerLoad("nowhere:1", "orders", 3)
    for partition in (0, 1, 2, 0, 2):
        load._note(None, partition, 0, None)
    assert load.missing_after(0, records=4) is None
    assert load.missing_after(0, records=5) == "the producer to orders is still waiting"
    assert load.missing_after(3, records=1) == ("partitions [1] of orders have no acknowledgement (no statistics yet)")


class FullProducer:
    """A producer whose queue has no room, as of a partition without acknowledgements."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()

    def produce(self, *_: object, **__: object) -> None:
        """Refuse the record."""
        self.is_asked.set()
        raise BufferError

    def poll(self, _timeout_s: float) -> int:
        """Deliver nothing."""
        return 0

    def flush(self, _timeout_s: float) -> int:
        """Wait for nothing: no record was taken."""
        return 0


@pytest.mark.timeout(30)
def test_a_load_whose_queue_is_full_for_good_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = FullProducer()
    monkeypatch.setattr(load_module, "_producer", lambda *_: producer)
    load = ProducerLoad("nowhere:9092", "t", 1)
    load.start()
    assert producer.is_asked.wait(10)

    assert load.stop().sent == 0


def test_a_stopped_load_asks_brokers_for_its_topic_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker would create the topic anew if it was deleted meanwhile: the client is gone with the load."""
    made: list[weakref.ref[FullProducer]] = []

    def make(*_: object) -> FullProducer:
        producer = FullProducer()
        made.append(weakref.ref(producer))
        return producer

    monkeypatch.setattr(load_module, "_producer", make)
    load = ProducerLoad("nowhere:9092", "t", 1)
    load.start()
    load.stop()

    assert [producer() for producer in made] == [None]


def statistics(**partition: int) -> str:
    """The part of librdkafka's statistics that is read."""
    row = {"broker": 2, "msgq_cnt": 0, "xmit_msgq_cnt": 0, "msgs_inflight": 0}
    return json.dumps(
        {
            "eos": {"idemp_state": "Assigned"},
            "topics": {"orders": {"partitions": {"0": row, "1": {**row, **partition}}}},
            "brokers": {
                "bootstrap": {"nodeid": -1, "state": "UP", "waitresp_cnt": 0},
                "two": {"nodeid": 2, "state": "TRY_CONNECT", "waitresp_cnt": 1},
            },
        }
    )


def test_partitions_with_records_and_brokers_with_a_number_are_named() -> None:
    assert describe_waiting(statistics(msgq_cnt=3, xmit_msgq_cnt=2, msgs_inflight=1)) == (
        "producer id Assigned; orders-1 on broker 2 has 3 + 2 waiting, 1 sent; "
        "broker 2 is TRY_CONNECT, requests under way: 1"
    )


def test_partitions_without_records_are_not_named() -> None:
    assert describe_waiting(statistics()) == "producer id Assigned; broker 2 is TRY_CONNECT, requests under way: 1"


def test_before_the_first_statistics_the_description_says_so() -> None:
    assert describe_waiting("") == "no statistics yet"


def test_the_statistics_of_librdkafka_can_be_read() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    statistics_seen: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "enable.idempotence": True,
            "statistics.interval.ms": 100,
            "stats_cb": statistics_seen.append,
            "log_level": 0,
        }
    )
    producer.produce("orders", b"a record", partition=0)
    while not statistics_seen or "orders" not in json.loads(statistics_seen[-1])["topics"]:
        producer.poll(1)

    assert re.fullmatch(
        r"producer id \w+; orders-\S+ on broker -1 has 1 \+ 0 waiting, 0 sent", describe_waiting(statistics_seen[-1])
    )
    producer.purge()
    producer.flush(5)
