"""The target of the fuzzer: a real server and a whole controller over a ZooKeeper in memory, with stub brokers.

Between two batches it is cleaned up, as an operator and the brokers would do it, so that a run may have any length; and
its invariants are checked.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from operator import gt
from typing import Any, Final

import structlog

from channel_manager.manager import event_of
from channel_manager.observer import Exchange
from controllerd.api.server import KafkaServer
from controllerd.api.server_settings import ServerListener
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlResponse, LeaderAndIsrRequest, StopReplicaRequest, api_name
from controllerd.record.records import AlarmRecord
from tests.api.cluster import ApiStubBroker, Client
from tests.fakes.world import NODE_ID, World
from tests.fuzz.frames import everything, relayed_ranges
from tests.fuzz.judge import LIMITS, Wrong
from tests.fuzz.leaks import Holdings, holdings, tasks_and_descriptors
from tests.fuzz.lines import Line, LineAcceptor, MemoryLine, SocketLine
from tests.fuzz.values import Facts

BROKERS: Final = (1, 2, 3)
KEPT: Final = ("orders", "pairs")
PATIENCE_S: Final = 120.0
_MOST_TOPICS: Final = 25
_CLEARED: Final = ("/config/users", "/config/changes")
_CLIENTS_FAULT: Final = "client connection closed: "
_FEW: Final = 2
_LOUD: Final = {"error", "critical", "exception"}


class LoudLog:
    """A log that keeps errors and drops the rest."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, _logger: object, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if name in _LOUD:
            error = event.get("exc_info")
            trace = structlog.processors.format_exc_info(None, name, dict(event)).get("exception", "")
            self.lines.append(f"{event.get('event')} {error!r} {event} {trace}")
        raise structlog.DropEvent


