"""The global flags as one value, and the way to the daemon that they describe."""

import os
import re
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import typer

from cli.exit_codes import CliError, ExitCode

if TYPE_CHECKING:  # importing the client costs more than starting the command
    from cli.client import Client

DEFAULT_API: Final = "http://127.0.0.1:9191"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_READING: Final = re.compile(r"controllerctl (?=(?:why|get|describe|status|doctor)\b(?! --zk))")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_LONGEST_S: Final = 366 * 24 * 3600.0
"""Beyond it, clocks and sockets end before the wait does."""


class OutputFormat(Enum):
    """How results are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the global flags, the environment and the context say; times are seconds."""

    api: str = DEFAULT_API
    output: OutputFormat = OutputFormat.TABLE
    assume_yes: bool = False
    reason: str = ""
    timeout_s: float = 30.0
    """The longest wait for an answer."""
    color: bool = True
    zk: str | None = None
    """ZooKeeper is read instead of asking a daemon."""
    known_zk: str | None = None
    """Where ZooKeeper is, as the context knows it, whether it is read or not."""
    is_api_given: bool = False
    """Whether anybody named the daemon, or it is only guessed where it is."""
    context: str | None = None
    token: str | None = None
    ca_file: str | None = None
    expected_cluster_id: str | None = None
    headers: bool = True
    quiet: bool = False
    verbosity: int = 0
    dry_run: bool = False

    @property
    def wants_json(self) -> bool:
        """Whether results are printed as data and not as text for people."""
        return self.output in {OutputFormat.JSON, OutputFormat.JSONL, OutputFormat.YAML}

    @property
    def redraws(self) -> bool:
        """Whether a watch draws one picture over the other; it prints lines of JSON otherwise."""
        return sys.stdout.isatty() and not self.wants_json

    def client(self) -> "Client":
        """Whom to ask: the daemon, or what stands in for it where ZooKeeper is read.

        :raises CliError: the address is none, or ZooKeeper does not answer.
        """
        from cli.client import Client

        if self.zk is None:
            return Client(self.api, self.timeout_s, token=self.token, ca_file=self.ca_file, settings=self)
        from cli.direct import address_over

        return Client(address_over(self.zk, self.timeout_s), self.timeout_s, settings=self)

    def to_be_typed(self, text: str) -> str:
        """The same text, its commands that read for the place that was asked just now."""
        place = f"--zk {self.zk}" if self.zk else f"--api {self.api}"
        if self.context is not None or not (self.is_api_given or self.zk):
            return text
        return _READING.sub(f"controllerctl {place} ", text)

    def asking_client(self, what: str) -> "Client":
        """The daemon, for ``what`` only a daemon knows. :raises CliError: only ZooKeeper is read."""
        if self.zk is not None:
            message = f"--zk only reads ZooKeeper, where {what} cannot be seen: name a daemon with --api URL"
            raise CliError(ExitCode.USAGE, message)
        return self.client()

    def changing_client(self) -> "Client":
        """The daemon, to change something. :raises CliError: only ZooKeeper is read."""
        if self.zk is not None:
            message = "--zk only reads: to change something name a daemon with --api URL; nothing was changed"
            raise CliError(ExitCode.USAGE, message)
        return self.client()


def settings_of(context: typer.Context) -> Settings:
    """The settings that the global flags left in the context."""
    settings = context.find_root().obj
    if not isinstance(settings, Settings):
        raise TypeError("the command runs without the global flags")
    return settings


def wants_color(*, forbidden: bool) -> bool:
    """Whether tables on a terminal are coloured (https://no-color.org)."""
    return not (forbidden or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")


def is_duration(text: str) -> bool:
    """Whether this looks like ``30``, ``30s``, ``500ms``, ``2m`` or ``1h``."""
    return _DURATION.fullmatch(text) is not None


def parse_duration(text: str) -> float:
    """Seconds of ``30``, ``30s``, ``500ms``, ``2m`` or ``1h``. :raises typer.BadParameter: it is none of these."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST_S:
        raise typer.BadParameter(f"{text!r} is not a duration like 30s, 500ms, 2m or 1h, of a year at most")
    return seconds
