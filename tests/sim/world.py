"""The simulated cluster: a ZooKeeper, brokers, instances of controllerd, clients, operators, and the judge."""

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import DELETE_TOPICS, UNCLEAN, understood
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Features
from controllerd.core.settings_book import Remembered
from controllerd.daemon.instance import Instance
from controllerd.errors import ControllerdError, NotController
from controllerd.record.invariants import InvariantChecker
from events.admin import ControlledShutdown, ControlledShutdownReply
from events.base import Call
from events.cluster import Resign, SelfAudit, Takeover
from events.queue import EventQueue
from tests.sim.admin_client import AdminClient
from tests.sim.broker import NEWEST, BrokerSettings, SimBroker
from tests.sim.broker_cluster import SimCluster
from tests.sim.broker_frames import RELEASE_2_8, RELEASE_3_0, RELEASES, ReleaseNumber, SimRequest
from tests.sim.instance import FIRST_NODE_ID, SESSION_S, SimInstance, SimMemory, base_config
from tests.sim.loop import VirtualLoop
from tests.sim.network import Range, SimNetwork
from tests.sim.oracle import AtRest, InstanceAtRest, Oracle, Violation, context_differences, log_differences, watch
from tests.sim.plan import SPEAKS_AT_S, Options
from tests.sim.token_client import CHECK_MS, TokenClient
from tests.sim.topic_client import TopicClient
from tests.sim.zk_server import ServerDown, SimSession, SimZooKeeper
from tests.sim.zk_tree import Txn
from wire.versions import ApiKey

SAFE_SHARE: Final = 2 / 3
"""After a pause of this share of the session time-out an instance must validate its epoch before it sends anything."""
WINDOW_S: Final = 4 * SESSION_S
"""How long an instance may act on old state: with a slow ZooKeeper, each of a few reads of a few events takes that."""
_MIXED: Final = 0.4
"""Share of the clusters whose brokers are in the middle of a rolling upgrade."""
_CALL_S: Final = 30.0
_CONTROLLER: Final = "/controller"
_HANDS: Final = "hands"


