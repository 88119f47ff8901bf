"""The figures to compare with: measurements of the built-in controller, and the targets for 100,000 partitions.

The built-in controller is that of Apache Kafka 3.9.0-rc3 in a cold JVM on the same kind of machine, with the same
definitions, five stubs and one ZooKeeper with fsync; figures are medians. Figures that were not measured but follow
from its source are counted per partition.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench import layout

TARGET_SIZE: Final = 100_000
_UM_ENTRY: Final = 48
_SR_ENTRY: Final = 10
_TOPIC: Final = 28
_HEAD: Final = 512


class Row(NamedTuple):
    """One line of the report: a metric of a workload, its label and its decimal places."""

    workload: str
    metric: str
    label: str
    digits: int = 0


ROWS: Final = (
    Row("W3", "ready_s", "/controller created -> all P at the last stub, s", 2),
    Row("W3", "first_request_s", "first request to any broker, s", 2),
    Row("W3", "last_request_s", "last request, s", 2),
    Row("W3", "zk_reads", "ZooKeeper read requests"),
    Row("W3", "zk_transactions", "ZooKeeper transactions"),
    Row("W3", "requests", "requests"),
    Row("W3", "request_bytes", "request bytes"),
    Row("W3", "entries_lisr", "entries of LeaderAndIsr"),
    Row("W3", "entries_um", "entries of UpdateMetadata"),
    Row("W3", "cpu_s", "processor, start of the process included, s", 1),
    Row("W3", "zk_cpu_s", "processor of ZooKeeper, s", 1),
    Row("W3", "rss_mib", "peak RSS, MiB"),
    Row("W3", "away_ms", "longest block of the event loop, ms"),
    Row("W1", "leaders_s", "last new leader informed, s", 2),
    Row("W1", "leaders_p50_s", "median new leader informed, s", 2),
    Row("W1", "partition_seconds", "partition-seconds without leader"),
    Row("W1", "last_request_s", "last request of the event, s", 2),
    Row("W1", "last_write_s", "last state write received by ZooKeeper, s", 2),
    Row("W1", "zk_transactions", "ZooKeeper transactions"),
    Row("W1", "zk_operations", "ZooKeeper operations without checks"),
    Row("W1", "zk_log_bytes", "bytes in ZooKeeper's transaction log"),
    Row("W1", "zk_reads", "ZooKeeper read requests"),
    Row("W1", "requests", "requests"),
    Row("W1", "request_bytes", "request bytes"),
    Row("W1", "entries_lisr", "entries of LeaderAndIsr"),
    Row("W1", "entries_um", "entries of UpdateMetadata"),
    Row("W1", "cpu_s", "processor, s", 1),
    Row("W1", "zk_cpu_s", "processor of ZooKeeper, s", 1),
    Row("W1", "rss_mib", "peak RSS, MiB"),
    Row("W1", "away_ms", "longest block of the event loop, ms"),
    Row("W2", "last_request_s", "last request of the event, s", 2),
    Row("W2", "zk_transactions", "ZooKeeper transactions"),
    Row("W2", "requests", "requests"),
    Row("W2", "request_bytes", "request bytes"),
    Row("W2", "entries_lisr", "entries of LeaderAndIsr"),
    Row("W2", "entries_um", "entries of UpdateMetadata"),
    Row("W2", "cpu_s", "processor, s", 1),
    Row("W2", "zk_cpu_s", "processor of ZooKeeper, s", 1),
    Row("W2", "rss_mib", "peak RSS, MiB"),
    Row("W2", "away_ms", "longest block of the event loop, ms"),
    Row("W5", "rpc_s", "ControlledShutdown answered, s", 2),
    Row("W5", "last_request_s", "last request of the event, s", 2),
    Row("W5", "last_write_s", "last state write received by ZooKeeper, s", 2),
    Row("W5", "zk_transactions", "ZooKeeper transactions"),
    Row("W5", "zk_operations", "ZooKeeper operations without checks"),
    Row("W5", "zk_reads", "ZooKeeper read requests"),
    Row("W5", "requests", "requests"),
    Row("W5", "request_bytes", "request bytes"),
    Row("W5", "entries_lisr", "entries of LeaderAndIsr"),
    Row("W5", "entries_um", "entries of UpdateMetadata"),
    Row("W5", "cpu_s", "processor, s", 1),
    Row("W5", "zk_cpu_s", "processor of ZooKeeper, s", 1),
    Row("W5", "rss_mib", "peak RSS, MiB"),
    Row("W5", "away_ms", "longest block of the event loop, ms"),
    Row("W6", "lisr_s", "last LeaderAndIsr, s", 2),
    Row("W6", "last_request_s", "last request of the event, s", 2),
    Row("W6", "last_write_s", "last state write received by ZooKeeper, s", 2),
    Row("W6", "zk_transactions", "ZooKeeper transactions"),
    Row("W6", "zk_operations", "ZooKeeper operations without checks"),
    Row("W6", "requests", "requests"),
    Row("W6", "request_bytes", "request bytes"),
    Row("W6", "entries_lisr", "entries of LeaderAndIsr"),
    Row("W6", "entries_um", "entries of UpdateMetadata"),
    Row("W6", "cpu_s", "processor, s", 1),
    Row("W6", "zk_cpu_s", "processor of ZooKeeper, s", 1),
    Row("W6", "rss_mib", "peak RSS, MiB"),
    Row("W6", "away_ms", "longest block of the event loop, ms"),
)

GROWING_ROWS: Final = tuple(
    Row(workload, metric, label, digits)
    for workload, seconds, time in (
        ("W7", "gone_s", "last topic gone, s"),
        ("W8", "done_s", "last move done, s"),
        ("W8S", "done_s", "last move done, s"),
    )
    for metric, label, digits in (
        (seconds, time, 2),
        ("zk_transactions", "ZooKeeper transactions", 0),
        ("zk_operations", "ZooKeeper operations without checks", 0),
        ("zk_log_bytes", "bytes in ZooKeeper's transaction log", 0),
        ("topic_writes", "times that a topic was rewritten", 0),
        ("requests", "requests", 0),
        ("request_bytes", "request bytes", 0),
        ("entries_lisr", "entries of LeaderAndIsr", 0),
        ("entries_um", "entries of UpdateMetadata", 0),
        ("entries_sr", "entries of StopReplica", 0),
        ("cpu_s", "processor, s", 2),
        ("away_ms", "longest block of the event loop, ms", 0),
    )
)

_MOVES: Final[Mapping[str, tuple[float, float]]] = {
    "zk_transactions": (0.01, 50),
    "zk_operations": (4.4, 150),
    "zk_log_bytes": (700, 60_000),
    "requests": (0, 150),
    "request_bytes": (2_500, 60_000),
    "entries_lisr": (12, 500),
    "entries_um": (31, 500),
    "entries_sr": (2.6, 100),
}
"""Two or three of three replicas are new; leaders report them one after another, each for all its partitions."""
ALLOWED: Final[Mapping[tuple[str, str], tuple[float, float]]] = {
    ("W7", "zk_transactions"): (0.011, 12),
    ("W7", "zk_operations"): (5.1, 0),
    ("W7", "zk_log_bytes"): (550, 5_000),
    ("W7", "topic_writes"): (0, 0),
    ("W7", "requests"): (0, 15),
    ("W7", "request_bytes"): (310, 5_000),
    ("W7", "entries_lisr"): (0, 0),
    ("W7", "entries_um"): (5, 0),
    ("W7", "entries_sr"): (6, 0),
    **{(workload, metric): most for workload in ("W8", "W8S") for metric, most in _MOVES.items()},
    ("W8", "topic_writes"): (0, 10 * (1 + layout.BROKERS)),
    ("W8S", "topic_writes"): (0, 1 + layout.BROKERS),
}
"""The limits of deletions and reassignments: the amount for each partition, and a constant amount."""


def allowed(row: Row, partitions: int) -> float | None:
    """Return the limit of a deletion or reassignment of this many partitions; None: there is no limit."""
    if (row.workload, row.metric) not in ALLOWED:
        return None
    each, besides = ALLOWED[row.workload, row.metric]
    return each * partitions + besides


_MEASURED: Final[Mapping[int, Mapping[tuple[str, str], float]]] = {
    10_000: {
        ("W3", "ready_s"): 3.17, ("W3", "first_request_s"): 2.43, ("W3", "cpu_s"): 4.7, ("W3", "rss_mib"): 514,
        ("W1", "leaders_s"): 1.51, ("W1", "last_request_s"): 3.62, ("W1", "partition_seconds"): 3_011,
        ("W1", "cpu_s"): 4.0, ("W1", "rss_mib"): 525, ("W2", "last_request_s"): 0.13, ("W5", "rpc_s"): 3.35,
        ("W6", "lisr_s"): 4.64,
    },
    50_000: {
        ("W3", "ready_s"): 8.37, ("W3", "first_request_s"): 6.33, ("W3", "cpu_s"): 10.7, ("W3", "rss_mib"): 785,
        ("W1", "leaders_s"): 3.46, ("W1", "last_request_s"): 9.64, ("W1", "partition_seconds"): 34_546,
        ("W1", "cpu_s"): 8.2, ("W1", "rss_mib"): 790, ("W2", "last_request_s"): 0.47, ("W5", "rpc_s"): 8.01,
        ("W6", "lisr_s"): 4.64,
    },
    100_000: {
        ("W3", "ready_s"): 14.36, ("W3", "first_request_s"): 10.95, ("W3", "cpu_s"): 17.4, ("W3", "rss_mib"): 1_069,
        ("W1", "leaders_s"): 6.74, ("W1", "last_request_s"): 17.70, ("W1", "partition_seconds"): 134_264,
        ("W1", "cpu_s"): 13.9, ("W1", "rss_mib"): 1_118, ("W2", "last_request_s"): 1.02, ("W5", "rpc_s"): 15.78,
        ("W6", "lisr_s"): 4.50,
    },
}  # fmt: skip

TARGETS: Final[Mapping[tuple[str, str], float]] = {
    ("W3", "ready_s"): 1.4,
    ("W3", "zk_reads"): 400,
    ("W1", "leaders_s"): 0.7,
    ("W1", "last_request_s"): 1.8,
    ("W1", "zk_transactions"): 240,
    ("W2", "last_request_s"): 1.0,
    ("W5", "rpc_s"): 1.6,
    ("W5", "zk_transactions"): 240,
    ("W6", "lisr_s"): 0.9,
    **{(workload, "rss_mib"): 280 for workload in ("W1", "W2", "W3", "W5", "W6")},
    **{(workload, "away_ms"): 50 for workload in ("W1", "W2", "W3", "W5", "W6")},
}
"""The limits at 100,000 partitions."""

MAY_NOT_EXCEED: Final = frozenset({"requests", "request_bytes", "entries_lisr", "entries_um"})
"""Counts that must not exceed the built-in controller's, at any size."""


