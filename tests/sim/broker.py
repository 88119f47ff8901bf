"""A simulated 3.9 broker: registration, the socket that serves control requests, and everything that can go wrong.

The process is an owner of the loop, ``broker-<id>/<run>``: a pause freezes it, a crash kills it, a restart is another
run. Its memory is a ``BrokerLife``, its disk the logs. Requests arrive as bytes and are decoded here.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH
from controllerd.core.protocol_versions import parse_broker_version
from events.admin import ProducerIdBlock
from tests.sim.broker_dirs import LogDirs
from tests.sim.broker_frames import RELEASES, Key, ReleaseNumber, spoken_on
from tests.sim.broker_life import BrokerLife
from tests.sim.broker_log import ReplicaLog
from tests.sim.broker_replica import Role
from tests.sim.broker_socket import ControlSocket, Fault, Injected
from tests.sim.network import Range, SimLink
from tests.sim.oracle_seen import BrokerAtRest, CachedPartition
from tests.sim.zk_server import SimSession

if TYPE_CHECKING:
    from tests.sim.broker_cluster import SimCluster

HOST: Final = "127.0.0.1"
LISTENER: Final = "PLAINTEXT"
_REGISTER_AGAIN_S: Final = 0.5
_RECONNECT: Final = Range(0.05, 0.4)
_WORLD: Final = ""
_LINK: Final = Range(0.0003, 0.003)
_FETCH: Final = Range(0.01, 0.05)
_BOOT: Final = Range(0.05, 1.5)
_LATE: Final = Range(1.0, 20.0)
NEWEST: Final = RELEASES[-1]
PROTOCOL: Final = "inter.broker.protocol.version"
NEWEST_PROTOCOLS: Final[Mapping[ReleaseNumber, str]] = {
    (2, 8): "2.8-IV1", (3, 0): "3.0-IV1", (3, 3): "3.3-IV3", (3, 4): "3.4-IV0", (3, 5): "3.5-IV2", (3, 6): "3.6-IV2",
    (3, 7): "3.7-IV4", (3, 8): "3.8-IV0", (3, 9): "3.9-IV0",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Times in virtual seconds, fixed for the broker; values that a story changes are attributes of the broker."""

    link_s: Range = _LINK
    """Network delay, one way."""
    fetch_s: Range = _FETCH
    """Delay between the moment when a follower has a reason to fetch and the fetch."""
    boot_s: Range = _BOOT
    """Delay between the registration and the first accepted connection."""
    fetch_backoff_s: float = 1.0
    lag_s: float = 4.0
    """``replica.lag.time.max.ms``."""
    session_timeout_s: float = 6.0
    late_s: Range = _LATE
    """Delay of an answer with the fault ``LATE``."""
    release: ReleaseNumber = NEWEST
    """The release of Kafka, which decides its API versions and the topic configs that it understands."""
    producer_ids_s: Range | None = None
    """Delay between two requests for a block of producer ids; None: only when the story asks for one."""


