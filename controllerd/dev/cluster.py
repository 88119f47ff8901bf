"""A whole cluster on this machine: ZooKeeper, three brokers (embedded or real), and instances of controllerd."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.ensemble import EmbeddedEnsemble
from controllerd.dev.kafka import KafkaBroker
from controllerd.dev.kafka_jars import class_path
from controllerd.dev.observe import ZooKeeperObserver, ZooKeeperView
from controllerd.dev.ports import ANY_PORTS, LOOPBACK, Ports
from controllerd.dev.processes import ChildProcess
from controllerd.dev.proxy import TcpProxy
from controllerd.dev.servers import ServerProcess
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from wire.errors import WireError
from wire.metadata import ClusterMetadata, fetch_metadata

BrokerKind = Literal["embedded", "kafka"]
Tell = Callable[[str], None]

FIRST_NODE_ID: Final = 2_000_000_000
BROKER_IDS: Final = (1, 2, 3)
CHROOT: Final = "/kafka"
_START_S: Final = 90.0
_ASK_S: Final = 5.0
SESSION_MS: Final[Mapping[BrokerKind, int]] = {"embedded": 2_000, "kafka": 6_000}


class EmbeddedBrokerProcess(ServerProcess):
    """The embedded reference broker as a process."""

    def __init__(
        self, broker_id: int, zookeeper_connect: str, directory: Path, session_timeout_ms: int, port: int = 0
    ) -> None:
        super().__init__(f"broker {broker_id}", port)
        self._broker_id = broker_id
        self._zookeeper_connect = zookeeper_connect
        self._directory = directory
        self._session_timeout_ms = session_timeout_ms

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        await self.process.wait_until(self._answers, timeout_s=_START_S, what="answered")

    async def _answers(self) -> bool:
        try:
            await fetch_metadata(LOOPBACK, self.port, timeout_s=_ASK_S)
        except (OSError, WireError):
            return False
        return True

    def _prepare(self) -> ChildProcess:
        command = [sys.executable, "-P", "-m", "broker", "--id", str(self._broker_id)]
        command += ["--zookeeper", self._zookeeper_connect, "--listener", f"PLAINTEXT://{self.address}"]
        command += ["--data-dir", str(self._directory / "data"), "--session-timeout-ms", str(self._session_timeout_ms)]
        return ChildProcess(self._name, command, log_file=self._directory / "broker.log")


class RealBroker(KafkaBroker):
    """A stock Apache Kafka broker."""

    async def terminate(self, *, timeout_s: float = 60.0) -> int:
        """Send SIGTERM; return the exit status. A JVM that ends in an orderly way has 143, which counts as 0 here."""
        status = await super().terminate(timeout_s=timeout_s)
        return 0 if status == 143 else status


@dataclass(slots=True)
class DevCluster:
    """A running cluster, and how to query it."""

    kind: BrokerKind
    directory: Path
    zookeeper: EmbeddedZooKeeper | EmbeddedEnsemble
    observer: ZooKeeperObserver
    brokers: Mapping[int, ServerProcess]
    controllers: list[ControllerProcess]
    proxies: Mapping[int, TcpProxy] = field(default_factory=dict)
    """The proxy between an instance and ZooKeeper by node id of the instance; empty without proxies."""

    @property
    def connect(self) -> str:
        """``zookeeper.connect`` of the cluster."""
        return f"{self.zookeeper.connect}{CHROOT}"

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"{LOOPBACK}:{broker.port}" for broker in self.brokers.values())

    async def active(self) -> ControllerProcess | None:
        """Return the active instance of controllerd; None while there is none."""
        for controller in self.controllers:
            if controller.process.running and await controller.is_active():
                return controller
        return None

    async def metadata(self) -> dict[str, ClusterMetadata]:
        """Return the metadata that each running broker serves to clients.

        :raises OSError: a broker does not answer. :raises WireError: an answer cannot be decoded.
        """
        running = {broker_id: broker for broker_id, broker in self.brokers.items() if broker.running}
        answers = await asyncio.gather(
            *(fetch_metadata(LOOPBACK, broker.port, timeout_s=_ASK_S) for broker in running.values())
        )
        return {f"broker {broker_id}": answer for broker_id, answer in zip(running, answers, strict=True)}

    async def view(self) -> ZooKeeperView:
        """Return the state of the cluster in ZooKeeper."""
        return await self.observer.view()


@asynccontextmanager
async def open_cluster(
    kind: BrokerKind,
    directory: Path,
    tell: Tell,
    *,
    instances: int = 2,
    controller_session_ms: int | None = None,
    overrides: Mapping[int, Mapping[str, str]] | None = None,
    proxy: Callable[[str], TcpProxy] | None = None,
    servers: Callable[[Path], EmbeddedZooKeeper | EmbeddedEnsemble] = EmbeddedZooKeeper,
    settings: Mapping[str, str] | None = None,
    ports: Ports = ANY_PORTS,
    versions: Mapping[int, str] | None = None,
) -> AsyncIterator[DevCluster]:
    """Start a cluster, and end it on exit. The instances start before the brokers, so that no broker gets the role.

    ``overrides`` are server properties of single real brokers. ``proxy`` makes the proxy between
    an instance and ZooKeeper; it runs in the event loop of the caller, who must not block it.
    ``servers`` makes ZooKeeper. ``settings`` are variables of the configuration of every
    instance, ``CONTROLLERD__SECTION__KEY``. ``ports`` are those of the brokers and instances;
    ``servers`` chooses the port of ZooKeeper. ``versions`` has the releases of single real
    brokers; the other brokers run the default release.

    :raises DevError: Java or the jars are missing, or a process does not start; the message says what to do.
    """
    async with AsyncExitStack() as stack:
        if kind == "kafka":
            await resolve_jars([(versions or {}).get(n) for n in BROKER_IDS], tell)
        tell("starting ZooKeeper")
        zookeeper = servers(directory / "zookeeper")
        await stack.enter_async_context(zookeeper)
        connect = f"{zookeeper.connect}{CHROOT}"
        observer = await stack.enter_async_context(ZooKeeperObserver(connect))
        node_ids = [FIRST_NODE_ID + number for number in range(instances)]
        proxies = await _open_proxies(stack, node_ids, zookeeper.connect, proxy)
        controllers = _controllers(
            {n: f"{proxies[n].connect}{CHROOT}" if proxies else connect for n in node_ids},
            directory,
            controller_session_ms or SESSION_MS[kind],
            settings or {},
            ports,
        )
        await _start_controllers(stack, controllers, tell)
        brokers = {
            n: _broker(kind, n, connect, directory, (overrides or {}).get(n, {}), ports, (versions or {}).get(n))
            for n in BROKER_IDS
        }
        await _start_brokers(stack, kind, brokers, tell)
        yield DevCluster(kind, directory, zookeeper, observer, brokers, controllers, proxies)
        tell("stopping")


async def resolve_jars(versions: Iterable[str | None], tell: Tell) -> None:
    """Fetch the missing jars of these releases, one Maven run at a time, and report progress.

    :raises DevError: there is no such release, or its jars cannot be fetched.
    """
    for version in dict.fromkeys(versions):
        await asyncio.to_thread(class_path, tell, version=version)


async def _open_proxies(
    stack: AsyncExitStack, node_ids: Sequence[int], zookeeper: str, proxy: Callable[[str], TcpProxy] | None
) -> dict[int, TcpProxy]:
    return {} if proxy is None else {n: await stack.enter_async_context(proxy(zookeeper)) for n in node_ids}


def _controllers(
    connects: Mapping[int, str], directory: Path, session_ms: int, settings: Mapping[str, str], ports: Ports
) -> list[ControllerProcess]:
    return [
        ControllerProcess(
            node_id,
            connect,
            directory / f"controllerd-{number}",
            session_timeout_ms=session_ms,
            settings=settings,
            ports=ports.instance(number),
        )
        for number, (node_id, connect) in enumerate(connects.items())
    ]


async def _start_controllers(stack: AsyncExitStack, controllers: Sequence[ControllerProcess], tell: Tell) -> None:
    if not controllers:
        return
    tell(f"starting controllerd ({len(controllers)} instance{'s' if len(controllers) > 1 else ''})")
    for controller in controllers:
        stack.push_async_callback(controller.close)
    for controller in controllers:
        await controller.start()


async def _start_brokers(
    stack: AsyncExitStack, kind: BrokerKind, brokers: Mapping[int, ServerProcess], tell: Tell
) -> None:
    tell(f"starting {len(brokers)} {'embedded' if kind == 'embedded' else _releases_of(brokers)} brokers")
    for broker in brokers.values():
        stack.push_async_callback(broker.close)
    await asyncio.gather(*(broker.start() for broker in brokers.values()))


def _releases_of(brokers: Mapping[int, ServerProcess]) -> str:
    releases = {broker.version for broker in brokers.values() if isinstance(broker, RealBroker)}
    return f"Apache Kafka {', '.join(sorted(releases))}"


def _broker(
    kind: BrokerKind,
    broker_id: int,
    connect: str,
    directory: Path,
    overrides: Mapping[str, str],
    ports: Ports,
    version: str | None,
) -> ServerProcess:
    home, port = directory / f"broker-{broker_id}", ports.broker(broker_id)
    if kind == "embedded":
        return EmbeddedBrokerProcess(broker_id, connect, home, SESSION_MS[kind], port)
    properties = {"min.insync.replicas": "2", **overrides}
    return RealBroker(broker_id, connect, home, overrides=properties, port=port, version=version)
