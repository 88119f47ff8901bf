"""A broker that answers control requests wrongly, by seed: its responses are built from kio's schemas.

It keeps every request, so that a test can see the channel's reaction to each response: whether it accepted the
response, or hung up and sent the request again.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple

from kio.index import load_response_schema

from controllerd.core.kafka_error import KafkaError
from tests.channel_manager.requests import T_ID
from tests.channel_manager.stub_broker import StubBroker
from tests.fuzz.shape import Leaf, encode, grow
from tests.fuzz.spoil import BROKEN, BYTES, Expect
from wire.framing import decode_request_header, encode_frame, read_frame
from wire.primitives import topic_id_bytes
from wire.versions import ApiKey

UNKNOWN_CODES: Final = (999, 2**15 - 1, -2, -(2**15), 300)
CODES: Final = (0, 0, 0, 0, 0, 77, 3, -1, 6, *UNKNOWN_CODES)
STALE: Final = KafkaError.STALE_CONTROLLER_EPOCH.value
DENIED: Final = KafkaError.CLUSTER_AUTHORIZATION_FAILED.value
_OTHER_APIS: Final = (3, 18, 43, 67)


class Reply(NamedTuple):
    """The bytes of a response, whether the connection ends after them, and the allowed reactions of the channel."""

    data: bytes
    ends: bool
    what: str
    expect: Expect
    """ANSWER: the channel must accept the response. CLOSE: it must not."""
    code: int = 0
    """The top-level error of a valid response."""
    has_stray: bool = False
    """Whether a response to another request follows at once, and meets the next request."""


@dataclass
class ReceivedRequest:
    """A control request, with its connection and its response."""

    connection: int
    correlation_id: int
    frame: bytes
    reply: Reply


@dataclass
class LyingBroker:
    """The broker. After ``lies`` responses it answers correctly, so that every run ends."""

    random: Random
    lies: int
    port: int = 0
    received: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    defects: list[BaseException] = field(default_factory=list)
    """Errors in the broker itself: mistakes of this module."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _honest: StubBroker = field(default_factory=StubBroker)

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self.connections += 1
        task = asyncio.create_task(self._talk(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.defects.append(error)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                header = decode_request_header(frame)[0]
                if header.api_key == ApiKey.API_VERSIONS:
                    reply = self._versions(frame)
                else:
                    reply = self._reply(frame)
                    self.received.append(ReceivedRequest(connection, header.correlation_id, frame, reply))
                await self._send(writer, reply.data)
                if reply.ends:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send data whole, or in pieces of any length."""
        middle = self.random.randrange(len(data) + 1) if self.random.random() < 0.2 else len(data)
        for piece in (data[:middle], data[middle:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    def _versions(self, frame: bytes) -> Reply:
        """Answer ApiVersions; some answers are damaged beyond reading, but none has other versions."""
        good = encode_frame(self._honest._api_versions(frame))
        if self.lies <= 0 or self.random.random() < 0.9:
            return Reply(good, ends=False, what="versions", expect=Expect.ANSWER)
        self.lies -= 1
        bad = self.random.choice((good[: self.random.randrange(len(good))], encode_frame(good[4:8]), _size(-1), b""))
        return Reply(bad, ends=True, what="bad versions", expect=Expect.CLOSE)

    def _reply(self, frame: bytes) -> Reply:
        header = decode_request_header(frame)[0]
        self.lies -= 1
        if self.lies < 0:
            body = self._body(header.api_key, header.version, code=0)
            return Reply(self._framed(header, body), ends=False, what="good", expect=Expect.ANSWER)
        roll = self.random.random()
        if roll < 0.3:
            return self._plain(header)
        if roll < 0.75:
            return self._damaged(header)
        return self._misframed(header)

    def _plain(self, header: Any) -> Reply:
        """A valid response, with a known or an unknown error."""
        code = self.random.choice((*CODES, STALE, DENIED))
        body = self._body(header.api_key, header.version, code=code)
        return Reply(self._framed(header, body), ends=False, what=f"code {code}", expect=Expect.ANSWER, code=code)

    def _damaged(self, header: Any) -> Reply:
        """A response whose body is inconsistent, or belongs to another API."""
        key, version = header.api_key, header.version
        if self.random.random() < 0.2:
            key = self.random.choice(_OTHER_APIS)
            body, what = self._body(key, 0, code=0), f"the body of API {key}"
        elif self.random.random() < 0.5:
            body, what = self._body(key, version, code=0, breaks=True), "a broken structure"
        else:
            body, done = self.random.choice(BYTES)(self.random, self._body(key, version, code=0))
            what = done.name
        return Reply(self._framed(header, body), ends=False, what=what, expect=Expect.EITHER)

    def _misframed(self, header: Any) -> Reply:
        """A response to another request, a part of one, a too large one, or none."""
        good = self._framed(header, self._body(header.api_key, header.version, code=0))
        wrong = self._answer_to(header, self.random.choice((1, -1, 2**20)))
        match self.random.randrange(7):
            case 0:
                return Reply(wrong, ends=False, what="wrong correlation id", expect=Expect.CLOSE)
            case 1:
                return Reply(good[: self.random.randrange(len(good))], ends=True, what="half", expect=Expect.CLOSE)
            case 2:
                return Reply(b"", ends=True, what="nothing", expect=Expect.CLOSE)
            case 3:
                return Reply(_size(-1) + good[4:], ends=False, what="negative size", expect=Expect.CLOSE)
            case 4:
                return Reply(_size(2**31 - 1) + good[4:], ends=False, what="huge size", expect=Expect.CLOSE)
            case 5:
                return Reply(_size(0) + good, ends=False, what="empty frame", expect=Expect.CLOSE)
            case _:
                stray = self._answer_to(header, 2**20)  # an id that no request will have
                return Reply(good + stray, ends=False, what="two answers", expect=Expect.ANSWER, has_stray=True)

    def _answer_to(self, header: Any, later: int) -> bytes:
        """A valid response to an earlier, a later or no request."""
        other = header._replace(correlation_id=header.correlation_id + later)
        return self._framed(other, self._body(header.api_key, header.version, code=0))

    def _body(self, key: int, version: int, *, code: int, breaks: bool = False) -> bytes:
        schema: Any = load_response_schema(key, version)
        tree = grow(schema, self._value, lambda _: self.random.choice((0, 1, 1, 3)))
        flexible = bool(schema.__flexible__)
        tops = [node for node in tree.members if isinstance(node, Leaf) and node.kind == "error_code"]
        for top in tops:
            top.value = code
        if breaks:
            self.random.choice(BROKEN)(self.random, tree, flexible)
        return encode(tree, flexible=flexible)

    def _value(self, name: str, kind: str) -> object:
        """A value of a valid response: it repeats the names of the request."""
        match kind:
            case "error_code":
                return self.random.choice(CODES)
            case "string":
                return "t"
            case "uuid":
                return topic_id_bytes(T_ID)
            case "bytes" | "records":
                return b"x"
            case "float64":
                return 0.0
            case _:
                return 0

    def _framed(self, header: Any, body: bytes) -> bytes:
        schema: Any = load_response_schema(header.api_key, header.version)
        tags = b"\0" if schema.__header_schema__.__version__ else b""
        return encode_frame(struct.pack(">i", header.correlation_id) + tags + body)


def _size(size: int) -> bytes:
    return struct.pack(">i", size)


@asynccontextmanager
async def lying_broker(seed: int, lies: int) -> AsyncIterator[LyingBroker]:
    """A broker that listens."""
    broker = LyingBroker(Random(seed), lies)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()
        assert broker.defects == []


def problems(received: Sequence[ReceivedRequest]) -> list[str]:
    """The wrong reactions of the channel: each request is compared with the one before it."""
    found, has_stray = [], False
    for before, now in pairwise(received):
        repeats, what = now.correlation_id == before.correlation_id, f"{before.correlation_id}: {before.reply.what}"
        if repeats and now.frame != before.frame:
            found.append(f"{what}: repeated with other bytes")
        if not repeats and now.correlation_id != before.correlation_id + 1:
            found.append(f"{what}: followed by {now.correlation_id}")
        held = before.reply.code == DENIED
        if before.reply.expect is Expect.ANSWER and repeats is not held and not has_stray:
            found.append(f"{what}: {'asked again' if repeats else 'not asked again'}")
        if has_stray and not repeats:
            found.append(f"{what}: a stray answer was taken for its answer")
        if before.reply.expect is Expect.CLOSE and not repeats:
            found.append(f"{what}: taken for an answer")
        if repeats and (not held or has_stray) and now.connection == before.connection:
            found.append(f"{what}: asked again on the same connection")
        has_stray = before.reply.has_stray and now.connection == before.connection
    return found
