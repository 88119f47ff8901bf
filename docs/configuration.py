#!/usr/bin/env python3
"""Write the configuration reference in ``configuration.md`` from the model in the code, so that it stays true.

Types and defaults come from the model, the meanings of keys from ``controllerd.config.key_reference``.
"""

from pathlib import Path
from typing import Final

from controllerd.config.kafka_names import KAFKA_NAMES
from controllerd.config.key_reference import MEANINGS, keys
from controllerd.daemon.reloading import RELOADABLE
from markers import rewritten

PAGE: Final = Path(__file__).with_name("configuration.md")
BEGIN: Final = "<!-- generated:configuration -->"


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
    """The sentence for a key that takes effect without a restart; empty for all others."""
    return " Takes effect with a reload." if key in RELOADABLE else ""


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8"), BEGIN, generated()), "utf-8")
