"""Rules for lines: the begin of a line, its pattern, and the rows that are made of it. Pure.

Kinds that begin with ``~`` are not facts: they are input of `replay.ingest.kafka.derive`, which reads all files in
order.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from replay.ingest.kafka.scala_values import Fields

ACTIVE: Final = "~active"
"""The brokers that a new controller found (``isr``)."""
STRATEGY: Final = "~strategy"
"""Elections of a kind (``name``) follow: of a partition, or of the partitions that ``broker`` leads."""
MOVING: Final = "~moving"
"""The assignment of a partition is about to become this one; ``isr``: the assignment before."""
KNOWN_LEADER: Final = "~leader"
"""A leadership that existed before."""
BUMPED: Final = "~bumped"
"""A leader epoch was raised, and nothing else."""
STATE: Final = "~state"
"""The state of a partition at the start of a controller."""
SENT: Final = "~sent"
READY: Final = "~ready"
COMPLETED: Final = "~completed"
"""A topic is deleted."""


class Body(NamedTuple):
    """A message without its prefix."""

    text: str
    node: int
    epoch: int
    """Epoch in the prefix; 0: none."""
    cause: str | None
    """First line of a stack trace."""


Build = Callable[[re.Match[str], Body], Iterable[Fields]]


class LineRule(NamedTuple):
    """A kind of line: the start of its body and, if rows are made of it, the pattern of the whole."""

    start: str
    pattern: re.Pattern[str] | None = None
    build: Build | None = None


Table = Mapping[str, Sequence[LineRule]]
"""Rules by the first word of the body; the rules of bodies that begin with a number are under ``#``."""


def rule(start: str, pattern: str, build: Build) -> LineRule:
    """Return the rule of a line of which rows are made; ``pattern`` follows ``start``."""
    return LineRule(start, re.compile(re.escape(start) + pattern, re.DOTALL), build)


def known(*starts: str) -> tuple[LineRule, ...]:
    """Return the rules of lines that are understood and of which no row is made."""
    return tuple(LineRule(start) for start in starts)


def first_word(text: str) -> str:
    """Return the key of a body in the tables of rules."""
    word = text.partition(" ")[0]
    return "#" if word[:1].isdigit() else word


def table(*rules: LineRule) -> Table:
    """Return rules by first word; of several that fit, the first counts. An empty start stands for a number."""
    found: dict[str, list[LineRule]] = {}
    for each in rules:
        found.setdefault(first_word(each.start) or "#", []).append(each)
    return found


def joined(*tables: Table) -> Table:
    """Return the rules of several tables, the first table first."""
    return {word: [each for one in tables for each in one.get(word, ())] for one in tables for word in one}


def partition_of(topic: str, partition: str) -> Fields:
    """Return the columns that name a partition."""
    return {"topic": topic, "partition": int(partition)}
