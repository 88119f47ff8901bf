"""The commands ``controllerd dev`` and ``controllerd demo``."""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, Protocol

from controllerd.dev.cluster import BROKER_IDS, BrokerKind, DevCluster, Tell, open_cluster
from controllerd.dev.demo import Demo, DemoSummary
from controllerd.dev.ports import ANY_PORTS, LOOPBACK, Ports, are_free
from controllerd.dev.processes import ChildProcess, DevError
from controllerd.dev.releases import check_release
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.logs import configure_logging

USUAL_PORTS: Final = Ports(zookeeper=2181, brokers=9092, listeners=9095, http=9191)
"""The ports of ``controllerd dev`` if all of them are free, so that documents can give addresses."""
DEFAULT_HTTP: Final = f"{LOOPBACK}:{USUAL_PORTS.http}"
"""The address that controllerctl connects to by default."""
AWAY_S: Final = 30.0
"""Seconds from the end of a server until it is started again."""
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Child(Protocol):
    """A server that is started again when it ends."""

    @property
    def process(self) -> ChildProcess:
        """The process itself."""
        ...

    async def start(self) -> None:
        """Start it with the data of its last run and wait until it answers."""
        ...


def run_dev(brokers: str, instances: int, directory: Path | None, kafka_version: str | None = None) -> int:
    """Run a cluster until Ctrl-C, and start servers that end again; return the exit status."""
    kind = _kind(brokers, kafka_version)
    if kind is None:
        return EXIT_USAGE
    versions = _versions(kafka_version)

    async def serve(home: Path) -> int:
        tell = line_printer()
        ports = choose_ports(instances, tell)
        servers = partial(EmbeddedZooKeeper, port=ports.zookeeper)
        async with open_cluster(
            kind, home, tell, instances=instances, servers=servers, ports=ports, versions=versions
        ) as cluster:
            interrupted = _interruption()
            _tell_addresses(cluster, tell)
            await _revive_until(interrupted, cluster, tell)
        return 0

    return _in_directory(directory, serve)


def choose_ports(instances: int, tell: Tell) -> Ports:
    """Return the usual ports, or any free ones if another process uses one of them.

    A warning is printed in the second case: the addresses in the documents reach another cluster then.
    """
    planned = max(instances, 1)  # without an instance, the user will start one
    taken = [port for port in _all_ports(USUAL_PORTS, planned) if not are_free([port])]
    if not taken:
        return USUAL_PORTS
    tell(f"already in use: {', '.join(f'port {port}' for port in taken)}; every port of this cluster is another one")
    tell("the addresses of the quick start would reach ANOTHER cluster: use the addresses below")
    return ANY_PORTS


def _all_ports(ports: Ports, instances: int) -> list[int]:
    own = [port for number in range(instances) for port in ports.instance(number)]
    return [ports.zookeeper, *(ports.broker(broker_id) for broker_id in BROKER_IDS), *own]


async def _revive_until(end: asyncio.Event, cluster: DevCluster, tell: Tell) -> None:
    """Start servers that end again, as a service manager does, but late enough that the failure can be inspected."""
    async with asyncio.TaskGroup() as group:
        children: list[Child] = [*cluster.brokers.values(), *cluster.controllers]
        if isinstance(cluster.zookeeper, EmbeddedZooKeeper):
            children.append(cluster.zookeeper)
        revivals = [group.create_task(_revive(child, tell)) for child in children]
        await end.wait()
        for revival in revivals:
            revival.cancel()


async def _revive(child: Child, tell: Tell) -> None:
    while True:
        await child.process.wait_ended(timeout_s=inf)
        tell(f"{child.process.name} ended; it is started again in {AWAY_S:g} s")
        await asyncio.sleep(AWAY_S)
        try:
            await child.start()
            tell(f"{child.process.name} is back, process {child.process.pid}")
        except DevError as error:
            tell(str(error))


