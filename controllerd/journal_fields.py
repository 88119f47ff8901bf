"""Converts the keys of a log line into fields of the journal, so that ``journalctl KAFKA_TOPIC=payments`` finds it."""

from collections.abc import Collection, Iterator
from typing import Final

from structlog.typing import EventDict, WrappedLogger

from controllerd.journal import Field

FIELDS: Final = {
    "event_id": "CONTROLLERD_EVENT_ID",
    "event_name": "CONTROLLERD_EVENT",
    "epoch": "CONTROLLER_EPOCH",
    "topic": "KAFKA_TOPIC",
    "topics": "KAFKA_TOPIC",
    "partition": "KAFKA_PARTITION",
    "partitions": "KAFKA_PARTITION",
    "broker": "KAFKA_BROKER",
    "brokers": "KAFKA_BROKER",
}
"""The field of each key. A collection repeats the field. A plural key with a number is a count and no field."""
MAX_VALUES: Final = 50
"""The most values of one field in one entry."""
_COUNTS: Final = frozenset({"topics", "partitions", "brokers"})


def fields_of(line: EventDict) -> Iterator[Field]:
    """The fields of a line, without its text."""
    for key, name in FIELDS.items():
        value = line.get(key)
        if value is None or (key in _COUNTS and isinstance(value, int)):
            continue
        values = list(value) if isinstance(value, Collection) and not isinstance(value, str | bytes) else [value]
        yield from ((name, str(one)) for one in values[:MAX_VALUES])


def readable(_logger: WrappedLogger, _method: str, line: EventDict) -> str:
    """The text of a line: the event, then the other keys. Time and level are fields of the journal already."""
    rest = {key: value for key, value in line.items() if key not in {"event", "level", "timestamp", "exception"}}
    text = " ".join([str(line.get("event", "")), *(f"{key}={_quoted(value)}" for key, value in rest.items())])
    return f"{text}\n{line['exception']}" if "exception" in line else text


def _quoted(value: object) -> str:
    """Quote a text unless it is one printable word, so that it can neither end the line nor control a terminal."""
    text = str(value)
    is_word = text.isprintable() and " " not in text and text != ""
    return text if is_word or not isinstance(value, str) else repr(text)
