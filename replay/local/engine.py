"""The local engine: this host, a few processes, DuckDB, no JVM."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from replay.facts.engine import IngestResult, Inputs, OnProgress, ReplayError, Rows, in_order, silent
from replay.facts.tables import BY_NAME, MOST_ROWS
from replay.ingest.fact_files import FACTS
from replay.ingest.inputs import on_disk
from replay.ingest.ledger import Ledger
from replay.local.duck import MEMORY_MB, duck
from replay.local.ingest import ingest
from replay.local.log_tables import LOG_TABLES, tables_from_logs
from replay.local.pool import workers

_SCHEME: Final = "://"
_NO_FACTS: Final = "there are no facts in {}: run `controllerctl replay ingest` first; if it ran, the logs were empty"


class LocalEngine:
    """Implements ``replay.facts.engine.Engine`` for files of this host."""

    def __init__(self, *, processes: int | None = None, memory_mb: int = MEMORY_MB, most: int = MOST_ROWS) -> None:
        """
        :param processes: the number of worker processes; None: one per processor, at most two, and one for a small
            input
        :param memory_mb: the most memory for DuckDB; rows that do not fit are written to disk, beside the facts
        :param most: the most rows of a table that grows with the log
        """
        self._processes = processes
        self._memory_mb = memory_mb
        self._most = most

    def ingest(self, inputs: Inputs, out: str, progress: OnProgress = silent) -> IngestResult:
        """See ``Engine.ingest``."""
        return ingest(inputs, _folder(out), progress, processes=self._processes)

    def tables(self, out: str, names: Collection[str] | None = None, progress: OnProgress = silent) -> dict[str, Rows]:
        """See ``Engine.tables``. The segments must still exist at the paths that were ingested."""
        folder = _folder(out)
        wanted = _known(BY_NAME if names is None else names)
        tables = self._queried(folder, [name for name in wanted if name not in LOG_TABLES], progress)
        tables |= self._from_logs(folder, [name for name in wanted if name in LOG_TABLES], progress)
        return {name: tables[name] for name in wanted}

    def close(self) -> None:
        """Do nothing: no resource outlives a call."""

    def _queried(self, out: Path, names: Collection[str], progress: OnProgress) -> dict[str, Rows]:
        if not (out / FACTS).is_dir():
            raise ReplayError(_NO_FACTS.format(out))
        if not names:
            return {}
        with duck(out, memory_mb=self._memory_mb, threads=self._processes or workers()) as opened:
            opened.read(out / FACTS)
            return opened.tables(names, progress, most=self._most)

    def _from_logs(self, out: Path, names: Collection[str], progress: OnProgress) -> dict[str, Rows]:
        if not names:
            return {}
        with Ledger(out) as ledger:
            segments, lines = ledger.segments, ledger.segment_lines
        found = tables_from_logs(segments, names, progress, lines=lines, processes=self._processes)
        return {name: Rows(in_order(BY_NAME[name], rows)) for name, rows in found.items()}


def _folder(out: str) -> Path:
    path = on_disk(out)
    if _SCHEME in path:
        raise ReplayError(f"{out} is no folder of this host: choose one as --out")
    return Path(path)


def _known(names: Collection[str]) -> list[str]:
    unknown = sorted(set(names) - BY_NAME.keys())
    if unknown:
        raise ReplayError(f"there is no table {unknown[0]!r}: choose of {', '.join(BY_NAME)}")
    return [name for name in BY_NAME if name in names]
