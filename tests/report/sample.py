"""Tables of two invented hours: a broker dies, a log directory fails, a deletion hangs, a log has a gap."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from replay.facts.tables import BY_NAME, TABLES
from replay.report.metadata import ReportMetadata, all_invariants

Row = dict[str, object]
Rows = dict[str, list[Row]]
CLUSTER: Final = "payments-prod"
BEGIN_MS: Final = int(datetime(2026, 1, 31, 2, 40, tzinfo=UTC).timestamp() * 1000)
FIRST_MS: Final = int(datetime(2026, 1, 31, 3, 14, 7, tzinfo=UTC).timestamp() * 1000) + 123
SECOND_MS: Final = FIRST_MS + 27 * 60_000
END_MS: Final = BEGIN_MS + 2 * 3_600_000
NODE: Final = 2_000_000_001
STANDBY: Final = 2_000_000_002
BOOT: Final = "7f3a91c2"
EVENTS: Final = {1: 4_002, 2: 4_100, 3: 4_200}
"""The event that began each incident."""
TOPICS: Final = ("payments", "orders", "ledger.entries", "fraud-scores", "audit_events", "notifications")


def row(table: str, **values: object) -> Row:
    """A row with every column of its table. :raises KeyError: for a column that it does not have."""
    names = [column.name for column in BY_NAME[table].columns]
    if unknown := values.keys() - set(names):
        raise KeyError(f"{table} has no {unknown}")
    return {name: values.get(name, CLUSTER if name == "cluster" else None) for name in names}


def sample_meta() -> ReportMetadata:
    """The metadata of ``sample``."""
    return ReportMetadata(
        generated_ms=END_MS + 5_400_000,
        version="0.1.0",
        engine="local",
        inputs=("/var/lib/controllerd/audit/payments-prod",),
        records=1_284_331,
        first_ms=BEGIN_MS,
        last_ms=END_MS,
        options={"from": "everything", "clusters": "all"},
        limits=("Two windows ended while nobody wrote a log: their ends are bounds.",),
        invariants=all_invariants(),
    )


def sample() -> Rows:
    """All tables."""
    windows = _windows()
    tables: Rows = {table.name: [] for table in TABLES}
    tables |= {
        "windows": windows,
        "topic_windows": _by_topic(windows),
        "cluster_windows": [_of_cluster(windows)],
        "heat": _heat(windows),
        "incidents": _incidents(windows),
        "incident_chain": _chain(),
        "timeline": _timeline(),
        "churn": _churn(),
        "elections": _elections(),
        "events": _events(),
        "requests": _requests(),
        "reassignments": _reassignments(),
        "deletions": _deletions(),
        "terms": _terms(),
        "sources": _sources(),
        "quality": _quality(),
        "violations": _violations(),
    }
    return tables


def empty() -> tuple[Rows, ReportMetadata]:
    """A log without a record."""
    meta = ReportMetadata(generated_ms=END_MS, version="0.1.0", engine="local", inputs=("audit",), records=0)
    return {table.name: [] for table in TABLES}, meta


def many_windows(count: int) -> Rows:
    """``count`` windows of 500 topics, ten partitions at a time."""
    tables, one = sample(), _window("", 0, 0, 1, cause="BrokerChange: broker 3 died")
    tables["windows"] = [{**one, **_nth(n)} for n in range(count)]
    return tables


def _nth(n: int) -> Row:
    start, length = BEGIN_MS + n // 10 * 1400, 900 + n * 37 % 60_000
    when = {"start_ms": start, "end_ms": start + length, "duration_us": length * 1000}
    return {"topic": f"topic-{n % 500:03d}", "partition": n // 500, "start_seq": n, "end_seq": n + 9, **when}


def _window(topic: str, partition: int, start: int, length_ms: int | None, **values: object) -> Row:
    ended: Mapping[str, object] = {
        "end_ms": None if length_ms is None else start + length_ms,
        "duration_us": None if length_ms is None else length_ms * 1000,
        "ended_by": None if length_ms is None else "leader",
        "leader_after": None if length_ms is None else 1 + (partition + 3) % 5,
        "end_epoch": None if length_ms is None else 12,
        "end_node": None if length_ms is None else NODE,
        "end_boot": None if length_ms is None else BOOT,
        "end_seq": None if length_ms is None else 88_512 + partition,
        "end_event": None if length_ms is None else 4_019,
    }
    begun: Mapping[str, object] = {
        "start_ms": start,
        "leader_before": 3,
        "start_epoch": 12,
        "start_node": NODE,
        "start_boot": BOOT,
        "start_seq": 88_121 + partition,
        "start_event": EVENTS[1],
    }
    return row("windows", topic=topic, partition=partition, **{**begun, **ended, **values})


def _windows() -> list[Row]:
    died, failed = "BrokerChange: broker 3 died", "LogDirEventNotification: log directory failed on broker 5"
    left = "ControlledShutdown: controlled shutdown of broker 2"
    first = [
        _window(topic, p, FIRST_MS + 40 * i + 7 * p, 62_900 - 9_400 * i - 2_310 * p, cause=died)
        for i, topic in enumerate(TOPICS[:5])
        for p in range(9 - i)
    ]
    bound = _window(
        "notifications", 0, FIRST_MS + 90, 63_204, end_bound="not before", ended_by="unclean leader", cause=died
    )
    second = [
        _window(topic, p, SECOND_MS + 300 * p, 4_200 + 850 * p, leader_before=5, **_begun(2, 91_004 + p, failed))
        for topic in ("orders", "ledger.entries")
        for p in range(3)
    ]
    lasting = _window("fraud-scores", 6, END_MS - 252_000, None, leader_before=2, **_begun(3, 93_331, left))
    return [*first, bound, *second, lasting]


def _begun(incident: int, seq: int, cause: str) -> Row:
    return {"start_event": EVENTS[incident], "start_seq": seq, "cause": cause}


def _number(each: Row, key: str) -> int:
    value = each[key]
    return value if isinstance(value, int) else 0


def _lost(window: Row) -> int:
    """The microseconds without a leader; an open window counts up to the last record."""
    return _number(window, "duration_us") or (END_MS - _number(window, "start_ms")) * 1000


def _by_topic(windows: list[Row]) -> list[Row]:
    found = []
    for topic in sorted({str(each["topic"]) for each in windows}):
        mine = [each for each in windows if each["topic"] == topic]
        found.append(
            row("topic_windows", topic=topic, first_ms=mine[0]["start_ms"], last_ms=mine[-1]["start_ms"], **_sums(mine))
        )
    return found


def _sums(windows: list[Row]) -> Row:
    return {
        "windows": len(windows),
        "partitions": len({(each["topic"], each["partition"]) for each in windows}),
        "total_us": sum(map(_lost, windows)),
        "longest_us": max(map(_lost, windows)),
        "open": sum(each["end_ms"] is None for each in windows),
    }


def _of_cluster(windows: list[Row]) -> Row:
    return row("cluster_windows", topics=6, any_us=324_804_000, most_at_once=36, **_sums(windows))


def _heat(windows: list[Row]) -> list[Row]:
    width, lost = 60_000, dict[tuple[str, int], int]()
    for each in windows:
        start, end = _number(each, "start_ms"), _number(each, "end_ms") or END_MS
        for bucket in range(start // width * width, end, width):
            key = (str(each["topic"]), bucket)
            lost[key] = lost.get(key, 0) + 1000 * (min(end, bucket + width) - max(start, bucket))
    return [row("heat", topic=t, bucket_ms=b, width_ms=width, lost_us=us) for (t, b), us in sorted(lost.items()) if us]


def _incidents(windows: list[Row]) -> list[Row]:
    found = []
    for index, mine in enumerate((windows[:36], windows[36:42], windows[42:]), 1):
        ends = [each["end_ms"] for each in mine]
        values = {key: value for key, value in _sums(mine).items() if key != "open"}
        begun = {"start_ms": mine[0]["start_ms"], "end_ms": None if None in ends else max(map(_end, mine))}
        kinds = {
            "topics": len({each["topic"] for each in mine}),
            "worst_topic": mine[0]["topic"],
            "cause": mine[0]["cause"],
        }
        found.append(row("incidents", incident=index, **begun, **kinds, **values))
    return found


def _end(window: Row) -> int:
    return _number(window, "end_ms")


def _chain() -> list[Row]:
    links = (
        (1, -18_204, 87_990, "alarm", "broker 3 answers slowly: oldest request waits for 6.1 s"),
        (1, -12_480, 88_002, "response", "LeaderAndIsr to broker 3 timed out, attempt 2"),
        (1, -1, 88_119, "brokers", "broker 3 is gone"),
        (1, 0, 88_121, "partition_state", "36 partitions went from OnlinePartition to OfflinePartition"),
        (1, 31, 88_170, "decision", "29 partitions get a leader from their ISR, 7 have no live replica in it"),
        (1, 212, 88_204, "zk", "29 state znodes written in one multi, zxid 0x30000a1f2"),
        (1, 58_044, 88_509, "brokers", "broker 3 is live"),
        (1, 58_120, 88_512, "decision", "7 partitions get broker 3 as leader"),
        (1, 63_294, 88_560, "decision", "notifications-0 gets broker 1, which is not in its ISR (unclean)"),
        (2, 0, 91_004, "partition_state", "6 partitions went to OfflinePartition"),
        (2, 6_500, 91_077, "decision", "6 partitions get a leader from their ISR"),
        (3, -2_000, 93_310, "request", "broker 2 asks for a controlled shutdown"),
        (3, -15, 93_330, "brokers", "broker 2 began a controlled shutdown"),
        (3, 0, 93_331, "refused", "fraud-scores-6: no live replica is in its ISR"),
    )
    begun = {1: FIRST_MS, 2: SECOND_MS, 3: END_MS - 252_000}
    return [
        row(
            "incident_chain",
            incident=i,
            ts_ms=begun[i] + ms,
            node=NODE,
            boot=BOOT,
            epoch=12,
            seq=seq,
            kind=kind,
            text=what,
        )
        for i, ms, seq, kind, what in links
    ]


def _timeline() -> list[Row]:
    happened = (
        (BEGIN_MS + 900, 11, "term", "became the controller, epoch 11"),
        (BEGIN_MS + 1_000_000, 11, "session", "ZooKeeper session lost"),
        (BEGIN_MS + 1_019_000, 12, "term", "became the controller, epoch 12"),
        (SECOND_MS + 900_000, 12, "quarantine", "quarantined /brokers/topics/legacy: not JSON"),
        (SECOND_MS + 1_500_000, 12, "gap", "120 records lost: the disk was full for 4.1 s"),
    )
    apart = [
        row("timeline", ts_ms=ms, node=NODE, boot=BOOT, epoch=epoch, seq=80_000 + n, event=n, kind=kind, text=what)
        for n, (ms, epoch, kind, what) in enumerate(happened)
    ]
    same = ("ts_ms", "node", "boot", "epoch", "seq", "kind", "text")
    links = [link for link in _chain() if link["kind"] in {"alarm", "brokers"}]
    return [
        *apart,
        *(row("timeline", event=EVENTS[_number(link, "incident")], **{k: link[k] for k in same}) for link in links),
    ]


def _churn() -> list[Row]:
    return [
        row(
            "churn",
            topic=topic,
            partition=p,
            leader_changes=max(1, 9 - 2 * i - p),
            epoch_bumps=12 - 2 * i - p // 2,
            shrinks=3 + p % 2,
            expands=3,
            elections=max(1, 8 - 2 * i - p),
            windows=1 + (i == 1),
            last_ms=FIRST_MS + 60_000 + p,
        )
        for i, topic in enumerate(TOPICS[:5])
        for p in range(9 - i)
    ]


def _elections() -> list[Row]:
    kinds = (
        ("offline", False, 41, 3),
        ("preferred", False, 212, 5),
        ("controlled_shutdown", False, 64, 1),
        ("reassignment", False, 12, 12),
    )
    found = [*kinds, ("offline", True, 1, 1)]
    return [
        row(
            "elections",
            strategy=s,
            unclean=u,
            partitions=p,
            events=e,
            first_ms=BEGIN_MS + 1_019_000,
            last_ms=END_MS - 9_000,
        )
        for s, u, p, e in found
    ]


def _percentiles(what: str, base: int) -> Row:
    return {
        f"{what}_p50_us": base,
        f"{what}_p95_us": base * 4,
        f"{what}_p99_us": base * 11,
        f"{what}_max_us": base * 37,
    }


def _events() -> list[Row]:
    names = (
        "BrokerChange",
        "TopicChange",
        "IsrChangeNotification",
        "AlterPartitionReceived",
        "LeaderAndIsrResponseReceived",
    )
    more = (
        "AutoPreferredLeaderElection",
        "ControlledShutdown",
        "PartitionReassignment",
        "TopicDeletion",
        "ControllerChange",
    )
    return [
        row(
            "events",
            name=name,
            state=n + 1,
            count=90_210 // (n * n + 1),
            failed=n % 4 // 3,
            **_percentiles("queued", 40 + 130 * n),
            **_percentiles("took", 180 * 3 ** (n % 5)),
        )
        for n, name in enumerate((*names, *more))
    ]


def _requests() -> list[Row]:
    return [
        row(
            "requests",
            broker=broker,
            api=api,
            count=4_100 - broker * 310 + i * 17,
            errors=2 if broker == 3 else 0,
            retried=41 if broker == 3 else broker % 2,
            bytes=(9 - broker) * 1_204_551,
            **_percentiles("took", 900 * (9 if broker == 3 else 1) + 150 * i + 60 * broker),
        )
        for broker in range(1, 6)
        for i, api in enumerate(("LeaderAndIsr", "StopReplica", "UpdateMetadata"))
    ]


def _reassignments() -> list[Row]:
    return [
        row(
            "reassignments",
            topic="ledger.entries",
            partition=p,
            begun_ms=SECOND_MS + 600_000,
            ended_ms=None if p == 11 else SECOND_MS + 700_000 + p * 31_000,
            duration_us=None if p == 11 else (100_000 + p * 31_000) * 1000,
            outcome=None if p == 11 else "cancelled" if p == 4 else "completed",
            replicas=[1, 2, 3],
            adding=[4, 5],
            removing=[2, 3],
            waited_for=[5] if p % 2 else [4, 5],
            caught_up_ms=None if p in {4, 11} else SECOND_MS + 699_000 + p * 31_000,
        )
        for p in range(12)
    ]


def _deletions() -> list[Row]:
    asked = SECOND_MS + 300_000
    done = {"asked_ms": asked, "started_ms": asked + 18, "ended_ms": asked + 2_410, "duration_us": 2_410_000}
    blocked = {"asked_ms": asked + 60_000, "halts": 3, "halted_us": 812_000_000}
    why = "broker 3 is not live; a partition is being reassigned"
    return [
        row("deletions", topic="tmp-backfill", halts=0, halted_us=0, **done),
        row("deletions", topic="orders-v1", blocked_by=why, **blocked),
    ]


def _terms() -> list[Row]:
    old = {"epoch": 11, "node": STANDBY, "boot": "c01d22aa", "begin_ms": BEGIN_MS + 900, "ready_ms": BEGIN_MS + 2_100}
    new = {"epoch": 12, "node": NODE, "boot": BOOT, "begin_ms": BEGIN_MS + 1_019_000, "ready_ms": BEGIN_MS + 1_021_400}
    lost = {"end_ms": BEGIN_MS + 1_000_000, "how_ended": "expired", "reason": "ZooKeeper session lost"}
    return [
        row("terms", how_begun="elected", records=402_118, **old, **lost),
        row("terms", how_begun="elected", records=882_213, **new),
    ]


def _sources() -> list[Row]:
    return [
        row("sources", source="audit", node=node, boot=boot, records=records, first_ms=BEGIN_MS, last_ms=END_MS)
        for node, boot, records in ((NODE, BOOT, 882_213), (STANDBY, "c01d22aa", 402_118))
    ]


def _quality() -> list[Row]:
    gap = {"first_seq": 92_000, "last_seq": 92_119, "count": 120, "detail": "the disk was full for 4.1 s"}
    return [
        row("quality", node=NODE, boot=BOOT, what="gap", file="00000012.jsonl", line=4_410, **gap),
        row("quality", node=STANDBY, boot="c01d22aa", what="duplicate", file="00000003.jsonl.zst", line=77, count=14),
    ]


def _violations() -> list[Row]:
    known = {each.id: each for each in all_invariants()}
    found = (
        ("I-34", SECOND_MS + 40, 91_020, "orders-2 has a live ISR member (1) and was without a leader for 63.1 s"),
        ("I-34", SECOND_MS + 60, 91_021, "orders-1 has a live ISR member (4) and was without a leader for 61.0 s"),
        (
            "I-14",
            FIRST_MS + 63_294,
            88_560,
            "notifications-0: broker 1 was not in the ISR [3], unclean was not allowed",
        ),
    )
    return [
        row(
            "violations",
            id=id_,
            severity=known[id_].severity,
            title=known[id_].title,
            question=known[id_].question,
            node=NODE,
            boot=BOOT,
            seq=seq,
            ts_ms=ms,
            evidence=evidence,
            times=1,
        )
        for id_, ms, seq, evidence in found
    ]
