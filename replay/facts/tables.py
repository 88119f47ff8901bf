"""The tables of a replay, for every engine. Pure.

Every engine returns the same rows in the same order: sorted by ``sort``, nulls first, whole numbers only. Percentiles
are exact (nearest rank). A moment that was not reached is null.
"""

from typing import Final, NamedTuple

from replay.facts.schema import Column, Type

MOST_ROWS: Final = 10_000
"""The most rows of one table, so that a result takes no more memory for a longer log."""


class Table(NamedTuple):
    """One table: its title, its columns, and the columns that it is sorted by."""

    name: str
    title: str
    columns: tuple[Column, ...]
    sort: tuple[str, ...]
    keeps: tuple[str, ...] = ()
    """The order of importance of the rows of a table that grows with the log, in the form of ``order_by``.

    An engine returns the first ``MOST_ROWS`` rows in this order, and counts the others; other tables have sums of all
    rows. Empty: the engine returns all rows.
    """

    def order_by(self, first: tuple[str, ...] = ()) -> str:
        """Return the clause that sorts rows equally in every engine: null first.

        :param first: columns that come before ``sort``. After ``-`` the largest value comes first. After ``?`` null
            comes first, and all other values count as equal
        """
        names = dict.fromkeys([*self.sort, *(column.name for column in self.columns)])
        return ", ".join([*map(_term, first), *map(_term, names)])


def _term(spec: str) -> str:
    name = f"`{spec.lstrip('-?')}`"
    if spec.startswith("?"):
        return f"{name} IS NOT NULL"
    return f"{name} DESC NULLS FIRST" if spec.startswith("-") else f"{name} ASC NULLS FIRST"


def _columns(*specs: str) -> tuple[Column, ...]:
    """Return the columns of texts ``name:type:meaning``."""
    types: dict[str, Type] = {"s": "string", "i": "int", "l": "long", "b": "bool", "I": "ints"}
    parts = [spec.split(":", 2) for spec in specs]
    return tuple(Column(name, types[kind], meaning) for name, kind, meaning in parts)


_PARTITION: Final = ("cluster:s:cluster id", "topic:s:", "partition:i:")
_PERCENTILES: Final = tuple(
    f"{what}_{point}_us:l:" for what in ("queued", "took") for point in ("p50", "p95", "p99", "max")
)

