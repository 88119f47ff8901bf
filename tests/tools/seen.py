"""What was seen on real brokers: the page about tools and clients claims nothing else.

``CONTROLLERD_TOOLS_SEEN=1`` lets the real tests keep it up to date. A cell that is changed has not been seen.
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
"""By cell and entrance, the fingerprint of the cell that did there what it says."""


def fingerprint(cell: Cell) -> str:
    """Of what the cell does and says, whatever its layout."""
    words = "".join(inspect.getsource(cell.run).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def read(record: Path = RECORD) -> Seen:
    """Everything that was seen."""
    return dict(json.loads(record.read_text("utf-8"))) if record.exists() else {}


def is_seen(seen: Seen, cell: Cell, entrance: str) -> bool:
    """Whether the cell, as it is now, did what it says."""
    return seen.get(cell.id, {}).get(entrance) == fingerprint(cell)


def note(cell: Cell, entrance: str, held: bool, record: Path = RECORD) -> None:
    """Keep what became of a cell, where that is asked for."""
    if os.environ.get(VARIABLE) != "1":
        return
    seen = read(record)
    ways = seen.setdefault(cell.id, {})
    ways.pop(entrance, None)
    if held:
        ways[entrance] = fingerprint(cell)
    record.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")
