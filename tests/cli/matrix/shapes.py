"""The JSON shapes that the daemon's schema does not define: of commands that read files, or only themselves."""

from typing import Any

import msgspec

from replay.command.state import StateDifference


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing beside these fields."""


class Version(Shape):
    """``version``."""

    controllerctl: str


class Checked(Shape):
    """``config check``."""

    file: str
    ok: bool
    problems: list[str]


class Explained(Shape):
    """``config explain``."""

    key: str
    meaning: str
    type: str
    default: str
    kafka: str | None
    variable: str


class Verified(Shape):
    """``audit verify``."""

    directory: str
    intact: bool
    lines: int
    head: dict[str, Any] | None
    findings: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    torn_tails: list[dict[str, Any]]
    unknown_kinds: dict[str, int]
    newer_lines: int
    notes: list[str]
    heads_checked: int


class Line(Shape):
    """A line of the audit log, of whatever kind."""

    v: int
    kind: str
    cluster: str
    node: int
    boot: str
    seq: int
    epoch: int
    event: int
    ts_ms: int
    mono_ns: int
    prev: str
    data: dict[str, Any]


class KindOf(Shape):
    """One row of ``audit stats``."""

    kind: str
    records: int
    bytes: int


class Stats(Shape):
    """``audit stats``."""

    directory: str
    segments: int
    bytes_on_disk: int
    records: int
    bytes: int
    first_ms: int | None
    last_ms: int | None
    epochs: list[int]
    boots: list[str]
    kinds: list[KindOf]


class Differences(Shape):
    """``replay diff``."""

    differences: list[StateDifference]


class Ingested(Shape):
    """``replay ingest``."""

    files: int
    unchanged: int
    lines: int
    facts: int
    problems: int


class Replayed(Shape):
    """``replay run`` and ``replay report``."""

    sentence: str
    level: str
    engine: str
    ingested: Ingested | None
    violations: int
    harm: int
    files: list[str]
