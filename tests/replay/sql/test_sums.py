"""How much was lost, by topic, cluster and time; and which windows are one incident."""

from tests.replay.sql.book import START_MS, Book, answer, columns


def book_of(*spans: tuple[str, int, int | None], last_ms: int = 0) -> Book:
    """Windows without a leader: partition, begin and end in milliseconds; None: it lasts."""
    book = Book().snapshot(*((tp, 1) for tp in dict.fromkeys(tp for tp, *_ in spans))).done()
    moments = [(start, tp, True) for tp, start, _ in spans] + [(end, tp, False) for tp, _, end in spans if end]
    for number, (ms, tp, is_start) in enumerate(sorted(moments), 10):
        book.at(ms, event=number).leads(tp, -1 if is_start else 1, 1, epoch=number)
    return book.at(last_ms, event=0).add("session", name="connected") if last_ms else book


def test_a_topic_sums_its_partitions_and_counts_open_windows_up_to_the_last_record() -> None:
    book = book_of(("t-0", 1000, 1500), ("t-1", 2000, None), ("u-0", 3000, 3100), ("t-0", 4000, 4200), last_ms=5000)
    assert columns(answer(book, "topic_windows"), "topic", "windows", "partitions", "total_us", "longest_us") == [
        ("t", 3, 2, 3_700_000, 3_000_000),
        ("u", 1, 1, 100_000, 100_000),
    ]
    assert columns(answer(book, "topic_windows"), "first_ms", "last_ms", "open") == [(1000, 5000, 1), (3000, 3100, 0)]


def test_the_cluster_counts_time_without_any_leader_once() -> None:
    book = book_of(("t-0", 1000, 2000), ("t-1", 1500, 3000), ("u-0", 1600, 1700), ("u-0", 5000, 5250))
    names = ("windows", "partitions", "topics", "total_us", "any_us", "longest_us", "most_at_once", "open")
    assert columns(answer(book, "cluster_windows"), *names) == [(4, 3, 2, 2_850_000, 2_250_000, 1_500_000, 3, 0)]


def test_clusters_are_apart() -> None:
    book = book_of(("t-0", 1000, 2000))
    book.rows += [row | {"cluster": "d"} for row in book.rows]
    assert columns(answer(book, "cluster_windows"), "cluster", "any_us", "most_at_once") == [
        ("c", 1_000_000, 1),
        ("d", 1_000_000, 1),
    ]


def test_heat_shares_a_window_among_the_buckets_that_it_touches() -> None:
    book = book_of(("t-0", 1200, 3100), ("u-0", 1500, 1600))
    assert columns(answer(book, "heat"), "topic", "bucket_ms", "width_ms", "lost_us") == [
        ("t", 1000, 1000 - START_MS, 800_000),
        ("t", 2000, 1000 - START_MS, 1_000_000),
        ("t", 3000, 1000 - START_MS, 100_000),
        ("u", 1000, 1000 - START_MS, 100_000),
    ]


def test_heat_has_wider_buckets_for_a_longer_time_and_loses_nothing() -> None:
    book = book_of(("t-0", 0, 500), ("t-0", 86_400_000, 86_401_000))
    found = answer(book, "heat")
    assert [row["width_ms"] for row in found] == [900_000, 900_000]
    assert [row["lost_us"] for row in found] == [500_000, 1_000_000]


def test_heat_has_the_two_hundred_worst_topics() -> None:
    book = book_of(*((f"t{number:03}-0", 1000, 1100 + number) for number in range(203)))
    topics = {row["topic"] for row in answer(book, "heat")}
    assert len(topics) == 200
    assert topics.isdisjoint({"t000", "t001", "t002"})


def test_windows_a_minute_apart_are_one_incident_and_more_are_two() -> None:
    book = book_of(("t-0", 1000, 2000), ("u-0", 62_000, 62_500), ("u-1", 62_100, 63_000), ("t-0", 123_001, 123_002))
    found = answer(book, "incidents")
    assert columns(found, "incident", "start_ms", "end_ms", "windows", "partitions", "topics") == [
        (1, 1000, 63_000, 3, 3, 2),
        (2, 123_001, 123_002, 1, 1, 1),
    ]
    assert columns(found, "total_us", "longest_us", "worst_topic") == [(2_400_000, 1_000_000, "u"), (1000, 1000, "t")]


def test_an_incident_that_lasts_has_no_end_and_does_not_swallow_the_next() -> None:
    book = book_of(("t-0", 1000, None), ("u-0", 1500, 1600), ("u-0", 300_000, 300_001))
    assert columns(answer(book, "incidents"), "start_ms", "end_ms", "windows", "worst_topic") == [
        (1000, None, 2, "t"),
        (300_000, 300_001, 1, "u"),
    ]


