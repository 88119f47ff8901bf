#!/usr/bin/env python3
"""Writes the configuration reference in ``configuration.md`` from the model in the code, so that it stays true.

Types and defaults come from the model, what a key means from ``controllerd.config.explained``.
"""

from pathlib import Path
from typing import Final

from controllerd.config.explained import MEANINGS, keys
from controllerd.config.kafka_names import KAFKA_NAMES
from controllerd.daemon.reloading import RELOADABLE

PAGE: Final = Path(__file__).with_name("configuration.md")
BEGIN: Final = "<!-- generated:configuration -->"
END: Final = "<!-- /generated -->"


def generated() -> str:
    """The text between the markers. :raises KeyError: a key of the model has no meaning here, or the reverse."""
    rows = [
        f"| `{key}` | {kind} | {default} | {MEANINGS[key]}{in_kafka(key)}{at_once(key)} |"
        for key, kind, default in keys()
    ]
    if len(rows) != len(MEANINGS):
        raise KeyError(*(MEANINGS.keys() - {key for key, _, _ in keys()}))
    return "\n".join(["| Key | Type | Default | Meaning |", "|---|---|---|---|", *rows])


def in_kafka(key: str) -> str:
    """Kafka's name, under which operators look for the key."""
    return f" Kafka: `{KAFKA_NAMES[key]}`." if key in KAFKA_NAMES else ""


def at_once(key: str) -> str:
    """Which keys do not wait for a restart."""
    return " Takes effect with a reload." if key in RELOADABLE else ""


def rewritten(page: str) -> str:
    """The page with a fresh table between its markers; ``ValueError`` when it does not have both markers."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} or no {END}")
    return f"{head}{BEGIN}\n\n{generated()}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")
