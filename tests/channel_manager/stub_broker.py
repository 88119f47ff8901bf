"""A broker on a real socket that keeps the requests it got and fails on demand. It decodes with kio alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta

from controllerd.core.model import Broker, BrokerId, Endpoint
from tests.fakes.settings_broker import encode_settings
from wire.framing import RequestHeader, decode_request_header, encode_frame, read_frame
from wire.kio_codec import decode_request, encode_response, response_type
from wire.versions import ApiKey

CONTROL: Final = {ApiKey.LEADER_AND_ISR: (0, 7), ApiKey.UPDATE_METADATA: (0, 8), ApiKey.STOP_REPLICA: (0, 4)}
NAMES: Final = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}


@dataclass(frozen=True)
class Got:
    """A control request as it arrived."""

    header: RequestHeader
    entity: Any
    frame: bytes

    @property
    def api(self) -> str:
        return NAMES[self.header.api_key]


@dataclass
class Act:
    """How to handle the next control request instead of answering it without error."""

    close: bool = False
    silence: bool = False
    error: int = 0
    correlation_offset: int = 0
    cut: int = 0


@dataclass
class StubBroker:
    """A stub broker. Each control request uses up one of ``acts``; without any left, every answer is NONE."""

    id: int = 1
    port: int = 0
    got: list[Got] = field(default_factory=list)
    acts: deque[Act] = field(default_factory=deque)
    versions: dict[ApiKey, tuple[int, int]] = field(default_factory=lambda: dict(CONTROL))
    connections: int = 0
    open_now: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    waiting_for_answer: int = 0
    most_in_flight: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def registration(self, epoch: int = 1, listener: str = "PLAINTEXT") -> Broker:
        return Broker(BrokerId(self.id), epoch, (Endpoint(listener, "127.0.0.1", self.port),))

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until a condition holds. It is checked after every request and closed connection."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(met)

    async def got_so_many(self, number: int) -> list[Got]:
        await self.until(lambda: len(self.got) >= number)
        return self.got

    async def hang_up(self) -> None:
        """Close every connection from this side, idle or not."""
        for writer in self.writers:
            writer.close()
        await self.until(lambda: self.open_now == 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1
        self.writers.append(writer)
        try:
            await self._talk(reader, writer)
        except ConnectionError:
            return
        finally:
            self.open_now -= 1
            writer.close()
            async with self.changed:
                self.changed.notify_all()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await read_frame(reader)) is not None:
            if decode_request_header(frame)[0].api_key == ApiKey.API_VERSIONS:
                writer.write(encode_frame(self._api_versions(frame)))
                continue
            if decode_request_header(frame)[0].api_key == ApiKey.DESCRIBE_CONFIGS:
                writer.write(encode_frame(encode_settings(frame)))
                continue
            act = self.acts.popleft() if self.acts else Act()
            await self._keep(frame)
            await self.gate.wait()
            self.waiting_for_answer -= 1
            if act.close:
                return
            if not act.silence:
                writer.write(self._answer(frame, act))

    async def _keep(self, frame: bytes) -> None:
        header, entity = decode_request(frame)
        self.waiting_for_answer += 1
        self.most_in_flight = max(self.most_in_flight, self.waiting_for_answer)
        async with self.changed:
            self.got.append(Got(header, entity, frame))
            self.changed.notify_all()

    def _api_versions(self, frame: bytes) -> bytes:
        header, _ = decode_request(frame)
        keys = tuple(
            ApiVersion(api_key=i16(key), min_version=i16(low), max_version=i16(high))
            for key, (low, high) in self.versions.items()
        )
        throttle = i32Timedelta.parse(timedelta(0))
        response = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=throttle)
        return encode_response(header.correlation_id, response)

    def _answer(self, frame: bytes, act: Act) -> bytes:
        header, _ = decode_request(frame)
        kind: Any = response_type(header.api_key, header.version)
        empty = {name: () for name in ("partition_errors", "topics") if name in kind.__dataclass_fields__}
        response = kind(error_code=ErrorCode(act.error), **empty)
        content = encode_response(header.correlation_id + act.correlation_offset, response)
        return encode_frame(content[: len(content) - act.cut])


@asynccontextmanager
async def stub_broker(broker_id: int = 1, *acts: Act, gate: bool = True, port: int = 0) -> AsyncIterator[StubBroker]:
    """A stub that listens; with ``gate`` closed (False) it reads but answers only once ``stub.gate`` is set."""
    stub = StubBroker(broker_id, acts=deque(acts))
    if gate:
        stub.gate.set()
    server = await asyncio.start_server(stub._serve, "127.0.0.1", port)
    stub.port = server.sockets[0].getsockname()[1]
    try:
        yield stub
    finally:
        stub.gate.set()
        server.close()
        await stub.until(lambda: stub.open_now == 0)
        await server.wait_closed()


async def eventually(met: Callable[[], bool]) -> None:
    """Poll for up to ten seconds until a condition holds that no event announces."""
    for _ in range(2000):
        if met():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("the condition never held")
