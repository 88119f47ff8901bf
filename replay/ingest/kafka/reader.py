"""Read Kafka's own logs as facts: ``state-change.log`` and ``controller.log`` of 2.6 to 3.9, of all brokers.

A window may begin at a line of one file for a partition that another file names, so all files of a cluster are read
together: `parse_file` parses each file, in any process, and `read_logs` puts all rows in order and derives facts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from replay.facts.engine import Row
from replay.facts.schema import NAMES
from replay.ingest.kafka.derive import Deriver, day
from replay.ingest.kafka.ordering import Parsed, age, in_order
from replay.ingest.kafka.parse import ParseOptions, parse_file
from replay.ingest.kafka.scala_values import Fields

SOURCE: Final = "kafka"
_NAME: Final = re.compile(
    r"(?:state-?change|controller|server|kafka-\d+|kafkaServer)\.(?:log|out)(?:\.[\d-]+)?(?:\.gz)?$"
)


class LogOptions(NamedTuple):
    """Options for the logs of a cluster."""

    cluster: str = "kafka"
    """The name of the cluster, which the logs do not contain."""
    pattern: str | None = None
    """log4j's ConversionPattern; None: the known one that fits."""
    zone: str = "UTC"
    """Time zone of the brokers: log4j writes local time."""


DEFAULT: Final = LogOptions()


def is_kafka_log(path: Path | str) -> bool:
    """Return whether a file has the name of one of Kafka's logs that the replay reads, rolled or packed or neither."""
    return _NAME.search(Path(path).name) is not None


def parser(options: LogOptions) -> Parsed:
    """Return the function that turns one file into raw rows; it can be sent to other processes."""
    return partial(parse_file, options=ParseOptions(options.pattern, options.zone))


def read_logs(files: Sequence[Path], options: LogOptions = DEFAULT, parsed: Parsed | None = None) -> Iterator[Row]:
    """Return the facts of the logs of one cluster, with all columns, in the order of epochs and time.

    ``parsed`` returns the raw rows of a file, for callers that have parsed the files in other processes.

    :raises ReplayError: a file cannot be opened or parsed, or there is no such time zone; the text says what to do
    """
    if files:
        boot = min(files, key=lambda path: (age(path), path.name)).name
        yield from numbered(derived(in_order(files, parsed or parser(options))), options.cluster, boot)


def derived(rows: Iterable[Fields]) -> Iterator[Fields]:
    """Yield the facts of ordered raw rows, without their numbers."""
    deriver = Deriver()
    for row in rows:
        yield from deriver.facts(row)
    yield from deriver.finish()


def numbered(facts: Iterable[Fields], cluster: str, boot: str) -> Iterator[Row]:
    """Yield facts with all columns. Rows of one kind from one line are one record, and share its number."""
    seq, number = 0, 0
    record: tuple[object, ...] = ()
    for fact in facts:
        this = (fact["file"], fact["line"], fact["kind"])
        seq, number = (seq, number + 1) if this == record else (seq + 1, 0)
        record = this
        ts_ms, order_ms = fact["ts_ms"], fact["order_ms"]
        assert isinstance(ts_ms, int)
        assert isinstance(order_ms, int)
        row: Row = dict.fromkeys(NAMES)
        row.update((name, value) for name, value in fact.items() if name in row)
        row.update(cluster=cluster, date=day(ts_ms), source=SOURCE, boot=boot, seq=seq, row=number)
        row["event"] = fact.get("event", 0)
        row["mono_us"] = 1000 * order_ms
        yield row
