"""Brokers that acknowledge every control request and count it, in a process of their own: what they cost is not ours.

``python -m bench.stubs N`` listens N times on 127.0.0.1 and prints the ports as a JSON list. Each line on its standard
input is answered by a line with what arrived so far; the end of the input ends the process.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from wire.framing import encode_frame, encode_response_header, peek_request, read_frame
from wire.primitives import INT16, INT32, Format
from wire.versions import CONTROL_VERSIONS, ApiKey, is_flexible

LOOPBACK: Final = "127.0.0.1"
_API_VERSIONS: Final = 3
_HAS_ROWS: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA})
_ANSWER_S: Final = 30.0

Arrived = Mapping[str, tuple[int, int]]
"""Of one broker: the name of an API to the requests that arrived and their bytes."""


# -- in the process of the stubs ---------------------------------------------------------------------------------------


def _api_versions() -> bytes:
    flexible = Format(flexible=True)
    ranges = [
        INT16.pack(key) + INT16.pack(ours.lowest) + INT16.pack(ours.highest) + flexible.tags
        for key, ours in CONTROL_VERSIONS.items()
    ]
    return INT16.pack(0) + flexible.count(len(ranges)) + b"".join(ranges) + INT32.pack(0) + flexible.tags


def answer(frame: bytes) -> bytes:
    """No error, for the whole request and so for every partition of it."""
    header = peek_request(frame)
    start = encode_response_header(header.api_key, header.version, header.correlation_id)
    if header.api_key == ApiKey.API_VERSIONS:
        return encode_frame(start, _api_versions())
    form = Format(flexible=is_flexible(header.api_key, header.version))
    rows = form.count(0) if header.api_key in _HAS_ROWS else b""
    return encode_frame(start, INT16.pack(0), rows, form.tags)


class _Stub:
    """One broker."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Acknowledge what comes until the controller hangs up."""
        try:
            while (frame := await read_frame(reader)) is not None:
                self._count(frame)
                writer.write(answer(frame))
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()

    def _count(self, frame: bytes) -> None:
        api = ApiKey(peek_request(frame).api_key)
        if api in CONTROL_VERSIONS:
            self.requests[api.name] += 1
            self.bytes[api.name] += INT32.size + len(frame)

    def report(self) -> dict[str, tuple[int, int]]:
        """What arrived so far."""
        return {api: (self.requests[api], self.bytes[api]) for api in self.requests}


async def _main(number: int) -> None:
    stubs = [_Stub() for _ in range(number)]
    servers = [await asyncio.start_server(stub.serve, LOOPBACK, 0) for stub in stubs]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps([stub.report() for stub in stubs]), flush=True)


# -- in the process of the benchmark -----------------------------------------------------------------------------------


class StubBrokers:
    """The process of the stubs, seen from outside; ``ports`` in the order of the stubs."""

    def __init__(self, process: Process, ports: list[int]) -> None:
        self._process = process
        self.ports = ports

    async def arrived(self) -> list[Arrived]:
        """What each stub got so far."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(b"\n")
        await stdin.drain()
        reports = await _json_line(self._process)
        return [{api: (requests, size) for api, (requests, size) in report.items()} for report in reports]


async def _json_line(process: Process) -> list[Any]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), _ANSWER_S)
    answered: list[Any] = json.loads(line)
    return answered


@asynccontextmanager
async def stub_brokers(number: int) -> AsyncIterator[StubBrokers]:
    """So many stubs, gone at the end of the block."""
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