class Stub(ApiStubBroker):
    """A stub broker for relayed requests that tolerates clients that hang up, and keeps no requests."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super()._serve(reader, writer)
        self.frames.clear()
        self.connections.clear()
        self.failures.clear()


class Target:
    """A server, its controller and stub brokers."""

    def __init__(
        self, world: World, server: KafkaServer, acceptor: LineAcceptor, stubs: Mapping[int, ApiStubBroker]
    ) -> None:
        self.world = world
        self.server = server
        self.acceptor = acceptor
        self.log = LoudLog()
        self.loop_errors: list[str] = []
        self._stubs = stubs
        self._numbers = count(1)
        self._most = 0, 0
        """The allowed numbers of tasks and descriptors without a connection."""
        self.controller = asyncio.create_task(self._handle_events())
        """The event task."""

    # -- the controller and its brokers ------------------------------------------------------------------------------

    async def _handle_events(self) -> None:
        while True:
            await self.world.loop.handle(await self.world.queue.take())
            for broker, request in self.world.channels.sent:
                if isinstance(request, LeaderAndIsrRequest | StopReplicaRequest):
                    self._answer_for(broker, request)
            self.world.channels.sent.clear()

    def _answer_for(self, broker: Any, request: LeaderAndIsrRequest | StopReplicaRequest) -> None:
        response = ControlResponse(api_name(request), KafkaError.NONE, {})
        event = event_of(Exchange(broker, request, response, 0, 0, 0, 1, 0.0))
        if event is not None:
            self.world.queue.put(event)

    async def close(self) -> None:
        """End everything."""
        await self.server.close()
        self.controller.cancel()
        await asyncio.gather(self.controller, return_exceptions=True)
        for stub in self._stubs.values():
            await stub.close()

    # -- clients ------------------------------------------------------------------------------------------------------

    async def line(self, *, over_socket: bool) -> Line:
        """Open a connection."""
        endpoint = self.server.advertised[0]
        if over_socket:
            return await SocketLine.open(endpoint.host, endpoint.port)
        return MemoryLine(self.acceptor, next(self._numbers))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A well-behaved client on a new connection."""
        endpoint = self.server.advertised[0]
        client = Client(*await asyncio.open_connection(endpoint.host, endpoint.port))
        try:
            yield client
        finally:
            await client.close()

    def facts(self) -> Facts:
        """The facts that clients could know now."""
        snapshot = self.world.snapshot
        views = [view.leadership for topic in snapshot.topics.values() for view in topic.partitions]
        epochs = {view.partition_epoch for view in views if view is not None}
        brokers = {int(broker.id): broker.epoch for broker in snapshot.brokers.values()}
        return Facts(tuple(sorted(snapshot.topics)), brokers, tuple(sorted(epochs)))

    # -- between batches ----------------------------------------------------------------------------------------------

    async def idle(self) -> None:
        """Wait until every connection has ended and every event is handled."""
        await until(lambda: not self.server.stats().connections)
        await self.events_handled()

    async def settled(self) -> Holdings:
        """The resources when only the first topics are left, so that two moments of a run can be compared."""
        await self.put_in_order(most_topics=len(KEPT))
        await self._check_leaks()
        self._forget_records()
        return holdings()

    async def put_in_order(self, most_topics: int = _MOST_TOPICS) -> None:
        """Undo the moves, changes and creations of the fuzzed requests."""
        await self.idle()
        self._forget_requests()
        for broker in set(BROKERS) & set(self.world.snapshot.shutting_down):
            self._restart(broker)
        await self.idle()
        async with self.client() as client:
            await self._cancel_reassignments(client)
            await self._delete_topics(client, most_topics)
            await self._create_topics(client)
        await self.idle()

    def _forget_requests(self) -> None:
        for path in _CLEARED:
            for name in self.world.tree.children(path) or ():
                self.world.tree.remove(f"{path}/{name}")

    def _restart(self, broker: int) -> None:
        self.world.die(broker)
        self.world.register(broker, port=self._stubs[broker].endpoint.port)

    async def _cancel_reassignments(self, client: Client) -> None:
        listed = await client.ask(46, 0, topics=None)
        rows = [
            {"name": row.name, "partitions": [_cancelled(each.partition_index) for each in row.partitions]}
            for row in listed.topics
        ]
        if rows:
            await client.ask(45, 0, topics=rows)

    async def _delete_topics(self, client: Client, most: int) -> None:
        """Delete all topics but the first ones, and those with many added partitions."""
        shown = self.world.snapshot.topics
        extra = [name for name in shown if name not in KEPT or len(shown[name].partitions) > 8]
        if len(shown) > most or any(len(topic.partitions) > 8 for topic in shown.values()):
            missing = self._missing(extra)
            answer = await client.ask(20, 6, topics=[{"name": name, "topic_id": None} for name in extra])
            async with self._present(missing):
                await self._are_gone(extra, answer)

    async def _are_gone(self, topics: Sequence[str], answer: object) -> None:
        try:
            await until(lambda: not self._stored(topics))
        except TimeoutError:
            views = [self.world.snapshot.topics.get(name) for name in self._stored(topics)]
            raise Wrong(f"topics are not deleted: {views}, {answer}; {self.state()}"[:8_000]) from None

    def _missing(self, topics: Iterable[str]) -> set[BrokerId]:
        """Brokers that never existed and that a request named as replicas, which Kafka allows."""
        views = (view for name in topics for view in self.world.snapshot.topics[name].partitions)
        return {broker for view in views for broker in view.assignment.replicas} - self.world.snapshot.brokers.keys()

    @asynccontextmanager
    async def _present(self, brokers: Iterable[BrokerId]) -> AsyncIterator[None]:
        """Register brokers for a while."""
        for broker in brokers:
            self.world.register(broker, port=self._stubs[BROKERS[0]].endpoint.port)
        yield
        for broker in brokers:
            self.world.die(broker)
        await self.events_handled()

    def _stored(self, names: Iterable[str]) -> set[str]:
        return set(names) & set(self.world.tree.children("/brokers/topics") or ())

    async def _create_topics(self, client: Client) -> None:
        missing = [name for name in KEPT if name not in self.world.snapshot.topics]
        if missing:
            rows = [new_topic(name, 3, 2) for name in missing]
            answer = await client.ask(19, 7, topics=rows)
            if any(row.error_code for row in answer.topics):
                raise Wrong(f"a topic cannot be created: {answer}")

    # -- invariants ---------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Check all invariants. :raises Wrong: one does not hold."""
        self._check_silence()
        async with self.client() as client:
            versions = await client.ask(18, 4)
            shown = {(row.api_key, v) for row in versions.api_keys for v in range(row.min_version, row.max_version + 1)}
            if versions.error_code or shown != set(everything()):
                raise Wrong(f"ApiVersions shows what is not asked for: {shown ^ set(everything())}, {versions}")
            await self._check_round_trip(client)
            await self._check_views(client)
        await self.idle()
        await self._check_leaks()
        self._forget_records()

    def _forget_records(self) -> None:
        """Drop the records that the controller's test doubles keep."""
        self.world.forget()
        for kept in (self.world.audit.accepted_at, self.world.drawn, self.world.timers.later):
            kept.clear()

    def _check_silence(self) -> None:
        if self.log.lines or self.loop_errors:
            raise Wrong("\n".join((*self.log.lines, *self.loop_errors)))
        self.check_controller()
        alarms = [alarm for alarm in self.world.audit.of(AlarmRecord) if not alarm.what.startswith(_CLIENTS_FAULT)]
        if alarms:
            raise Wrong(f"alarms: {alarms}")
        if not self.world.c.is_active or self.world.context.epoch != 1:
            raise Wrong(f"the role was lost: epoch {self.world.context.epoch}")
        if self.acceptor.largest_read > LIMITS.max_frame_bytes:
            raise Wrong(f"{self.acceptor.largest_read} bytes were wanted at once")

    def check_controller(self) -> None:
        """Check that the event task runs. :raises Wrong: it does not."""
        if self.controller.done():
            raise Wrong(f"the controller ended: {self.controller.exception()!r}")

    def has_begun(self) -> None:
        """Note the resources before the first connection: after the last one there may be only a few more."""
        tasks, descriptors = tasks_and_descriptors()
        self._most = tasks + _FEW, descriptors + _FEW

    def state(self) -> str:
        """The state of the target, for the message of a failure."""
        world, stats = self.world, self.server.stats()
        current = "none" if world.loop.current is None else repr(world.loop.current.event)[:400]
        return f"events: {len(world.queue)} wait, in work {current}; hung up: {dict(stats.hang_ups)}"

    async def _check_leaks(self) -> None:
        """Check that no task and no descriptor of a connection is left."""
        try:
            await until(lambda: not any(map(gt, tasks_and_descriptors(), self._most)))
        except TimeoutError:
            names = sorted(task.get_name() for task in asyncio.all_tasks())
            raise Wrong(f"{tasks_and_descriptors()} tasks and descriptors, not {self._most}: {names[:50]}") from None

    async def _check_round_trip(self, client: Client) -> None:
        """Check that a topic can be created, is shown, and can be deleted."""
        name = f"check-{next(self._numbers)}"
        made = await client.ask(19, 7, topics=[new_topic(name, 2, 2)])
        shown = await client.ask(3, 12, topics=[{"name": name, "topic_id": None}])
        gone = await client.ask(20, 6, topics=[{"name": name, "topic_id": None}])
        errors = (made.topics[0].error_code, shown.topics[0].error_code, gone.responses[0].error_code)
        if any(errors) or len(shown.topics[0].partitions) != 2:
            raise Wrong(f"a topic's life is {errors}: {made} {shown} {gone}")

    async def _check_views(self, client: Client) -> None:
        """Check that clients, the snapshot and ZooKeeper agree; leaders are live, in sync and replicas."""
        await self.events_handled()
        stored = set(self.world.tree.children("/brokers/topics") or ())
        shown = {topic.name for topic in self.world.snapshot.topics.values() if not topic.is_hidden}
        hidden = {topic.name for topic in self.world.snapshot.topics.values() if topic.is_hidden}
        visible = {row.name for row in (await client.ask(3, 12, topics=None)).topics}
        if visible != shown or not shown <= stored or not stored <= shown | hidden:
            raise Wrong(f"clients see {sorted(visible)}, the snapshot has {sorted(shown)}, ZooKeeper {sorted(stored)}")
        for name in shown:
            self._check_topic(name)

    async def events_handled(self) -> None:
        """Wait until every event is handled."""
        await until(lambda: not len(self.world.queue) and self.world.loop.current is None)

    def _check_topic(self, name: str) -> None:
        for view in self.world.snapshot.topics[name].partitions:
            state, replicas = view.leadership, set(view.assignment.replicas)
            node = self.world.tree.nodes.get(f"/brokers/topics/{name}/partitions/{view.partition}/state")
            if state is None or node is None:
                raise Wrong(f"{name}-{view.partition} has no state: {view}, {node}")
            stored: dict[str, Any] = json.loads(node.data or b"")
            if (state.leader, list(state.isr)) != (stored["leader"], stored["isr"]):
                raise Wrong(f"{name}-{view.partition}: the snapshot has {state}, ZooKeeper {stored}")
            if state.leader >= 0 and (state.leader not in state.isr or not set(state.isr) <= replicas):
                raise Wrong(f"{name}-{view.partition}: {state} of {replicas}")


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true, for very long. :raises TimeoutError: it stays false."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)


