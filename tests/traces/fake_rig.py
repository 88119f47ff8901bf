"""A trace replayed against the whole controller over a ZooKeeper in memory: no sockets, no waiting."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from channel_manager.manager import event_of
from channel_manager.observer import Exchange
from controllerd.api.admin_calls import AdminCalls
from controllerd.api.broker_calls import BrokerCalls
from controllerd.api.broker_versions import BrokerVersions
from controllerd.api.event_calls import EventCaller
from controllerd.api.native import NativeRequest
from controllerd.api.relay import Relay
from controllerd.api.server_settings import ServerLimits
from controllerd.api.sessions import ANONYMOUS, AllowAll, Session
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Endpoint, TopicPartition
from controllerd.core.requests import ControlRequest, ControlResponse
from controllerd.core.requests import api_name as name_of
from controllerd.zk.access import (
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Operation,
    SetData,
    Transaction,
    TransactionOutcome,
    code_name,
    operation_name,
)
from tests.fakes.world import NODE_ID, World
from tests.fakes.zookeeper import Tree
from tests.traces import wire_form
from tests.traces.beginning import IDS, beginning, dying, operation_of, policy_of, symbols_of, unlike_beginning
from tests.traces.format import Op, ReplyLine, RequestLine, Trace, TraceZnode, TriggerLine, ZkLine
from tests.traces.observe import Observed, normal_data, normal_op, normal_request, raw_data
from wire import control_requests
from wire.framing import peek_request
from wire.kio_codec import decode_entity, decode_response, encode_request, request_type
from wire.versions import ApiKey, VersionRange, choose_control

_PAUSE_S: Final = 10.0
"""Longer than the recorded controller had between two triggers: later events are not in a trace."""
CONTROLLER: Final = 1
"""Session id of our controller."""
OUTSIDER: Final = 77
HOLDER: Final = 99
_SPOKEN: Final[Mapping[int, VersionRange]] = {
    ApiKey.LEADER_AND_ISR: VersionRange(0, 7),
    ApiKey.UPDATE_METADATA: VersionRange(0, 8),
    ApiKey.STOP_REPLICA: VersionRange(0, 4),
}


class RecordingTree(Tree):
    """A tree that keeps the transactions of every session with their outcomes."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[tuple[int, Transaction, TransactionOutcome]] = []

    def apply(self, operations: Transaction, session_id: int) -> TransactionOutcome:
        """Apply a transaction as the tree does, and keep it."""
        outcome = super().apply(operations, session_id)
        self.tried.append((session_id, tuple(operations), outcome))
        return outcome


