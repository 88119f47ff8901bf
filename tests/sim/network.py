"""The network between controllers and brokers: bytes in order on each link, late, and lost only when a link is cut.

It takes the place of TCP: an instance gets a ``wire.transport.Transport`` of its own, a broker listens at an address.
Bytes that an instance wrote arrive although it hangs up or dies right after, as from a kernel's socket buffer; only a
cut loses bytes. A frozen instance finds its bytes waiting when it goes on, since its own tasks read them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Final, NamedTuple, Protocol

from tests.sim.loop import VirtualLoop

_FOR_EVER_S: Final = 1e6
_NETWORK: Final = "network"

Address = tuple[str, int]


class Range(NamedTuple):
    """A range of seconds from which a delay is drawn."""

    lowest: float
    highest: float

    def draw(self, rng: Random) -> float:
        """Draw one delay."""
        return self.lowest + (self.highest - self.lowest) * rng.random()


_USUAL: Final = Range(0.0002, 0.002)


class Server(Protocol):
    """The server that listens at an address."""

    @property
    def id(self) -> int:
        """Broker id."""
        ...

    @property
    def owner(self) -> str:
        """The owner of the callbacks that bring bytes."""
        ...

    def delay(self) -> float:
        """Draw the delay of a message that is sent now, one way, in seconds."""
        ...

    def accepts(self) -> bool | None:
        """Whether a connection can be opened now; None when connection attempts hang."""
        ...

    def arrived(self, link: "SimLink", data: bytes) -> None:
        """Take bytes of the link."""
        ...

    def hung_up(self, link: "SimLink") -> None:
        """Note that the client closed, after everything that it sent has arrived."""
        ...


class SimLink:
    """One connection: a ``wire.transport.Link`` for the instance, ``answer`` and ``hang_up`` for the broker."""

    __slots__ = (
        "_back_at", "_chunk", "_chunk_at", "_closed", "_ended", "_error", "_forth_at", "_inbox", "_network", "_waiter",
        "owner", "received", "server",
    )  # fmt: skip

    def __init__(self, network: "SimNetwork", owner: str, server: Server) -> None:
        self.owner: Final = owner
        """The instance at this end."""
        self.server: Final = server
        self.received = b""
        """The server's buffer: bytes of a frame that is not complete."""
        self._network = network
        self._inbox = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._chunk: bytearray | None = None
        self._chunk_at = -1.0
        self._forth_at = self._back_at = 0.0
        self._closed = self._ended = False
        self._error: OSError | None = None

    # -- the instance's end ------------------------------------------------------------------------------------------

    async def readexactly(self, n: int, /) -> bytes:
        """Read exactly ``n`` bytes."""
        while len(self._inbox) < n:
            if self._error is not None:
                raise self._error
            if self._ended or self._closed:
                partial = bytes(self._inbox)
                self._inbox.clear()
                raise asyncio.IncompleteReadError(partial, n)
            self._waiter = self._network.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = bytes(self._inbox[:n])
        del self._inbox[:n]
        return data

    def write(self, data: bytes) -> None:
        """Write bytes; bytes of one instant travel together."""
        if self._closed or self._error is not None or self._ended:
            return
        loop = self._network.loop
        now = loop.time()
        if self._chunk is not None and self._chunk_at == now:
            self._chunk += data
            return
        self._chunk, self._chunk_at = bytearray(data), now
        self._forth_at = max(self._forth_at, now + self.server.delay())
        context = self._network.context_of(self.server.owner)
        loop.call_at(self._forth_at, self._arrive, self._chunk, context=context)
        self._network.sent(self, int.from_bytes(data[4:6]))

    async def drain(self) -> None:
        """Return at once: there is always room. :raises OSError: the connection broke."""
        if self._error is not None:
            raise self._error

    def ended(self) -> bool:
        """Whether the broker closed, and nothing is left to read."""
        return (self._ended or self._error is not None) and not self._inbox

    def abort(self) -> None:
        """Close; bytes that were written are on the way already."""
        if self._close():
            self._wake()

    async def wait_closed(self) -> None:
        """Return at once."""

    def vanish(self) -> None:
        """Close as ``abort`` does, without waking the killed instance."""
        self._close()

    def _close(self) -> bool:
        if self._closed:
            return False
        self._closed = True
        self._network.forget(self)
        if self._error is None:
            when = max(self._forth_at, self._network.loop.time() + self.server.delay())
            context = self._network.context_of(self.server.owner)
            self._network.loop.call_at(when, self._hung_up, context=context)
        return True

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the way there -----------------------------------------------------------------------------------------------

    def _arrive(self, chunk: bytearray) -> None:
        if self._chunk is chunk:
            self._chunk = None
        if self._error is None:
            self.server.arrived(self, bytes(chunk))

    def _hung_up(self) -> None:
        if self._error is None:
            self.server.hung_up(self)

    def cut(self) -> None:
        """Break the connection now for both ends; messages on the way are lost."""
        if self._error is None and not (self._ended and self._closed):
            self._error = ConnectionResetError("the connection was cut")
            self._inbox.clear()
            self._network.forget(self)
            self._wake()

    @property
    def is_open(self) -> bool:
        """Whether both ends have it open."""
        return not (self._closed or self._ended) and self._error is None

    # -- the broker's end --------------------------------------------------------------------------------------------

    def answer(self, data: bytes, extra_s: float = 0.0) -> None:
        """Send bytes to the instance, ``extra_s`` later than a usual delay."""
        self._back(extra_s, self._receive, data)

    def hang_up(self) -> None:
        """Close from the broker's end, after all bytes that it sent."""
        self._back(0.0, self._end)

    def _back(self, extra_s: float, callback: Callable[..., None], *data: bytes) -> None:
        loop = self._network.loop
        self._back_at = max(self._back_at, loop.time() + self.server.delay() + extra_s)
        loop.call_at(self._back_at, callback, *data, context=self._network.context_of(_NETWORK))

    def _receive(self, data: bytes) -> None:
        if not self._closed and self._error is None and not self._ended:
            self._inbox += data
            self._wake()

    def _end(self) -> None:
        if not self._ended and self._error is None:
            self._ended = True
            self._network.forget(self)
            self._wake()


