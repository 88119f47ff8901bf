#!/usr/bin/env python3
"""Write the tables of records in ``audit.md``, between its markers, and ``audit.schema.json``, from the types."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

from controllerd.audit.schema import encoded_schema
from controllerd.audit.settings import Level, is_written
from controllerd.record.kinds import KINDS
from controllerd.record.records import Record
from markers import rewritten

PAGE: Final = Path(__file__).with_name("audit.md")
SCHEMA: Final = Path(__file__).with_name("audit.schema.json")
BEGIN: Final = "<!-- generated:audit -->"
_LEVELS: Final[tuple[Level, ...]] = ("summary", "normal", "full")
_MODULES: Final = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def generated() -> str:
    """The text between the markers."""
    return "\n".join(lines()).rstrip()


def lines() -> Iterator[str]:
    """A section for each kind."""
    for kind, record in sorted(KINDS.items()):
        yield f"### {kind}"
        yield ""
        yield str(inspect.getdoc(record)).replace("``", "`")
        yield ""
        levels = [level for level in _LEVELS if is_written(level, record)]
        if levels != list(_LEVELS):
            yield f"Written at {' and '.join(levels)}."
            yield ""
        yield "| Field | Type |"
        yield "|---|---|"
        yield from (f"| `{name}` | {type_name} |" for name, type_name in fields_of(record))
        yield ""


def fields_of(record: type[Record]) -> Iterator[tuple[str, str]]:
    """Names and types, with the value of a field that may be left out."""
    for field in fields(record):
        text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
        if not isinstance(field.type, type) or "[" in str(field.type):
            text = _MODULES.sub("", str(field.type))
        is_optional = field.default is not MISSING or field.default_factory is not MISSING
        shown = text.replace("|", "or")
        yield field.name, f"`{shown}`" + (", may be missing" if is_optional else "")


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8"), BEGIN, generated()), "utf-8")
    SCHEMA.write_bytes(encoded_schema())
