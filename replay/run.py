"""The actions of ``controllerctl replay run``, ``ingest`` and ``report``, by one of two engines."""

import importlib.util
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal, NamedTuple

from controllerd.core.text import counted
from controllerd.record.invariants import SUMMARY
from replay.facts.engine import Engine, IngestResult, Inputs, OnProgress, ReplayError, Row, Rows, silent
from replay.ingest.inputs import on_disk
from replay.ingest.ledger import Ledger
from replay.report.metadata import ReportMetadata, all_invariants, checkable_at, severity_rank
from replay.report.summary import HARMLESS, verdict
from replay.report.values import number

EngineName = Literal["auto", "local", "spark"]
_REMOTE: Final = ("hdfs:", "s3a:", "s3:", "gs:", "abfss:", "wasbs:", "viewfs:")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class Options(NamedTuple):
    """The options of a replay."""

    inputs: Inputs
    out: str
    """Folder for facts, tables and the report."""
    engine: EngineName = "auto"
    master: str | None = None
    """Spark's master; None: that of its configuration."""
    fail_on: str = "warning"
    """The mildest severity of a violated invariant that counts."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of a replay, and the files of its report."""

    sentence: str
    level: str
    """``good``, ``warn`` or ``bad``."""
    engine: str
    ingested: IngestResult | None
    violations: int
    """Number of violations from the severity ``fail_on`` on."""
    harm: int
    """Number of findings that the log is incomplete."""
    files: tuple[Path, ...]


def run(options: Options, progress: OnProgress = silent) -> ReplayOutcome:
    """Ingest the new part of the logs, calculate every table, write the report.

    :raises ReplayError: the replay cannot continue; the text says why and what to do
    """
    name = choose(options.engine, options.inputs.paths)
    with closing(open_engine(name, options.master)) as engine:
        ingested = engine.ingest(options.inputs, options.out, progress)
        return conclude(engine, name, options, ingested, progress)


def ingest(options: Options, progress: OnProgress = silent) -> IngestResult:
    """Convert the new part of the logs into facts. :raises ReplayError: the replay cannot continue"""
    name = choose(options.engine, options.inputs.paths)
    with closing(open_engine(name, options.master)) as engine:
        return engine.ingest(options.inputs, options.out, progress)


def report(options: Options, progress: OnProgress = silent) -> ReplayOutcome:
    """Write the report of the facts that were ingested before. :raises ReplayError: the replay cannot continue"""
    name = choose(options.engine, [options.out])
    with closing(open_engine(name, options.master)) as engine:
        return conclude(engine, name, options, None, progress)


def choose(wanted: EngineName, paths: Sequence[str]) -> Literal["local", "spark"]:
    """Choose the engine: Spark for logs on other hosts, or if requested; otherwise the local one.

    The local engine needs bounded memory, so size alone is no reason to start a JVM.

    :raises ReplayError: the requested, or required, engine is not installed
    """
    remote = next((path for path in paths if path.startswith(_REMOTE)), None)
    name: Literal["local", "spark"] = "spark" if wanted == "spark" or (wanted == "auto" and remote) else "local"
    missing = _missing(name)
    if missing is None:
        return name
    why = f"{remote} needs Spark, and " if remote and wanted == "auto" else ""
    raise ReplayError(f"{why}the {name} engine needs {missing}")


def _missing(name: str) -> str | None:
    modules = ("pyarrow", "duckdb") if name == "local" else ("pyarrow", "pyspark")
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    if absent:
        return f"{' and '.join(absent)}: install controllerd with the extra `replay`"
    if name == "spark" and not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Java 17: install it, or set JAVA_HOME or PATH so that it is found"
    return None


def open_engine(name: Literal["local", "spark"], master: str | None = None) -> Engine:
    """Open an engine. Modules that take long to import are imported here."""
    if name == "spark":
        from replay.job.engine import SparkEngine

        return SparkEngine(master=master)
    from replay.local.engine import LocalEngine

    return LocalEngine()


def conclude(
    engine: Engine, name: str, options: Options, ingested: IngestResult | None, progress: OnProgress
) -> ReplayOutcome:
    """Calculate every table and write the report with an open engine. :raises ReplayError: it cannot continue"""
    folder = _folder(options.out)
    tables = engine.tables(options.out, progress=progress)
    meta = _meta(tables, name, options, folder)
    files = _write(tables, meta, folder)
    result = verdict(tables, meta)
    return ReplayOutcome(
        result.sentence,
        result.level,
        name,
        ingested,
        _counting(tables.get("violations", ()), options.fail_on),
        sum(row.get("what") not in HARMLESS for row in tables.get("quality", ())),
        tuple(files),
    )


def _meta(tables: Mapping[str, Rows], engine: str, options: Options, folder: Path) -> ReportMetadata:
    sources, ingested = tables["sources"], options.inputs.paths or _ingested(folder)
    levels = [str(row["level"]) for row in sources if row["source"] == "audit" and row["level"] is not None]
    has_audit = any(row["source"] == "audit" for row in sources)
    return ReportMetadata(
        generated_ms=time.time_ns() // 1_000_000,
        version=version("controllerd"),
        engine=engine,
        inputs=ingested or (options.out,),
        records=sum(_numbers(sources, "records")),
        first_ms=min(_numbers(sources, "first_ms"), default=None),
        last_ms=max(_numbers(sources, "last_ms"), default=None),
        open_with=ingested if has_audit else (),
        limits=(*_unchecked(levels), *_limits(tables)),
        invariants=checkable_at(levels) if has_audit else (),
        left_out={name: rows.left_out for name, rows in tables.items() if rows.left_out},
    )


def _folder(out: str) -> Path:
    path = on_disk(out)
    if _URL.match(path):
        raise ReplayError(f"a report cannot be written to {out}: choose a folder")
    return Path(path)


def _ingested(out: Path) -> tuple[str, ...]:
    """Return the audit logs whose facts were ingested."""
    with Ledger(out) as ledger:
        return tuple(sorted({str(path.parent) for path in ledger.segments}))


def _write(tables: Mapping[str, Sequence[Row]], meta: ReportMetadata, folder: Path) -> list[Path]:
    # Imported here, because it needs the extra `replay`: `choose` reports if it is missing.
    from replay.report.writer import write_parquet, write_report

    try:
        write_parquet(tables, folder / "tables")
        return write_report(tables, meta, folder)
    except OSError as problem:
        why = problem.strerror or problem
        raise ReplayError(
            f"cannot write the report into {folder}: {why}; fix that, then run `controllerctl replay report {folder}`"
        ) from None


def _numbers(rows: Sequence[Row], column: str) -> list[int]:
    return [value for row in rows if isinstance(value := row[column], int)]


def _counting(violations: Sequence[Row], fail_on: str) -> int:
    limit = severity_rank(fail_on)
    return sum(number(row, "times") for row in violations if severity_rank(str(row["severity"])) <= limit)


def _unchecked(levels: Sequence[str]) -> Iterator[str]:
    if SUMMARY in levels:
        unchecked = len(all_invariants()) - len(checkable_at([SUMMARY]))
        boots = levels.count(SUMMARY)
        yield f"{unchecked} invariants cannot be checked in logs of level summary, in {boots} boots here."


def _limits(tables: Mapping[str, Sequence[Row]]) -> tuple[str, ...]:
    bounds = sum(row["start_bound"] is not None or row["end_bound"] is not None for row in tables.get("windows", ()))
    if not bounds:
        return ()
    return (f"{counted(bounds, 'window')} with an end that is only a bound: the logs do not have the exact time.",)
