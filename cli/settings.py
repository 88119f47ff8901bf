"""The settings that the global flags, the environment and the context make."""

import os
import re
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Final

import typer

DEFAULT_API: Final = "http://127.0.0.1:9191"
_READING: Final = re.compile(r"controllerctl (?=(?:why|get|describe|status|doctor)\b(?! --zk))")


class OutputFormat(Enum):
    """The format of the results."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class CliSettings:
    """The values of the global flags, the environment and the context; times are seconds."""

    api: str = DEFAULT_API
    output: OutputFormat = OutputFormat.TABLE
    assume_yes: bool = False
    reason: str = ""
    timeout_s: float = 30.0
    """The longest wait for an answer."""
    color: bool = True
    zk: str | None = None
    """The ZooKeeper servers to read instead of asking a daemon."""
    known_zk: str | None = None
    """The ZooKeeper servers of the context, whether they are read or not."""
    is_api_given: bool = False
    """Whether the address of the daemon was given, and is not the default."""
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
        """Return whether results are printed as data and not as text."""
        return self.output in {OutputFormat.JSON, OutputFormat.JSONL, OutputFormat.YAML}

    @property
    def redraws(self) -> bool:
        """Return whether a watch redraws the terminal; it prints lines of JSON otherwise."""
        return sys.stdout.isatty() and not self.wants_json

    def to_be_typed(self, text: str) -> str:
        """Return the text in which each command that only reads has the address that this command uses.

        With a context, or with the default address, the text is unchanged.
        """
        place = f"--zk {self.zk}" if self.zk else f"--api {self.api}"
        if self.context is not None or not (self.is_api_given or self.zk):
            return text
        return _READING.sub(f"controllerctl {place} ", text)


def settings_of(context: typer.Context) -> CliSettings:
    """Return the settings that the global flags stored in the context."""
    settings = context.find_root().obj
    if not isinstance(settings, CliSettings):
        raise TypeError("the command runs without the global flags")
    return settings


def wants_color(*, forbidden: bool) -> bool:
    """Return whether tables on a terminal are coloured (https://no-color.org)."""
    return not (forbidden or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")
