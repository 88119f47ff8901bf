"""The logs of stock brokers under Kafka's own controller have the same windows without leader as ZooKeeper's log."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pytest

from controllerd.dev.cluster import CHROOT
from controllerd.dev.txnlog import Logged, LoggedTransaction, TransactionLog
from controllerd.zk import codecs, paths
from replay.facts.engine import Inputs, Row
from replay.ingest.kafka.reader import read_logs
from replay.local.engine import LocalEngine
from tests.real.history import WRITES, effective, registrations
from tests.real.logged_cluster import DOOMED, ORDERS, LoggedCluster, open_logged_cluster
from tests.real.operator import DELETE, tp


class Bound(NamedTuple):
    """The greatest delays in milliseconds: of half of the windows, and of each window on a busy machine."""

    half: int
    each: int


NOTICED: Final = Bound(500, 2_000)
"""The delay from the end of a broker's session to the controller's line about it."""
WRITTEN: Final = Bound(50, 1_000)
"""The delay from the state in ZooKeeper to the controller's line about it."""
LED: Final = Bound(1_500, 10_000)
"""The delay from the state in ZooKeeper to the line of the new leader; longer just after its start."""
ROUNDING_MS: Final = 2
UNKNOWN: Final = 0.005
MOSTLY: Final = 0.7


class Window(NamedTuple):
    """A window without a leader."""

    partition: tuple[str, int]
    start_ms: int
    end_ms: int | None


class Measured:
    """Windows by ZooKeeper's own log: no leader or an unregistered one, and no request to delete the topic."""

    def __init__(self, transactions: Sequence[LoggedTransaction]) -> None:
        self._sessions = registrations(transactions)
        self._leaders: dict[tuple[str, int], int] = {}
        self._live: set[int] = set()
        self._being_deleted: set[str] = set()
        self._open: dict[tuple[str, int], int] = {}
        self.windows: list[Window] = []
        for each in effective(transactions):
            for operation in each.operations:
                self._apply(operation, each.session_id)
            self._update_windows(each.time_ms)
        self.windows += [Window(partition, since, None) for partition, since in self._open.items()]
        self.windows.sort()

    def _apply(self, operation: Logged, session_id: int) -> None:
        path = operation.path.removeprefix(CHROOT)
        head, _, name = path.rpartition("/")
        partition = paths.parse_partition(path)
        if operation.op == "closeSession" and session_id in self._sessions:
            self._live.discard(self._sessions[session_id])
        elif head == paths.BROKER_IDS and operation.op == "create":
            self._live.add(int(name))
        elif head == DELETE and operation.op == "create":
            self._being_deleted.add(name)
        elif partition is not None and name == "state" and operation.op in WRITES:
            state = codecs.decode_state(partition, operation.data, 0)
            self._leaders[partition.topic, partition.partition] = state.leader

    def _update_windows(self, time_ms: int) -> None:
        for partition, leader in self._leaders.items():
            lacks = leader not in self._live and partition[0] not in self._being_deleted
            if lacks and partition not in self._open:
                self._open[partition] = time_ms
            elif not lacks and partition in self._open:
                self.windows.append(Window(partition, self._open.pop(partition), time_ms))


def windows_of(facts: Iterable[Row]) -> list[Window]:
    """Windows by the facts: from offline to the line of the new leader, or to the election without such a line."""
    ordered = sorted((row for row in facts if row["kind"] in {"partition_state", "leadership"}), key=_place)
    leads = {_election(row): _int(row["ts_ms"]) for row in facts if row["kind"] == "broker_leader"}
    open_since: dict[tuple[str, int], int] = {}
    newest: dict[tuple[str, int], Row] = {}
    windows = []
    for row in ordered:
        partition = (str(row["topic"]), _int(row["partition"]))
        if row["kind"] == "leadership":
            newest[partition] = row
        elif row["after"] == "OfflinePartition":
            open_since.setdefault(partition, _int(row["ts_ms"]))
        elif partition in open_since:
            end = leads.get(_election(newest[partition]), _int(row["ts_ms"]))
            windows.append(Window(partition, open_since.pop(partition), end))
    windows += [Window(partition, since, None) for partition, since in open_since.items()]
    return sorted(windows)


