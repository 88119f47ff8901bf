"""What was seen on brokers of each release: the table of releases claims nothing else.

``CONTROLLERD_RELEASES_SEEN=1`` lets ``make test-releases`` keep it up to date. An act that was changed since has not
been seen.
"""

import hashlib
import inspect
import json
import os
from pathlib import Path
from typing import Final

from tests.releases.acts import ACTS, Act
from tests.releases.cases import Case, cases

RECORD: Final = Path(__file__).with_name("seen.json")
VARIABLE: Final = "CONTROLLERD_RELEASES_SEEN"
NOT_SEEN: Final = "not seen yet"

Seen = dict[str, dict[str, str]]
"""By case and act, the fingerprint of the act that succeeded there."""


def fingerprint(act: Act) -> str:
    """Of what the act does, whatever its layout."""
    words = "".join(inspect.getsource(act.run).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def read(record: Path = RECORD) -> Seen:
    """Everything that was seen."""
    return dict(json.loads(record.read_text("utf-8"))) if record.exists() else {}


def note(case: Case, name: str, *, held: bool, record: Path = RECORD) -> None:
    """Keep what became of an act, where that is asked for."""
    if os.environ.get(VARIABLE) != "1":
        return
    seen = read(record)
    row = seen.setdefault(case.id, {})
    row.pop(name, None)
    if held:
        row[name] = fingerprint(ACTS[name])
    record.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def cell(seen: Seen, case: Case, name: str) -> str:
    """What the table says of an act, as far as it was seen as it is now."""
    act = ACTS[name]
    held = seen.get(case.id, {}).get(name) == fingerprint(act)
    return act.result(case.release, case.protocol) if held else NOT_SEEN


def table() -> str:
    """The table of releases."""
    seen = read()
    head = ["Release", "Protocol version", *(act.title for act in ACTS.values())]
    rows = [[case.release, case.protocol, *(cell(seen, case, name) for name in ACTS)] for case in cases()]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])
