"""The topics and partitions that a record names, and phrases for the sentences about records. Pure."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from controllerd.core.text import counted
from controllerd.record.records import Record

TOPICS_SHOWN: Final = 20
_NAMED: Final = 3


def topics_of(record: Record) -> list[str]:
    """The distinct topics that a record names, in order; at most ``TOPICS_SHOWN``."""
    return list(islice(dict.fromkeys(names_of(record)), TOPICS_SHOWN))


def names_of(record: Record) -> Sequence[str]:
    """The topic of each row; empty for a record that names no topics."""
    names = getattr(record, "topics", None) or getattr(record, "names", None)
    return names if isinstance(names, list) else ()


def partitions_of(record: Record) -> int:
    """The number of partitions that a record names."""
    rows = getattr(record, "partitions", None)
    return len(rows) if isinstance(rows, list) and hasattr(record, "topics") else 0


def partitions_phrase(record: Record, noun: str = "partition") -> str:
    """Name partitions: ``payments-7``, or ``12 partitions of payments``, or ``40 partitions of 6 topics``."""
    topics = names_of(record)
    partitions: Sequence[int] = getattr(record, "partitions", ())
    if len(partitions) == 1:
        return f"{topics[0]}-{partitions[0]}"
    different = set(topics)
    whose = topics[0] if len(different) == 1 else counted(len(different), "topic")
    return f"{len(partitions)} {noun}s of {whose}" if partitions else f"no {noun}s"


def listed(names: Sequence[object]) -> str:
    """List names: ``a, b, c and 4 more``."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more


def tally(values: Sequence[str]) -> str:
    """List the most frequent values, each with its number."""
    return ", ".join(f"{number} {value}" for value, number in Counter(values).most_common(_NAMED))


def because(reason: str | None) -> str:
    """The phrase ``: reason``; empty without a reason."""
    return f": {reason}" if reason else ""


def transitions_phrase(before: Sequence[str], after: Sequence[str]) -> str:
    """List the most frequent transitions with their numbers. Equal rows are recognised without counting each one."""
    rows = len(before)
    if rows and before.count(before[0]) == after.count(after[0]) == rows:
        moves = [((before[0], after[0]), rows)]
    else:
        moves = Counter(zip(before, after, strict=True)).most_common(_NAMED)
    return ", ".join(f"{number} {old} to {new}" for (old, new), number in moves)