def _place(row: Row) -> tuple[int, ...]:
    return tuple(_int(row[name]) for name in ("epoch", "node", "seq", "row"))


def _election(row: Row) -> tuple[object, ...]:
    return row["topic"], row["partition"], row["leader_epoch"]


def by_the_engine(logs: Sequence[Path], out: Path) -> list[Window]:
    """Windows as the replay engine returns them to an operator."""
    engine = LocalEngine(processes=1)
    engine.ingest(Inputs(tuple(map(str, logs)), cluster="real"), str(out))
    rows = engine.tables(str(out), ["windows"])["windows"]
    assert {row["start_bound"] for row in rows} == {"not after"}
    exact = [
        row["end_bound"] is None for row in rows
    ]  # the bound is missing where a leader was replaced before it started
    assert sum(exact) >= MOSTLY * len(exact), rows
    return sorted(Window((str(r["topic"]), _int(r["partition"])), _int(r["start_ms"]), _int(r["end_ms"])) for r in rows)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def distances(found: Sequence[Window], true: Sequence[Window]) -> tuple[list[int], list[int]]:
    """How much later each window begins and ends than the true one; the partitions must be the same."""
    assert [window.partition for window in found] == [window.partition for window in true]
    starts = [one.start_ms - other.start_ms for one, other in zip(found, true, strict=True)]
    assert [one.end_ms is None for one in found] == [other.end_ms is None for other in true]
    ends = [one.end_ms - other.end_ms for one, other in zip(found, true, strict=True) if one.end_ms and other.end_ms]
    print(
        f"{len(true)} windows; begin {min(starts)} to {max(starts)} ms later, end {min(ends)} to {max(ends)} ms later"
    )
    return starts, ends


def counted(facts: Iterable[Row]) -> Counter[str]:
    """The counts of all files together."""
    total: Counter[str] = Counter()
    for row in facts:
        if row["kind"] == "log_file":
            total.update(json.loads(str(row["data"])))
    return total


async def make_incidents(cluster: LoggedCluster) -> None:
    """Kill brokers alone, in pairs and as leaders; move partitions; delete a topic; shut brokers down."""
    await cluster.create_topics()
    first = await cluster.controller()
    await cluster.kill(next(broker for broker in (1, 2, 3) if broker != first))
    await cluster.reassign()
    await cluster.delete(DOOMED)
    await cluster.kill(first)
    second = await cluster.controller()
    others = [broker for broker in (1, 2, 3) if broker != second]
    await cluster.shut_down(others[0])
    await cluster.operator.prefer_by_znode(*(tp(ORDERS, partition) for partition in range(6)))
    await cluster.kill(*others)
    await cluster.shut_down(second)


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(400)
async def test_real_logs_have_the_windows_of_zookeepers_log(tmp_path: Path) -> None:
    async with open_logged_cluster(tmp_path) as cluster:
        await make_incidents(cluster)
        transactions = TransactionLog(cluster.zookeeper.data_directory).read_new()
        logs = cluster.logs()
        judge(logs, transactions, tmp_path / "replay")


def judge(logs: Sequence[Path], transactions: Sequence[LoggedTransaction], out: Path) -> None:
    """Check that the lines are understood, and that the windows are those of ZooKeeper within the documented bounds."""
    facts = list(read_logs(logs))
    counts = counted(facts)
    print(dict(counts))
    unknown = [row["data"] for row in facts if row["kind"] == "unknown_line"]
    assert len(unknown) == counts["unknown"] < UNKNOWN * counts["entries"], unknown
    true = Measured(transactions).windows
    assert true

    starts, ends = distances(windows_of(facts), true)
    assert_within(NOTICED, starts)
    assert_within(LED, ends)
    assert by_the_engine(logs, out) == windows_of(facts)

    of_controllers = [row for row in facts if row["kind"] != "broker_leader"]
    starts, ends = distances(windows_of(of_controllers), true)
    assert_within(WRITTEN, ends)


def assert_within(bound: Bound, late_ms: Sequence[int]) -> None:
    """Check that no delay is negative or beyond the bound, and that the median is within the smaller bound."""
    assert min(late_ms) >= -ROUNDING_MS
    assert max(late_ms) <= bound.each, sorted(late_ms)
    assert median(late_ms) <= bound.half, sorted(late_ms)
