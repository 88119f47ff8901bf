"""A trace replayed with a ZooKeeper server, brokers' sockets, and our controller between them.

The writes of our controller are taken from ZooKeeper's transaction log, its requests from the stubs' sockets.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Final

from controllerd.dev.txnlog import Logged, LoggedTransaction, TransactionLog
from controllerd.snapshot import ClusterSnapshot
from controllerd.zk.access import Create
from tests.fakes.listening import HOST
from tests.fakes.stub_broker import Got, ScriptedAnswer, StubBroker
from tests.fakes.world import NODE_ID, registration
from tests.traces import wire_form
from tests.traces.beginning import IDS, beginning, dying, operation_of, policy_of, symbols_of, unlike_beginning
from tests.traces.format import (
    CLOSED,
    Json,
    Op,
    ReplyLine,
    RequestLine,
    Trace,
    TraceStep,
    TraceZnode,
    TriggerLine,
    ZkLine,
)
from tests.traces.node import RunningNode, running
from tests.traces.observe import Observed, normal_data, normal_op, normal_request, raw_data
from tests.traces.outsiders import Outsiders
from wire.connection import KafkaConnection
from wire.kio_codec import decode_entity, encode_entity, response_type

_PATIENCE_S: Final = 10.0
"""How long to wait for the actions of the trace."""
_QUIET_S: Final = 0.3
"""How long no action may come, to be sure that there are no more."""
_LOOK_S: Final = 0.01
HOLDER: Final = "foreign holder"


@dataclass(frozen=True)
class TraceServer:
    """The ZooKeeper server of all runs."""

    address: str
    log: TransactionLog


class RealRun:
    """One replay of one trace, in a chroot of its own."""

    def __init__(self, trace: Trace, server: TraceServer, chroot: str, missing: Collection[int]) -> None:
        """``missing`` are the lines of the trace that will not come, so that the replay does not wait for them."""
        self.trace = trace
        self._missing = missing
        self.symbols = symbols_of(trace, NODE_ID)
        self._server, self._chroot = server, chroot
        self._outsiders = Outsiders(server.address + chroot)
        self._stubs = {broker: StubBroker(broker, self._note) for broker in trace.brokers}
        self._arrivals: list[tuple[int, Got]] = []
        self._logged: list[LoggedTransaction] = []
        self._replies: list[ReplyLine] = []
        self._node: RunningNode | None = None
        self._happened_at = 0.0

    async def play(self) -> Observed:
        """Build the start, apply every trigger, and return the actions of the controller."""
        async with AsyncExitStack() as stack:
            await self._prepare(stack)
            node = running(self._server.address + self._chroot, policy_of(self.trace))
            self._node = await stack.enter_async_context(node)
            self.symbols.bind_port("port(CTRL)", self._node.server.advertised[0].port)
            await self._begin(self._node)
            for step, requests, writes in zip(self.trace.steps, *self._expected(), strict=True):
                await self._apply(step)
                await self._settle(partial(self._has, requests, writes))
            assert not self._node.defects
            assert not [stub.failures for stub in self._stubs.values() if stub.failures]
            return self._observed(await self._znodes())

    # -- the start -----------------------------------------------------------------------------------------------------

    async def _prepare(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(self._outsiders.close)
        for broker, stub in self._stubs.items():
            await stack.enter_async_context(stub)
            for suffix, port in zip(("", "'"), stub.ports, strict=True):
                self.symbols.bind_port(f"port({broker}){suffix}", port)
        await self._outsiders.act("test", beginning(self.trace, self.symbols))
        for broker in self.trace.live:
            await self._create(f"stub {broker}", f"{IDS}{broker}")
        for broker in dying(self.trace):
            data = registration(broker, self._stubs[broker].ports[0])
            await self._outsiders.act(f"stub {broker}", [Create(f"{IDS}{broker}", data, ephemeral=True)], anew=True)
        if self.trace.starts_deposed:
            await self._create(HOLDER, "/controller")

    async def _create(self, session: str, path: str) -> None:
        data = raw_data(self.trace.initial[path].data, self.symbols)
        zxid = await self._outsiders.act(session, [Create(path, data, ephemeral=True)], anew=True)
        self._registered(path, zxid)

    def _registered(self, path: str, zxid: int) -> None:
        if path.startswith(IDS):
            self.symbols.bind_registration(int(path.removeprefix(IDS)), zxid)

    async def _begin(self, node: RunningNode) -> None:
        snapshot = node.controller.snapshot
        if self.trace.starts_deposed:
            await self._settle(lambda: snapshot.holder is not None)
        else:
            await self._settle(lambda: snapshot.is_active)
        for broker in dying(self.trace):
            await self._outsiders.end_oldest(f"stub {broker}")
            await self._settle(partial(_lacks, snapshot, broker))
        assert snapshot.is_active is not self.trace.starts_deposed
        assert not unlike_beginning(self.trace, await self._znodes())
        self._logged.clear()
        for broker, stub in self._stubs.items():
            stub.got.clear()
            stub.script = [_answer(line.answer) for line in self.trace.requests_to(broker)]

    # -- triggers ------------------------------------------------------------------------------------------------------

    async def _apply(self, step: TraceStep) -> None:
        for line in step.foreign:
            if not line.ops:
                await self._outsiders.end_oldest(line.session)
                continue
            operations = [operation_of(op, self.symbols) for op in line.ops]
            zxid = await self._outsiders.act(line.session, operations, anew=any(op.ephemeral for op in line.ops))
            for op in line.ops:
                if op.op == "create":
                    self._registered(op.path, zxid)
        if step.trigger.api is not None:
            self._replies.append(await self._ask(step.trigger))

    async def _ask(self, trigger: TriggerLine) -> ReplyLine:
        assert trigger.api is not None
        port = self.symbols.value("port(CTRL)")
        entity = wire_form.question(trigger.api, trigger.version, self.symbols.resolve(trigger.body))
        key, version = int(entity.__api_key__), int(entity.__version__)
        connection = await KafkaConnection.connect(HOST, port, trigger.by, request_timeout_s=_PATIENCE_S)
        try:
            answer = await connection.request(key, version, encode_entity(entity))
        finally:
            await connection.close()
        body = self.symbols.symbolise(wire_form.body_of_reply(decode_entity(response_type(key, version), answer)))
        return ReplyLine(trigger.number, trigger.by, trigger.api, trigger.version, body)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _expected(self) -> tuple[list[int], list[int]]:
        """How many requests and writes there are after each step, without the declared missing ones."""
        requests = accumulate(
            sum(line.number not in self._missing for line in step.requests) for step in self.trace.steps
        )
        writes = accumulate(
            sum(
                op.op != "check" and not op.error
                for line in step.writes
                if line.number not in self._missing
                for op in line.ops
            )
            for step in self.trace.steps
        )
        return list(requests), list(writes)

    def _has(self, requests: int, writes: int) -> bool:
        """Whether so many have arrived in total."""
        done = [found for found in self._logged if not found.was_refused]
        written = sum(op.op != "check" for found in done for op in found.operations)
        return sum(len(stub.got) for stub in self._stubs.values()) >= requests and written >= writes

    async def _settle(self, expected: Callable[[], bool]) -> None:
        """Wait for the expected actions, and then for quiet; missing actions are found by the comparison."""
        now = asyncio.get_running_loop().time
        deadline = now() + _PATIENCE_S
        self._happened_at = now()
        while now() < deadline and not (expected() and now() > self._happened_at + _QUIET_S):
            self._read_log()
            await asyncio.sleep(_LOOK_S)

    def _note(self) -> None:
        self._happened_at = asyncio.get_running_loop().time()

    def _read_log(self) -> None:
        assert self._node is not None
        ours = [found for found in self._server.log.read_new() if found.session_id == self._node.session_id]
        if ours:
            self._note()
            self._logged += ours

    # -- observations --------------------------------------------------------------------------------------------------

    def _observed(self, znodes: Mapping[str, TraceZnode]) -> Observed:
        requests = [
            normal_request(number, _request_line(broker, got), self.symbols)
            for broker, stub in self._stubs.items()
            for number, got in enumerate(stub.got, start=1)
        ]
        writes = [
            ZkLine(number, "controller", tuple(self._op(op) for op in found.operations))
            for number, found in enumerate(self._logged, start=1)
        ]
        return Observed(writes, requests, self._replies, znodes)

    def _op(self, logged: Logged) -> Op:
        path = logged.path.removeprefix(self._chroot)
        data = normal_data(path, logged.data, self.symbols)
        version, expect = (None, logged.version) if logged.op == "check" else (logged.version, None)
        op = Op(logged.op, path, data, version, expect, logged.ephemeral, logged.error)
        return normal_op(op, self.symbols)

    async def _znodes(self) -> dict[str, TraceZnode]:
        nodes = await self._outsiders.read_all()
        return {
            path: TraceZnode(normal_data(path, node.data, self.symbols), node.version) for path, node in nodes.items()
        }


def _lacks(snapshot: ClusterSnapshot, broker: int) -> bool:
    return broker not in snapshot.brokers


def _request_line(broker: int, got: Got) -> RequestLine:
    header, body = got.header, wire_form.body_of_request(got.entity)
    return RequestLine(0, broker, wire_form.api_name(header.api_key), header.version, header.client_id or "", body)


def _answer(form: Json) -> ScriptedAnswer:
    """A stub's answer from its form in the trace."""
    if form == CLOSED:
        return ScriptedAnswer(closes=True)
    if form == "NONE":
        return ScriptedAnswer()
    partitions = {
        (name.rpartition("-")[0], int(name.rpartition("-")[2])): code for name, code in form["partitions"].items()
    }
    return ScriptedAnswer(form["error"], partitions)
