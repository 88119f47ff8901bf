"""Logs diverge where their leader epochs diverge, and the ledger finds every lost record."""

import pytest

from controllerd.core.kafka_error import KafkaError
from tests.sim.broker_log import Ledger, Record, ReplicaLog
from tests.sim.broker_replica import Fetched, SimReplica

KEY = ("t", None, 0)


def log_of(*records: tuple[int, int]) -> ReplicaLog:
    log = ReplicaLog(None)
    log.records = [Record(*record) for record in records]
    return log


def test_an_epoch_ends_behind_its_last_record() -> None:
    log = log_of((1, 10), (1, 11), (4, 12))
    assert [log.end_of_epoch(epoch) for epoch in (0, 1, 3, 4, 9)] == [(-1, 0), (1, 2), (1, 2), (4, 3), (4, 3)]


def test_a_prefix_of_a_log_does_not_diverge_from_it() -> None:
    log = log_of((1, 10), (1, 11), (4, 12))
    assert [log.diverges_at(*other) for other in ((-1, 0), (1, 1), (1, 2), (4, 3))] == [None] * 4


def test_a_longer_or_unknown_epoch_diverges() -> None:
    log = log_of((1, 10), (1, 11), (4, 12))
    assert log.diverges_at(1, 3) == (1, 2)
    assert log.diverges_at(3, 3) == (1, 2)
    assert log.diverges_at(5, 4) == (4, 3)


def follow(follower: ReplicaLog, leader: ReplicaLog) -> int:
    """Fetch until both are equal; return the number of fetches."""
    replica = SimReplica(("t", 0), 2, follower)
    for fetches in range(1, 20):
        parts = leader.diverges_at(follower.last_epoch, follower.end)
        records = () if parts else tuple(leader.records[follower.end :])
        if not replica.take_fetched(Fetched(KafkaError.NONE, parts, records, leader.high_watermark)):
            return fetches
    raise AssertionError("they never agree")


def test_a_follower_truncates_until_it_is_a_prefix_of_its_leader() -> None:
    leader = log_of((1, 10), (2, 20), (5, 50), (5, 51))
    follower = log_of((1, 10), (1, 11), (3, 30), (4, 40), (4, 41))
    follow(follower, leader)
    assert follower.records == leader.records


def test_a_follower_without_anything_in_common_starts_anew() -> None:
    leader, follower = log_of((7, 70)), log_of((1, 10), (2, 20))
    follow(follower, leader)
    assert follower.records == leader.records


def test_a_truncation_takes_the_high_watermark_along() -> None:
    log = log_of((1, 10), (1, 11))
    log.high_watermark = 2
    log.truncate_to(1)
    assert log.high_watermark == 1


def ledger_with_a_record() -> Ledger:
    ledger = Ledger()
    ledger.leads(KEY, 1, 0, log_of())
    ledger.acknowledge(KEY, 0, Record(0, 10), 1, 0)
    return ledger


def test_a_later_leader_with_the_record_is_fine() -> None:
    ledger = ledger_with_a_record()
    ledger.leads(KEY, 2, 1, log_of((0, 10), (0, 11)))
    assert ledger.lost == []


def test_a_later_leader_without_the_record_lost_it() -> None:
    ledger = ledger_with_a_record()
    ledger.leads(KEY, 2, 1, log_of((0, 11)))
    assert [str(loss) for loss in ledger.lost] == [
        "t-0: record 10 at 0, acknowledged by 1 in epoch 0, is not in the log of 2, leader of epoch 1"
    ]


def test_a_loss_is_reported_once() -> None:
    ledger = ledger_with_a_record()
    ledger.leads(KEY, 2, 1, log_of())
    ledger.leads(KEY, 2, 2, log_of())
    assert len(ledger.lost) == 1


def test_a_deposed_leader_may_not_acknowledge_what_its_successor_lacks() -> None:
    ledger = Ledger()
    ledger.leads(KEY, 1, 0, log_of())
    ledger.leads(KEY, 2, 1, log_of())
    ledger.acknowledge(KEY, 0, Record(0, 10), 1, 0)
    assert len(ledger.lost) == 1


def test_a_leader_that_learns_its_role_late_need_not_have_records_of_its_successors() -> None:
    ledger = Ledger()
    ledger.leads(KEY, 2, 5, log_of())
    ledger.acknowledge(KEY, 0, Record(5, 10), 2, 5)
    ledger.leads(KEY, 1, 4, log_of())
    assert ledger.lost == []


def test_unclean_elections_excuse_a_loss_only_where_they_are_allowed() -> None:
    ledger = ledger_with_a_record()
    ledger.unclean_allowed.add("t")
    ledger.leads(KEY, 2, 1, log_of())
    assert (len(ledger.lost), len(ledger.lost_uncleanly)) == (0, 1)


@pytest.mark.parametrize(("of_leader", "of_successor"), [("its id", None), (None, "its id")])
def test_a_leader_must_have_records_acknowledged_before_or_after_it_got_its_topic_id(
    of_leader: str | None, of_successor: str | None
) -> None:
    ledger = Ledger()
    ledger.leads(("t", of_leader, 0), 1, 0, log_of())
    ledger.acknowledge(("t", of_leader, 0), 0, Record(0, 10), 1, 0)
    ledger.leads(("t", of_successor, 0), 2, 1, log_of())
    assert len(ledger.lost) == 1


@pytest.mark.parametrize(("of_leader", "of_successor"), [("its id", None), (None, "its id")])
def test_what_a_deposed_leader_acknowledges_must_be_in_the_log_of_a_successor_with_or_without_topic_id(
    of_leader: str | None, of_successor: str | None
) -> None:
    ledger = Ledger()
    ledger.leads(("t", of_leader, 0), 1, 0, log_of())
    ledger.leads(("t", of_successor, 0), 2, 1, log_of())
    ledger.acknowledge(("t", of_leader, 0), 0, Record(0, 10), 1, 0)
    assert len(ledger.lost) == 1


def test_a_topic_with_another_id_need_not_have_records_of_the_earlier_topic() -> None:
    ledger = Ledger()
    ledger.leads(("t", "its id", 0), 1, 0, log_of())
    ledger.acknowledge(("t", "its id", 0), 0, Record(0, 10), 1, 0)
    ledger.leads(("t", "another id", 0), 2, 1, log_of())
    assert ledger.lost == []


def test_two_leaders_of_one_epoch_are_noted() -> None:
    ledger = Ledger()
    ledger.leads(KEY, 1, 3, log_of())
    ledger.leads(KEY, 1, 3, log_of())
    ledger.leads(KEY, 2, 3, log_of())
    assert ledger.double_leaders == ["t-0: 1 and 2 both lead in epoch 3"]


def test_records_of_a_deleted_topic_are_no_loss() -> None:
    ledger = ledger_with_a_record()
    ledger.forget(KEY)
    ledger.leads(KEY, 2, 1, log_of())
    assert ledger.lost == []
