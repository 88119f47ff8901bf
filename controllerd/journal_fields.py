"""What of a log line becomes a field of the journal, so that ``journalctl KAFKA_TOPIC=payments`` finds it."""

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
"""Keys of a line to fields. A collection repeats the field; a plural that holds a number only counts."""
MAX_VALUES: Final = 50
"""Of one field in one entry."""
_COUNTS: Final = frozenset({"topics", "partitions", "brokers"})


def fields_of(line: EventDict) -> Iterator[Field]:
    """The fields of one line, without its text."""
    for key, name in FIELDS.items():
        value = line.get(key)
        if value is None or (key in _COUNTS and isinstance(value, int)):
            continue
        values = list(value) if isinstance(value, Collection) and not isinstance(value, str | bytes) else [value]
        yield from ((name, str(one)) for one in values[:MAX_VALUES])


def readable(_logger: WrappedLogger, _method: str, line: EventDict) -> str:
    """The text of a line for people: what happened, then everything else; without time and level, which are fields."""
    rest = {key: value for key, value in line.items() if key not in {"event", "level", "timestamp", "exception"}}
    text = " ".join([str(line.get("event", "")), *(f"{key}={_quoted(value)}" for key, value in rest.items())])
    return f"{text}\n{line['exception']}" if "exception" in line else text


def _quoted(value: object) -> str:
    """What is written plainly is one word that can be seen: nothing ends the line, or steers a terminal."""
    text = str(value)
    is_word = text.isprintable() and " " not in text and text != ""
    return text if is_word or not isinstance(value, str) else repr(text)
