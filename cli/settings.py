"""The global flags as one value, and the way to the daemon that they describe."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:  # importing the client costs more than starting the command
    from cli.client import Client

DEFAULT_API: Final = "http://127.0.0.1:9191"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


class OutputFormat(Enum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the global flags say; ``timeout_s`` is the longest wait for an answer."""

    api: str = DEFAULT_API
    output: OutputFormat = OutputFormat.TABLE
    assume_yes: bool = False
    reason: str = ""
    timeout_s: float = 30.0
    color: bool = True

    @property
    def wants_json(self) -> bool:
        """Whether results are printed as JSON; of what comes one by one each is a line, whichever was asked for."""
        return self.output is not OutputFormat.TABLE

    def client(self) -> "Client":
        """A client of the daemon."""
        from cli.client import Client

        return Client(self.api, self.timeout_s)


def settings_of(context: typer.Context) -> Settings:
    """The settings that the global flags left in the context."""
    settings = context.find_root().obj
    if not isinstance(settings, Settings):
        raise TypeError("the command runs without the global flags")
    return settings


def parse_duration(text: str) -> float:
    """Seconds of ``30``, ``30s``, ``500ms`` or ``2m``. :raises typer.BadParameter: it is none of these."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is not a duration like 30s, 500ms or 2m")
    return seconds
