"""A simulated process of controllerd: the daemon's own composition, in virtual time, over simulated peers.

Each run of the process is an owner of the loop, ``controller-<n>/<run>``; the uuid of the data directory outlives it.
"""

import asyncio
import base64
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Final

import msgspec

from controllerd.config.load import load_config
from controllerd.config.model import Config
from controllerd.core.cluster_settings import PROTOCOL_VERSION
from controllerd.core.model import Endpoint
from controllerd.core.protocol_versions import parse_broker_version
from controllerd.core.settings_book import Remembered
from controllerd.daemon.host_environment import HostEnvironment
from controllerd.daemon.instance import Instance
from controllerd.errors import StoreUnavailable
from controllerd.record.envelope import Envelope
from controllerd.record.families.operators import SettingsRecord
from controllerd.record.fold import apply
from controllerd.record.records import EventBegin, EventEnd, Record, RequestRecord, SessionRecord, TermRecord
from controllerd.record.state import ClusterState
from controllerd.slicer import Slicer
from controllerd.zk.session import SessionState
from events.base import Event
from events.responses import BrokerSettingsReceived
from tests.sim.loop import VirtualLoop
from tests.sim.network import SimNetwork
from tests.sim.oracle import Oracle
from tests.sim.oracle_seen import WALL_MS
from tests.sim.zk_client import SimKazoo
from tests.sim.zk_server import SimZooKeeper

FIRST_NODE_ID: Final = 2_000_000_000
SESSION_S: Final = 6.0
CLUSTER: Final = "simulated"
_BEGINS: Final = frozenset({"elected", "renewed"})
_ENDS: Final = frozenset({"ended", "resigned", "fenced", "expired", "unavailable"})


class SimClock:
    """Virtual time as wall clock and as monotonic clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Wall clock in milliseconds."""
        return WALL_MS + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        """Monotonic clock."""
        return self._loop.time()


class NoCollector:
    """A stand-in for the control of garbage collection, which the simulation does itself."""

    def pause(self) -> None:
        """Do nothing."""

    def resume(self, *, keeps_image: bool) -> None:
        """Do nothing."""


class SimSlicer(Slicer):
    """A slicer that yields to the loop by chance, so that any event can come between two slices."""

    def __init__(self, rng: Random, share: float) -> None:
        super().__init__()
        self._rng = rng
        self._share = share

    @property
    def is_due(self) -> bool:
        """Whether a slice ends here, by chance."""
        return self._rng.random() < self._share

    async def yield_to_loop(self) -> None:
        """Yield for one turn, and sometimes for some milliseconds."""
        if self.is_due:
            await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.05)))


class SimAudit:
    """The audit log of one run, in memory, with the envelopes that the writer would put around its records."""

    def __init__(self, node: int, boot: str, clock: SimClock, announce: Callable[[Record], None]) -> None:
        self.log: list[tuple[Envelope, Record]] = []
        self._node = node
        self._boot = boot
        self._clock = clock
        self._announce = announce
        self._epoch = self._event = 0

    def record(self, *records: Record) -> None:
        """Append records."""
        for record in records:
            if isinstance(record, EventBegin):
                self._event = record.number
            elif isinstance(record, TermRecord) and record.change in _BEGINS:
                self._epoch = record.controller_epoch
            seq, now = len(self.log) + 1, self._clock.monotonic()
            envelope = Envelope(
                1,
                record.kind,
                CLUSTER,
                self._node,
                self._boot,
                seq,
                self._epoch,
                self._event,
                self._clock.now_ms(),
                int(now * 1e9),
                "",
            )
            self.log.append((envelope, record))
            if isinstance(record, TermRecord) and record.change in _ENDS:
                self._epoch = 0
            self._announce(record)

    async def accepted(self) -> None:
        """Return at once: no record is ever pending."""


class SimMemory:
    """An in-memory copy of the settings of brokers that a data directory keeps; it outlives the process."""

    def __init__(self, kept: Remembered | None = None) -> None:
        self._kept = kept or Remembered()

    async def load(self, cluster_id: str) -> Remembered:  # the protocol's signature
        """Return the settings that were saved."""
        return self._kept

    async def save(self, cluster_id: str, known: Remembered) -> None:  # the protocol's signature
        """Keep the settings."""
        self._kept = known