def _cancelled(partition: int) -> dict[str, object]:
    return {"partition_index": partition, "replicas": None}


def new_topic(name: str, partitions: int, replication_factor: int) -> dict[str, object]:
    """A row of CreateTopics."""
    counts = {"num_partitions": partitions, "replication_factor": replication_factor}
    return {"name": name, **counts, "assignments": (), "configs": ()}


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    """A target that is up; meanwhile it receives the log."""
    world, acceptor = World(), LineAcceptor()
    stubs = {broker: Stub(broker, {18: (0, 4), 3: (0, 12), **_partly(), **relayed_ranges()}) for broker in BROKERS}
    for broker, stub in stubs.items():
        await stub.start()
        world.register(broker, port=stub.endpoint.port)
    await world.start()
    world.snapshot.cluster_id = "fuzzed"
    listeners = [ServerListener("PLAINTEXT", "127.0.0.1", 0)]
    server = KafkaServer(
        listeners, world.queue, world.snapshot, NODE_ID,
        audit=world.audit, limits=LIMITS, settings=world.settings, now=world.clock.monotonic, acceptor=acceptor,
    )  # fmt: skip
    await server.start()
    found = Target(world, server, acceptor, stubs)
    before, loop = structlog.get_config(), asyncio.get_running_loop()
    structlog.configure(processors=[found.log], cache_logger_on_first_use=False)
    loop.set_exception_handler(lambda _, context: found.loop_errors.append(str(context)))
    found.has_begun()
    try:
        yield found
    finally:
        await found.close()
        loop.set_exception_handler(None)
        structlog.configure(**before)


def _partly() -> dict[int, tuple[int, int]]:
    """The APIs that a node answers itself or lets a broker answer, in the versions of a 3.9 broker."""
    return {22: (0, 5), 32: (0, 4), 33: (0, 2), 44: (0, 1), 60: (0, 1)}
