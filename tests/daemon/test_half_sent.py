"""A loop stands still with half a request in its hands: when it goes on, the other half stays where it is.

What asyncio has taken over leaves as soon as the socket takes it, and of all that a loop looks at after a stop, sockets
come first: only the look at the clock that ``serve`` puts before them closes the connection in time. The loop is made
to stand still from inside, because a process that is stopped while it waits goes on with its timers, and so with the
heartbeat: Python asks the kernel no second time when a wait was interrupted beyond its end.
"""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.daemon.freeze_guard import WakingSelector
from controllerd.daemon.run import serve
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from tests.channel_manager.stub_broker import StubBroker
from tests.daemon.daemons import STARTS_S, configuration, register, until
from tests.zk.world import THEIRS, Peer, connected
from wire.framing import encode_frame

pytestmark = pytest.mark.zookeeper

SESSION_MS: Final = 3_000
BEYOND_GUARD_S: Final = SESSION_MS / 1000 * 2 / 3 + 0.4
SMALL: Final = 4_096
LENGTH: Final = struct.Struct(">i")
MANY, LONG = 10, 30_000


class Sluggish:
    """A broker that says its versions to the first who connects, and then reads only what a test tells it to."""

    def __init__(self, listening: socket.socket) -> None:
        self.stub = StubBroker(1, port=listening.getsockname()[1])
        self._listening = listening
        self._talk: socket.socket | None = None

    async def greet(self) -> None:
        """Accept, and answer ApiVersions."""
        loop = asyncio.get_running_loop()
        self._talk, _ = await loop.sock_accept(self._listening)
        self._talk.setblocking(False)
        length = await self._read_exactly(LENGTH.size)
        frame = await self._read_exactly(LENGTH.unpack(length)[0])
        await loop.sock_sendall(self._talk, encode_frame(self.stub._api_versions(frame)))

    @property
    def talk(self) -> socket.socket:
        """The connection."""
        assert self._talk is not None
        return self._talk

    async def _read_exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += await asyncio.get_running_loop().sock_recv(self.talk, size - len(found))
        return found

    @property
    def unread(self) -> int:
        """Bytes that have arrived."""
        answer = fcntl.ioctl(self.talk, termios.FIONREAD, bytes(4))
        return int.from_bytes(answer, "little")

    def drain(self) -> bytes:
        """All that the kernel has taken from the other side, while the loop stands still."""
        found = []
        while self.unread or _unacknowledged(self.talk):
            with contextlib.suppress(BlockingIOError):
                found.append(self.talk.recv(1 << 20))
        return b"".join(found)

    async def rest(self) -> bytes:
        """The bytes up to the end of the connection."""
        found = b""
        try:
            async with asyncio.timeout(20):
                while part := await asyncio.get_running_loop().sock_recv(self.talk, 1 << 20):
                    found += part
        except ConnectionResetError:
            pass
        return found

    def close(self) -> None:
        """Both sockets."""
        self._listening.close()
        if self._talk is not None:
            self._talk.close()


def _unacknowledged(ours: socket.socket) -> int:
    """How many bytes the kernel still holds on the other side, by its own table; a row may come twice as it changes."""
    ends = [_in_table(*ours.getpeername()), _in_table(*ours.getsockname())]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    queues = [row[4] for row in rows if row[1:3] == ends]
    return max(int(queue.partition(":")[0], 16) for queue in queues)


def _in_table(host: str, port: int) -> str:
    return f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}"


@asynccontextmanager
async def sluggish() -> AsyncIterator[Sluggish]:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    listening.setblocking(False)
    broker = Sluggish(listening)
    try:
        yield broker
    finally:
        broker.close()


async def register_long_names(peer: Peer) -> None:
    """Brokers with so much to tell about themselves that no kernel takes a request with all of it at once."""
    names = [Endpoint(f"L{number}", "name." * (LONG // 5), 1) for number in range(900_000 // LONG)]
    for number in range(2, 2 + MANY):
        data = codecs.encode_broker(Broker(BrokerId(number), -1, tuple(names)))
        await peer.act(Create(paths.broker(BrokerId(number)), data, ephemeral=True))


async def until_stuck(broker: Sluggish) -> None:
    """Wait until nothing more comes: the loop waits for the socket, which takes no more."""
    before = -1
    async with asyncio.timeout(60):
        while not 0 < before == broker.unread:
            before = broker.unread
            await asyncio.sleep(0.1)


def stand_still(broker: Sluggish) -> bytes:
    """Block for so long that another instance may have the role; returns the bytes sent before."""
    began_s = time.monotonic()
    left = broker.drain()
    time.sleep(began_s + BEYOND_GUARD_S - time.monotonic())
    return left


def test_the_rest_of_a_request_does_not_leave_a_loop_that_was_frozen(connect: str, tmp_path: Path) -> None:
    waking = WakingSelector()

    async def story() -> tuple[bytes, bytes]:
        serving = asyncio.create_task(serve(configuration(connect, tmp_path, session_ms=SESSION_MS), waking))
        async with connected(connect, THEIRS, timeout_ms=30_000) as peer, sluggish() as broker:
            await until(lambda: leads(peer), within_s=STARTS_S)
            await register_long_names(peer)
            await register(peer, broker.stub)
            async with asyncio.timeout(60):
                await broker.greet()
            await until_stuck(broker)
            before, after = stand_still(broker), await broker.rest()
            serving.cancel()
            await asyncio.wait([serving])
        return before, after

    with asyncio.Runner(loop_factory=waking.loop) as runner:
        first, rest = runner.run(story())

    assert LENGTH.size < len(first) < LENGTH.unpack_from(first)[0], "half a request"
    assert len(rest) == 0


async def leads(peer: Peer) -> bool:
    """Whether there is a controller, which has ensured the znodes that it needs."""
    return await peer.node(paths.BROKER_IDS) is not None
