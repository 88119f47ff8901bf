"""Makes and ends kazoo's clients. Only this module knows of their threads; another ``KazooDriver`` can replace it.

kazoo has no public way to send a request that it does not know, and to receive its answer without a thread in between.
So the session uses a few of its private names. ``Kazoo`` lists all of them.
"""

import threading
from asyncio import AbstractEventLoop, Event, get_running_loop
from collections.abc import Callable, MutableMapping
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.protocol.serialization import Connect
from kazoo.retry import KazooRetry

_RECONNECT_DELAY_S: Final = 0.1
_LONGEST_RECONNECT_DELAY_S: Final = 1.0
_FEWEST_SERVERS: Final = 3


class ReplyTarget(Protocol):
    """Receives the answer to a request from kazoo."""

    def set(self, value: object = None) -> None:
        """Take the answer to a request that succeeded."""
        ...

    def set_exception(self, error: Exception) -> None:
        """Take the error of a request that failed."""
        ...


class Kazoo(Protocol):
    """The part of a ``KazooClient`` that is used."""

    chroot: str

    @property
    def client_state(self) -> str:
        """The state, one of kazoo's ``KeeperState``."""
        ...

    negotiated_timeout_s: float | None
    """The session time-out that the server granted with the last connection; None before the first."""
    _session_id: int | None
    _data_watchers: MutableMapping[str, set[Callable[..., object]]]

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """Call ``listener`` with each new ``KazooState``."""
        ...

    def start_async(self) -> object:
        """Begin to connect."""
        ...

    def _call(self, request: Any, async_object: ReplyTarget) -> object: ...


class KazooDriver(Protocol):
    """Makes clients and ends them."""

    def make(self, hosts: str, timeout_s: float) -> Kazoo:
        """Return a client that is not started yet; ``timeout_s`` is the session time-out to request."""
        ...

    async def end(self, client: Kazoo) -> None:
        """Close the session and the client. A cancelled call goes on in the background."""
        ...


class NegotiatingClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A ``KazooClient`` that keeps the session time-out that the server granted.

    A server raises the requested time-out to its ``minSessionTimeout`` or cuts it to its
    ``maxSessionTimeout``. kazoo uses the answer for its own pings and does not keep it.
    """

    def __init__(self, hosts: str, **options: Any) -> None:
        """Take the arguments of ``KazooClient``."""
        super().__init__(hosts, **options)
        self.negotiated_timeout_s: float | None = None
        self._send_and_read = self._connection._invoke  # noqa: SLF001
        self._connection._invoke = self._invoke  # noqa: SLF001  # the connection calls it before it reports a state

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = self._send_and_read(timeout, request, xid)
        if isinstance(request, Connect):
            self._keep_timeout(answer[0].time_out)
        return answer

    def _keep_timeout(self, granted_ms: int) -> None:
        """Keep the granted time-out; zero is the answer for a session that has expired."""
        if granted_ms > 0:
            self.negotiated_timeout_s = granted_ms / 1000


class ThreadedKazoo:
    """Makes real clients of kazoo, which try to connect without end, and stops each in a thread of its own."""

    def make(self, hosts: str, timeout_s: float) -> Kazoo:
        """Return a ``NegotiatingClient``."""
        retry = KazooRetry(max_tries=-1, delay=_RECONNECT_DELAY_S, backoff=2, max_delay=_LONGEST_RECONNECT_DELAY_S)
        return NegotiatingClient(named_often_enough(hosts), timeout=timeout_s, connection_retry=retry)

    async def end(self, client: Kazoo) -> None:
        """Stop the client and close its sockets."""
        stopped = Event()
        # Not a thread of the default executor: the exit waits for its threads, and an attempt to connect may take long.
        threading.Thread(target=_stop, args=(client, get_running_loop(), stopped), daemon=True).start()
        await stopped.wait()


def named_often_enough(hosts: str) -> str:
    """Return ``hosts`` with its servers repeated until there are three or more.

    kazoo waits for the answer to a handshake for the session time-out divided by the number of servers, as Java's
    client does. A standalone server that is just starting may accept a connection and never answer: if it is the only
    server and named once, the session expires meanwhile.
    """
    servers, slash, chroot = hosts.partition("/")
    times = -(-_FEWEST_SERVERS // len(servers.split(",")))
    return ",".join([servers] * times) + slash + chroot


def _stop(client: Any, loop: AbstractEventLoop, stopped: Event) -> None:
    client.stop()
    client.close()
    hop(loop, stopped.set)


def hop(loop: AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> None:
    """Run ``callback`` in the loop's thread. Do nothing once the loop is closed, because no task waits any more."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback, *arguments)


THREADED: Final = ThreadedKazoo()
