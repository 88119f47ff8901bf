"""Stub brokers that acknowledge every control request at once.

They run in a process of their own, so that their processor time is not counted as the controller's. They decode only
the size of a frame, its API, version and correlation id. Each frame is kept with the time at which its last byte
arrived, and is decoded after the run.

``python -m bench.stubs N`` listens N times on 127.0.0.1 and prints the ports as a JSON list. Each line on its standard
input is a JSON command, answered by a line; the end of the input ends the process.
"""

import asyncio
import json
import struct
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import client_answers
from bench.frames import leader_and_isr_rows, stop_replica_rows
from bench.growing import Leader
from controllerd.core.model import BrokerId
from wire.framing import encode_frame, encode_response_header, peek_request
from wire.primitives import FLEXIBLE, INT16, INT32
from wire.versions import CONTROL_VERSIONS, ApiKey

LOOPBACK: Final = "127.0.0.1"
_SILENT: Final = -1.0
_SAVED: Final = struct.Struct(">iqi")
_ANSWER_S: Final = 60.0


class ReceivedFrame(NamedTuple):
    """A control request as a stub received it: the broker, the time of its last byte, the bytes without the size."""

    broker: int
    at_ns: int
    frame: bytes


# -- in the process of the stubs ---------------------------------------------------------------------------------------


def _api_versions() -> bytes:
    """Offer only the newest versions, which the decoder of the harness knows."""
    ranges = [
        INT16.pack(key) + INT16.pack(ours.highest) + INT16.pack(ours.highest) + FLEXIBLE.tags
        for key, ours in {**CONTROL_VERSIONS, ApiKey.METADATA: client_answers.METADATA_VERSIONS}.items()
    ]
    return INT16.pack(0) + FLEXIBLE.count(len(ranges)) + b"".join(ranges) + INT32.pack(0) + FLEXIBLE.tags


def _no_error(api_key: int) -> bytes:
    """The shortest valid answer: no error for the whole request, and no partition that had one of its own."""
    rows = b"" if api_key == ApiKey.UPDATE_METADATA else FLEXIBLE.count(0)
    return INT16.pack(0) + rows + FLEXIBLE.tags


_BODIES: Final = {
    ApiKey.API_VERSIONS: _api_versions(),
    ApiKey.DESCRIBE_CONFIGS: client_answers.settings(),
    **{key: _no_error(key) for key in CONTROL_VERSIONS},
}


def answer(frame: bytes | bytearray, *, in_full: bool = False, metadata: bytes = b"") -> bytes:
    """Encode the response to any request, without an error.

    The response to a StopReplica names every partition: a controller learns from it which replicas are deleted.

    :param in_full: whether the response to a LeaderAndIsr names every partition, as a real broker's does
    :param metadata: the body of the response to a Metadata request
    """
    api_key, version, correlation_id, _ = peek_request(bytes(frame[:8]))
    start = encode_response_header(api_key, version, correlation_id)
    if in_full and api_key == ApiKey.LEADER_AND_ISR:
        return encode_frame(start, INT16.pack(0), leader_and_isr_rows(bytes(frame)), FLEXIBLE.tags)
    if api_key == ApiKey.STOP_REPLICA:
        return encode_frame(start, INT16.pack(0), stop_replica_rows(bytes(frame)), FLEXIBLE.tags)
    return encode_frame(start, metadata if api_key == ApiKey.METADATA else _BODIES[ApiKey(api_key)])


class Stub:
    """One broker: the requests that it received, and how it answers."""

    def __init__(self) -> None:
        self.port = 0
        self.arrived: list[tuple[int, bytearray]] = []
        self.delay_s = 0.0
        """Seconds until an answer; negative: never."""
        self.in_full = False
        """Whether an answer names every partition."""
        self.metadata = b""
        """The answers to clients."""
        self.leader: Leader | None = None
        """The sender of AlterPartition requests, if replicas catch up."""

    def on_frame(self, frame: bytearray, transport: asyncio.Transport) -> None:
        """Keep a whole frame, if it is a control request, and answer it."""
        now = time.monotonic_ns()
        is_control = INT16.unpack_from(frame)[0] in CONTROL_VERSIONS
        if is_control:
            self.arrived.append((now, frame))
        if not is_control or self.delay_s == 0:
            transport.write(answer(frame, in_full=self.in_full, metadata=self.metadata))
        elif self.delay_s > 0:
            late = answer(frame, in_full=self.in_full)
            asyncio.get_running_loop().call_later(self.delay_s, transport.write, late)
        if self.leader is not None and INT16.unpack_from(frame)[0] == ApiKey.LEADER_AND_ISR:
            self.leader.on_leader_and_isr(bytes(frame))