class SimBroker:
    """One broker, made by ``SimCluster.add``. Lifecycle methods take effect at once, unless they are awaitable."""

    def __init__(self, broker: int, cluster: "SimCluster", *, rack: str | None, settings: BrokerSettings) -> None:
        self.id: Final = broker
        self.address: Final = (HOST, 9000 + broker)
        self.cluster: Final = cluster
        self.settings: Final = settings
        self.disk: Final[dict[Key, ReplicaLog]] = {}
        """The logs; they survive every crash and restart."""
        self.life: BrokerLife | None = None
        """The memory of the present run, None until it is registered and after a crash."""
        self.spoken = spoken_on(settings.release)
        """The range of versions by api key, as ApiVersions answers it."""
        self.link_s = settings.link_s
        """Setting of the story: network delay, one way."""
        self.work_s: Range | None = None
        """Setting of the story: how long a request is processed; requests of one link follow each other."""
        self.fetch_s = settings.fetch_s
        """Setting of the story: the delay before a fetch."""
        self.is_silent = False
        """Setting of the story: the broker accepts connections and requests, and processes none."""
        self.is_refusing = False
        """Setting of the story: the broker refuses new connections."""
        self.is_stuck = False
        """Setting of the story: as a follower the broker fetches nothing."""
        self.offline: dict[Key, None] = {}
        """Replicas on a failed log directory; see ``fail_disk``."""
        self.deleted: dict[Key, str | None] = {}
        """The topic ids of the replicas that the broker deleted last; None where there was no replica."""
        self.dirs: Final = LogDirs(self)
        self.configured: dict[str, str] = {PROTOCOL: self.newest_protocol}
        """The part of ``server.properties`` that a controller reads; a life of the broker begins with a copy of it."""
        self.own: dict[str, str] = {}
        """The broker's own dynamic configuration (``kafka-configs --entity-name``)."""
        self._rack = rack
        self._runs = 0
        self._owner = f"broker-{broker}/0"
        self._session: SimSession | None = None
        self._is_unplugged = False
        self._is_listening = False
        self._is_starting = False
        self._socket = ControlSocket(self)
        self._leaving: asyncio.Future[bool] | None = None

    @property
    def finds_controller_in_zookeeper(self) -> bool:
        """Whether the broker is older than 3.0, and looks its controller up under ``/brokers/ids`` before it stops."""
        return self.settings.release < (3, 0)

    @property
    def freezes_isr(self) -> bool:
        """Whether the broker is older than 3.1, so that its ISRs neither shrink nor grow after most refusals."""
        return self.settings.release < (3, 1)

    # -- the network interface --------------------------------------------------------------------------------------

    @property
    def owner(self) -> str:
        """The loop owner of the present run."""
        return self._owner

    def delay(self) -> float:
        """Draw the network delay, one way, in seconds."""
        return self.link_s.draw(self.cluster.rng)

    def accepts(self) -> bool | None:
        """Whether a connection can be opened; None while the machine is unplugged.

        The kernel accepts for a frozen process.
        """
        if self._is_unplugged:
            return None
        return self._is_listening and not self.is_refusing

    @property
    def newest_protocol(self) -> str:
        """The highest ``inter.broker.protocol.version`` that the release understands."""
        return NEWEST_PROTOCOLS[self.settings.release]

    def configure_protocol(self, wanted: str) -> None:
        """Write this protocol version into the broker's file, or its own newest where that is lower."""
        self.configured[PROTOCOL] = min(wanted, self.newest_protocol, key=parse_broker_version)

    def settings_sources(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """The file as it was at the start of this life, the dynamic default, and its own dynamic configuration.

        Each overrides the earlier ones.
        """
        assert self.life is not None
        node = self.cluster.server.nodes.get("/config/brokers/<default>")
        default = json.loads(node.data)["config"] if node is not None and node.data else {}
        return self.life.configured, default, self.own

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the process is frozen."""
        return self.cluster.loop.is_frozen(self._owner)

    @property
    def is_running(self) -> bool:
        """Whether there is a process, frozen or not."""
        return self.life is not None

    @property
    def is_starting(self) -> bool:
        """Whether the broker was started, or will be after a bounce, and waits for its turn to register."""
        return self._is_starting

    @property
    def is_serving(self) -> bool:
        """Whether other brokers can reach it now."""
        return self.life is not None and self._is_listening and not self.is_paused and not self._is_unplugged

    @property
    def epoch(self) -> int:
        """The broker epoch that the broker believes in, -1 without process."""
        return NO_EPOCH if self.life is None else self.life.gate.broker_epoch

    @property
    def path(self) -> str:
        """The registration znode."""
        return f"/brokers/ids/{self.id}"

    def at_rest(self) -> BrokerAtRest:
        """The broker's metadata cache and replicas for the judge at the end of a story. Needs a process."""
        assert self.life is not None
        metadata = self.life.metadata
        cached = {
            key: CachedPartition(row.leader, row.leader_epoch, row.isr, row.partition_epoch)
            for key, row in metadata.partitions.items()
        }
        replicas = {
            key: CachedPartition(replica.leader, replica.leader_epoch, replica.isr, replica.partition_epoch)
            for key, replica in self.life.replicas.items()
            if replica.role is not Role.NONE and not replica.stopped
        }
        stuck = [key for key, replica in self.life.replicas.items() if replica.is_isr_change_stuck]
        unusable = {**self.offline, **self.life.conflicting}
        logs = [key for key in self.disk if key not in unusable]
        return BrokerAtRest(
            self.id, metadata.controller_id, tuple(metadata.brokers), cached, replicas, stuck,
            logs, list(self.offline), list(self.dirs.refused), list(self.life.conflicting),
        )  # fmt: skip

    # -- life cycle --------------------------------------------------------------------------------------------------

    def start(self, boot_s: float | None = None) -> None:
        """Start the process: register as soon as no older registration is in the way, then listen ``boot_s`` later."""
        assert self.life is None, "it runs already"
        self._runs += 1
        self._owner = f"broker-{self.id}/{self._runs}"
        self._is_unplugged = self._is_listening = False
        self._is_starting = True
        # Peers of a machine that died without closing its connections notice it now at the latest.
        self.cluster.network.hang_up(self)
        self._boot(self.settings.boot_s.draw(self.cluster.rng) if boot_s is None else boot_s)

    def _boot(self, boot_s: float) -> None:
        if not self._register():
            self.call_later(_REGISTER_AGAIN_S, self._boot, boot_s)
            return
        self._is_starting = False
        self.offline = self.dirs.started()
        self.cluster.network.listen(self.address, self)
        self.life = BrokerLife(self, self._owner, self.cluster.server.nodes[self.path].czxid)
        self.cluster.trace(f"broker {self.id} registers with epoch {self.epoch}")
        self.call_later(boot_s, self._listen)

    def _listen(self) -> None:
        self._is_listening = True
        if self.settings.producer_ids_s is not None:
            self.call_later(self.settings.producer_ids_s.draw(self.cluster.rng), self._use_producer_ids)

    def _use_producer_ids(self) -> None:
        assert self.settings.producer_ids_s is not None
        self.ask_for_producer_ids()
        self.call_later(self.settings.producer_ids_s.draw(self.cluster.rng), self._use_producer_ids)

    def _register(self) -> bool:
        """Register; False while there is no ZooKeeper, or an older registration exists."""
        server = self.cluster.server
        if not server.is_up or self.path in server.nodes:
            return False
        self._session = server.new_session(self.settings.session_timeout_s)
        self._session.create_ephemeral(self.path, self._registration())
        return True

    def _registration(self) -> bytes:
        """The registration as a 3.9 broker writes it."""
        host, port = self.address
        body: dict[str, object] = {
            "version": 5,
            "host": host,
            "port": port,
            "jmx_port": -1,
            "timestamp": str(int(self.cluster.loop.time() * 1000)),
            "endpoints": [f"{LISTENER}://{host}:{port}"],
            "listener_security_protocol_map": {LISTENER: "PLAINTEXT"},
            "features": {},
        }
        if self._rack is not None:
            body["rack"] = self._rack
        return json.dumps(body).encode()

    def crash(self, *, unplugged: bool = False, expires_after_s: float | None = None) -> None:
        """Kill the process; its session expires after its time-out, or earlier.

        ``unplugged``: the whole machine dies, so that connections hang instead of being closed or refused.
        """
        self._die(unplugged=unplugged)
        session, self._session = self._session, None
        if session is None:
            return
        session.fall_silent()
        if expires_after_s is not None:
            self._in_world(expires_after_s, session.expire)

    def restart(self, boot_s: float | None = None) -> None:
        """Start again after a crash or a stop: memory is empty, disk as it was."""
        self.start(boot_s)

    def bounce(self, gap_s: float = 0.0, boot_s: float | None = None) -> None:
        """Die and come back with a new broker epoch; without gap no watcher can see the registration absent."""
        self._die(unplugged=False)
        self._close_session()
        if gap_s > 0:
            self._is_starting = True
            self._in_world(gap_s, self._start_after_gap, self._runs, boot_s)
        else:
            self.start(boot_s)

    def _start_after_gap(self, run: int, boot_s: float | None) -> None:
        """Start, unless the story has started or crashed the broker meanwhile."""
        if run == self._runs and self._is_starting:
            self.start(boot_s)

    async def stop(self, attempts: int = 3, backoff_s: float = 1.0) -> bool:
        """Leave by ControlledShutdown, then end; whether the controller agreed.

        False as well if the broker died meanwhile.
        """
        assert self.life is not None, "it does not run"
        leaving: asyncio.Future[bool] = self.cluster.loop.create_future()
        self._leaving = leaving
        self.cluster.loop.spawn(self._owner, self._leave(self.life, leaving, attempts, backoff_s))
        return await leaving

    async def _leave(self, life: BrokerLife, leaving: asyncio.Future[bool], attempts: int, backoff_s: float) -> None:
        agreed = await life.leave(attempts, backoff_s)
        self._leaving = None
        leaving.set_result(agreed)
        self._close_session()
        self._die(unplugged=False)

    def _close_session(self) -> None:
        """Deregister; without ZooKeeper the registration stays until the session expires."""
        session, self._session = self._session, None
        if session is not None and self.cluster.server.is_up:
            session.close()
        elif session is not None:
            session.fall_silent()

    def _die(self, *, unplugged: bool) -> None:
        assert self.life is not None or self._runs, "it never ran"
        self.cluster.trace(f"broker {self.id} ends")
        self.life = None
        self._is_listening = self._is_starting = False
        self._is_unplugged = unplugged
        if not unplugged:
            self.cluster.network.leave(self)
        self.cluster.loop.kill(self._owner)
        if self._leaving is not None:
            self._leaving.set_result(False)
            self._leaving = None

    # -- zombies -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Freeze the process; its session expires if that takes longer than the session timeout."""
        self.cluster.trace(f"broker {self.id} is paused")
        self.cluster.loop.freeze(self._owner)
        if self._session is not None:
            self._session.fall_silent()

    def resume(self) -> None:
        """Go on with the old memory; if the session expired, the broker registers anew a little later."""
        self.cluster.trace(f"broker {self.id} goes on")
        self.cluster.loop.thaw(self._owner)
        if self.has_session:
            assert self._session is not None
            self._session.speak()
        elif self.life is not None:
            self.call_later(_RECONNECT.draw(self.cluster.rng), self._register_anew)

    @property
    def has_session(self) -> bool:
        """Whether the ZooKeeper session lives."""
        return self._session is not None and self._session.is_alive

    def lose_session(self, back_after_s: float = 0.0) -> None:
        """Expire the session while the process runs.

        The broker registers anew with a new epoch and all of its memory.
        """
        session, self._session = self._session, None
        if session is not None and self.cluster.server.is_up:
            session.expire()
        elif session is not None:
            session.fall_silent()
        if self.life is not None:
            self.call_later(back_after_s, self._register_anew)

    def deregistered(self) -> None:
        """React to the loss of the registration znode: if the session was ended, register anew a little later."""
        if self.life is not None and not self.is_paused and self._session is not None and not self._session.is_alive:
            self.call_later(_RECONNECT.draw(self.cluster.rng), self._register_anew)

    def _register_anew(self) -> None:
        if self.has_session or self.life is None:
            return
        if not self._register():
            self.call_later(_REGISTER_AGAIN_S, self._register_anew)
            return
        # The broker learns its new epoch from the answer, and requests may come in between.
        epoch = self.cluster.server.nodes[self.path].czxid
        self.call_later(self.delay(), self._learn_epoch, self.life, epoch)

    def _learn_epoch(self, life: BrokerLife, epoch: int) -> None:
        life.gate.broker_epoch = epoch

    # -- actions of the story ----------------------------------------------------------------------------------------

    def inject(self, fault: Fault, api: int | None = None, times: int = 1) -> None:
        """Let the next requests (of this api) meet a fault."""
        self._socket.injected.extend(Injected(api, fault=fault) for _ in range(times))

    def inject_error(self, error: KafkaError, api: int | None = None, times: int = 1) -> None:
        """Leave the next requests (of this api) unprocessed and answer them with this error."""
        self._socket.injected.extend(Injected(api, error=error) for _ in range(times))

    def heal(self) -> None:
        """Undo every setting of the story and drop every fault that has not come yet; starts and resumes nothing."""
        self._socket.injected.clear()
        self.dirs.refusals = 0
        self.link_s, self.fetch_s, self.work_s = self.settings.link_s, self.settings.fetch_s, None
        self.is_silent = self.is_refusing = self.is_stuck = False

    def fail_disk(self, topic: str, partition: int) -> None:
        """Fail the log directory of a replica: KAFKA_STORAGE_ERROR from now on. The story notifies ZooKeeper."""
        self.offline[topic, partition] = None
        if self.life is not None:
            self.life.fail_disk((topic, partition))

    def append(self, topic: str, partition: int, value: int) -> KafkaError:
        """Append a producer's record, acks=all; it is in ``cluster.ledger.acknowledged`` once it is safe."""
        if self.life is None or not self.is_serving:
            return KafkaError.BROKER_NOT_AVAILABLE
        return self.life.append((topic, partition), value)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Get a block of producer ids, asking the controller until there is one. Runs in the caller's task."""
        assert self.life is not None, "it does not run"
        return await self.life.allocate_producer_ids()

    def ask_for_producer_ids(self) -> None:
        """Get a block in a task of the broker; the block will be in ``cluster.blocks``."""
        if self.life is not None:
            self.cluster.loop.spawn(self._owner, self.life.allocate_producer_ids())

    # -- bytes -------------------------------------------------------------------------------------------------------

    def arrived(self, link: SimLink, data: bytes) -> None:
        """Take bytes of a link and serve every frame that is complete."""
        if self._is_listening and not self._is_unplugged:
            self._socket.arrived(link, data)

    def hung_up(self, link: SimLink) -> None:
        """Drop the incomplete frame of a client that closed."""
        link.received = b""

    # -- timers ------------------------------------------------------------------------------------------------------

    def call_later(self, delay_s: float, callback: Any, *args: object) -> None:
        """Run a callback in the process: held while it is frozen, gone when it dies."""
        context = self.cluster.loop.context_of(self._owner)
        self.cluster.loop.call_later(delay_s, callback, *args, context=context)

    def _in_world(self, delay_s: float, callback: Any, *args: object) -> None:
        """Run a callback outside of the process, so that it runs even if the process dies."""
        context = self.cluster.loop.context_of(_WORLD)
        self.cluster.loop.call_later(delay_s, callback, *args, context=context)
