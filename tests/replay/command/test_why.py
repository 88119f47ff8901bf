"""The chain of causes in a few sentences."""

from collections.abc import Iterator

import pytest

from controllerd.core.model import TopicPartition
from controllerd.record.moments import parse_moment
from controllerd.record.records import (
    AssignmentRecord,
    BrokersRecord,
    DeletionRecord,
    OfflineDirsRecord,
    ReassignmentRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
)
from controllerd.record.travel import Logged
from replay.command.partition_history import read_history
from replay.command.why import PartitionExplanation, explain, parse_partition
from tests.replay.command.lives import (
    START,
    Life,
    came,
    elected,
    forgotten,
    gap,
    led_by,
    moved,
    outage,
    refused,
)

PAYMENTS_7 = TopicPartition("payments", 7)


def asked(life: Life, second: float = 0, *, tp: TopicPartition = PAYMENTS_7) -> PartitionExplanation:
    at_ms = START + int(second * 1000)
    return explain(read_history(tp, life.log, at_ms), at_ms)


def said(life: Life, second: float = 0) -> str:
    return "\n".join(asked(life, second).sentences)


def test_an_outage_is_explained_from_its_cause_to_its_end() -> None:
    assert asked(outage()).sentences == (
        (
            "payments-7 had no leader at 2026-01-31T03:14:00.000Z: for 64.8 s, from 2026-01-31T03:13:30.000Z to"
            " 2026-01-31T03:14:34.800Z."
        ),
        "Broker 5, its leader, left the cluster at 2026-01-31T03:13:30.000Z (event 3 BrokerChange).",
        "Its other replicas: 3 was live and not in the ISR [5]; 6 was live and not in the ISR [5].",
        (
            "The ISR had shrunk at 2026-01-31T03:04:00.000Z from [5, 3, 6] to [5] (without 3 and 6)"
            " (event 2 AlterPartitionReceived)."
        ),
        "Meanwhile: election refused: no replica of the ISR [5] is live.",
        (
            "It ended when broker 5 came back: broker 5 was elected at 2026-01-31T03:14:34.800Z (event 4 BrokerChange)"
            " by the strategy Offline, a clean one."
        ),
    )


def test_an_outage_has_its_places_in_the_log() -> None:
    explanation = asked(outage())

    assert explanation.window is not None
    start, end = explanation.window
    assert (start.epoch, start.boot, start.event, start.ts_ms) == (12, "boot", 3, START - 30_000)
    assert end is not None
    assert (end.event, end.ts_ms) == (4, START + 34_800)
    assert [text for _, text in explanation.chain] == [
        "led by 5 (event 1 Startup)",
        "ISR [5, 3, 6] to [5]",
        "no leader (event 3 BrokerChange)",
        "election refused: no replica of the ISR [5] is live",
        "led by 5 (event 4 BrokerChange)",
    ]


def test_an_outage_that_has_not_ended_lasts_to_the_end_of_the_log() -> None:
    life = outage()
    del life.log[-8:]

    text = said(life)
    assert "since 2026-01-31T03:13:30.000Z, and still none where the log ends (2026-01-31T03:13:30.000Z)." in text
    assert (
        "The log ends at 2026-01-31T03:13:30.000Z, before 2026-01-31T03:14:00.000Z: this is the state at its end."
        in text
    )
    assert "payments-7 had no leader at 2026-01-31T03:13:30.000Z: since" in text


def test_an_unclean_election_is_called_unclean() -> None:
    life = outage()
    del life.log[-8:]
    life.event("TopicUncleanLeaderElectionEnable", elected(3, 3, unclean=True), led_by(3, 42, 3),
               moved("OfflinePartition", "OnlinePartition"))  # fmt: skip

    assert said(life).endswith(
        "by the strategy Offline, an unclean election: records that only other replicas had are lost."
    )


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (BrokersRecord(shutting_down=[5]), "Broker 5, its leader, was shutting down at"),
        (OfflineDirsRecord(5, ["payments"], [7]), "A log directory of broker 5, its leader, failed at"),
        (BrokersRecord(gone=[6]), "Broker 5 ceased to lead it at"),
    ],
)
def test_each_way_to_lose_a_leader_has_its_name(cause: BrokersRecord | OfflineDirsRecord, sentence: str) -> None:
    life = Life()
    life.second = -60
    life.begin()
    life.second = -10
    life.event("SomeEvent", cause, moved("OnlinePartition", "OfflinePartition"))

    assert f"{sentence} 2026-01-31T03:13:50.000Z (event 2 SomeEvent)." in said(life)


def test_a_leader_that_died_between_two_terms_is_reported_by_the_next_term() -> None:
    life = Life()
    life.second = -600
    life.begin()
    life.end()
    life.second = -10
    life.begin(13, live=(3, 6))

    assert "Broker 5, its leader, was not there when this term began" in said(life)