def run_demo(brokers: str, directory: Path | None, summary_file: Path, kafka_version: str | None = None) -> int:
    """Run the demo and write its summary; return 0 if every step succeeded."""
    kind = _kind(brokers, kafka_version)
    if kind is None:
        return EXIT_USAGE
    if not summary_file.absolute().parent.is_dir():
        print(f"controllerd: --summary: there is no folder {summary_file.parent}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE

    async def perform(home: Path) -> int:
        tell = line_printer()
        summary = await _demo(kind, home, tell, _versions(kafka_version))
        await asyncio.to_thread(_write, summary, summary_file)
        verdict = "every step succeeded" if summary.ok else "a step FAILED"
        tell(f"{verdict}; {len(summary.steps)} steps in {summary.seconds:.1f} s, summary in {summary_file}")
        if not summary.ok:
            tell(f"logs and data are kept in {home}")
        return 0 if summary.ok else EXIT_FAILED

    return _in_directory(directory, perform)


def _kind(brokers: str, kafka_version: str | None) -> BrokerKind | None:
    """Return the kind of brokers of that name; None, after a message, if there is none in that release."""
    kinds: dict[str, BrokerKind] = {"embedded": "embedded", "kafka": "kafka"}
    problem = _misuse(brokers, kinds, kafka_version)
    if problem is not None:
        print(f"controllerd: {problem}", file=sys.stderr)  # noqa: T201
        return None
    return kinds[brokers]


def _misuse(brokers: str, kinds: Collection[str], kafka_version: str | None) -> str | None:
    if brokers not in kinds:
        return f"--brokers is embedded or kafka, not {brokers}"
    if kafka_version is None:
        return None
    if brokers != "kafka":
        return "--kafka-version requires --brokers kafka"
    try:
        check_release(kafka_version)
    except DevError as error:
        return f"--kafka-version: {error}"
    return None


def _versions(kafka_version: str | None) -> dict[int, str]:
    return dict.fromkeys(BROKER_IDS, kafka_version) if kafka_version else {}


def _write(summary: DemoSummary, file: Path) -> None:
    file.write_text(json.dumps(summary.as_dict(), indent=2) + "\n", encoding="utf-8")


async def _demo(kind: BrokerKind, home: Path, tell: Tell, versions: Mapping[int, str]) -> DemoSummary:
    async with open_cluster(kind, home, tell, versions=versions) as cluster:
        return await Demo(cluster, tell).run()


def line_printer() -> Tell:
    """Return a function that prints a line with the seconds since the beginning."""
    started = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f}  {line}", flush=True)  # noqa: T201  # the lines are the output

    return tell


def _tell_addresses(cluster: DevCluster, tell: Tell) -> None:
    server = cluster.zookeeper
    process = f", process {server.process.pid}" if isinstance(server, EmbeddedZooKeeper) else ""
    tell(f"ZooKeeper    {cluster.connect}{process}")
    for broker_id, broker in cluster.brokers.items():
        tell(f"broker {broker_id}     {LOOPBACK}:{broker.port}, process {broker.process.pid}")
    for controller in cluster.controllers:
        tell(
            f"controllerd  {controller.kafka_port.address}, process {controller.process.pid}, http://{controller.http}"
        )
    tell(f"data         {cluster.directory}")
    tell(_next_step(cluster))


def _next_step(cluster: DevCluster) -> str:
    stop = "Ctrl-C stops everything"
    if not cluster.controllers:
        active = "a broker is the controller" if cluster.kind == "kafka" else "the cluster has no controller"
        suggestion = f"try: controllerctl --zk {cluster.connect} doctor"
        return f"no controllerd: {active}; {suggestion}      {stop}"
    http = cluster.controllers[0].http
    address = "" if http == DEFAULT_HTTP else f" --api http://{http}"
    return f"try: controllerctl{address} status      {stop}"


def _interruption() -> asyncio.Event:
    """Return an event that Ctrl-C or SIGTERM sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _in_directory(directory: Path | None, work: Callable[[Path], Coroutine[None, None, int]]) -> int:
    """Run ``work`` in a directory. A temporary one is removed afterwards, unless the work failed and left files."""
    configure_logging("warning")
    home = directory.absolute() if directory is not None else Path(tempfile.mkdtemp(prefix="controllerd-"))
    home.mkdir(parents=True, exist_ok=True)
    status = _run(work, home)
    if directory is None and (status != EXIT_FAILED or not any(home.iterdir())):
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
