"""The plaintext transport: an opened and an accepted link are one connection, without an authenticated principal."""

import asyncio

import pytest

from wire.transport import PLAINTEXT, PLAINTEXT_SERVER, Link, TransportPeer

PATIENCE_S = 10.0


class Arrivals:
    """The accepted links, in order."""

    def __init__(self) -> None:
        self.links: asyncio.Queue[tuple[Link, TransportPeer]] = asyncio.Queue()

    def accept(self, link: Link, peer: TransportPeer) -> None:
        self.links.put_nowait((link, peer))

    async def next(self) -> tuple[Link, TransportPeer]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.links.get()


async def listening(arrivals: Arrivals) -> tuple[asyncio.Server, int]:
    server = await PLAINTEXT_SERVER.listen("127.0.0.1", 0, arrivals.accept)
    return server, server.sockets[0].getsockname()[1]


async def test_each_side_reads_the_bytes_of_the_other() -> None:
    arrivals = Arrivals()
    server, port = await listening(arrivals)
    await server.start_serving()
    ours = await PLAINTEXT.open("127.0.0.1", port)
    theirs, peer = await arrivals.next()

    ours.write(b"there")
    theirs.write(b"back!")
    async with asyncio.timeout(PATIENCE_S):
        assert (await theirs.readexactly(5), await ours.readexactly(5)) == (b"there", b"back!")

    assert peer.address.startswith("127.0.0.1:")
    assert peer.identity is None
    for link in (ours, theirs):
        link.abort()
        await link.wait_closed()
    server.close()
    await server.wait_closed()


async def test_nothing_is_accepted_before_the_server_serves() -> None:
    server, port = await listening(Arrivals())
    with pytest.raises(ConnectionRefusedError):
        await PLAINTEXT.open("127.0.0.1", port)
    server.close()
    await server.wait_closed()


async def test_an_address_in_use_cannot_be_bound() -> None:
    server, port = await listening(Arrivals())
    await server.start_serving()
    with pytest.raises(OSError, match="address already in use"):
        await PLAINTEXT_SERVER.listen("127.0.0.1", port, Arrivals().accept)
    server.close()
    await server.wait_closed()