def built_in(workload: str, metric: str, partitions: int, new_topics: int) -> float | None:
    """Return the built-in controller's figure; None if it is not known."""
    measured = _MEASURED.get(partitions, {}).get((workload, metric))
    return measured if measured is not None else _counted(partitions, new_topics).get((workload, metric))


class RequestCounts(NamedTuple):
    """The control requests of a workload: their number, the number with partitions, and the entries of each API."""

    requests: int
    with_partitions: int
    lisr: float
    um: float
    sr: float = 0
    lisr_entry: int = 51
    """Bytes of an entry: 51 with three brokers in the ISR, 47 with two."""

    def bytes_with(self, topics: int) -> float:
        """Return their size in the newest versions: entries, 28 bytes a topic in each request, and the heads."""
        entries = self.lisr_entry * self.lisr + _UM_ENTRY * self.um + _SR_ENTRY * self.sr
        return entries + _TOPIC * topics * self.with_partitions + _HEAD * self.requests


def _request_counts(p: int, new: int) -> Mapping[str, RequestCounts]:
    """Return the counts of W1 as measured, and of the others as Kafka's source gives them, event by event."""
    n, rf, full = layout.BROKERS, layout.REPLICATION, 3 * layout.BROKERS
    return {
        "W3": RequestCounts(full, 2 * n, rf * p, n * p),
        "W1": RequestCounts(16, 16, 1.6 * p, 3.2 * p, lisr_entry=47),
        "W2": RequestCounts(2 * n + 1, n + 2, 0.6 * p, (1 + 0.6 * n) * p, lisr_entry=47),
        "W5": RequestCounts(21, 21, 1.4 * p, 0.6 * n * p, 0.8 * p, lisr_entry=47),
        "W6": RequestCounts(2 * n, 2 * n, rf * new, n * new),
    }


def _counted(p: int, new_topics: int) -> Mapping[tuple[str, str], float]:
    """Return transactions as measured, requests by ``_request_counts``, and reads as Kafka's source gives them."""
    topics, new = p // layout.TOPIC_PARTITIONS, new_topics * layout.TOPIC_PARTITIONS
    counted: dict[tuple[str, str], float] = {
        ("W3", "zk_reads"): p + topics + 1,
        ("W1", "zk_transactions"): 0.6 * p + 1,
        ("W5", "zk_transactions"): 0.6 * p,
        ("W6", "zk_transactions"): 2 * new + new_topics + 2,
    }
    for workload, sent in _request_counts(p, new).items():
        counted[workload, "requests"] = sent.requests
        counted[workload, "entries_lisr"], counted[workload, "entries_um"] = sent.lisr, sent.um
        counted[workload, "request_bytes"] = sent.bytes_with(new_topics if workload == "W6" else topics)
    return counted
