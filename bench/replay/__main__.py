"""``python -m bench.replay``: measure the speed and the memory of a replay by the size of the log."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.replay.generate import generate
from bench.replay.memory import PeakMemory
from bench.replay.stage import STAGES, reads

_SIZES: Final = (200_000,)
_FORMS: Final = ("jsonl", "zst")
_TARGETS: Final = {"ingest": 50_000, "fold": 100_000}
"""Records per second on two cores."""
_MB: Final = 1024 * 1024
_COLUMNS: Final = (
    *("records", "log", "engine", "stage", "reads", "start s", "s", "records/s", "peak MB", "largest MB", "result"),
    "load",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One stage of one engine over one log. Memory is in bytes; ``load`` is that of the machine at the beginning."""

    records: int
    form: str
    engine: str
    stage: str
    reads: str
    """The input: ``log``, or ``Parquet``, the facts that ingest made of the log."""
    start: float
    """Seconds until the engine was ready: of Spark, until its session was open. They are not part of ``seconds``."""
    seconds: float
    peak_memory: int
    largest_process: int
    result: str
    load: float

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def measure(log: Path, out: Path, form: str, engine: str, stage: str) -> Figure:
    """Run one stage. ``form`` is the form of the log: plain or compressed.

    :raises subprocess.CalledProcessError: it failed; its messages are in our own standard error
    """
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "bench.replay.stage", stage, engine, str(log), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    with PeakMemory(process.pid) as memory:
        output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    printed = json.loads(output.splitlines()[-1])
    return Figure(
        printed["lines"],
        form,
        engine,
        stage,
        reads(stage, engine),
        printed["start"],
        printed["seconds"],
        memory.total,
        memory.largest,
        printed["result"],
        load,
    )


def measure_all(arguments: argparse.Namespace, folder: Path) -> Iterator[Figure]:
    """Measure every stage of every engine over every log."""
    for size in arguments.sizes:
        for form in arguments.forms:
            home = folder / f"{size}-{form}"
            log = home / "log"
            if not log.exists():
                _generate(log, size, form)
            for engine in arguments.engines:
                out = home / engine
                for stage in arguments.stages:
                    figure = measure(log, out, form, engine, stage)
                    _print(f"  {engine} {stage}: {figure.rate:,.0f} records/s, {figure.peak_memory / _MB:,.0f} MB")
                    yield figure
                if not arguments.keep:
                    shutil.rmtree(out)
            if not arguments.keep:
                shutil.rmtree(home)


def _generate(log: Path, size: int, form: str) -> None:
    begin = time.perf_counter()
    written = generate(log, size, compressed=form == "zst")
    rate = written / (time.perf_counter() - begin)
    size_mb = sum(path.stat().st_size for path in log.rglob("*.jsonl*")) / _MB
    _print(f"{written:,} records as {form}: {size_mb:,.0f} MB, generated at {rate:,.0f} records/s")


def table_of(figures: Sequence[Figure]) -> Table:
    """Return the figures as a table for the terminal."""
    table = Table(*_COLUMNS)
    for one in figures:
        table.add_row(*_cells(one))
    return table


def markdown_of(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *map(_cells, figures)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cells(one: Figure) -> list[str]:
    memory = (f"{one.peak_memory / _MB:,.0f}", f"{one.largest_process / _MB:,.0f}")
    speed = (f"{one.start:.1f}", f"{one.seconds:.1f}", f"{one.rate:,.0f}")
    return [
        f"{one.records:,}",
        one.form,
        one.engine,
        one.stage,
        one.reads,
        *speed,
        *memory,
        one.result,
        f"{one.load:.1f}",
    ]


def missed(figures: Sequence[Figure]) -> list[str]:
    """Return a sentence about each stage that is slower than its target."""
    return [
        f"{one.engine} {one.stage} of {one.records:,} records as {one.form}: {one.rate:,.0f}/s, wanted {target:,}/s"
        for one in figures
        if (target := _TARGETS.get(one.stage, 0)) > one.rate
    ]


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--sizes", type=_numbers, default=_SIZES, metavar="N,N,...", help="records (default 200000)")
    parser.add_argument("--forms", type=_names, default=_FORMS, help=f"of {', '.join(_FORMS)}")
    parser.add_argument("--engines", type=_names, default=("local",), help="of local, spark (default local)")
    parser.add_argument("--stages", type=_names, default=tuple(STAGES), help=f"of {', '.join(STAGES)}; ingest first")
    parser.add_argument("--folder", type=Path, help="folder of logs and facts during the run (3 GB per 5 million)")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep logs and facts in --folder, and use those that are there: then leave out ingest",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to this file")
    arguments = parser.parse_args(given)
    if arguments.keep and arguments.folder is None:
        parser.error("--keep requires --folder")
    return arguments


@contextmanager
def _home(arguments: argparse.Namespace) -> Iterator[Path]:
    """Yield the folder of logs and facts; without ``--keep`` a temporary one."""
    if arguments.keep:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        yield arguments.folder
    else:
        with tempfile.TemporaryDirectory(prefix="replay-bench-", dir=arguments.folder) as folder:
            yield Path(folder)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return text.split(",")


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure and print. Return 1 if a stage is slower than its target."""
    arguments = arguments_of()
    with _home(arguments) as folder:
        figures = list(measure_all(arguments, folder))
    Console(width=None if Console().is_terminal else 150).print(table_of(figures))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown_of(figures) + "\n")
    slow = missed(figures)
    for sentence in slow:
        _print(sentence)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
