"""The sentences of the live feed: one for each kind of record, short, and true to its numbers."""

import pytest

from controllerd.record.families.operators import SettingsRecord
from controllerd.record.kinds import sentence_of
from controllerd.record.phrases import TOPICS_SHOWN, partitions_of, topics_of
from controllerd.record.records import (
    BrokersRecord,
    DecisionRecord,
    LeadershipRecord,
    PartitionStateRecord,
    QuarantineRecord,
    Record,
    RefusedRecord,
    SnapshotEnd,
    TopicsRecord,
)
from tests.audit.samples import ONE_OF_EACH


def states(topics: list[str]) -> PartitionStateRecord:
    """A partition of each goes online."""
    n = len(topics)
    return PartitionStateRecord(topics, list(range(n)), ["NewPartition"] * n, ["OnlinePartition"] * n)


SENTENCES = {
    "session": "the ZooKeeper session 0x8fffffffffffffff is connected",
    "term": "term 7: elected, controllerd 2000000000: nobody held it",
    "config": "configured with 4 keys",
    "settings": "num.partitions changed from 1 to 6 (brokers)",
    "snapshot_begin": "snapshot of epoch 7 begins",
    "snapshot_end": "snapshot of 3 brokers, 1 topic and 2 partitions",
    "digest": "digest 00c0ffee00c0 of 2 partitions",
    "event_begin": "event 4 BrokerChange begins after 0.2 ms in the queue",
    "event_end": "event 4 BrokerChange error in 1.5 ms: boom",
    "reply": "event 4 ControlledShutdown answered: 3 partitions remain",
    "brokers": "broker 1 alive; broker 2 gone; broker 3 shutting down",
    "topics": "topics a, b known",
    "topics_forgotten": "topics b gone",
    "assignment": "assignment of a-0",
    "leadership": "broker 1 leads a-0, isr [1, 2], leader epoch 4",
    "partition_state": "a-0: 1 NewPartition to OnlinePartition",
    "replica_state": "a-0: 1 NewReplica to OnlineReplica",
    "refused": "election refused for a-0: no live replica in the ISR",
    "decision": "elected a-0 (offline), broker 2, 1 UNCLEAN",
    "offline_dirs": "broker 1: 1 replica on failed log directories",
    "quarantine": "/brokers/topics/ü is in quarantine: no JSON",
    "rejected": "/brokers/topics/ü is unreadable: not UTF-8",
    "deletion": "deletion of a, b: 1 queued, 1 halted: broker 3 is away",
    "debt": "broker 3 has 1 pending deletion",
    "reassignment": "reassignment of a-0 begun",
    "zk": "ZooKeeper wrote 1 operation in 0.5 ms",
    "request": "LeaderAndIsr for 1 partition queued for 1 broker",
    "response": "broker 1 answered LeaderAndIsr after 2.5 ms, 1 partition with errors",
    "admin": "User:alice requested elections of t-0: done, 1 done",
    "alarm": 'bad znode: quote " and newline \\n and \\u2028',
    "observation": "broker died: 1 partition compared, 1 equal",
    "gap": "2 records lost: No space left on device",
}


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: record.kind)
def test_every_kind_of_record_has_a_sentence(record: Record) -> None:
    assert sentence_of(record) == SENTENCES[record.kind]


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: record.kind)
def test_the_topics_of_every_kind_are_names_and_its_partitions_a_number(record: Record) -> None:
    assert set(topics_of(record)) <= {"a", "b"}
    assert partitions_of(record) in {0, 1}


def test_a_record_that_only_counts_topics_names_none() -> None:
    assert (topics_of(SnapshotEnd(3, 1, 2)), partitions_of(SnapshotEnd(3, 1, 2))) == ([], 0)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (BrokersRecord(), "no change of brokers"),
        (BrokersRecord(gone=[1, 2, 3, 4, 5]), "brokers 1, 2, 3 and 2 more gone"),
        (QuarantineRecord("/x", None), "/x is readable again"),
        (SettingsRecord(["x"], ["1"], ["1"], ["brokers"], [None]), "x is 1 (brokers)"),
        (states(["a", "a"]), "2 partitions of a: 2 NewPartition to OnlinePartition"),
        (states(["a", "b", "b"]), "3 partitions of 2 topics: 3 NewPartition to OnlinePartition"),
        (states([]), "no partitions: "),
        (
            LeadershipRecord(["a"], [0], [-1], [4], [[2]], [7], [9], [0]),
            "a-0 has no leader, isr [2], leader epoch 4",
        ),
        (
            LeadershipRecord(["a", "a"], [0, 1], [1, -1], [4, 4], [[1], [2]], [7, 7], [9, 9], [0, 0]),
            "leadership of 2 partitions of a, 1 without leader",
        ),
        (
            RefusedRecord("election", ["a", "b", "c"], [0, 0, 0], ["x", "x", "y"]),
            "election refused for 3 partitions of 3 topics: 2 x, 1 y",
        ),
        (
            DecisionRecord("preferred", ["a", "b"], [0, 0], [2, 1], [[2], [1]], [False, False]),
            "elected 2 partitions of 2 topics (preferred)",
        ),
    ],
)
def test_one_is_named_and_many_are_counted(record: Record, sentence: str) -> None:
    assert sentence_of(record) == sentence


def test_topics_are_named_once_and_not_all_of_very_many() -> None:
    many = [f"t{number}" for number in range(TOPICS_SHOWN + 5)]

    assert topics_of(states(["b", "a", "b"])) == ["b", "a"]
    assert topics_of(TopicsRecord(many, [None] * len(many), [0] * len(many))) == many[:TOPICS_SHOWN]


def test_only_records_about_partitions_count_some() -> None:
    assert partitions_of(states(["a", "b"])) == 2
    assert partitions_of(TopicsRecord(["a"], [None], [0])) == 0


def test_text_of_a_client_is_one_line_without_terminal_controls() -> None:
    asked = QuarantineRecord("/brokers/topics/a\x1b]0;owned\x07\nall is well", None)

    assert sentence_of(asked) == r"/brokers/topics/a\x1b]0;owned\x07\nall is well is readable again"
