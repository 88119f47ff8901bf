"""``controllerd dev`` and ``controllerd demo``: what a newcomer runs first."""

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
from controllerd.dev.ports import ANY_PORTS, LOOPBACK, Ports, are_free
from controllerd.dev.processes import ChildProcess, DevError
from controllerd.dev.releases import check_release
from controllerd.dev.story import Story, Summary
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.logs import configure_logging

USUAL_PORTS: Final = Ports(zookeeper=2181, brokers=9092, listeners=9095, http=9191)
"""The ports of ``controllerd dev`` where all of them are free, so that addresses can be written down."""
DEFAULT_HTTP: Final = f"{LOOPBACK}:{USUAL_PORTS.http}"
"""Where controllerctl looks unless it is told otherwise."""
AWAY_S: Final = 30.0
"""How long what was killed stays away."""
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
    """Run a cluster until Ctrl-C, and whatever of it ends, again; the exit code."""
    kind = _kind(brokers, kafka_version)
    if kind is None:
        return EXIT_USAGE
    versions = _versions(kafka_version)

    async def serve(home: Path) -> int:
        tell = narrator()
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
    """The usual ones, or any: then what is written down elsewhere reaches somebody else's cluster, and that is told."""
    planned = max(instances, 1)  # where none is started, it is to be started by hand
    taken = [port for port in _all_ports(USUAL_PORTS, planned) if not are_free([port])]
    if not taken:
        return USUAL_PORTS
    tell(f"in use already: {', '.join(f'port {port}' for port in taken)}; this cluster gets other ports, all of them")
    tell("addresses from the quick start would reach SOMEBODY ELSE'S cluster: use those below")
    return ANY_PORTS


def _all_ports(ports: Ports, instances: int) -> list[int]:
    own = [port for number in range(instances) for port in ports.instance(number)]
    return [ports.zookeeper, *(ports.broker(broker_id) for broker_id in BROKER_IDS), *own]


async def _revive_until(end: asyncio.Event, cluster: DevCluster, tell: Tell) -> None:
    """Start again what ends, as a service manager does, but late enough that one can look at the trouble first."""
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
    """Tell the story and write its summary; 0 when every step succeeded."""
    kind = _kind(brokers, kafka_version)
    if kind is None:
        return EXIT_USAGE
    if not summary_file.absolute().parent.is_dir():
        print(f"controllerd: --summary: there is no folder {summary_file.parent}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE

    async def tell_story(home: Path) -> int:
        tell = narrator()
        summary = await _story(kind, home, tell, _versions(kafka_version))
        await asyncio.to_thread(_write, summary, summary_file)
        verdict = "every step succeeded" if summary.ok else "a step FAILED"
        tell(f"{verdict}; {len(summary.steps)} steps in {summary.seconds:.1f} s, summary in {summary_file}")
        if not summary.ok:
            tell(f"logs and data are kept in {home}")
        return 0 if summary.ok else EXIT_FAILED

    return _in_directory(directory, tell_story)


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
        return "--kafka-version needs --brokers kafka"
    try:
        check_release(kafka_version)
    except DevError as error:
        return f"--kafka-version: {error}"
    return None


def _versions(kafka_version: str | None) -> dict[int, str]:
    return dict.fromkeys(BROKER_IDS, kafka_version) if kafka_version else {}


def _write(summary: Summary, file: Path) -> None:
    file.write_text(json.dumps(summary.as_dict(), indent=2) + "\n", encoding="utf-8")


async def _story(kind: BrokerKind, home: Path, tell: Tell, versions: Mapping[int, str]) -> Summary:
    async with open_cluster(kind, home, tell, versions=versions) as cluster:
        return await Story(cluster, tell).tell_all()


def narrator() -> Tell:
    """Prints each line with the seconds since the beginning."""
    started = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f}  {line}", flush=True)  # noqa: T201  # the story is the output

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
        leads = "one of the brokers leads" if cluster.kind == "kafka" else "nobody leads"
        tell_more = f"try: controllerctl --zk {cluster.connect} doctor"
        return f"no controllerd: {leads}; {tell_more}      {stop}"
    http = cluster.controllers[0].http
    address = "" if http == DEFAULT_HTTP else f" --api http://{http}"
    return f"try: controllerctl{address} status      {stop}"


def _interruption() -> asyncio.Event:
    """Set by Ctrl-C or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _in_directory(directory: Path | None, work: Callable[[Path], Coroutine[None, None, int]]) -> int:
    """Run ``work`` in a directory, a temporary one unless given; of a failure that one keeps what was in it."""
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
