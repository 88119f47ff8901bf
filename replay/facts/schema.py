"""The columns of a fact: one row for a record of a log, or one for each partition that the record names. Pure.

Facts of every source have the same columns, so one set of queries serves for all of them. They are kept as Parquet,
partitioned by ``cluster`` and ``date``. Moments are milliseconds since 1970 (``_ms``), durations microseconds
(``_us``): whole numbers, so that every engine computes the same. Fields without a column are JSON in ``data``.
"""

from typing import Final, Literal, NamedTuple

Type = Literal["string", "int", "long", "bool", "ints"]


class Column(NamedTuple):
    """One column. Only ``date``, ``source``, ``row``, ``kind``, ``file`` and ``line`` are never null.

    A fact about bytes that cannot be decoded has no more of the place than the line before it shows, and a number that
    no column can hold is null.
    """

    name: str
    type: Type
    meaning: str


PLACE: Final = (
    Column("cluster", "string", "id of the cluster"),
    Column("date", "string", "day of the record in UTC, as 2026-01-31"),
    Column("source", "string", "`audit`: this project's log; `kafka`: logs of Kafka's own controller and brokers"),
    Column("node", "int", "who wrote the record: an instance's node id, a controller's or a broker's id"),
    Column("boot", "string", "one run of that process (of Kafka's logs: the name of the first file)"),
    Column("epoch", "int", "controller epoch of the writer's term, 0 outside of one"),
    Column("seq", "long", "number of the record within the boot"),
    Column("row", "int", "number of the partition within the record, from 0"),
    Column("event", "long", "number of the event being handled, 0 outside of one"),
    Column("ts_ms", "long", "wall clock"),
    Column("mono_us", "long", "a clock that never goes back within a boot; of Kafka's logs the wall clock"),
    Column("kind", "string", "kind of the record, as `controllerd.record.records` has it"),
    Column("file", "string", "the file it was read from"),
    Column("line", "long", "the line in that file"),
)
CHAIN: Final = (
    Column("hash", "long", "first eight bytes of the line's hash, on row 0 of an audit record"),
    Column("prev", "long", "first eight bytes of the hash of the line before"),
)
SUBJECT: Final = (
    Column("topic", "string", "the topic"),
    Column("partition", "int", "the partition"),
    Column("broker", "int", "the broker"),
    Column(
        "name", "string", "event: its name; request, response: the api; term, session: the change; else see `kinds`"
    ),
    Column("before", "string", "state before"),
    Column("after", "string", "state after; deletion and reassignment: the step; event_end: the outcome"),
    Column("reason", "string", "why, for people"),
    Column("leader", "int", "-1: none"),
    Column("leader_epoch", "int", ""),
    Column("isr", "ints", ""),
    Column("state_epoch", "int", "controller epoch inside the state znode"),
    Column("partition_epoch", "int", "version of the state znode"),
    Column("recovery", "int", "leader recovery state"),
    Column("replicas", "ints", ""),
    Column("adding", "ints", ""),
    Column("removing", "ints", ""),
    Column("unclean", "bool", "a leader outside of the ISR was decided on"),
    Column("state", "int", "ControllerState code of an event"),
    Column("queued_us", "long", "how long an event waited"),
    Column("took_us", "long", "how long an event, a request with its answer, or a transaction took"),
    Column("error", "int", "Kafka's error code"),
    Column("attempts", "int", "how often a request was sent"),
    Column("bytes", "long", "size of a request"),
    Column("zxid", "long", "of a transaction"),
    Column("bound", "string", "null: exact; `not before` or `not after`: the moment is only a bound"),
    Column("data", "string", "the fields of the record that have no column, as JSON; on row 0"),
)
COLUMNS: Final = (*PLACE, *CHAIN, *SUBJECT)
NAMES: Final = tuple(column.name for column in COLUMNS)
