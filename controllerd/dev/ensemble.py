"""An ensemble of ZooKeeper servers, each a process that can be killed while the others serve."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from controllerd.dev.ports import LOOPBACK, ReservedPort
from controllerd.dev.processes import POLL_S, ChildProcess, DevError
from controllerd.dev.servers import DevServer
from controllerd.dev.zookeeper import EmbeddedZooKeeper, four_letter_word

_ANSWER_S = 2.0
_QUORUM_S = 30.0


class EnsembleServer(EmbeddedZooKeeper):
    """One server of an ensemble. It serves only while it is connected to a majority; launched alone it never serves.

    Args:
        server_id: its number within the ensemble, from 1.
        directory: as of a single server.
        tick_ms: as of a single server; also the unit of the time limits between servers.
    """

    MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

    def __init__(self, server_id: int, directory: Path, *, tick_ms: int) -> None:
        super().__init__(directory, tick_ms=tick_ms, heap_mib=128)
        self.server_id = server_id
        self._quorum_port, self._election_port = ReservedPort(), ReservedPort()
        self._members = ""

    @property
    def member(self) -> str:
        """The line for this server in the configuration of each server."""
        ports = f"{self._quorum_port.port}:{self._election_port.port}"
        return f"server.{self.server_id}={LOOPBACK}:{ports}:participant\n"

    def join(self, members: str) -> None:
        """Set the members of the ensemble; before the first start."""
        self._members = members

    async def is_leader(self) -> bool:
        """Whether it is the leader of the ensemble now."""
        return b"Mode: leader" in await self._ask(b"srvr")

    async def has_connection_of(self, session_id: int) -> bool:
        """Whether the client of that session is connected to this server."""
        return f"sid={session_id:#x},".encode() in await self._ask(b"cons")

    async def _ask(self, word: bytes) -> bytes:
        """Return the answer to a command, empty if there is none."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await four_letter_word(self.port, word)
        except OSError:  # TimeoutError is one
            return b""

    async def close(self) -> None:
        """Kill it and release its ports."""
        await super().close()
        self._quorum_port.close()
        self._election_port.close()

    def _prepare(self) -> ChildProcess:
        self.data_directory.mkdir(parents=True, exist_ok=True)
        (self.data_directory / "myid").write_text(f"{self.server_id}\n", encoding="utf-8")
        return super()._prepare()

    def _configuration(self) -> str:
        return f"{super()._configuration()}initLimit=10\nsyncLimit=4\n{self._members}"


class EmbeddedEnsemble(DevServer):
    """An ensemble on free ports of 127.0.0.1.

    Args:
        directory: each server gets a folder of its own in it.
        servers: their number; three tolerate the failure of one.
        tick_ms: the granularity of session expiry and of the servers' own timeouts, in milliseconds.
    """

    def __init__(self, directory: Path, *, servers: int = 3, tick_ms: int = 500) -> None:
        numbers = range(1, servers + 1)
        self.servers: Mapping[int, EnsembleServer] = {
            n: EnsembleServer(n, directory / f"server-{n}", tick_ms=tick_ms) for n in numbers
        }
        members = "".join(server.member for server in self.servers.values())
        for server in self.servers.values():
            server.join(members)

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`, without chroot: every server."""
        return ",".join(server.connect for server in self.servers.values())

    async def start(self) -> None:
        """Start every server and wait until all of them serve.

        Raises:
            DevError: Java or pyspark is missing, or the servers formed no quorum.
        """
        for server in self.servers.values():
            server.launch()
        await self.wait_serving(*self.servers)

    async def kill(self) -> None:
        """Send SIGKILL to every server."""
        for server in self.servers.values():
            await server.kill()

    async def wait_serving(self, *server_ids: int) -> None:
        """Wait until these servers serve. :raises DevError: a server ended, or does not serve in time."""
        for number in server_ids:
            server = self.servers[number]
            await server.process.wait_until(server.serving, timeout_s=_QUORUM_S, what="joined a quorum")

    async def leader(self) -> int:
        """Return the number of the leader; wait while there is none. :raises DevError: there is none in time."""
        return await self._find(EnsembleServer.is_leader, "leads")

    async def serves(self, session_id: int) -> int:
        """Return the server that the client of a session is connected to; wait until there is one.

        :raises DevError: there is none in time
        """
        return await self._find(lambda server: server.has_connection_of(session_id), f"serves {session_id:#x}")

    async def _find(self, matches: Callable[[EnsembleServer], Awaitable[bool]], what: str) -> int:
        deadline = time.monotonic() + _QUORUM_S
        while time.monotonic() < deadline:
            for number, server in self.servers.items():
                if await matches(server):
                    return number
            await asyncio.sleep(POLL_S)
        raise DevError(f"no server of the ensemble {what} within {_QUORUM_S:g} s")

    async def close(self) -> None:
        """Kill every server and release the ports."""
        for server in self.servers.values():
            await server.close()
