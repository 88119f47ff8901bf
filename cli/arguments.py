"""Values on the command line: partitions (``payments-7``, split at the last dash), durations and sizes."""

import re
from typing import Final, NamedTuple
from urllib.parse import quote

import typer

from cli.exit_codes import CliError, ExitCode

LARGEST_ID: Final = 2**31 - 1
"""The largest broker id in Kafka's protocol."""
_DIGITS: Final = 9
"""Digits of a partition's number: no topic has a thousand million partitions."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_LONGEST_S: Final = 366 * 24 * 3600.0
"""Beyond it, clocks and sockets end before the wait does."""
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B?(?:/s)?", re.IGNORECASE)


class PartitionArgument(NamedTuple):
    """A partition as an argument; the names of topics may have dashes and dots."""

    topic: str
    number: int

    @property
    def path(self) -> str:
        """The path of the partition in the API."""
        return f"/v1/partitions/{quote(self.topic, safe='')}/{self.number}"


def topic_path(topic: str) -> str:
    """Return the path of a topic in the API. :raises CliError: its name is empty."""
    if not topic:
        raise CliError(ExitCode.USAGE, "the name of the topic is empty; controllerctl get topics lists them")
    return f"/v1/topics/{quote(topic, safe='')}"


def split_name(text: str) -> PartitionArgument | None:
    """Return the partition of this name; None if it can only be a topic."""
    topic, dash, number = text.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        return None
    return PartitionArgument(topic, int(number))


def parse_partition(text: str) -> PartitionArgument:
    """Return the partition of this name. :raises CliError: it is not a partition."""
    name = split_name(text)
    if name is None:
        raise CliError(
            ExitCode.USAGE, f"{text!r} is not a partition: write the topic, a dash and a number, as payments-7"
        )
    return name


def is_duration(text: str) -> bool:
    """Return whether a text is like ``30``, ``30s``, ``500ms``, ``2m`` or ``1h``."""
    return _DURATION.fullmatch(text) is not None


def parse_duration(text: str) -> float:
    """Return the seconds of ``30``, ``30s``, ``500ms``, ``2m`` or ``1h``. :raises typer.BadParameter: invalid text."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST_S:
        raise typer.BadParameter(f"{text!r} is not a duration like 30s, 500ms, 2m or 1h, of a year at most")
    return seconds


def parse_bytes(text: str) -> int:
    """Bytes of ``50MB``, ``1.5GiB`` or ``1000``: powers of 1000 without an i. :raises ValueError: invalid text."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size like 50MB, 1.5GiB or 1000")
    power = " KMGT".index((match[2] or " ").upper())
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)