class SimInstance:
    """One run of one instance."""

    def __init__(
        self,
        loop: VirtualLoop,
        server: SimZooKeeper,
        network: SimNetwork,
        oracle: Oracle,
        *,
        number: int,
        run: int,
        config: Config,
        breaths: float,
        memory: SimMemory,
        versions: Callable[[], Mapping[int, str]],
    ) -> None:
        """``versions`` returns the protocol versions of the brokers that have been registered for a while."""
        self.loop = loop
        self.number = number
        self.owner = f"controller-{number}/{run}"
        self.uuid = str(uuid.UUID(int=number + 1))
        self.node_id = FIRST_NODE_ID + number
        self.has_ended = False
        self._network = network
        self._oracle = oracle
        self._versions = versions
        self._rng: Random = loop.rng(f"{self.owner} ids")
        clock = SimClock(loop)
        self.kazoo = SimKazoo(server, self.owner)
        self.audit = SimAudit(self.node_id, self.owner, clock, self._announce)
        around = HostEnvironment(
            clock=clock,
            boottime=loop.time,
            transport=network.transport(self.owner),
            kazoo=self.kazoo,
            new_topic_id=self._new_topic_id,
            draw=self._rng.randrange,
            collector=NoCollector(),
            slicer=lambda: SimSlicer(loop.rng(f"{self.owner} pace"), breaths),
            stored_settings=memory,
        )
        own = msgspec.structs.replace(config, node=msgspec.structs.replace(config.node, id=self.node_id))
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 19_000 + number)
        self._config, self._around, self._endpoint = own, around, endpoint
        self._instance: Instance | None = None
        loop.spawn(self.owner, self._live(), name=self.owner)

    @property
    def instance(self) -> Instance | None:
        """The composition, once the process has started."""
        return self._instance

    @property
    def is_alive(self) -> bool:
        """Whether the process exists (frozen or not)."""
        return not self.has_ended and not self.loop.is_dead(self.owner)

    @property
    def is_running(self) -> bool:
        """Whether it exists and is not frozen."""
        return self.is_alive and not self.loop.is_frozen(self.owner)

    @property
    def is_active(self) -> bool:
        """Whether it believes to be the active controller."""
        return self.is_alive and self._instance is not None and self._instance.snapshot.is_active

    @property
    def event(self) -> Event | None:
        """The event that it is handling now, None between two."""
        events = self._instance.loop if self._instance is not None else None
        return events.current.event if events is not None and events.current is not None else None

    @property
    def epoch(self) -> int:
        """The epoch of its term, 0 without one."""
        return self._instance.context.epoch if self._instance is not None else 0

    async def _live(self) -> None:
        try:
            while not await self._serve():
                self.loop.trace(f"{self.owner} starts again")
        finally:
            self.has_ended = True

    async def _serve(self) -> bool:
        """Run one life of the process; False when it ended by itself and a supervisor starts it again."""
        self._oracle.zookeeper.settings.begins(self.owner)
        self._instance = instance = Instance(
            self._config, self.uuid, self.audit, lambda: (self._endpoint,), self._around
        )
        try:
            client = await instance.connect()
        except StoreUnavailable:
            return False
        try:
            async with instance.serving(_nothing, _nothing):
                await instance.stop.wait()
        finally:
            await client.close()
        if instance.stop_reason:
            self._oracle.zookeeper.report("S-01", self.loop.time(), f"{self.owner} ended: {instance.stop_reason}")
        return True

    def _new_topic_id(self) -> str:
        raw = bytes([0x40, *self._rng.randbytes(15)])
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def _announce(self, record: Record) -> None:
        """Report a record to the judge and to the trace."""
        if isinstance(record, TermRecord):
            self.loop.trace(f"{self.owner} {record.change} {record.controller_epoch} {record.reason}")
            if record.change in _ENDS:
                self._oracle.requests.on_term_end(self.owner, record.controller_epoch)
        elif isinstance(record, SessionRecord):
            self.loop.trace(f"{self.owner} session {record.state} {record.session_id:x}")
            if record.session_id:
                self._oracle.zookeeper.on_session(self.owner, record.session_id)
        elif isinstance(record, EventBegin):
            self.loop.trace(f"{self.owner} event {record.number} {record.name} {record.detail}")
            self._oracle.requests.on_event(self.owner, self.loop.time() - record.queued_ms / 1000)
            self._oracle.zookeeper.questions.begins(self.owner, record.name)
            self._announce_answers()
        elif isinstance(record, SettingsRecord):
            self._judge_settings(record)
        elif isinstance(record, RequestRecord):
            self._oracle.zookeeper.questions.sends(self.owner, record.api, self.loop.time())
        elif isinstance(record, EventEnd):
            self._announce_end(record)

    def _announce_answers(self) -> None:
        """Report the responses of brokers that the event has which begins now."""
        event = self.event
        if isinstance(event, BrokerSettingsReceived):
            for broker, answer in sorted(event.answers.items()):
                judge = self._oracle.zookeeper.settings
                judge.take_answer(self.owner, broker, answer.broker_epoch, answer.values)

    def _announce_end(self, record: EventEnd) -> None:
        self._oracle.zookeeper.settings.on_event_end(self.owner, self.loop.time(), is_active=self.is_active)
        if self._instance is not None and not len(self._instance.queue):
            self._oracle.requests.on_idle(self.owner)
            client = self._instance.client
            is_connected = client is not None and client.session.state is SessionState.CONNECTED
            if client is not None and is_connected and record.outcome == "done" and not self.is_active:
                session = client.session.session_id
                self._oracle.zookeeper.registrations.on_idle(self.owner, session, self.loop.time())

    def _judge_settings(self, record: SettingsRecord) -> None:
        history = self._oracle.zookeeper.history
        rows = zip(record.settings, record.befores, record.values, record.sources, strict=True)
        for before, value, source in (row[1:] for row in rows if row[0] == PROTOCOL_VERSION):
            self.loop.trace(f"{self.owner} protocol version {before} to {value} ({source})")
            report, now = self._oracle.zookeeper.report, self.loop.time()
            if parse_broker_version(value) < parse_broker_version(before):
                report("S-02", now, f"{self.owner} lowered the protocol version from {before} to {value}")
            above = [
                b for b, own in self._versions().items() if parse_broker_version(own) < parse_broker_version(value)
            ]
            is_news = parse_broker_version(value) > max(parse_broker_version(before), history.proven_version)
            history.protocol_version = max(history.protocol_version, parse_broker_version(value))
            if is_news and above:
                report("S-03", now, f"{self.owner} raised the protocol version to {value}, brokers {above} have less")

    # -- signals -----------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: its sockets close, its session lives on until it expires."""
        self.loop.trace(f"{self.owner} killed")
        self.loop.kill(self.owner)
        self._network.kill(self.owner)

    def terminate(self) -> None:
        """SIGTERM."""
        self.loop.trace(f"{self.owner} terminated")
        if self._instance is not None:
            self.loop.call_soon(self._instance.end, context=self.loop.context_of(self.owner))

    def folded(self) -> ClusterState:
        """The cluster state that its audit log folds to."""
        state = ClusterState()
        for envelope, record in self.audit.log:
            apply(state, envelope, record)
        return state


def _nothing() -> None:
    """Do nothing: the default of the hooks."""


@lru_cache
def base_config(
    *,
    unclean: bool | None,
    takes: bool,
    deletes: bool | None = True,
    register: str = "auto",
    token_check_ms: int | None = None,
) -> Config:
    """The configuration that all instances share except for the node id; None leaves a setting to the brokers."""
    given: dict[str, object] = {
        "zookeeper.connect": "simulated:2181",
        "zookeeper.session_timeout_ms": str(int(SESSION_S * 1000)),
        "node.id": FIRST_NODE_ID,
        "node.data_dir": "unused",
        "kafka.listeners": ["PLAINTEXT://127.0.0.1:0"],
        "kafka.register": register,
        "controller.when_broker_holds": "takeover" if takes else "standby",
        "http.listen": "127.0.0.1:0",
    }
    if token_check_ms is not None:
        given["kafka.delegation_token_expiry_check_interval_ms"] = str(token_check_ms)
    if deletes is not None:
        given["kafka.delete_topic_enable"] = str(deletes).lower()
    if unclean is not None:
        given["kafka.unclean_leader_election_enable"] = str(unclean).lower()
    return load_config(None, {}, given)
