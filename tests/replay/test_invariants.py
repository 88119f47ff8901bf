"""Each invariant has a log with one thing wrong in it that trips this invariant and no other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from replay.invariants import RULES, TITLES, check
from replay.records import (
    BrokersRecord,
    GapRecord,
    LeadershipRecord,
    PartitionStateRecord,
    QuarantineRecord,
    Record,
    ReplicaStateRecord,
    RequestRecord,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
    ZkWriteRecord,
)
from tests.replay.logs import Log, good_log, index_of, log_of, with_more, with_record

STATE: Final = "/brokers/topics/a/partitions/0/state"


def changed(kind: type[Record], nth: int = 0, **fields: Any) -> Callable[[], Log]:
    """The good log with other fields in one of its records."""

    def mutant() -> Log:
        log = good_log()
        index = index_of(log, kind, nth)
        return with_record(log, index, replace(log[index][1], **fields))

    return mutant


def more(*records: Record) -> Callable[[], Log]:
    """The good log with more records after it."""
    return lambda: with_more(good_log(), *records)


def lost_line() -> Log:
    log = good_log()
    index = index_of(log, ReplicaStateRecord)
    return log[:index] + log[index + 1 :]


def clock_that_goes_back() -> Log:
    log = good_log()
    return [*log[:-1], (replace(log[-1][0], mono_ns=0), log[-1][1])]


def write_after_a_newer_epoch() -> Log:
    newer: list[Record] = [
        TermRecord("elected", 8, 13, "controllerd", ""),
        ZkWriteRecord(13, 4900, 1.0, ["setData"], ["/brokers/topics/b"], [1], ["ok"], [2]),
    ]
    return good_log() + log_of(newer, node=2_000_000_001, epoch=8)


def epoch_won_twice() -> Log:
    return good_log() + log_of([TermRecord("elected", 7, 12, "controllerd", "")], node=2_000_000_001)


MUTANTS: Final[list[tuple[str, Callable[[], Log]]]] = [
    ("I-01", epoch_won_twice),
    ("I-01", more(TermRecord("elected", 6, 12, "controllerd", ""))),
    ("I-02", changed(ZkWriteRecord, fence=11)),
    ("I-02", changed(ZkWriteRecord, fence=-1)),
    (
        "I-03",
        changed(
            RequestRecord,
            3,
            controller_epoch=6,
            topics=[],
            partitions=[],
            leaders=[],
            leader_epochs=[],
            partition_epochs=[],
        ),
    ),
    (
        "I-03",
        more(
            TermRecord("resigned", 7, 12, "nobody", ""),
            RequestRecord("UpdateMetadata", 7, [2], [102], [], [], [], [], [], [1, 2]),
        ),
    ),
    ("I-04", write_after_a_newer_epoch),
    ("I-06", changed(LeadershipRecord, 0, leaders=[-1], isrs=[[]])),
    ("I-08", changed(LeadershipRecord, 2, isrs=[[2, 3]])),
    ("I-09", changed(LeadershipRecord, 1, leaders=[1])),
    ("I-09", changed(RequestRecord, 1, leaders=[-2])),
    ("I-10", more(RequestRecord("LeaderAndIsr", 7, [2], [102], ["a"], [0], [2], [3], [9]))),
    ("I-11", more(RequestRecord("UpdateMetadata", 7, [2], [102], ["a"], [0], [2], [4], [9], [1, 2]))),
    ("I-12", changed(LeadershipRecord, 1, leader_epochs=[3])),
    ("I-12", changed(LeadershipRecord, 2, leader_epochs=[5])),
    ("I-12", more(LeadershipRecord(["a"], [0], [2], [3], [[2]], [6], [11], [0]))),
    ("I-13", changed(RequestRecord, 3, partition_epochs=[11])),
    ("I-18", more(ReplicaStateRecord(["a"], [0], [1], ["OnlineReplica"], ["ReplicaDeletionStarted"]))),
    ("I-18", more(ReplicaStateRecord(["a"], [0], [3], ["NonExistentReplica"], ["OnlineReplica"]))),
    ("I-19", more(PartitionStateRecord(["a"], [0], ["OnlinePartition"], ["NonExistentPartition"]))),
    ("I-19", more(PartitionStateRecord(["a"], [1], ["NonExistentPartition"], ["OnlinePartition"]))),
    ("I-23", more(RequestRecord("StopReplica", 7, [1], [111], ["a"], [0], [], [4], [], delete=[False]))),
    ("I-26", more(TopicsRecord(["a"], ["another"], [1]))),
    ("I-27", changed(RequestRecord, 3, brokers=[3], broker_epochs=[103])),
    ("I-27", changed(RequestRecord, 3, broker_epochs=[101])),
    ("I-30", changed(SnapshotEnd, partitions=2)),
    (
        "I-37",
        more(
            QuarantineRecord(STATE, "no JSON"), ZkWriteRecord(12, 5002, 1.0, ["setData"], [STATE], [10], ["ok"], [11])
        ),
    ),
    ("I-40", lost_line),
    ("I-40", clock_that_goes_back),
]


def test_a_good_log_violates_nothing() -> None:
    assert list(check(good_log())) == []


@pytest.mark.parametrize(("invariant", "mutant"), MUTANTS)
def test_a_mutant_trips_its_invariant_and_only_it(invariant: str, mutant: Callable[[], Log]) -> None:
    assert {violation.id for violation in check(mutant())} == {invariant}


def test_every_invariant_has_a_mutant_and_a_title() -> None:
    ids = {rule.id for rule in RULES}
    assert ids == {invariant for invariant, _ in MUTANTS}
    assert ids == TITLES.keys()


def test_a_violation_says_where_and_why() -> None:
    (violation,) = check(changed(LeadershipRecord, 1, leaders=[1])())
    assert (violation.seq, violation.boot) == (16, "boot")
    assert violation.evidence == "a-0 has the leader 1 and the ISR [2]"


def test_a_declared_gap_is_no_violation() -> None:
    log = good_log()
    last = log[-1][0]
    gap = GapRecord(5, last.seq + 1, last.seq + 5, "disk full")
    assert list(check([*log, (replace(last, kind="gap", seq=last.seq + 6), gap)])) == []


def test_a_topic_that_is_created_anew_begins_with_low_epochs_and_another_id() -> None:
    log = with_more(
        good_log(),
        TopicsForgotten(["a"]),
        TopicsRecord(["a"], ["id-b"], [0]),
        RequestRecord("LeaderAndIsr", 7, [2], [102], ["a"], [0], [2], [0], [-1]),
    )
    assert list(check(log)) == []


def test_a_write_while_a_broker_dies_is_checked_against_the_brokers_of_that_moment() -> None:
    log = with_more(
        good_log(),
        BrokersRecord(gone=[2]),
        RequestRecord("StopReplica", 7, [2], [102], ["a"], [0], [], [4], [], delete=[False]),
    )
    assert [violation.id for violation in check(log)] == ["I-27"]


def test_the_election_and_persistent_parents_are_written_without_fence() -> None:
    election = ZkWriteRecord(
        -1, 1, 1.0, ["create", "setData"], ["/controller", "/controller_epoch"], [-1, 3], ["ok"] * 2, [0, 4]
    )
    parents = ZkWriteRecord(-1, 2, 1.0, ["create"], ["/config/topics"], [-1], ["ok"], [0])
    assert list(check(with_more(good_log(), election, parents))) == []


def test_a_term_that_is_renewed_is_announced_with_the_old_epoch_and_won_with_the_next() -> None:
    log = with_more(
        good_log(),
        TermRecord("renewed", 7, 12, "2000000000", "an event failed"),
        TermRecord("renewed", 8, 13, "controllerd", ""),
    )
    assert list(check(log)) == []
