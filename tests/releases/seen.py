"""The recorded results of the acts on brokers of each release, which the table of releases shows.

``CONTROLLERD_RELEASES_SEEN=1`` lets ``make test-releases`` update the record. A result is no longer valid once the act
or one of its helpers has changed.
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
RUN_BY: Final = tuple(Path(__file__).with_name(name) for name in ("cases.py", "test_release.py"))
VARIABLE: Final = "CONTROLLERD_RELEASES_SEEN"
NOT_SEEN: Final = "not seen yet"
YES: Final = "yes"


class ActResult(NamedTuple):
    """The result of an act that succeeded: its fingerprint at that time, and the text of its cell."""

    fingerprint: str
    word: str


Results = dict[str, dict[str, ActResult]]
"""Results by case and act."""


@functools.cache
def fingerprint_of(act: Act) -> str:
    """Return the fingerprint of an act, of its helpers, and of the files that select the brokers for it."""
    module = Path(inspect.getfile(act.run))
    runners = "".join(file.read_text("utf-8") for file in RUN_BY)
    return fingerprint(inspect.getsource(act.run) + constants(module) + runners, module)


def read(record: Path = RECORD) -> Results:
    """Return all recorded results."""
    rows = json.loads(record.read_text("utf-8")) if record.exists() else {}
    return {case: {name: ActResult(**result) for name, result in row.items()} for case, row in rows.items()}


def record_result(case: Case, name: str, word: str | None, record: Path = RECORD) -> None:
    """Record the result of an act, or remove it if ``word`` is None, if the environment variable ``VARIABLE`` is 1."""
    if os.environ.get(VARIABLE) != "1":
        return
    seen = read(record)
    row = seen.setdefault(case.id, {})
    row.pop(name, None)
    if word is not None:
        row[name] = ActResult(fingerprint_of(ACTS[name]), word)
    kept = {case_id: {act: result._asdict() for act, result in row.items()} for case_id, row in seen.items()}
    record.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def cell(seen: Results, case: Case, name: str) -> str:
    """Return the text of an act's cell; ``NOT_SEEN`` if it has no result, or has changed since."""
    result = seen.get(case.id, {}).get(name)
    return result.word if result is not None and result.fingerprint == fingerprint_of(ACTS[name]) else NOT_SEEN


def table() -> str:
    """Return the table of releases in Markdown."""
    seen = read()
    head = ["Release", "Protocol version", *(act.title for act in ACTS.values())]
    rows = [[case.release, case.protocol, *(cell(seen, case, name) for name in ACTS)] for case in cases()]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])