class SimTransport:
    """A ``wire.transport.Transport``: how one instance connects to brokers."""

    def __init__(self, network: "SimNetwork", owner: str) -> None:
        self._network = network
        self._owner = owner

    async def open(self, host: str, port: int) -> SimLink:
        """Open a new link. :raises OSError: refused, or no answer."""
        return await self._network.connect(self._owner, (host, port))


class SimNetwork:
    """All addresses and all links. ``default`` is the delay of an address without listener."""

    def __init__(self, loop: VirtualLoop, rng: Random, default: Range = _USUAL) -> None:
        self.loop = loop
        self.frames: Counter[tuple[str, int]] = Counter()
        """How many frames each owner sent to each broker, ApiVersions included."""
        self.on_send: list[Callable[[str, int, int], None]] = []
        """Called with owner, broker id and api key in the very call that writes the bytes."""
        self._rng = rng
        self._default = default
        self._servers: dict[Address, Server] = {}
        self._links: dict[SimLink, None] = {}
        self._blocked: set[tuple[str, int]] = set()

    def context_of(self, owner: str) -> Context:
        """The context of callbacks of that owner."""
        return self.loop.context_of(owner)

    def transport(self, owner: str) -> SimTransport:
        """The transport of an instance."""
        return SimTransport(self, owner)

    # -- brokers -----------------------------------------------------------------------------------------------------

    def listen(self, address: Address, server: Server) -> None:
        """Let this server listen at the address from now on."""
        self._servers[address] = server

    def leave(self, server: Server) -> None:
        """Remove all addresses of this server; its links end."""
        for address in [address for address, known in self._servers.items() if known is server]:
            del self._servers[address]
        self.hang_up(server)

    def hang_up(self, server: Server) -> None:
        """Close all links of the broker, as a process that ends does."""
        for link in self.links(broker=server.id):
            link.hang_up()

    # -- instances ---------------------------------------------------------------------------------------------------

    async def connect(self, owner: str, address: Address) -> SimLink:
        """Open a new link. :raises OSError: refused, or the way is blocked."""
        server = self._servers.get(address)
        await asyncio.sleep(self._default.draw(self._rng) if server is None else server.delay())
        server = self._servers.get(address)
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {address[0]}:{address[1]}")
        accepted = None if (owner, server.id) in self._blocked else server.accepts()
        if accepted is None:
            await asyncio.sleep(_FOR_EVER_S)
            raise TimeoutError(f"{address[0]}:{address[1]} does not answer")
        if not accepted:
            raise ConnectionRefusedError(f"{address[0]}:{address[1]} refuses")
        link = SimLink(self, owner, server)
        self._links[link] = None
        return link

    def kill(self, owner: str) -> None:
        """Close the links of a killed instance; the bytes that it wrote arrive."""
        for link in self.links(owner=owner):
            link.vanish()

    # -- faults ------------------------------------------------------------------------------------------------------

    def cut(self, owner: str | None = None, broker: int | None = None) -> int:
        """Break the links of this instance and this broker (None: any) now; return how many."""
        links = self.links(owner, broker)
        for link in links:
            link.cut()
        return len(links)

    def block(self, owner: str, broker: int) -> None:
        """Cut, and prevent connections between the two until ``unblock``: attempts hang."""
        self._blocked.add((owner, broker))
        self.cut(owner, broker)

    def unblock(self, owner: str | None = None, broker: int | None = None) -> None:
        """Undo ``block``; hanging attempts keep hanging, as after lost SYNs."""
        self._blocked = {
            pair for pair in self._blocked if (owner not in {None, pair[0]}) or (broker not in {None, pair[1]})
        }

    # -- for links ---------------------------------------------------------------------------------------------------

    def links(self, owner: str | None = None, broker: int | None = None) -> list[SimLink]:
        """The open links of this instance and this broker (None: any), oldest first."""
        return [link for link in self._links if owner in {None, link.owner} and broker in {None, link.server.id}]

    def sent(self, link: SimLink, api: int) -> None:
        """Count a frame."""
        self.frames[link.owner, link.server.id] += 1
        for observer in self.on_send:
            observer(link.owner, link.server.id, api)

    def forget(self, link: SimLink) -> None:
        """Drop a link that is closed at one end at least."""
        self._links.pop(link, None)
