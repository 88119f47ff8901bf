"""Windows in which partitions were without a leader, from facts written by hand."""

from replay.facts.engine import Value
from tests.replay.sql.book import Book, answer, columns

T, U = "t-0", "u-0"


def windows(book: Book, *names: str) -> list[tuple[Value, ...]]:
    return columns(answer(book, "windows"), *names)


def with_leader() -> Book:
    """A term that began with a leader for t-0."""
    book = Book().snapshot((T, 1))
    return book.state(T, "Online", "NonExistentPartition").done()


def test_a_window_lasts_from_offline_until_state_and_leadership_are_online() -> None:
    book = with_leader().at(100).event(2, "BrokerChange").add("brokers", broker=1, after="gone")
    book.state(T, "Offline").at(105).leads(T, 2, 2, epoch=1).at(109).state(T, "Online", "OfflinePartition").done()
    row = answer(book, "windows")
    assert columns(row, "start_ms", "end_ms", "duration_us", "start_bound", "end_bound", "ended_by") == [
        (102, 109, 7000, None, None, "leader")
    ]
    assert columns(row, "cause", "leader_before", "leader_after") == [("BrokerChange: broker 1 died", 1, 2)]
    assert columns(row, "start_epoch", "start_node", "start_boot", "start_event", "end_event") == [(1, 7, "b", 2, 2)]


def test_a_leadership_without_leader_begins_a_window_where_the_state_stays_online() -> None:
    book = with_leader().at(100).event(2, "AlterReassignments").leads(T, -1, 2, epoch=1).done()
    book.at(200).event(3, "ReassignmentsMayComplete").leads(T, 2, 2, epoch=2).done()
    assert windows(book, "start_ms", "end_ms", "cause") == [(101, 201, "AlterReassignments")]


def test_an_online_state_without_a_leader_does_not_end_the_window() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").leads(T, -1, 1, epoch=1)
    book.state(T, "Online", "OfflinePartition").at(300).leads(T, 2, 2, epoch=2).done()
    assert windows(book, "start_ms", "end_ms") == [(101, 300)]


def test_an_open_window_has_no_end() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").done()
    assert windows(book, "start_ms", "end_ms", "duration_us", "ended_by", "leader_after", "end_seq") == [
        (101, None, None, None, None, None)
    ]


def test_an_unclean_election_ends_its_window_as_such_but_not_the_next_one() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline")
    book.add("decision", topic="t", partition=0, name="Offline", leader=3, isr=[3], unclean=True)
    book.leads(T, 3, 3, epoch=1).state(T, "Online", "OfflinePartition").done()
    book.at(200).event(3, "E").state(T, "Offline").leads(T, 3, 3, epoch=2)
    book.state(T, "Online", "OfflinePartition").done()
    assert windows(book, "ended_by", "leader_before") == [("unclean leader", 1), ("leader", 3)]


def test_a_snapshot_without_a_change_neither_begins_nor_ends_a_window() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").leads(T, -1, 1, epoch=1).done()
    book.at(200).snapshot((T, -1), event=0)
    book.at(300, epoch=2, node=8, boot="d").snapshot((T, -1)).state(T, "Offline", "NonExistentPartition").done()
    book.at(400).event(2, "BrokerChange").leads(T, 1, 1, epoch=2).state(T, "Online", "OfflinePartition").done()
    found = answer(book, "windows")
    assert columns(found, "start_ms", "end_ms", "duration_us") == [(101, 402, 301_000)]
    assert columns(found, "start_epoch", "end_epoch", "end_node", "start_bound", "end_bound") == [(1, 2, 8, None, None)]


def test_a_healthy_partition_in_many_snapshots_has_no_window() -> None:
    book = with_leader().at(200).snapshot((T, 1), event=0)
    book.at(300, epoch=2).snapshot((T, 1), event=9).state(T, "Online", "NonExistentPartition").done()
    assert windows(book, "start_ms") == []


def test_a_window_in_the_first_snapshot_may_have_begun_before() -> None:
    book = Book().snapshot((T, -1)).state(T, "Offline", "NonExistentPartition").done()
    assert windows(book, "start_ms", "start_bound", "cause") == [
        (3, "not after", "Startup: found at the start of epoch 1")
    ]


