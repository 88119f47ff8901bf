"""A verification: lost, duplicated and out-of-order records, and the end of a partition."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from controllerd.dev.load import LoadRecord
from controllerd.dev.verification import high_watermark, verify


def log(partition: int, *sequences: int) -> list[LoadRecord]:
    return [LoadRecord(partition, sequence, offset) for offset, sequence in enumerate(sequences)]


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


class NewLeader:
    """A leader that answers the first requests for offsets with an error, and then with the end offset."""

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


def test_a_leader_that_never_knows_the_end_is_asked_until_the_deadline() -> None:
    leader = NewLeader(refusals=2)
    with pytest.raises(KafkaException, match="OFFSET_NOT_AVAILABLE"):
        high_watermark(leader, TopicPartition("orders", 0), time.monotonic())
    assert leader.refusals == 1