def test_the_cause_of_an_incident_is_that_of_its_first_window() -> None:
    book = book_of(("t-0", 1000, 2000)).at(2500, event=50)
    book.event(50, "BrokerChange").add("brokers", broker=9, after="gone").leads("t-0", -1, 1).done()
    book.rows = [row for row in book.rows if not 900 < int(str(row["ts_ms"])) - START_MS < 2400]
    assert [row["cause"] for row in answer(book, "incidents")] == ["BrokerChange: broker 9 died"]


def test_the_chain_has_records_from_half_a_minute_before_until_five_seconds_after() -> None:
    book = Book().snapshot(("t-0", 1)).done()
    book.at(70_000).add("alarm", name="early", reason="")
    book.at(71_001).add("alarm", name="early, too", reason="").add("alarm", name="before", reason="it smelt")
    book.at(101_000).event(2, "BrokerChange").add("brokers", broker=1, after="gone").state("t-0", "Offline")
    book.add("refused", topic="t", partition=0, name="election Offline", reason="nobody is online").done(took_us=4321)
    book.at(110_000).event(3, "BrokerChange")
    book.add("decision", topic="t", partition=0, name="Offline", leader=2, isr=[2], unclean=True)
    book.leads("t-0", 2, 2).state("t-0", "Online", "OfflinePartition").done("error", took_us=1999)
    book.at(115_001).add("session", name="lost").at(115_009).add("alarm", name="late", reason="")
    assert columns(answer(book, "incident_chain"), "incident", "ts_ms", "kind", "text") == [
        (1, 71_002, "alarm", "before: it smelt"),
        (1, 101_001, "brokers", "broker 1 is gone"),
        (1, 101_002, "partition_state", "t-0: offline"),
        (1, 101_003, "refused", "t-0: election Offline refused, nobody is online"),
        (1, 101_004, "event_end", "BrokerChange done, took 4 ms"),
        (1, 110_001, "decision", "t-0: leader elected, strategy Offline, unclean"),
        (1, 110_004, "event_end", "BrokerChange error, took 1 ms"),
        (1, 115_001, "session", "ZooKeeper session lost"),
    ]


def test_responses_are_in_the_chain_only_if_they_failed() -> None:
    book = Book().snapshot(("t-0", 1)).done().at(1000)
    book.event(2, "BrokerChange").add("brokers", broker=1, after="gone").state("t-0", "Offline").done()
    book.event(3, "LeaderAndIsrResponseReceived").done().event(4, "UpdateMetadataResponseReceived").done("error")
    ends = [str(row["text"]).split()[0] for row in answer(book, "incident_chain") if row["kind"] == "event_end"]

    assert "LeaderAndIsrResponseReceived" not in ends
    assert "UpdateMetadataResponseReceived" in ends


def test_a_chain_of_too_many_rows_drops_isr_changes_first() -> None:
    book = Book().snapshot(("t-0", 1)).done().at(1000)
    for number in range(150):
        book.event(100 + number, "AlterPartitionReceived").done().event(300 + number, "TopicChange").done()
    book.event(900, "BrokerChange").add("brokers", broker=1, after="gone").state("t-0", "Offline").done()
    chain = answer(book, "incident_chain")
    assert len(chain) == 200
    kinds = [str(row["text"]).split()[0] for row in chain]
    assert kinds.count("TopicChange") == 150
    assert [row["kind"] for row in chain if row["kind"] != "event_end"] == ["brokers", "partition_state"]


def test_a_record_without_text_is_in_the_timeline_by_its_kind() -> None:
    assert columns(answer(Book().add("alarm"), "timeline"), "kind", "text") == [("alarm", "alarm")]


def test_the_timeline_has_rare_records_without_repetitions_of_snapshots() -> None:
    book = Book(epoch=0).add("session", name="connected").at(10, epoch=7)
    book.add("term", name="elected", reason="").event(1, "Startup").add("snapshot_begin")
    book.add("brokers", {"broker": 1, "after": "live"}, {"broker": 2, "after": "live"})
    book.add("quarantine", name="/bad", reason="no JSON").add("snapshot_end").done()
    book.at(50).add("snapshot_begin").add("brokers", broker=1, after="live")
    book.add("quarantine", name="/bad", reason="no JSON").add("snapshot_end")
    book.at(60).event(2, "BrokerChange").add("brokers", {"broker": 1, "after": "gone"}, {"broker": 2, "after": "gone"})
    book.add("quarantine", name="/bad").done()
    book.at(70).add("gap", reason="disk full", data='{"lost":3,"first_seq":5,"last_seq":7}')
    book.at(80).add("term", name="resigned", reason="asked to")
    assert columns(answer(book, "timeline"), "ts_ms", "kind", "text") == [
        (0, "session", "ZooKeeper session connected"),
        (10, "term", "became the controller, epoch 7"),
        (14, "quarantine", "quarantined /bad: no JSON"),
        (61, "brokers", "broker 1 is gone, broker 2 is gone"),
        (62, "quarantine", "released /bad"),
        (70, "gap", "3 records lost: disk full"),
        (80, "term", "role resigned: asked to"),
    ]