TABLES: Final = (
    Table(
        "sources",
        "What was read: each run of each process",
        _columns(
            "cluster:s:",
            "source:s:`audit` or `kafka`",
            "node:i:",
            "boot:s:",
            "records:l:",
            "level:s:`audit.level`, as its snapshots say it",
            "first_ms:l:",
            "last_ms:l:",
        ),
        ("cluster", "source", "node", "boot"),
    ),
    Table(
        "windows",
        "Partitions without a leader",
        _columns(
            *_PARTITION,
            "start_ms:l:wall clock",
            "end_ms:l:null while it lasts",
            "duration_us:l:by the monotonic clock where one boot saw both ends; null while it lasts",
            "start_bound:s:null exact, else `not before` or `not after`",
            "end_bound:s:",
            "ended_by:s:`leader`, `unclean leader`, `deleted`, `unknown`",
            "cause:s:the event that began it, for people",
            "leader_before:i:",
            "leader_after:i:",
            "start_epoch:i:controller epoch",
            "start_node:i:",
            "start_boot:s:",
            "start_seq:l:",
            "start_event:l:",
            "end_epoch:i:",
            "end_node:i:",
            "end_boot:s:",
            "end_seq:l:",
            "end_event:l:",
        ),
        ("cluster", "start_ms", "topic", "partition"),
        ("-duration_us",),
    ),
    Table(
        "topic_windows",
        "Time without leader by topic",
        _columns(
            "cluster:s:",
            "topic:s:",
            "windows:l:",
            "partitions:l:partitions that had one",
            "total_us:l:sum over partitions",
            "longest_us:l:",
            "first_ms:l:",
            "last_ms:l:",
            "open:l:windows that still last",
        ),
        ("cluster", "topic"),
    ),
    Table(
        "cluster_windows",
        "Time without leader of the cluster",
        _columns(
            "cluster:s:",
            "windows:l:",
            "partitions:l:",
            "topics:l:",
            "total_us:l:sum over partitions",
            "any_us:l:time in which at least one partition had none",
            "longest_us:l:",
            "most_at_once:l:",
            "open:l:",
        ),
        ("cluster",),
    ),
    Table(
        "heat",
        "Partition-seconds without leader by topic and time (at most 200 topics, the worst)",
        _columns("cluster:s:", "topic:s:", "bucket_ms:l:start of the bucket", "width_ms:l:", "lost_us:l:"),
        ("cluster", "topic", "bucket_ms"),
    ),
    Table(
        "incidents",
        "Windows that belong together: no more than a minute apart",
        _columns(
            "cluster:s:",
            "incident:i:from 1",
            "start_ms:l:",
            "end_ms:l:null while it lasts",
            "windows:l:",
            "partitions:l:",
            "topics:l:",
            "total_us:l:",
            "longest_us:l:",
            "worst_topic:s:",
            "cause:s:of the first window",
        ),
        ("cluster", "incident"),
        ("?end_ms", "-total_us"),
    ),
    Table(
        "incident_chain",
        "What happened before and during an incident, in order",
        _columns(
            "cluster:s:",
            "incident:i:",
            "ts_ms:l:",
            "node:i:",
            "boot:s:",
            "epoch:i:",
            "seq:l:",
            "kind:s:of the record",
            "text:s:for people",
        ),
        ("cluster", "incident", "ts_ms", "epoch", "node", "boot", "seq"),
        ("-ts_ms",),
    ),
    Table(
        "timeline",
        "Terms, brokers, alarms, quarantine, gaps: everything that is rare and matters",
        _columns(
            "cluster:s:", "ts_ms:l:", "node:i:", "boot:s:", "epoch:i:", "seq:l:", "event:l:", "kind:s:", "text:s:"
        ),
        ("cluster", "ts_ms", "epoch", "node", "boot", "seq", "text"),
        ("-ts_ms",),
    ),
    Table(
        "isr_changes",
        "ISRs that shrank or grew",
        _columns(
            *_PARTITION,
            "ts_ms:l:",
            "epoch:i:",
            "node:i:",
            "boot:s:",
            "seq:l:",
            "event:l:",
            "change:s:`shrink`, `expand`, `replace`",
            "before:I:",
            "after:I:",
            "event_name:s:",
        ),
        ("cluster", "topic", "partition", "epoch", "node", "boot", "seq"),
        ("-ts_ms",),
    ),
    Table(
        "churn",
        "Changes by partition, only of those that changed",
        _columns(
            *_PARTITION,
            "leader_changes:l:",
            "epoch_bumps:l:",
            "shrinks:l:",
            "expands:l:",
            "elections:l:",
            "windows:l:",
            "last_ms:l:",
        ),
        ("cluster", "topic", "partition"),
    ),
    Table(
        "elections",
        "Elections by kind",
        _columns(
            "cluster:s:",
            "strategy:s:",
            "unclean:b:",
            "events:l:",
            "partitions:l:",
            "first_ms:l:",
            "last_ms:l:",
        ),
        ("cluster", "strategy", "unclean"),
    ),
    Table(
        "events",
        "Waiting and handling times by event",
        _columns("cluster:s:", "name:s:", "state:i:", "count:l:", "failed:l:not `done`", *_PERCENTILES),
        ("cluster", "name", "state"),
    ),
    Table(
        "requests",
        "Answers of brokers by broker and api",
        _columns(
            "cluster:s:",
            "broker:i:",
            "api:s:",
            "count:l:",
            "errors:l:",
            "retried:l:needed more than one attempt",
            "bytes:l:",
            *(spec for spec in _PERCENTILES if spec.startswith("took")),
        ),
        ("cluster", "broker", "api"),
    ),
    Table(
        "reassignments",
        "Reassignments of partitions, and what held them up",
        _columns(
            *_PARTITION,
            "begun_ms:l:",
            "ended_ms:l:null while it lasts",
            "duration_us:l:",
            "outcome:s:`completed`, `cancelled`, `overridden`, `deleted`, null while it lasts",
            "replicas:I:when it began",
            "adding:I:",
            "removing:I:",
            "waited_for:I:adding replicas that were last to join the ISR, or have not joined it",
            "caught_up_ms:l:when the last of them joined",
        ),
        ("cluster", "begun_ms", "topic", "partition"),
        ("-duration_us",),
    ),
    Table(
        "deletions",
        "Deletions of topics, and what held them up",
        _columns(
            "cluster:s:",
            "topic:s:",
            "asked_ms:l:",
            "started_ms:l:",
            "ended_ms:l:null while it lasts",
            "duration_us:l:",
            "halts:l:",
            "halted_us:l:",
            "blocked_by:s:reasons, separated by `; `",
        ),
        ("cluster", "asked_ms", "topic"),
        ("-duration_us",),
    ),
    Table(
        "terms",
        "Terms of controllers",
        _columns(
            "cluster:s:",
            "epoch:i:",
            "node:i:",
            "boot:s:",
            "begin_ms:l:",
            "ready_ms:l:end of the first event of the term",
            "end_ms:l:null while it lasts, or if its end was not recorded",
            "how_begun:s:",
            "how_ended:s:",
            "reason:s:",
            "records:l:",
        ),
        ("cluster", "epoch", "node", "boot"),
    ),
    Table(
        "partitions",
        "The last known state of every partition",
        _columns(
            *_PARTITION,
            "leader:i:",
            "leader_epoch:i:",
            "isr:I:",
            "partition_epoch:i:",
            "replicas:I:",
            "adding:I:",
            "removing:I:",
            "state:s:",
        ),
        ("cluster", "topic", "partition"),
    ),
    Table(
        "quality",
        "What the logs lack: gaps, duplicates, damage, unknown lines",
        _columns(
            "cluster:s:null where unknown",
            "node:i:",
            "boot:s:",
            "what:s:`gap`, `missing`, `duplicate`, `chain`, `damaged`, `newer schema`, `torn tail`, "
            "`unknown kind`, `unknown line`, `clock skew`",
            "first_seq:l:",
            "last_seq:l:",
            "file:s:",
            "line:l:",
            "count:l:",
            "detail:s:",
        ),
        ("cluster", "node", "boot", "what", "first_seq", "file", "line"),
    ),
    Table(
        "violations",
        "Invariants that do not hold",
        _columns(
            "cluster:s:",
            "id:s:",
            "severity:s:",
            "title:s:",
            "question:s:",
            "node:i:",
            "boot:s:",
            "seq:l:0: only the complete log shows it",
            "ts_ms:l:",
            "evidence:s:",
            "times:l:1; of the row that stands for those beyond the first thousand of an invariant, their number",
        ),
        ("cluster", "id", "node", "boot", "seq", "evidence"),
    ),
)
BY_NAME: Final = {table.name: table for table in TABLES}
