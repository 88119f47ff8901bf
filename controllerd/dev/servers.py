"""The life cycle of the servers of a development cluster: start, kill, restart and close."""

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Self

from controllerd.dev.ports import ReservedPort
from controllerd.dev.processes import ChildProcess, DevError


class DevServer(ABC):
    """One server, or several that are started together.

    As an async context manager it is started on entry. On exit it is killed, and its ports are released.
    """

    @abstractmethod
    async def start(self) -> None:
        """Start with the data of the last run, if any, and wait until it serves. :raises DevError: it does not."""

    @abstractmethod
    async def kill(self) -> None:
        """Send SIGKILL, as a crash; do nothing if it does not run."""

    @abstractmethod
    async def close(self) -> None:
        """Kill it and release its ports."""

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


class ServerProcess(DevServer):
    """A server that is one child process behind one port of 127.0.0.1.

    The port is chosen at construction, unless given, and kept, as is the data, over kill and restart.

    Args:
        name: its name in messages, for example `broker 1`.
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
        """The `host:port` for clients."""
        return self._port.address

    @property
    def process(self) -> ChildProcess:
        """The process. :raises DevError: it was never started."""
        if self._process is None:
            raise DevError(f"{self._name} was never started")
        return self._process

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused server is running."""
        return self._process is not None and self._process.running

    def launch(self) -> None:
        """Start the process without waiting. :raises DevError: a requirement is missing, or it runs already."""
        if self._process is None:
            self._process = self._prepare()
        self._process.start()

    async def kill(self) -> None:
        """Send SIGKILL, as a crash; do nothing if it does not run."""
        if self._process is not None:
            await self._process.kill()

    async def terminate(self, *, timeout_s: float = 60.0) -> int:
        """Send SIGTERM; return the exit status. :raises DevError: it did not end within `timeout_s`, and was killed."""
        return await self.process.terminate(timeout_s=timeout_s)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self.process.pause()

    def resume(self) -> None:
        """Let it continue (SIGCONT)."""
        self.process.resume()

    async def close(self) -> None:
        """Kill it and release its port."""
        await self.kill()
        self._port.close()

    @abstractmethod
    def _prepare(self) -> ChildProcess:
        """Write its files, and return the process to start. :raises DevError: a requirement is missing."""
