"""What a line is known by, and what a line gives: the vocabulary of the tables of lines. Pure.

Kinds that begin with ``~`` are not facts: they tell the pass over all files in order (`replay.ingest.kafka.order`)
what it needs to know.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from replay.ingest.kafka.values import Fields

ACTIVE: Final = "~active"
"""The brokers that a new controller found (``isr``)."""
STRATEGY: Final = "~strategy"
"""Elections of a kind (``name``) follow: of a partition, or of those that ``broker`` leads."""
MOVING: Final = "~moving"
"""The assignment of a partition is about to become this one; ``isr``: what it was."""
KNOWN_LEADER: Final = "~leader"
"""A leadership that was there already."""
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
    """Of the prefix; 0: it names none."""
    cause: str | None
    """First line of a stack trace."""


Build = Callable[[re.Match[str], Body], Iterable[Fields]]


class Rule(NamedTuple):
    """A kind of line: how its body starts and, if it gives anything, what the whole of it looks like."""

    start: str
    pattern: re.Pattern[str] | None = None
    build: Build | None = None


Table = Mapping[str, Sequence[Rule]]
"""Rules by the first word of the body; all that starts with a number is under ``#``."""


def rule(start: str, pattern: str, build: Build) -> Rule:
    """A line that gives something; ``pattern`` follows ``start``."""
    return Rule(start, re.compile(re.escape(start) + pattern, re.DOTALL), build)


def known(*starts: str) -> tuple[Rule, ...]:
    """Lines that are understood and give nothing."""
    return tuple(Rule(start) for start in starts)


def first_word(text: str) -> str:
    """What a body is looked up by."""
    word = text.partition(" ")[0]
    return "#" if word[:1].isdigit() else word


def table(*rules: Rule) -> Table:
    """Rules by first word; of those that fit, the first counts. No start at all means a number."""
    found: dict[str, list[Rule]] = {}
    for each in rules:
        found.setdefault(first_word(each.start) or "#", []).append(each)
    return found


def joined(*tables: Table) -> Table:
    """The rules of several tables, those of the first one first."""
    return {word: [each for one in tables for each in one.get(word, ())] for one in tables for word in one}


def partition_of(topic: str, partition: str) -> Fields:
    """The columns that name a partition."""
    return {"topic": topic, "partition": int(partition)}
