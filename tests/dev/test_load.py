"""What a verification calls lost, duplicated and out of order, and how gaps are measured."""

import threading
import time
import weakref
from collections.abc import Container

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from controllerd.dev import load as load_module
from controllerd.dev.load import UNKNOWN_OFFSET, LoadResult, ProducerLoad, Record, high_watermark, verify


def log(partition: int, *sequences: int) -> list[Record]:
    return [Record(partition, sequence, offset) for offset, sequence in enumerate(sequences)]


def test_a_log_that_holds_every_acknowledged_record_once_and_in_order_is_ok() -> None:
    records = log(0, 0, 1, 2) + log(1, 0, 1)
    assert verify(records, records).ok


def test_an_acknowledged_record_that_is_not_in_the_log_is_lost() -> None:
    assert verify(log(0, 0, 1, 2), log(0, 0, 2)).lost == 1


def test_a_record_of_another_partition_does_not_stand_in_for_a_lost_one() -> None:
    assert verify(log(0, 0), log(1, 0)).lost == 1


def test_a_record_twice_in_the_log_is_duplicated_and_not_out_of_order() -> None:
    result = verify(log(0, 0, 1), log(0, 0, 1, 0))
    assert (result.duplicated, result.out_of_order) == (1, 0)


def test_a_record_behind_a_later_one_is_out_of_order() -> None:
    assert verify(log(0, 0, 1, 2), log(0, 0, 2, 1)).out_of_order == 1


def test_a_record_that_was_never_acknowledged_may_be_in_the_log() -> None:
    assert verify(log(0, 0), log(0, 0, 1)).ok


def test_an_empty_log_has_lost_everything() -> None:
    result = verify(log(0, 0, 1), [])
    assert not result.ok
    assert result.lost == 2


def acknowledged_at(*times_s: float, partition: int = 0) -> LoadResult:
    """The result of a load to one partition."""
    records = [Record(partition, number, number) for number in range(len(times_s))]
    return LoadResult(acknowledged=records, acknowledged_at_s=list(times_s))


def round_the_partitions(*, leaderless: Container[int], between_s: tuple[float, float], until_s: float) -> LoadResult:
    """Acknowledgements of six partitions in turn, every 4 ms; of some of them none for a while."""
    result = LoadResult()
    for number in range(int(until_s / 0.004)):
        partition, at_s = number % 6, number * 0.004
        if not (partition in leaderless and between_s[0] < at_s < between_s[1]):
            result.acknowledged_at_s.append(at_s)
            result.acknowledged.append(Record(partition, number // 6, number // 6))
    return result


def test_the_worst_gap_is_the_longest_silence_between_acknowledgements() -> None:
    assert acknowledged_at(1.0, 2.0, 7.0, 7.5).worst_gap_s() == 5.0


def test_the_worst_gap_of_a_window_counts_the_gaps_that_end_in_it() -> None:
    assert acknowledged_at(1.0, 2.0, 7.0, 7.5).worst_gap_s(since_s=7.2, until_s=8.0) == 0.5


def test_partitions_without_a_leader_are_a_gap_while_the_others_are_acknowledged() -> None:
    result = round_the_partitions(leaderless={2, 5}, between_s=(10.0, 22.0), until_s=30.0)
    assert result.worst_gap_s() == pytest.approx(12.0, abs=0.05)


def test_a_partition_that_is_acknowledged_no_more_is_a_gap_that_goes_on() -> None:
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
    assert load.result.acknowledged == [Record(0, 5, UNKNOWN_OFFSET)]


def test_a_load_misses_partitions_without_an_acknowledgement_of_their_own_and_then_records() -> None:
    load = ProducerLoad("nowhere:1", "orders", 3)
    for partition in (0, 1, 2, 0, 2):
        load._note(None, partition, 0, None)
    assert load.missing_after(0, records=4) is None
    assert load.missing_after(0, records=5) == "the producer to orders is still waiting"
    assert load.missing_after(3, records=1) == ("partitions [1] of orders have no acknowledgement (no statistics yet)")


class FullProducer:
    """A producer whose queue has no room, as of a partition that nobody acknowledges."""

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
    load = ProducerLoad("nobody:9092", "t", 1)
    load.start()
    assert producer.is_asked.wait(10)

    assert load.stop().sent == 0


def test_a_load_that_was_stopped_asks_brokers_for_its_topic_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker would create the topic anew if it was deleted meanwhile: the client is gone with the load."""
    made: list[weakref.ref[FullProducer]] = []

    def make(*_: object) -> FullProducer:
        producer = FullProducer()
        made.append(weakref.ref(producer))
        return producer

    monkeypatch.setattr(load_module, "_producer", make)
    load = ProducerLoad("nobody:9092", "t", 1)
    load.start()
    load.stop()

    assert [producer() for producer in made] == [None]


class NewLeader:
    """Answers the first few questions about its partition with an error, and then with the end of it."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def get_watermark_offsets(self, _partition: TopicPartition, *, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        if self.refusals:
            self.refusals -= 1
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return 0, 7


def test_a_leader_that_does_not_know_the_end_of_its_partition_yet_is_asked_again() -> None:
    assert high_watermark(NewLeader(refusals=2), TopicPartition("orders", 0), time.monotonic() + 30) == 7


def test_a_leader_that_never_knows_it_is_asked_until_the_time_is_up() -> None:
    leader = NewLeader(refusals=2)
    with pytest.raises(KafkaException, match="OFFSET_NOT_AVAILABLE"):
        high_watermark(leader, TopicPartition("orders", 0), time.monotonic())
    assert leader.refusals == 1