def test_a_window_that_ends_in_a_snapshot_may_have_ended_before() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").done()
    book.at(200, epoch=3, node=8).snapshot((T, 2)).state(T, "Online", "NonExistentPartition").done()
    assert windows(book, "end_bound", "ended_by", "leader_after") == [("not after", "leader", 2)]


def test_a_partition_that_the_next_snapshot_lacks_ended_then_for_an_unknown_reason() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").done()
    book.at(200, epoch=2).snapshot((U, 1), event=5).state(U, "Online", "NonExistentPartition").done()
    book.at(300).event(6, "TopicChange").state(T, "New", "NonExistentPartition").leads(T, 1, 1)
    book.state(T, "Online", "NewPartition").done()
    assert windows(book, "start_ms", "end_ms", "end_bound", "ended_by", "leader_after") == [
        (101, 201, "not after", "unknown", None)
    ]


def test_the_last_snapshot_ends_the_window_of_a_partition_without_later_records() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").done().at(200, epoch=4).snapshot(event=5).done()
    assert windows(book, "end_ms", "ended_by", "end_epoch") == [(201, "unknown", 4)]


def test_a_new_partition_that_gets_its_leader_at_once_has_no_window() -> None:
    book = with_leader().at(100).event(2, "TopicChange").state(U, "New", "NonExistentPartition").leads(U, 1, 1)
    book.state(U, "Online", "NewPartition").done()
    assert windows(book, "topic") == []


def test_a_new_partition_without_a_leader_has_a_window_from_its_creation() -> None:
    book = with_leader().at(100).event(2, "TopicChange").state(U, "New", "NonExistentPartition")
    book.add("refused", topic="u", partition=0, name="initialisation", reason="nobody is online").done()
    assert windows(book, "start_ms", "end_ms", "cause", "leader_before") == [
        (101, None, "TopicChange: created, and no replica could lead", None)
    ]
    book.at(200).event(3, "BrokerChange").leads(U, 1, 1).state(U, "Online", "NewPartition").done()
    assert windows(book, "start_ms", "end_ms", "ended_by") == [(101, 202, "leader")]


def test_a_deletion_is_no_window_and_ends_an_open_one() -> None:
    book = with_leader().at(50).event(2, "TopicDeletion").add("deletion", topic="t", after="queued")
    book.state(T, "Offline").state(T, "NonExistent", "OfflinePartition").add("deletion", topic="t", after="started")
    book.leads(T, -1, 1, epoch=1).at(90).add("topics_forgotten", topic="t").done()
    assert windows(book, "start_ms") == []

    book = with_leader().at(100).event(2, "E").state(T, "Offline").done()
    book.at(200).event(3, "TopicDeletion").add("deletion", topic="t", after="queued").done()
    book.at(300).event(4, "R").add("topics_forgotten", topic="t").done()
    assert windows(book, "start_ms", "end_ms", "ended_by", "end_bound") == [(101, 201, "deleted", None)]


def test_a_topic_still_to_be_deleted_in_the_next_term_has_no_window() -> None:
    book = with_leader().at(100).event(2, "TopicDeletion").add("deletion", topic="t", after="queued")
    book.state(T, "Offline").state(T, "NonExistent", "OfflinePartition").leads(T, -1, 1, epoch=1).done()
    book.at(200, epoch=2).snapshot((T, -1), event=5).add("deletion", topic="t", after="queued")
    book.state(T, "Offline", "NonExistentPartition").state(T, "NonExistent", "OfflinePartition").done()
    assert windows(book, "start_ms") == []


def test_a_topic_created_again_after_its_deletion_counts_again() -> None:
    book = with_leader().at(50).event(2, "TopicDeletion").add("deletion", topic="t", after="queued")
    book.state(T, "Offline").state(T, "NonExistent", "OfflinePartition").add("topics_forgotten", topic="t").done()
    book.at(80).event(3, "TopicChange").state(T, "New", "NonExistentPartition").leads(T, 2, 2)
    book.state(T, "Online", "NewPartition").done()
    book.at(100).event(4, "E").state(T, "Offline").leads(T, 1, 1).state(T, "Online", "OfflinePartition").done()
    assert windows(book, "start_ms", "end_ms", "leader_before") == [(101, 103, 2)]


