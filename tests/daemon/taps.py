"""Proxies that understand what passes: control requests to brokers and their answers, and requests to ZooKeeper.

Each keeps the time at which every byte arrived, by the monotonic clock, and can hold the requests of one sender back.
"""

import asyncio
import struct
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from controllerd.dev.proxy import Chunk, TcpProxy
from wire.framing import decode_request_header
from wire.kio_codec import decode_request, decode_response
from wire.versions import ApiKey

CONTROL: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA})
MULTI: Final = 14
_LENGTH: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ii")


class Tap(TcpProxy, ABC):
    """A proxy for protocols whose frames begin with their length, as Kafka's and ZooKeeper's do."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.chunks: list[Chunk] = []
        """All that arrived."""
        self._partial: defaultdict[tuple[int, bool], bytes] = defaultdict(bytes)
        self._held: dict[int, asyncio.Event] = {}

    def seen(self, chunk: Chunk) -> None:
        """Keep it, and take the frames that are complete now."""
        self.chunks.append(chunk)
        end = chunk.connection, chunk.from_client
        content = self._partial[end] + chunk.data
        while len(content) >= _LENGTH.size and len(content) >= (size := _LENGTH.size + _LENGTH.unpack_from(content)[0]):
            self.frame(chunk, content[_LENGTH.size : size])
            content = content[size:]
        self._partial[end] = content

    @abstractmethod
    def frame(self, chunk: Chunk, content: bytes) -> None:
        """A frame without its length; ``chunk`` brought its last byte."""

    def hold(self, connection: int) -> None:
        """Keep back what the client of this connection has just sent and sends from now on."""
        self._held.setdefault(connection, asyncio.Event())

    @property
    def holds(self) -> bool:
        """Whether a connection is held."""
        return bool(self._held)

    def let_go(self) -> None:
        """Let everything pass that was held."""
        held, self._held = self._held, {}
        for event in held.values():
            event.set()

    async def release(self, chunk: Chunk) -> None:
        """The server's answers always pass."""
        if chunk.from_client and chunk.connection in self._held:
            await self._held[chunk.connection].wait()


@dataclass
class ControlRequest:
    """A control request on its way to the broker, and the answer once there is one."""

    at_s: float
    client: str
    api_key: int
    version: int
    epoch: int
    """The controller epoch in it."""
    answer: Any = None
    answered_at_s: float = 0.0

    @property
    def error(self) -> int | None:
        """The error code of the broker's answer as a whole; None before the answer."""
        return None if self.answer is None else int(self.answer.error_code.value)


@dataclass
class _Client:
    name: str = ""
    waiting: dict[int, ControlRequest] = field(default_factory=dict)


class BrokerTap(Tap):
    """Before a broker. ``hold_client`` plays a network that is slow for one controller."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.requests: list[ControlRequest] = []
        self._clients: defaultdict[int, _Client] = defaultdict(_Client)
        self._slow_for = ""

    def hold_client(self, node_id: int) -> None:
        """Hold back every control request of this controller from now on."""
        self._slow_for = str(node_id)

    def let_go(self) -> None:
        """Let everything pass that was held."""
        self._slow_for = ""
        super().let_go()

    def chunks_from(self, node_id: int, *, since_s: float) -> list[Chunk]:
        """The chunks that this controller sent from a time on."""
        mine = {number for number, client in self._clients.items() if client.name == str(node_id)}
        return [c for c in self.chunks if c.from_client and c.at_s >= since_s and c.connection in mine]

    def frame(self, chunk: Chunk, content: bytes) -> None:
        """A request or an answer."""
        client = self._clients[chunk.connection]
        if chunk.from_client:
            self._request(chunk, content, client)
        elif (request := client.waiting.pop(_LENGTH.unpack_from(content)[0], None)) is not None:
            _, request.answer = decode_response(request.api_key, request.version, content)
            request.answered_at_s = chunk.at_s

    def _request(self, chunk: Chunk, content: bytes, client: _Client) -> None:
        header, _ = decode_request_header(content)
        client.name = header.client_id or ""
        if header.api_key not in CONTROL:
            return
        entity: Any = decode_request(content).entity
        asked = ControlRequest(chunk.at_s, client.name, header.api_key, header.version, entity.controller_epoch)
        client.waiting[header.correlation_id] = asked
        self.requests.append(asked)
        if client.name == self._slow_for:
            self.hold(chunk.connection)


class Look(NamedTuple):
    """A reading of one znode: when it was asked for, and when the answer was there."""

    asked_at_s: float
    answered_at_s: float


class ZooKeeperTap(Tap):
    """A proxy before ZooKeeper. It notes each reading of ``path``, and can hold transactions."""

    def __init__(self, upstream: str, path: str) -> None:
        """``path`` with the chroot."""
        super().__init__(upstream)
        self._needle = _LENGTH.pack(len(path)) + path.encode()
        self._asked: dict[tuple[int, int], float] = {}
        self._is_greeted: set[tuple[int, bool]] = set()
        self._holds_multis = False
        self.looks: list[Look] = []
        """Every reading of ``path`` that was answered."""

    def hold_transactions(self) -> None:
        """Hold the next transaction, and all that its connection sends after it."""
        self._holds_multis = True

    def let_go(self) -> None:
        """Let everything pass that was held."""
        self._holds_multis = False
        super().let_go()

    def frame(self, chunk: Chunk, content: bytes) -> None:
        """The first frame of each direction opens the session and has no header."""
        end = chunk.connection, chunk.from_client
        if end not in self._is_greeted:
            self._is_greeted.add(end)
        elif chunk.from_client:
            xid, opcode = _REQUEST.unpack_from(content)
            if opcode == MULTI and self._holds_multis:
                self.hold(chunk.connection)
            elif opcode != MULTI and self._needle in content:
                self._asked[chunk.connection, xid] = chunk.at_s
        elif (asked := self._asked.pop((chunk.connection, _LENGTH.unpack_from(content)[0]), None)) is not None:
            self.looks.append(Look(asked, chunk.at_s))
