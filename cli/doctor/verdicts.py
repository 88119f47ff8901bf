"""The verdicts that a check may come to."""

from collections.abc import Sequence
from typing import Final

from controllerd.status.schema.why import Finding

SHOWN: Final = 5
"""Names that a sentence lists."""


def ok(check: str, detail: str) -> Finding:
    """All is well."""
    return Finding(check=check, severity="ok", detail=detail)


def warning(check: str, detail: str, hint: str) -> Finding:
    """Something wants attention."""
    return Finding(check=check, severity="warning", detail=detail, hint=hint)


def critical(check: str, detail: str, hint: str) -> Finding:
    """Something is broken."""
    return Finding(check=check, severity="critical", detail=detail, hint=hint)


def unknown(check: str, detail: str, hint: str) -> Finding:
    """It could not be checked."""
    return Finding(check=check, severity="unknown", detail=detail, hint=hint)


def listed(names: Sequence[str], total: int | None = None) -> str:
    """The first names, and how many more there are."""
    number = len(names) if total is None else total
    more = f" and {number - SHOWN} more" if number > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
