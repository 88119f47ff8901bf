"""Arguments as people write them: global flags anywhere, and a watch without a number."""

from collections.abc import Iterator, Sequence
from typing import Final

from cli.settings import is_duration

_WITH_VALUE: Final = frozenset({"-c", "--context", "--api", "--zk", "-o", "--output", "--reason", "--timeout"})
"""Not ``--config``, which is also Kafka's flag for the configs of a topic: as a global flag it stands in front."""
_WITHOUT_VALUE: Final = frozenset(
    {"-y", "--yes", "--no-color", "--no-headers", "-q", "--quiet", "-v", "-vv", "--verbose", "--dry-run"}
)
_WATCH: Final = frozenset({"-w", "--watch"})
_WATCH_EVERY: Final = "2s"


def global_flags_first(arguments: Sequence[str]) -> list[str]:
    """The same arguments with the global flags before the command, wherever they stood."""
    flags, rest = flags_apart(arguments)
    return flags + rest


def flags_apart(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The global flags with their values, wherever they stood, and the rest; ``--`` ends the search."""
    first: list[str] = []
    rest: list[str] = []
    remaining: Iterator[str] = iter(_with_intervals(arguments))
    for argument in remaining:
        if argument == "--":
            rest += [argument, *remaining]
        elif argument in _WITH_VALUE:
            first += [argument, *_next(remaining)]
        elif argument in _WITHOUT_VALUE or _has_value(argument):
            first.append(argument)
        else:
            rest.append(argument)
    return first, rest


def _has_value(argument: str) -> bool:
    """``--output=json``, ``-o=json`` and ``-ojson``."""
    is_short = len(argument) > 2 and argument[1] != "-" and argument[:2] in {"-o", "-c"}
    return is_short or argument.partition("=")[0] in _WITH_VALUE


def _next(remaining: Iterator[str]) -> list[str]:
    following = next(remaining, None)
    return [] if following is None else [following]


def _with_intervals(arguments: Sequence[str]) -> Iterator[str]:
    """``-w`` may stand alone: then it watches every other second."""
    followers = [*arguments, ""][1:]
    for argument, follower in zip(arguments, followers, strict=True):
        yield argument
        if argument in _WATCH and not is_duration(follower):
            yield _WATCH_EVERY
