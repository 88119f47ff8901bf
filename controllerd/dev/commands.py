"""``controllerd dev`` and ``controllerd demo``: what a newcomer runs first."""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from controllerd.dev.cluster import BrokerKind, DevCluster, Tell, open_cluster
from controllerd.dev.errors import DevError
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.story import Story, Summary
from controllerd.logs import configure_logging

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def run_dev(directory: Path | None) -> int:
    """Run an embedded cluster until Ctrl-C; the exit code."""

    async def serve(home: Path) -> int:
        tell = narrator()
        async with open_cluster("embedded", home, tell, instances=1) as cluster:
            interrupted = _interruption()
            _tell_addresses(cluster, tell)
            await interrupted.wait()
        return 0

    return _in_directory(directory, serve)


def run_demo(brokers: str, directory: Path | None, summary_file: Path) -> int:
    """Tell the story and write its summary; 0 when every step succeeded."""
    if brokers not in {"embedded", "kafka"}:
        print(f"controllerd: --brokers is embedded or kafka, not {brokers}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    if not summary_file.absolute().parent.is_dir():
        print(f"controllerd: --summary: there is no folder {summary_file.parent}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    kind: BrokerKind = "kafka" if brokers == "kafka" else "embedded"

    async def tell_story(home: Path) -> int:
        tell = narrator()
        summary = await _story(kind, home, tell)
        await asyncio.to_thread(_write, summary, summary_file)
        verdict = "every step succeeded" if summary.ok else "a step FAILED"
        tell(f"{verdict}; {len(summary.steps)} steps in {summary.seconds:.1f} s, summary in {summary_file}")
        if not summary.ok:
            tell(f"logs and data are kept in {home}")
        return 0 if summary.ok else EXIT_FAILED

    return _in_directory(directory, tell_story)


def _write(summary: Summary, file: Path) -> None:
    file.write_text(json.dumps(summary.as_dict(), indent=2) + "\n", encoding="utf-8")


async def _story(kind: BrokerKind, home: Path, tell: Tell) -> Summary:
    async with open_cluster(kind, home, tell) as cluster:
        return await Story(cluster, tell).tell_all()


def narrator() -> Tell:
    """Prints each line with the seconds since the beginning."""
    started = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f}  {line}", flush=True)  # noqa: T201  # the story is the output

    return tell


def _tell_addresses(cluster: DevCluster, tell: Tell) -> None:
    controller = cluster.controllers[0]
    tell(f"ZooKeeper    {cluster.connect}")
    for broker_id, broker in cluster.brokers.items():
        tell(f"broker {broker_id}     {LOOPBACK}:{broker.port}")
    tell(f"controllerd  {controller.kafka_port.address} (Kafka protocol), http://{controller.http} (status)")
    tell(f"data         {cluster.directory}")
    tell(f"try: controllerctl --api http://{controller.http} status      Ctrl-C stops everything")


def _interruption() -> asyncio.Event:
    """Set by Ctrl-C or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _in_directory(directory: Path | None, work: Callable[[Path], Coroutine[None, None, int]]) -> int:
    """Run ``work`` in a directory, a temporary one unless given; a temporary one is kept when it failed."""
    configure_logging("warning")
    home = directory.absolute() if directory is not None else Path(tempfile.mkdtemp(prefix="controllerd-"))
    home.mkdir(parents=True, exist_ok=True)
    status = _run(work, home)
    if directory is None and status != EXIT_FAILED:
        shutil.rmtree(home)
    return status


def _run(work: Callable[[Path], Coroutine[None, None, int]], home: Path) -> int:
    try:
        return asyncio.run(work(home))
    except DevError as error:
        print(f"controllerd: {error}", file=sys.stderr)  # noqa: T201  # one clear sentence instead of a traceback
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