class Connection(asyncio.BufferedProtocol):
    """One connection to a stub. Frames are received into the memory in which they are kept."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._begin(INT32.size, is_size=True)

    def _begin(self, size: int, *, is_size: bool) -> None:
        self._buffer, self._filled, self._is_size = bytearray(size), 0, is_size

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport of the client that connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the memory for the next bytes."""
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count the bytes that arrived, and hand a whole frame to the stub."""
        self._filled += nbytes
        if self._filled < len(self._buffer):
            return
        if self._is_size:
            self._begin(INT32.unpack(self._buffer)[0], is_size=False)
        else:
            whole = self._buffer
            self._begin(INT32.size, is_size=True)
            self._stub.on_frame(whole, self._transport)


def _save(stubs: list[Stub], path: Path) -> None:
    with path.open("wb") as file:
        for broker, stub in enumerate(stubs, 1):
            for at_ns, frame in stub.arrived:
                file.write(_SAVED.pack(broker, at_ns, len(frame)))
                file.write(frame)


def _execute(stubs: list[Stub], command: dict[str, Any]) -> object:
    match command:
        case {"do": "count"}:
            return [len(stub.arrived) for stub in stubs]
        case {"do": "delay", "broker": broker, "seconds": seconds}:
            stubs[broker - 1].delay_s = seconds
            return "done"
        case {"do": "answer in full"}:
            for stub in stubs:
                stub.in_full = True
            return "done"
        case {"do": "serve metadata", "partitions": partitions}:
            return _serve_metadata(stubs, partitions)
        case {"do": "catch up", "port": port, "epochs": epochs}:
            return _catch_up(stubs, port, {int(broker): epoch for broker, epoch in epochs.items()})
        case {"do": "save", "path": path}:
            _save(stubs, Path(path))
            return "done"
        case _:
            return f"no such command: {command}"


_working: Final = set[asyncio.Task[None]]()


def _catch_up(stubs: list[Stub], port: int, epochs: dict[int, int]) -> str:
    for broker, stub in enumerate(stubs, 1):
        stub.leader = Leader(broker, LOOPBACK, port, epochs)
        _working.add(asyncio.create_task(stub.leader.run()))
    return "done"


def _serve_metadata(stubs: list[Stub], partitions: int) -> str:
    body = client_answers.metadata(partitions, {BrokerId(n): stub.port for n, stub in enumerate(stubs, 1)}, LOOPBACK)
    for stub in stubs:
        stub.metadata = body
    return "done"


async def _main(number: int) -> None:
    loop = asyncio.get_running_loop()
    stubs = [Stub() for _ in range(number)]
    servers = [await loop.create_server(partial(Connection, stub), LOOPBACK, 0) for stub in stubs]
    for stub, server in zip(stubs, servers, strict=True):
        stub.port = server.sockets[0].getsockname()[1]
    print(json.dumps([stub.port for stub in stubs]), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(_execute(stubs, json.loads(line))), flush=True)


# -- in the process of the benchmark -----------------------------------------------------------------------------------


class StubBrokers:
    """A handle on the process of the stubs; ``ports`` in the order of the broker ids, which begin at 1."""

    def __init__(self, process: Process, ports: list[int]) -> None:
        self._process = process
        self.pid = process.pid
        self.ports = ports

    async def count(self) -> list[int]:
        """Return the number of control requests that each stub received so far."""
        return [int(number) for number in await self._ask(do="count")]

    async def slow_down(self, broker: int, seconds: float) -> None:
        """Let a stub answer this many seconds late from now on."""
        await self._ask(do="delay", broker=broker, seconds=seconds)

    async def silence(self, broker: int) -> None:
        """Let a stub answer nothing from now on."""
        await self._ask(do="delay", broker=broker, seconds=_SILENT)

    async def answer_in_full(self) -> None:
        """Let every stub name each partition in its answers from now on."""
        await self._ask(do="answer in full")

    async def serve_metadata(self, partitions: int) -> None:
        """Let every stub answer Metadata requests from now on, with the prepared cluster of this size."""
        await self._ask(do="serve metadata", partitions=partitions)

    async def catch_up(self, port: int, epochs: Mapping[BrokerId, int]) -> None:
        """Let added replicas be in sync at once: leaders send AlterPartition to this port from now on."""
        await self._ask(do="catch up", port=port, epochs=epochs)

    async def save(self, path: Path) -> None:
        """Write every received frame to a file, for ``read_saved``."""
        await self._ask(do="save", path=str(path))

    async def _ask(self, **command: object) -> Any:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(command).encode() + b"\n")
        await stdin.drain()
        return await _json_line(self._process)


def read_saved(path: Path) -> Iterator[ReceivedFrame]:
    """Read what ``StubBrokers.save`` wrote: broker by broker, in the order of arrival."""
    with path.open("rb") as file:
        while head := file.read(_SAVED.size):
            broker, at_ns, size = _SAVED.unpack(head)
            yield ReceivedFrame(broker, at_ns, file.read(size))


async def _json_line(process: Process) -> Any:
    assert process.stdout is not None
    return json.loads(await asyncio.wait_for(process.stdout.readline(), _ANSWER_S))


@asynccontextmanager
async def stub_brokers(number: int) -> AsyncIterator[StubBrokers]:
    """Start this many stubs, and end them at the end of the block."""
    command = (sys.executable, "-m", "bench.stubs", str(number))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield StubBrokers(process, await _json_line(process))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
