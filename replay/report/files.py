"""Writes a report: ``report.html``, ``report.json`` and ``report.md``."""

from pathlib import Path

import msgspec

from replay.facts.tables import TABLES
from replay.report.markdown import markdown
from replay.report.meta import Meta, Tables
from replay.report.page import page
from replay.report.rows import rows_of
from replay.report.summary import verdict


def document(tables: Tables, meta: Meta) -> bytes:
    """The report as JSON: the verdict, what it is made of, and every table whole."""
    judged = verdict(tables, meta)
    report = {
        "verdict": {"sentence": judged.sentence, "level": judged.level},
        "meta": meta,
        "tables": {table.name: rows_of(table, tables) for table in TABLES},
    }
    return msgspec.json.format(msgspec.json.encode(report), indent=1)


def write_report(tables: Tables, meta: Meta, folder: Path) -> list[Path]:
    """Write the page, the JSON and the Markdown; the paths. Each appears whole or not at all.

    :raises OSError: the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "report.html": page(tables, meta).encode(),
        "report.json": document(tables, meta),
        "report.md": markdown(tables, meta).encode(),
    }
    return [written(folder / name, content) for name, content in files.items()]


def written(path: Path, content: bytes) -> Path:
    """Write a file so that nobody sees half of it; the path."""
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(content)
    return draft.replace(path)