def test_a_moment_without_a_controller_is_reported() -> None:
    life = Life()
    life.second = -600
    life.begin()
    life.second = -60
    life.end()
    life.second = 60
    life.begin(13)

    assert (
        "No controller of these logs was in its term at 2026-01-31T03:14:00.000Z (the last one ended at"
        " 2026-01-31T03:13:00.000Z): what happened meanwhile is not in them."
    ) in said(life)


def killed_and_replaced(*, node: int) -> Life:
    """The controller is killed 20 s before the moment, and replaced 20 s after it; broker 5 died before."""
    life = outage()
    del life.log[-8:]
    life.second = -20
    life.event("TopicChange")
    successor = Life(node=node, boot="successor")
    successor.second = 20
    successor.begin(13, live=(3, 6))
    successor.second = 40
    successor.event(
        "BrokerChange", came(5), elected(5, 5), led_by(5, 42, 5), moved("OfflinePartition", "OnlinePartition")
    )
    life.log += successor.log
    return life


@pytest.mark.parametrize("node", [2_000_000_000, 2_000_000_001])
def test_a_killed_controller_is_recognised_by_its_last_record(node: int) -> None:
    text = said(killed_and_replaced(node=node))

    assert f"Meanwhile: node {node} became the controller at 2026-01-31T03:14:20.000Z, epoch 13." in text
    assert (
        "The controller of epoch 12, node 2000000000, wrote nothing after 2026-01-31T03:13:40.000Z and did not end its"
        " term; the next record is of 2026-01-31T03:14:20.000Z: what happened in between is not in these logs."
    ) in text
    assert "wrote nothing" not in said(killed_and_replaced(node=node), -25)


def test_a_killed_controller_that_returns_as_a_standby_has_a_gap() -> None:
    life = outage()
    del life.log[-8:]
    successor = Life(boot="successor")
    successor.second = -5
    successor.event("Startup", TermRecord("held", 0, -1, "controllerd 2000000001", "another one is the controller"))
    successor.second = 5
    successor.event("Startup")
    life.log += successor.log

    assert "wrote nothing after 2026-01-31T03:13:30.000Z and did not end its term" in said(life)


def test_a_term_that_was_ended_has_no_gap() -> None:
    life = Life()
    life.second = -600
    life.begin()
    life.second = -60
    life.end()
    successor = Life(node=2_000_000_001, boot="successor")
    successor.second = 60
    successor.begin(13)
    life.log += successor.log

    assert "wrote nothing" not in said(life)


def test_repeated_records_are_counted_and_hide_no_others() -> None:
    life = outage()
    ending = life.log[-8:]
    del life.log[-8:]
    life.second = -20
    for _ in range(6):
        life.event("UncleanLeaderElectionEnable", refused("nobody is live"))
    life.event("AlterPartitionReassignments", ReassignmentRecord("begun", ["payments"], [7]))
    life.log += ending

    text = said(life)
    assert "Meanwhile: election refused: nobody is live (6 times)." in text
    assert "Meanwhile: reassignment begun." in text


def test_a_leader_removed_by_a_deletion_is_not_called_lost() -> None:
    life = Life()
    life.second = -60
    life.begin()
    life.second = -10
    queued = DeletionRecord(["payments"], ["queued"], [None])
    life.event("TopicDeletion", queued, moved("OnlinePartition", "OfflinePartition"))

    text = said(life)
    assert (
        "The deletion of its topic took it from broker 5 at 2026-01-31T03:13:50.000Z (event 2 TopicDeletion)." in text
    )
    assert "Its other replicas" not in text


def test_a_leader_that_was_lost_in_a_gap_has_no_invented_moment() -> None:
    life = Life()
    life.second = -60
    life.begin()
    life.second = -20
    life.write(gap(17))
    life.second = -10
    life.write(
        SnapshotBegin(12, periodic=True), came(3, 6), TopicsRecord(["payments"], ["id"], [0]),
        AssignmentRecord(["payments"], [7], [[3, 5, 6]], [[]], [[]]), led_by(-1, 41, 5), SnapshotEnd(2, 1, 1),
    )  # fmt: skip

    text = said(life)
    assert "The snapshot of 2026-01-31T03:13:50.000Z shows it so; when broker 5 ceased to lead it is lost." in text
    assert "17 records lost meanwhile (the disk was full)" in text
    assert "left the cluster" not in text


def test_a_stuck_reassignment_and_lagging_replicas_of_a_led_partition_are_reported() -> None:
    life = Life()
    life.second = -600
    life.begin()
    life.second = -300
    moving = AssignmentRecord(["payments"], [7], [[8, 3, 5, 6]], [[8]], [[6]])
    life.event("AlterPartitionReassignments", moving, ReassignmentRecord("begun", ["payments"], [7]))
    life.second = -200
    life.event("AlterPartitionReceived", led_by(5, 40, 5, 3))
    life.second = 10
    life.event("TopicChange")

    text = said(life)
    assert "It was being reassigned, adding 8, removing 6, since 2026-01-31T03:09:00.000Z." in text
    assert "Its ISR was [5, 3] since 2026-01-31T03:10:40.000Z (event 3 AlterPartitionReceived), of the replicas" in text


