"""``python -m bench.replay``: how fast a replay is, and how much memory it takes, by the size of the log."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class Figure:
    """One stage of one engine over one log; memory in bytes, ``load`` of the machine when it began."""

    records: int
    form: str
    engine: str
    stage: str
    reads: str
    """``log``, or ``Parquet``: what ingest made of it."""
    seconds: float
    peak_memory: int
    largest_process: int
    said: str
    load: float

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def measure(log: Path, out: Path, form: str, engine: str, stage: str) -> Figure:
    """Run one stage; ``form`` is that of the log.

    :raises subprocess.CalledProcessError: it failed; what it said went to our own error output
    """
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "bench.replay.stage", stage, engine, str(log), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    with PeakMemory(process.pid) as memory:
        output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    told = json.loads(output.splitlines()[-1])
    memories = (memory.total, memory.largest)
    return Figure(
        told["lines"], form, engine, stage, reads(stage, engine), told["seconds"], *memories, told["said"], load
    )


def measure_all(arguments: argparse.Namespace, folder: Path) -> Iterator[Figure]:
    """Every stage of every engine over every log."""
    for size in arguments.sizes:
        for form in arguments.forms:
            log = folder / "log"
            begin = time.perf_counter()
            written = generate(log, size, compressed=form == "zst")
            rate = written / (time.perf_counter() - begin)
            size_mb = sum(path.stat().st_size for path in log.rglob("*.jsonl*")) / _MB
            _say(f"{written:,} records as {form}: {size_mb:,.0f} MB, generated at {rate:,.0f} records/s")
            for engine in arguments.engines:
                out = folder / "out"
                for stage in arguments.stages:
                    figure = measure(log, out, form, engine, stage)
                    _say(f"  {engine} {stage}: {figure.rate:,.0f} records/s, {figure.peak_memory / _MB:,.0f} MB")
                    yield figure
                shutil.rmtree(out)
            shutil.rmtree(log)


def table_of(figures: Sequence[Figure]) -> Table:
    """The figures for people."""
    table = Table(
        "records", "log", "engine", "stage", "reads", "s", "records/s", "peak MB", "largest process MB", "gave", "load"
    )
    for one in figures:
        table.add_row(*_cells(one))
    return table


def markdown_of(figures: Sequence[Figure]) -> str:
    """The figures for a document."""
    head = "| records | log | engine | stage | reads | s | records/s | peak MB | largest process MB | gave | load |"
    rows = ["| " + " | ".join(_cells(one)) + " |" for one in figures]
    return "\n".join([head, "|" + " --- |" * (head.count("|") - 1), *rows])


def _cells(one: Figure) -> list[str]:
    memory = (f"{one.peak_memory / _MB:,.0f}", f"{one.largest_process / _MB:,.0f}")
    speed = (f"{one.seconds:.1f}", f"{one.rate:,.0f}")
    return [
        f"{one.records:,}",
        one.form,
        one.engine,
        one.stage,
        one.reads,
        *speed,
        *memory,
        one.said,
        f"{one.load:.1f}",
    ]


def missed(figures: Sequence[Figure]) -> list[str]:
    """What is slower than it may be, as sentences."""
    return [
        f"{one.engine} {one.stage} of {one.records:,} records as {one.form}: {one.rate:,.0f}/s, wanted {target:,}/s"
        for one in figures
        if (target := _TARGETS.get(one.stage, 0)) > one.rate
    ]


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--sizes", type=_numbers, default=_SIZES, metavar="N,N,...", help="records (default 200000)")
    parser.add_argument("--forms", type=_names, default=_FORMS, help=f"of {', '.join(_FORMS)}")
    parser.add_argument("--engines", type=_names, default=("local",), help="of local, spark (default local)")
    parser.add_argument("--stages", type=_names, default=tuple(STAGES), help=f"of {', '.join(STAGES)}; ingest first")
    parser.add_argument("--folder", type=Path, help="where logs and facts go for the time being (3 GB per 5 million)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the table goes")
    return parser.parse_args(given)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return text.split(",")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure and print; 1 if something is slower than its target."""
    arguments = arguments_of()
    with tempfile.TemporaryDirectory(prefix="replay-bench-", dir=arguments.folder) as folder:
        figures = list(measure_all(arguments, Path(folder)))
    Console(width=None if Console().is_terminal else 150).print(table_of(figures))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown_of(figures) + "\n")
    slow = missed(figures)
    for sentence in slow:
        _say(sentence)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
