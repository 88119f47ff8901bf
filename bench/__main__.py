"""``python -m bench``: what controllerd costs, as counts that are the same in every run, and ratios between sizes."""

import argparse
import asyncio
import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.cluster import BROKERS, REPLICATION, TOPIC_PARTITIONS
from bench.stubs import stub_brokers
from bench.workloads import Bench, Figures
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.logs import configure_logging

_RATIOS = ("zk_transactions", "zk_operations", "zk_bytes", "zk_reads", "requests", "request_bytes", "seconds")


async def measure(partitions: int, directory: Path) -> list[Figures]:
    """Every workload at half the size, then at full size."""
    figures = []
    for size in (partitions // 2, partitions):
        folder = directory / str(size)
        async with EmbeddedZooKeeper(folder / "zookeeper") as server, stub_brokers(BROKERS) as stubs:
            figures += await Bench(size, server, stubs, folder / "controllerd").run()
    return figures


def ratios(half: Figures, full: Figures) -> dict[str, float]:
    """How much more the full size took than half of it: 2 is linear, 1 does not depend on the size."""
    pairs = {name: (getattr(half, name), getattr(full, name)) for name in _RATIOS}
    return {name: round(large / small, 2) for name, (small, large) in pairs.items() if small}


def table_of(figures: Sequence[Figures]) -> Table:
    """One row per workload and size."""
    table = Table(title="controllerd, one ZooKeeper, brokers that acknowledge", title_justify="left")
    for column in ("workload", "size", "changed", "ZK writes", "ops", "data B", "ZK reads"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for column in ("requests", "request B", "B/broker", "seconds", "partitions/s"):
        table.add_column(column, justify="right")
    for one in figures:
        counts = (one.size, one.partitions, one.zk_transactions, one.zk_operations, one.zk_bytes, one.zk_reads)
        sent = (one.requests, one.request_bytes, one.request_bytes // BROKERS)
        numbers = [f"{count:,}" for count in (*counts, *sent)]
        table.add_row(one.workload, *numbers, f"{one.seconds:.3f}", f"{one.partitions_per_second:,.0f}")
    return table


def ratio_table(compared: dict[str, dict[str, float]]) -> Table:
    """One row per workload."""
    table = Table(title="full size to half of it (2 is linear)", title_justify="left")
    table.add_column("workload")
    for name in _RATIOS:
        table.add_column(name.replace("_", " "), justify="right")
    for workload, values in compared.items():
        table.add_row(workload, *(f"{values[name]:.2f}" if name in values else "-" for name in _RATIOS))
    return table


def main() -> None:
    """Measure, print, and write the result file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--partitions", type=int, default=2_000, help="the full size (default 2000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go as JSON")
    arguments = parser.parse_args()
    configure_logging("warning")
    if arguments.partitions < 2 * TOPIC_PARTITIONS or arguments.partitions % (2 * TOPIC_PARTITIONS):
        parser.error(f"--partitions must be a multiple of {2 * TOPIC_PARTITIONS}")
    with tempfile.TemporaryDirectory(prefix="controllerd-bench-") as directory:
        figures = asyncio.run(measure(arguments.partitions, Path(directory)))
    middle = len(figures) // 2
    compared = {
        full.workload: ratios(half, full) for half, full in zip(figures[:middle], figures[middle:], strict=True)
    }
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table_of(figures))
    console.print(ratio_table(compared))
    if arguments.json is not None:
        cluster = {"brokers": BROKERS, "replication": REPLICATION, "partitions_per_topic": TOPIC_PARTITIONS}
        machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        result = {
            "cluster": cluster,
            "machine": machine,
            "figures": [one.as_json() for one in figures],
            "ratios": compared,
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
