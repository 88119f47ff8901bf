"""The life cycle of the servers of a development cluster: started, killed, started again, and closed in the end."""

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Self

from controllerd.dev.ports import ReservedPort
from controllerd.dev.processes import ChildProcess, DevError


class Server(ABC):
    """One server, or several that are started together.

    As an async context manager it runs on entry and is killed, and its ports given back, on exit.
    """

    @abstractmethod
    async def start(self) -> None:
        """Start it with the data of its last run, if any, and wait until it serves. :raises DevError: it does not."""

    @abstractmethod
    async def kill(self) -> None:
        """SIGKILL, as a crash; nothing happens when it does not run."""

    @abstractmethod
    async def close(self) -> None:
        """Kill it and give its ports back."""

    async def restart(self) -> None:
        """Kill it if it runs, then start it on the same ports with the same data."""
        await self.kill()
        await self.start()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            await self.start()
            undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class ServerProcess(Server):
    """A server that is one child process behind one port of 127.0.0.1.

    The port is chosen at construction, unless given, and kept, as is the data, over kill and restart.

    Args:
        name: what messages call it, for example `broker 1`.
        port: its port; a free one unless given.
    """

    def __init__(self, name: str, port: int = 0) -> None:
        self._name = name
        self._port = ReservedPort(port)
        self._process: ChildProcess | None = None

    @property
    def port(self) -> int:
        """Its port; the same after a restart."""
        return self._port.port

    @property
    def address(self) -> str:
        """`host:port`, as clients write it."""
        return self._port.address

    @property
    def process(self) -> ChildProcess:
        """The process, to pause, resume or look at. :raises DevError: it was never started."""
        if self._process is None:
            raise DevError(f"{self._name} was never started")
        return self._process

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused server is running."""
        return self._process is not None and self._process.running

    def launch(self) -> None:
        """Start the process without waiting for it. :raises DevError: what it needs is missing, or it runs."""
        if self._process is None:
            self._process = self._prepare()
        self._process.start()

    async def kill(self) -> None:
        """SIGKILL, as a crash; nothing happens when it does not run."""
        if self._process is not None:
            await self._process.kill()

    async def terminate(self, *, timeout_s: float = 60.0) -> int:
        """SIGTERM; gives the exit status. :raises DevError: it did not end within `timeout_s`; it is killed then."""
        return await self.process.terminate(timeout_s=timeout_s)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self.process.resume()

    async def close(self) -> None:
        """Kill it and give its port back."""
        await self.kill()
        self._port.close()

    @abstractmethod
    def _prepare(self) -> ChildProcess:
        """The process of its first start, its files written. :raises DevError: what it needs is missing."""