class FakeRun:
    """One replay of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.tree = RecordingTree()
        self.symbols = symbols_of(trace, NODE_ID)
        self.world = World(tree=self.tree, session_id=CONTROLLER, policy=policy_of(trace))
        asker = EventCaller(self.world.queue, self.world.snapshot, 10.0)
        self.calls = BrokerCalls(asker, self.world.snapshot)
        self.admin = AdminCalls(asker, self.world.snapshot)
        own, versions = Endpoint("PLAINTEXT", "localhost", 9092), BrokerVersions(self.world.snapshot)
        relay = Relay(own.listener, self.world.snapshot, versions, ServerLimits(), 0)
        self._session = Session("127.0.0.1", ANONYMOUS, own, relay, AllowAll())
        self._answered = 0
        self._has_begun = False
        self._replies: list[ReplyLine] = []

    async def play(self) -> Observed:
        """Build the start, apply every trigger, and return the actions of the controller."""
        await self._begin()
        for step in self.trace.steps:
            for line in step.foreign:
                self._write(line)
            if step.trigger.api is not None:
                self._replies.append(await self._ask(step.trigger))
            await self._settle()
            await self._let_time_pass()
        return self._observed()

    async def _let_time_pass(self) -> None:
        """Let the leader imbalance be checked, if the trace has that check."""
        for event in self.world.timers.fire(within_s=_PAUSE_S):
            self.world.queue.put(event)
        await self._settle()

    # -- the start -----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._ports()
        self.tree.outsider(*beginning(self.trace, self.symbols))
        for broker in self.trace.live:
            path = f"{IDS}{broker}"
            create = Create(path, raw_data(self.trace.initial[path].data, self.symbols), ephemeral=True)
            self._noted([create], self.tree.apply([create], OUTSIDER))
        if self.trace.starts_deposed:
            holder = raw_data(self.trace.initial["/controller"].data, self.symbols)
            self.tree.apply([Create("/controller", holder, ephemeral=True)], HOLDER)
        for broker in dying(self.trace):
            self.world.register(broker)
        await self.world.start()
        await self._settle()
        for broker in dying(self.trace):
            self.world.die(broker)
            await self._settle()
        assert self.world.c.is_active is not self.trace.starts_deposed
        assert not unlike_beginning(self.trace, self._znodes())
        self.world.forget()
        self.tree.tried.clear()
        self._answered = 0
        self._has_begun = True

    def _ports(self) -> None:
        self.symbols.bind_port("port(CTRL)", 7)
        for broker in self.trace.brokers:
            self.symbols.bind_port(f"port({broker})", 9000 + broker)
            self.symbols.bind_port(f"port({broker})'", 9100 + broker)

    # -- triggers ------------------------------------------------------------------------------------------------------

    def _write(self, line: ZkLine) -> None:
        """Commit a transaction of a stub or a tester, or end a session."""
        operations: Sequence[Operation] = [Delete(path) for path in line.deletes] or [
            operation_of(op, self.symbols) for op in line.ops
        ]
        if operations:
            session = HOLDER if line.session == "foreign holder" else OUTSIDER
            self._noted(operations, self.tree.apply(operations, session))

    def _noted(self, operations: Sequence[Operation], outcome: TransactionOutcome) -> None:
        assert isinstance(outcome, Committed), f"{operations}: {outcome}"
        for operation in operations:
            if isinstance(operation, Create) and operation.path.startswith(IDS):
                self.symbols.bind_registration(int(operation.path.removeprefix(IDS)), outcome.zxid)

    async def _ask(self, trigger: TriggerLine) -> ReplyLine:
        """Handle a request of a stub, from its bytes to the bytes of the answer."""
        assert trigger.api is not None
        entity = wire_form.question(trigger.api, trigger.version, self.symbols.resolve(trigger.body))
        frame = encode_request(1, trigger.by, entity)
        serve: Mapping[str, Callable[[NativeRequest], Awaitable[bytes]]] = {
            "AlterPartition": self.calls.alter_partition,
            "ControlledShutdown": self.calls.controlled_shutdown,
            "AllocateProducerIds": self.calls.allocate_producer_ids,
            "ElectLeaders": self.admin.elect_leaders,
            "AlterPartitionReassignments": self.admin.alter_reassignments,
            "ListPartitionReassignments": self.admin.list_reassignments,
        }
        answer = asyncio.ensure_future(serve[trigger.api](NativeRequest(peek_request(frame), frame, self._session)))
        while not answer.done():
            await self._settle()
            await asyncio.sleep(0)
        _, reply = decode_response(entity.__api_key__, entity.__version__, await answer)
        body = self.symbols.symbolise(wire_form.body_of_reply(reply))
        return ReplyLine(trigger.number, trigger.by, trigger.api, trigger.version, body)

    async def _settle(self) -> None:
        """Run until no work is left: events, and the brokers' answers to requests."""
        await self.world.settle()
        sent = self.world.channels.sent
        while self._answered < len(sent):
            broker, request = sent[self._answered]
            self._answered += 1
            self._answer(broker, request)
            await self.world.settle()

    def _answer(self, broker: BrokerId, request: ControlRequest) -> None:
        event = event_of(Exchange(broker, request, self._response(broker, request), 0, 0, 0, 1, 0.0))
        if event is not None and broker in self.world.channels.open:
            self.world.queue.put(event)

    def _response(self, broker: BrokerId, request: ControlRequest) -> ControlResponse:
        """The answer of the trace's stub to the request in this place."""
        place = sum(1 for to, _ in self.world.channels.sent[: self._answered] if to == broker) - 1
        recorded = self.trace.requests_to(broker) if self._has_begun else ()
        script = [line.answer for line in recorded if isinstance(line.answer, dict | str)]
        answer = script[place] if place < len(script) else "NONE"
        if not isinstance(answer, dict):
            return ControlResponse(name_of(request), KafkaError.NONE, {})
        errors = {_partition(name): KafkaError[code] for name, code in answer["partitions"].items()}
        return ControlResponse(name_of(request), KafkaError[answer["error"]], errors)

    # -- observations --------------------------------------------------------------------------------------------------

    def _observed(self) -> Observed:
        requests = [
            normal_request(number, _request_line(broker, request), self.symbols)
            for number, (broker, request) in enumerate(self.world.channels.sent, start=1)
        ]
        ours = [(tried, outcome) for session, tried, outcome in self.tree.tried if session == CONTROLLER]
        writes = [
            ZkLine(number, "controller", self._ops(tried, outcome)) for number, (tried, outcome) in enumerate(ours, 1)
        ]
        return Observed(writes, requests, self._replies, self._znodes())

    def _ops(self, tried: Transaction, outcome: TransactionOutcome) -> tuple[Op, ...]:
        if isinstance(outcome, Aborted):
            failed = tried[max(0, outcome.failed)]
            return (Op(operation_name(failed), failed.path, error=code_name(outcome.code)),)
        assert isinstance(outcome, Committed)
        return tuple(
            normal_op(self._op(operation, version), self.symbols)
            for operation, version in zip(tried, outcome.versions, strict=True)
        )

    def _op(self, operation: Operation, version: int) -> Op:
        name, path = operation_name(operation), operation.path
        match operation:
            case Create():
                return Op(name, path, normal_data(path, operation.data, self.symbols), ephemeral=operation.ephemeral)
            case SetData():
                data = normal_data(path, operation.data, self.symbols)
                return Op(name, path, data, version=version, expect=operation.version)
            case Delete() | CheckVersion():
                return Op(name, path, expect=operation.version)

    def _znodes(self) -> dict[str, TraceZnode]:
        return {
            path: TraceZnode(normal_data(path, node.data, self.symbols), node.version)
            for path, node in self.tree.nodes.items()
        }


def _request_line(broker: BrokerId, request: ControlRequest) -> RequestLine:
    """Pass a request through our encoder and kio's decoder."""
    key = control_requests.api_key(request)
    version = choose_control(key, _SPOKEN, topic_ids=control_requests.has_topic_ids(request))
    entity = decode_entity(request_type(key, version), b"".join(control_requests.encode(request, version)))
    body = wire_form.body_of_request(entity)
    return RequestLine(0, broker, wire_form.api_name(key), version, str(NODE_ID), body)


def _partition(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))
