"""The cluster at a moment as a document, and the differences between two documents."""

from controllerd.record.records import BrokersRecord, DeletionRecord, QuarantineRecord
from controllerd.record.travel import state_at
from replay.command.state import StateDifference, differences, document
from tests.replay.command.lives import START, Life, forgotten, outage


def test_the_document_has_the_cluster_and_its_place_in_the_log() -> None:
    state = document(state_at(outage().log, time_ms=START))

    assert (state.cluster, state.controller_epoch, state.ts_ms) == ("prod", 12, START - 30_000)
    assert [broker.id for broker in state.brokers] == [3, 6]
    (partition,) = state.partitions
    assert (partition.topic, partition.partition, partition.state) == ("payments", 7, "OfflinePartition")
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.replicas) == (-1, 41, [5], [3, 5, 6])


def test_only_topics_that_match_are_shown() -> None:
    moment = state_at(outage().log)

    assert document(moment, "pay*").partitions
    assert not document(moment, "orders").partitions


def test_deletions_quarantine_and_shutdowns_are_shown() -> None:
    life = outage()
    life.event(
        "TopicDeletion",
        DeletionRecord(["payments"], ["halted"], ["broker 5 is not live"]),
        QuarantineRecord("/brokers/topics/bad", "no JSON"),
        BrokersRecord(shutting_down=[6]),
    )
    state = document(state_at(life.log))

    assert state.deletions == {"payments": "broker 5 is not live"}
    assert state.quarantine == {"/brokers/topics/bad": "no JSON"}
    assert [broker.id for broker in state.brokers if broker.is_shutting_down] == [6]


def test_a_moment_differs_from_itself_in_nothing() -> None:
    state = document(state_at(outage().log))

    assert list(differences(state, state)) == []


def test_changes_of_an_outage_are_listed_with_brokers_first() -> None:
    log = outage().log
    before, after = (document(state_at(log, time_ms=START + at)) for at in (-500_000, 0))

    assert list(differences(before, after)) == [
        StateDifference("broker 5", "exists", "yes", None),
        StateDifference("payments-7", "state", "OnlinePartition", "OfflinePartition"),
        StateDifference("payments-7", "leader", "5", "-1"),
        StateDifference("payments-7", "leader epoch", "40", "41"),
    ]


def test_created_and_deleted_partitions_are_listed_by_their_existence() -> None:
    life = Life()
    life.begin()
    before = document(state_at(life.log))
    life.event("TopicDeletion", forgotten())
    after = document(state_at(life.log))

    assert list(differences(before, after)) == [StateDifference("payments-7", "exists", "yes", None)]
    assert list(differences(after, before)) == [StateDifference("payments-7", "exists", None, "yes")]
