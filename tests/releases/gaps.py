"""The gaps of producers in a rolling restart of each release: measured by a test, shown in the documentation."""

import functools
import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from controllerd.dev.releases import TESTED_RELEASES
from tests.releases.fingerprint import fingerprint
from tests.releases.seen import NOT_SEEN, VARIABLE

RECORD: Final = Path(__file__).with_name("gaps.json")
TEST: Final = Path(__file__).with_name("test_rolling_restart.py")


class Gaps(NamedTuple):
    """The longest times without an acknowledgement, in seconds: under the release's own controller, and under ours."""

    own: float
    ours: float


def read(record: Path = RECORD) -> dict[str, Gaps]:
    """Return the measurements by release, unless the test that took them or one of its helpers has changed since."""
    kept = json.loads(record.read_text("utf-8")) if record.exists() else {}
    return {
        release: Gaps(row["own"], row["ours"]) for release, row in kept.items() if row["fingerprint"] == _fingerprint()
    }


def record_gaps(release: str, gaps: Gaps, record: Path = RECORD) -> None:
    """Record a measurement, if the environment variable ``VARIABLE`` is 1."""
    if os.environ.get(VARIABLE) != "1":
        return
    kept = {
        name: {**each._asdict(), "fingerprint": _fingerprint()}
        for name, each in (read(record) | {release: gaps}).items()
    }
    record.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@functools.cache
def _fingerprint() -> str:
    """Return the fingerprint of the test that measures, and of its helpers."""
    return fingerprint(TEST.read_text("utf-8"), TEST)


def table() -> str:
    """Return the table of gaps in Markdown."""
    measured = read()
    rows = [[release, *_cells(measured.get(release))] for release in TESTED_RELEASES]
    head = ["Release", "Under its own controller", "Under controllerd"]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def _cells(gaps: Gaps | None) -> list[str]:
    return [NOT_SEEN] * 2 if gaps is None else [f"{gap:.2f} s" for gap in gaps]