def test_a_duration_between_boots_is_by_the_wall_clock_and_never_negative() -> None:
    book = with_leader().at(500).event(2, "E").state(T, "Offline").done()
    book.at(400, epoch=2, node=8, boot="x").snapshot((T, -1)).leads(T, 2, 2, epoch=2)
    book.state(T, "Online", "NonExistentPartition").done()
    assert windows(book, "start_ms", "end_ms", "duration_us") == [(501, 406, 0)]


def test_the_monotonic_clock_counts_within_a_boot() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").leads(T, 2, 2)
    book.state(T, "Online", "OfflinePartition").done()
    for row in book.rows[-4:]:
        assert isinstance(row["ts_ms"], int)
        row["ts_ms"] -= 60_000
    book.rows[-2]["mono_us"] = 103_456
    assert windows(book, "duration_us") == [(2456,)]


def test_facts_that_were_read_twice_change_nothing() -> None:
    book = with_leader().at(100).event(2, "E").state(T, "Offline").leads(T, 2, 2)
    book.state(T, "Online", "OfflinePartition").done()
    once = answer(book, "windows")
    book.rows += [row | {"file": "copy"} for row in book.rows]
    assert answer(book, "windows") == once


def test_causes_name_shutdowns_restarts_and_log_directories() -> None:
    book = Book().snapshot((T, 1)).state(T, "Online", "NonExistentPartition").done()
    book.at(100).event(2, "ControlledShutdown").add("brokers", broker=2, after="shutting_down").leads(T, -1, 1).done()
    book.at(200).event(3, "E").leads(T, 1, 1).done()
    gone: list[dict[str, Value]] = [{"broker": 3, "after": "gone"}, {"broker": 1, "after": "gone"}]
    book.at(300).event(4, "BrokerChange").add("brokers", *gone, {"broker": 4, "after": "gone"})
    book.add("brokers", broker=4, after="live").leads(T, -1, 1).leads(T, 1, 1).done()
    book.at(400).event(5, "LogDirs").add("offline_dirs", broker=1, topic="t", partition=0).leads(T, -1, 1).done()
    assert [row["cause"] for row in answer(book, "windows")] == [
        "ControlledShutdown: controlled shutdown of broker 2",
        "BrokerChange: broker 4 restarted, brokers 1, 3 died",
        "LogDirs: log directory failed on broker 1",
    ]


def kafka() -> Book:
    """Facts as from Kafka's own logs: no events, no snapshots, bounds in the facts."""
    book = Book(source="kafka", boot="controller.log")
    return book.leads(T, 1, 1, 2, epoch=4).at(100).state(T, "Offline", bound="not after", reason="broker 1 is gone")


def test_in_kafkas_logs_the_broker_that_leads_ends_a_window() -> None:
    book = kafka().at(110).leads(T, 2, 2, epoch=5).state(T, "Online", "OfflinePartition", bound="not before")
    assert windows(book, "start_ms", "end_ms", "duration_us", "start_bound", "end_bound", "end_node", "cause") == [
        (100, 111, 11_000, "not after", "not before", 7, "broker 1 is gone")
    ]
    book.at(150, node=2, epoch=0).add("broker_leader", topic="t", partition=0, leader=2, leader_epoch=5)
    assert windows(book, "start_ms", "end_ms", "duration_us", "start_bound", "end_bound", "end_node") == [
        (100, 150, 50_000, "not after", None, 2)
    ]


def test_in_kafkas_logs_a_new_partition_counts_if_its_election_was_refused() -> None:
    book = kafka().leads(T, 2, 2).state(T, "Online", "OfflinePartition")
    book.at(200).state(U, "New", "NonExistentPartition").leads(U, 1, 1).state(U, "Online", "NewPartition")
    assert [row["topic"] for row in answer(book, "windows")] == ["t"]
    book.at(300).state("v-0", "New", "NonExistentPartition")
    book.add("refused", topic="v", partition=0, name="partition_state", reason="nobody is online")
    book.at(400).leads("v-0", 1, 1).state("v-0", "Online", "NewPartition")
    assert windows(book, "topic", "start_ms", "end_ms") == [("t", 100, 102), ("v", 300, 401)]


def test_in_kafkas_logs_a_deletion_at_level_trace_is_no_window() -> None:
    book = Book(source="kafka").leads(T, 1, 1).at(200).state(T, "Offline")
    book.state(T, "NonExistent", "OfflinePartition").add("topics_forgotten", topic="t")
    assert windows(book, "start_ms") == []