class SimWorld:
    """Everything of one seed. Its methods are the actions of a story."""

    def __init__(self, loop: VirtualLoop, options: Options) -> None:
        self.loop = loop
        self.options = options
        self.is_quiet = False
        """Whether faults have ended."""
        self.rng = loop.rng("world")
        self.server = SimZooKeeper(loop)
        if options.longest_session_s is not None:
            self.server.longest_session_s = options.longest_session_s
        self.session_s = min(SESSION_S, self.server.longest_session_s)
        """The session time-out that instances are granted."""
        self.oracle = Oracle(window=WINDOW_S, unclean_by_default=options.unclean, takes_from_brokers=options.takes)
        self.oracle.zookeeper.history.features = self._features
        watch(self.server, self.oracle.zookeeper)
        self.server.observers.append(self._committed)
        self.server.on_read.append(self._read)
        self.network = SimNetwork(loop, loop.rng("network"))
        self.network.on_send.append(self._sent)
        self.cluster = SimCluster(loop, self.network, self.server, loop.rng("brokers"), self.ask)
        self.cluster.on_asked_isr.append(self.oracle.zookeeper.on_alter_partition)
        self.cluster.on_request.append(self._requested)
        self.config = base_config(
            unclean=None if options.only_clean else options.unclean,
            takes=options.takes,
            deletes=None if options.asks_for_deletes else options.admin.deletes,
            register=options.registration.register,
            token_check_ms=CHECK_MS if options.has_tokens else None,
        )
        self.instances: dict[int, SimInstance] = {}
        self.former: list[SimInstance] = []
        self.memories: dict[int, SimMemory] = {}
        """The memories of the data directories, by the number of the instance."""
        self.outsiders: list[SimSession] = []
        """Sessions of brokers that won the role and keep it while they live."""
        self.topics: dict[str, list[list[int]]] = {}
        self.admin_client = AdminClient(self)
        self.topic_client = TopicClient(self)
        self.tokens: TokenClient | None = None
        self.answers: dict[str, int] = {}
        self._asked_of: dict[str, tuple[SimInstance, Instance]] = {}
        self._runs = 0
        self._frozen_at: dict[str, float] = {}
        self._thawed_at_zxid: dict[str, int] = {}

    # -- beginning ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Register the brokers and start the instances."""
        for path in ("/brokers/ids", "/brokers/topics", "/config/topics", "/admin/delete_topics"):
            self.server.put(path)
        self.server.put("/cluster/id", b'{"version":"1","id":"simulated"}')
        rng = self.loop.rng("releases")
        is_mixed = rng.random() < _MIXED
        for number in range(1, self.options.brokers + 1):
            rack = f"rack {number % 2}" if self.options.racks else None
            release = self._release(number, rng, is_mixed=is_mixed)
            self.oracle.zookeeper.history.releases[number] = release
            settings = BrokerSettings(producer_ids_s=Range(5.0, 40.0), release=release)
            broker = self.cluster.add(number, rack=rack, settings=settings)
            broker.configure_protocol(self.options.protocol)
            if self.options.only_clean:
                broker.configured[UNCLEAN] = "true"
            if number == self.options.only_clean:
                (broker.own if self.options.is_clean_by_own else broker.configured)[UNCLEAN] = "false"
            if self.options.asks_for_deletes:
                self._fall_silent(broker)
            broker.start()
        self.admin_client.opened()
        if self.options.has_tokens:
            self.tokens = TokenClient(self)
        for number in range(self.options.instances):
            self.start_instance(number)

    def _fall_silent(self, broker: SimBroker) -> None:
        """Delay the broker's answer whether topics may be deleted."""
        broker.configured[DELETE_TOPICS] = str(self.options.admin.deletes).lower()
        broker.is_silent = True
        self.loop.call_later(SPEAKS_AT_S, setattr, broker, "is_silent", False, context=self.loop.context_of(""))

    def _release(self, broker: int, rng: Random, *, is_mixed: bool) -> ReleaseNumber:
        mixed = rng.choice(RELEASES) if is_mixed else NEWEST
        if broker in self.options.registration.old:
            return RELEASE_2_8
        return RELEASE_3_0 if broker <= self.options.brokers_3_0 else mixed

    def start_instance(self, number: int) -> None:
        """Start a new run of an instance, unless one exists."""
        if number in self.instances and self.instances[number].is_alive:
            return
        if number in self.instances:
            self.former.append(self.instances[number])
        self._runs += 1
        self.instances[number] = SimInstance(
            self.loop,
            self.server,
            self.network,
            self.oracle,
            number=number,
            run=self._runs,
            config=self.config,
            breaths=self.options.breaths,
            memory=self.memories.setdefault(number, SimMemory(self._known())),
            versions=self._settled_versions,
        )

    def _known(self) -> Remembered:
        """The settings that every instance knows from before the story, so that it can respect each broker's."""
        only = self.options.only_clean
        own = frozenset({UNCLEAN} if self.options.is_clean_by_own else ())
        return Remembered({BrokerId(only): SettingsAnswer(0, understood({UNCLEAN: "false"}), {}, own)} if only else {})

    def _features(self) -> Features:
        """The features of the newest protocol that the controller may use."""
        newest = max((each for each in self.instances.values() if each.instance), key=lambda each: each.epoch)
        return Features() if newest.instance is None else newest.instance.context.features

    def _settled_versions(self) -> dict[int, str]:
        """Return the protocol versions of the brokers that every instance has had time to ask.

        A broker that was frozen lives on, but no instance knows it again before it is registered anew.
        """
        now, history = self.loop.time(), self.oracle.zookeeper.history
        return {
            broker.id: broker.life.configured["inter.broker.protocol.version"]
            for broker in self.cluster.brokers.values()
            if broker.life is not None
            and broker.is_serving
            and history.is_surely_live(broker.id, now)
            and now - broker.life.since > WINDOW_S
        }

    # -- reports to the judge ----------------------------------------------------------------------------------------

    def _committed(self, txn: Txn) -> None:
        if any(change.path == _CONTROLLER and change.op == "create" for change in txn.changes):
            self._validated(txn.session)

    def _read(self, session: int, paths: Sequence[str], zxid: int) -> None:
        """Report a read. A server that lags behind the end of the pause may answer with state as old as the pause."""
        owner = self.oracle.zookeeper.owner_of(session) or ""
        self._read_brokers(owner, paths, zxid)
        if _CONTROLLER in paths and zxid >= self._thawed_at_zxid.get(owner, 0):
            self._validated(session)

    def _read_brokers(self, owner: str, paths: Sequence[str], zxid: int) -> None:
        """Report that registrations were read.

        An event of a term reads them in order to act, unless it only compares.
        """
        reader = next((each for each in self.instances.values() if each.owner == owner), None)
        if reader is None or not reader.is_active or isinstance(reader.event, SelfAudit | None):
            return
        for path in paths:
            place = self.oracle.zookeeper.history.place(path)
            if place.kind == "broker":
                self.oracle.zookeeper.history.reads(place.number, zxid, reader.epoch)

    def _validated(self, session: int) -> None:
        owner = self.oracle.zookeeper.owner_of(session)
        if owner is not None:
            self.oracle.requests.on_validated(owner)

    def _sent(self, owner: str, broker: int, api: int) -> None:
        instance = next((each for each in self.instances.values() if each.owner == owner), None)
        if instance is not None and api not in {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CONFIGS}:  # these need no fence
            self.oracle.requests.on_sent(owner, broker, instance.epoch, self.loop.time())

    def _requested(self, broker: int, owner: str, _api: str, request: SimRequest, error: Any) -> None:
        self.oracle.requests.on_request(self.cluster.seen(broker, owner, request, error))

    # -- calls -------------------------------------------------------------------------------------------------------

    async def ask(self, call: Call[Any]) -> Any:
        """Send a broker's call to the instance that it believes to be the controller. :raises OSError: no response."""
        broker = self.cluster.brokers[call.broker]  # type: ignore[attr-defined]  # every call of a broker has it
        if isinstance(call, ControlledShutdown):
            self.oracle.zookeeper.on_controlled_shutdown(broker.id)
            self._refuse_without_registration(broker)
        await asyncio.sleep(broker.delay())
        instance = self._believed_by(broker)
        if instance is None or not instance.is_alive or instance.instance is None:
            raise ConnectionRefusedError("no controller")
        if self.options.loses_calls and self.rng.random() < self.options.loses_calls:
            raise TimeoutError("the request was lost")
        reply = await self._ask_instance(instance, call)
        await asyncio.sleep(broker.delay())
        if self.options.loses_calls and self.rng.random() < self.options.loses_calls:
            raise TimeoutError("the answer was lost")
        return reply

    def _refuse_without_registration(self, broker: SimBroker) -> None:
        """Fail as a broker older than 3.0 that looks for the controller.

        :raises OSError: the controller is not registered.
        """
        node = self.server.nodes.get(_CONTROLLER)
        holder = json.loads(node.data or b"{}").get("brokerid") if node is not None else None
        if broker.finds_controller_in_zookeeper and f"/brokers/ids/{holder}" not in self.server.nodes:
            raise ConnectionRefusedError("no registration of the controller")

    def _believed_by(self, broker: SimBroker) -> SimInstance | None:
        """The controller of the broker's metadata; a broker without metadata reads ZooKeeper."""
        believed = broker.life.metadata.controller_id if broker.life is not None else None
        if believed is None or believed < FIRST_NODE_ID:
            node = self.server.nodes.get(_CONTROLLER)
            believed = json.loads(node.data or b"{}").get("brokerid", -1) if node is not None else -1
        return self.instances.get(believed - FIRST_NODE_ID)

    async def _ask_instance(self, target: SimInstance, call: Call[Any]) -> Any:
        instance = target.instance
        assert instance is not None
        if target.is_running and not instance.snapshot.is_active:
            raise NotController("not the active controller")
        name = f"{type(call).__name__} {len(self.answers) + 1} of {target.owner}"
        self.answers[name] = 0
        self._asked_of[name] = target, instance
        reply = _call(instance.queue, call)

        def answered(done: asyncio.Future[Any]) -> None:
            self.answers[name] += 1
            if isinstance(call, ControlledShutdown) and not done.cancelled() and done.exception() is None:
                self._released(call, done.result(), target)

        reply.add_done_callback(answered, context=self.loop.context_of(""))
        done, _ = await asyncio.wait([reply], timeout=_CALL_S)
        if not done:
            raise TimeoutError("no answer in time")
        return reply.result()

    def _released(self, call: ControlledShutdown, reply: ControlledShutdownReply, target: SimInstance) -> None:
        if reply.error is KafkaError.NONE:
            self.oracle.zookeeper.on_released(call.broker, call.broker_epoch, target.epoch)

    def operate(self, number: int, call: Takeover | Resign) -> None:
        """Send an operator's request to one instance."""
        target = self.instances.get(number)
        if target is None or target.instance is None or not target.is_running:
            return
        if isinstance(call, Takeover):
            self.oracle.zookeeper.on_takeover_asked(target.uuid)
        self.do(self._operated(target, call))

    async def _operated(self, target: SimInstance, call: Call[Any]) -> None:
        assert target.instance is not None
        reply = _call(target.instance.queue, call)
        if isinstance(call, Takeover):
            ended = self.oracle.zookeeper.on_takeover_answered
            reply.add_done_callback(lambda _: ended(target.uuid), context=self.loop.context_of(""))
        await asyncio.wait([reply], timeout=_CALL_S)
        if reply.done():
            with suppress(ControllerdError):
                reply.result()

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine while the story goes on."""
        self.loop.spawn(_HANDS, work)

    # -- processes ---------------------------------------------------------------------------------------------------

    def freeze(self, number: int, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds."""
        target = self.instances.get(number)
        if target is None or not target.is_running:
            return
        self.loop.trace(f"{target.owner} frozen for {seconds:.3f}")
        self.loop.freeze(target.owner)
        self._frozen_at[target.owner] = self.loop.time()
        self.loop.call_later(seconds, self._thaw, target, context=self.loop.context_of(""))

    def _thaw(self, target: SimInstance) -> None:
        if not self.loop.is_frozen(target.owner):
            return
        if self.loop.time() - self._frozen_at[target.owner] > self.session_s * SAFE_SHARE:
            self.oracle.requests.on_pause(target.owner)
            self._thawed_at_zxid[target.owner] = self.server.zxid
        self.loop.trace(f"{target.owner} thawed")
        self.loop.thaw(target.owner)

    # -- the data of the cluster -------------------------------------------------------------------------------------

    def write_topic(self, name: str, partitions: Sequence[Sequence[int]], **fields: object) -> None:
        """Create or change a topic znode, as Kafka's tools do: other fields are kept."""
        path = f"/brokers/topics/{name}"
        node = self.server.nodes.get(path)
        before: Mapping[str, Any] = json.loads(node.data or b"{}") if node is not None else {}
        document = {
            "version": 3,
            "adding_replicas": {},
            "removing_replicas": {},
            **before,
            **fields,
            "partitions": {str(number): list(replicas) for number, replicas in enumerate(partitions)},
        }
        with suppress(ServerDown):
            self.server.put(path, json.dumps(document).encode())
            self.topics[name] = [list(replicas) for replicas in partitions]
            if self.options.unclean:
                self.cluster.ledger.unclean_allowed.add(name)

    def assignments(self, topic: str) -> list[list[int]]:
        """The assignments of the topic znode."""
        node = self.server.nodes[f"/brokers/topics/{topic}"]
        try:
            found = json.loads(node.data or b"")["partitions"]
        except (ValueError, KeyError):
            return self.topics[topic]
        return [found[str(number)] for number in range(len(found))]

    # -- the end -----------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End every fault and bring every dead process back."""
        self.is_quiet = True
        self.options.loses_calls = 0.0
        if not self.server.is_up:
            self.server.start()
        self.server.heal()
        for session in self.outsiders:
            session.close()
        self.network.unblock()
        self.cluster.reunite()
        for instance in self.instances.values():
            if self.loop.is_frozen(instance.owner):
                self._thaw(instance)
            for client in instance.kazoo.clients:
                client.heal()
        for broker in self.cluster.brokers.values():
            broker.heal()
            if broker.is_paused:
                broker.resume()
        self.admin_client.heal()

    def revive(self) -> None:
        """Start every dead process again."""
        for number in range(self.options.instances):
            self.start_instance(number)
        for broker in self.cluster.brokers.values():
            if not broker.is_running and not broker.is_starting and broker.id not in self.admin_client.dead_for_good:
                broker.restart()
        self.admin_client.give_up_dead_brokers()

    def judge(self) -> list[Violation]:
        """The rules that are broken now that the cluster is quiet."""
        return self.oracle.at_rest(self._at_rest())

    def _at_rest(self) -> AtRest:
        # A process that started again does not know the requests of its predecessor.
        gone = {name for name, (run, asked) in self._asked_of.items() if not run.is_alive or run.instance is not asked}
        return AtRest(
            time=self.loop.time(),
            instances=[self._instance_at_rest(each) for each in self.instances.values() if each.is_alive],
            brokers=self.cluster.at_rest(),
            answers={name: times for name, times in self.answers.items() if name not in gone},
            wants_registration=self.options.registration.wants(self.oracle.zookeeper.history.live()),
            lost_records=[
                *self.cluster.lost_records(),
                *self.cluster.diverged(),
                *self.cluster.overlapping_blocks(),
                *self.cluster.malformed,
            ],
        )

    def _instance_at_rest(self, each: SimInstance) -> InstanceAtRest:
        instance = each.instance
        assert instance is not None
        history = self.oracle.zookeeper.history
        sending = instance.channels.stats() if instance.channels is not None else []
        is_active = each.is_active
        return InstanceAtRest(
            owner=each.owner,
            node_id=each.node_id,
            is_active=is_active,
            controller_epoch=each.epoch,
            queued_events=len(instance.queue),
            pending_requests=sum(sender.depth for sender in sending),
            log_differences=log_differences(history, each.folded()) if is_active else (),
            halted=dict(instance.context.deletions.halted),
            context_differences=context_differences(history, instance.context, each.epoch) if is_active else (),
        )

    def judge_logs(self) -> list[Violation]:
        """Check the invariants of the audit log, over the merged logs of all runs."""
        runs = [*self.former, *self.instances.values()]
        entries = [entry for run in runs for entry in run.audit.log]
        entries.sort(key=lambda entry: entry[0].mono_ns)
        checker = InvariantChecker()
        found = [violation for envelope, record in entries for violation in checker.check(envelope, record)]
        found += checker.finish()
        return [Violation(v.id, self.loop.time(), f"{v.boot} record {v.seq}: {v.evidence}") for v in found]


def _call(queue: EventQueue, call: Call[Any]) -> asyncio.Future[Any]:
    reply = queue.call(call)
    assert isinstance(reply, asyncio.Future)
    return reply