def test_the_log_of_a_standby_alone_is_reported_as_such() -> None:
    life = Life()
    life.second = -60
    life.event("Startup", TermRecord("held", 0, -1, "controllerd 2000000000", "another one is the controller"))

    *_, doubt = asked(life).sentences
    assert doubt == (
        "No controller of these logs had a term before 2026-01-31T03:13:00.000Z; see the logs of other nodes."
    )


def test_lost_records_are_a_doubt() -> None:
    life = outage()
    life.log[-8:], after = [], life.log[-8:]
    life.second = 10
    life.write(gap(17))
    life.log += after

    assert "17 records lost meanwhile (the disk was full): the log may miss something here." in said(life)


def test_a_partition_that_was_led_has_its_leader_and_the_window_nearby() -> None:
    text = said(outage(), 60)

    assert "payments-7 was led by broker 5 at 2026-01-31T03:15:00.000Z: since 2026-01-31T03:14:34.800Z, leader" in text
    assert (
        "It had no leader from 2026-01-31T03:13:30.000Z to 2026-01-31T03:14:34.800Z, 25.2 s before that; ask for"
        " 2026-01-31T03:13:30.000Z to see why."
    ) in text


def test_a_change_of_leaders_names_the_one_before() -> None:
    life = Life()
    life.second = -60
    life.begin()
    life.second = -10
    life.event("BrokerChange", BrokersRecord(gone=[5]), elected(3, 3, 6), led_by(3, 41, 3, 6))

    assert "Before, broker 5 led it, and left the cluster." in said(life)


def test_a_deleted_partition_is_reported_with_its_deletion() -> None:
    life = outage()
    life.second = 300
    life.event("TopicDeletion", DeletionRecord(["payments"], ["queued"], [None]), forgotten())

    assert said(life, 300) == (
        "There was no partition payments-7 at 2026-01-31T03:19:00.000Z, as far as the controller knew: it was gone"
        " since 2026-01-31T03:19:00.000Z."
    )


def test_an_outage_that_a_deletion_ended_names_the_deletion() -> None:
    life = outage()
    del life.log[-8:]
    life.event("TopicDeletion", forgotten())

    assert "It ended when the partition was deleted" in said(life)


def test_an_unknown_partition_never_was() -> None:
    answer = asked(outage(), tp=TopicPartition("orders", 0))

    assert not answer.exists
    assert answer.sentences == (
        "There was no partition orders-0 at 2026-01-31T03:14:00.000Z, as far as the controller knew.",
        "The log knows no topic orders where it ends.",
    )


def test_an_unknown_partition_number_is_answered_with_the_existing_ones() -> None:
    *_, last = asked(outage(), tp=TopicPartition("payments", 70)).sentences

    assert last == "Where the log ends, payments has one partition: 7."


def test_a_moment_before_the_log_is_not_explained() -> None:
    assert said(outage(), -3600) == (
        "The log begins at 2026-01-31T02:59:00.000Z, after 2026-01-31T02:14:00.000Z:"
        " give it the segments before as well."
    )


def test_an_empty_log_is_reported_as_empty() -> None:
    assert said(Life()) == "The log is empty."


def test_a_partition_in_creation_has_lost_no_leader() -> None:
    life = Life()
    life.second = -60
    life.begin()
    life.event("TopicDeletion", forgotten())
    life.second = -1
    life.event("TopicChange", TopicsRecord(["payments"], ["new"], [0]),
               AssignmentRecord(["payments"], [7], [[3]], [[]], [[]]))  # fmt: skip

    assert "It was being created (event 3 TopicChange): it had not had a leader yet." in said(life)


def test_reading_stops_where_the_answer_is_known() -> None:
    life = outage()

    def bounded() -> Iterator[Logged]:
        for envelope, record in life.log:
            assert envelope.ts_ms <= START + 34_800, "read on"
            yield envelope, record

    at_ms = START
    assert explain(read_history(PAYMENTS_7, bounded(), at_ms), at_ms).leader is None


def test_a_broker_that_returns_is_named_as_the_end_of_the_outage() -> None:
    life = outage()
    del life.log[-8:]
    life.event("BrokerChange", came(6), elected(6, 6), led_by(6, 42, 6), moved("OfflinePartition", "OnlinePartition"))

    assert "It ended when broker 6 came back: broker 6 was elected" in said(life)


def test_a_partition_is_split_at_its_last_dash() -> None:
    assert parse_partition("after-the-failover-2") == TopicPartition("after-the-failover", 2)


@pytest.mark.parametrize("text", ["payments", "payments-", "-7", "payments-x", ""])
def test_an_invalid_partition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write TOPIC-PARTITION"):
        parse_partition(text)


def test_the_start_of_these_tests_is_the_moment_of_its_comment() -> None:
    assert parse_moment("2026-01-31T03:14:00Z") == START
