"""How partitions are named on the command line: ``payments-7``, split at the last dash."""

from typing import Final, NamedTuple
from urllib.parse import quote

from cli.exit_codes import CliError, ExitCode

LARGEST_ID: Final = 2**31 - 1
"""Of a broker, in Kafka's protocol."""
_DIGITS: Final = 9
"""Of a partition's number: no topic has a thousand million."""


class PartitionName(NamedTuple):
    """One partition; topics may have dashes and dots themselves."""

    topic: str
    number: int

    @property
    def path(self) -> str:
        """Where the daemon tells about it."""
        return f"/v1/partitions/{quote(self.topic, safe='')}/{self.number}"


def topic_path(topic: str) -> str:
    """Where the daemon tells about a topic. :raises CliError: it has no name."""
    if not topic:
        raise CliError(ExitCode.USAGE, "the name of the topic is empty; controllerctl get topics lists them")
    return f"/v1/topics/{quote(topic, safe='')}"


def split_name(text: str) -> PartitionName | None:
    """The partition that this may name; None if it can only be a topic."""
    topic, dash, number = text.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        return None
    return PartitionName(topic, int(number))


def parse_partition(text: str) -> PartitionName:
    """The partition of this name. :raises CliError: it is none."""
    name = split_name(text)
    if name is None:
        raise CliError(ExitCode.USAGE, f"{text!r} is no partition: write the topic, a dash and a number, as payments-7")
    return name
