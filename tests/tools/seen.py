"""The results that tests on real brokers have seen: the page about tools and clients claims nothing else.

With ``CONTROLLERD_TOOLS_SEEN=1``, the real tests keep the file up to date. A changed cell counts as not seen.
"""

import hashlib
import inspect
import json
import os
from pathlib import Path
from typing import Final

from tests.tools.cells import Cell

RECORD: Final = Path(__file__).with_name("seen.json")
VARIABLE: Final = "CONTROLLERD_TOOLS_SEEN"

Seen = dict[str, dict[str, str]]
"""By cell and bootstrap server, the fingerprint of the cell that succeeded there."""


def fingerprint(cell: Cell) -> str:
    """The fingerprint of the source of a cell, without regard to its layout."""
    words = "".join(inspect.getsource(cell.run).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def read(record: Path = RECORD) -> Seen:
    """All results that were seen."""
    return dict(json.loads(record.read_text("utf-8"))) if record.exists() else {}


def is_seen(seen: Seen, cell: Cell, entrance: str) -> bool:
    """Whether the cell, with its present source, has succeeded."""
    return seen.get(cell.id, {}).get(entrance) == fingerprint(cell)


def note(cell: Cell, entrance: str, held: bool, record: Path = RECORD) -> None:
    """Keep the outcome of a cell, if the environment variable asks for that."""
    if os.environ.get(VARIABLE) != "1":
        return
    seen = read(record)
    ways = seen.setdefault(cell.id, {})
    ways.pop(entrance, None)
    if held:
        ways[entrance] = fingerprint(cell)
    record.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")
