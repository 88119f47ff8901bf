"""What was seen on brokers of each release: the table of releases claims nothing else.

``CONTROLLERD_RELEASES_SEEN=1`` lets ``make test-releases`` keep it up to date. An act that was changed since, or of
which a helper was changed, has not been seen.
"""

import functools
import inspect
import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from tests.releases.acts import ACTS, Act
from tests.releases.cases import Case, cases
from tests.releases.fingerprint import constants, fingerprint

RECORD: Final = Path(__file__).with_name("seen.json")
TRIED_BY: Final = tuple(Path(__file__).with_name(name) for name in ("cases.py", "test_release.py"))
VARIABLE: Final = "CONTROLLERD_RELEASES_SEEN"
NOT_SEEN: Final = "not seen yet"
YES: Final = "yes"


class Sight(NamedTuple):
    """An act that succeeded: its fingerprint then, and the word of its cell."""

    fingerprint: str
    word: str


Seen = dict[str, dict[str, Sight]]
"""By case and act."""


@functools.cache
def fingerprint_of(act: Act) -> str:
    """Return the fingerprint of an act, of its helpers, and of the files that choose the brokers for it."""
    module = Path(inspect.getfile(act.run))
    tried = "".join(file.read_text("utf-8") for file in TRIED_BY)
    return fingerprint(inspect.getsource(act.run) + constants(module) + tried, module)


def read(record: Path = RECORD) -> Seen:
    """Everything that was seen."""
    rows = json.loads(record.read_text("utf-8")) if record.exists() else {}
    return {case: {name: Sight(**sight) for name, sight in row.items()} for case, row in rows.items()}


def note(case: Case, name: str, word: str | None, record: Path = RECORD) -> None:
    """Keep the word that was seen of an act, or forget it with None, where that is asked for."""
    if os.environ.get(VARIABLE) != "1":
        return
    seen = read(record)
    row = seen.setdefault(case.id, {})
    row.pop(name, None)
    if word is not None:
        row[name] = Sight(fingerprint_of(ACTS[name]), word)
    kept = {case_id: {act: sight._asdict() for act, sight in row.items()} for case_id, row in seen.items()}
    record.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def cell(seen: Seen, case: Case, name: str) -> str:
    """What the table says of an act, as far as it was seen as it is now."""
    sight = seen.get(case.id, {}).get(name)
    return sight.word if sight is not None and sight.fingerprint == fingerprint_of(ACTS[name]) else NOT_SEEN


def table() -> str:
    """The table of releases."""
    seen = read()
    head = ["Release", "Protocol version", *(act.title for act in ACTS.values())]
    rows = [[case.release, case.protocol, *(cell(seen, case, name) for name in ACTS)] for case in cases()]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])
