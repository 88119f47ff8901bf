"""The simulated network behaves as TCP does, as far as either end can observe."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.sim.loop import VirtualLoop, run
from tests.sim.network import Range, SimLink, SimNetwork

ADDRESS = ("127.0.0.1", 9001)
DELAY_S = 0.01


class Echo:
    """A server that keeps the bytes that it gets."""

    def __init__(self) -> None:
        self.id = 1
        self.owner = "echo"
        self.got: list[bytes] = []
        self.links: list[SimLink] = []
        self.hang_ups = 0
        self.willing: bool | None = True

    def delay(self) -> float:
        return DELAY_S

    def accepts(self) -> bool | None:
        return self.willing

    def arrived(self, link: SimLink, data: bytes) -> None:
        self.got.append(data)
        self.links.append(link)

    def hung_up(self, link: SimLink) -> None:
        self.hang_ups += 1


class NetworkRig:
    """A network with one server."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, loop.rng("network"))
        self.server = Echo()
        self.network.listen(ADDRESS, self.server)
        self.transport = self.network.transport("one")

    async def open(self) -> SimLink:
        return await self.transport.open(*ADDRESS)


def on_virtual_time(story: Any) -> None:
    """Run a story that gets the network."""

    def main(loop: VirtualLoop) -> Coroutine[Any, Any, None]:
        return story(NetworkRig(loop))  # type: ignore[no-any-return]

    run(main, seed=1)


def test_what_is_written_at_one_instant_arrives_together_and_later() -> None:
    async def story(rig: NetworkRig) -> None:
        link = await rig.open()
        link.write(b"a")
        link.write(b"b")
        assert rig.server.got == []
        await asyncio.sleep(DELAY_S * 1.5)
        link.write(b"c")
        await asyncio.sleep(DELAY_S * 1.5)
        assert rig.server.got == [b"ab", b"c"]

    on_virtual_time(story)


def test_a_link_keeps_its_order_whatever_the_delays() -> None:
    async def story(rig: NetworkRig) -> None:
        rng, spread = rig.loop.rng("delays"), Range(0.001, 0.1)
        rig.server.delay = lambda: spread.draw(rng)  # type: ignore[method-assign]
        link = await rig.open()
        for number in range(20):
            link.write(bytes((number,)))
            await asyncio.sleep(0.003)
        await asyncio.sleep(1)
        assert b"".join(rig.server.got) == bytes(range(20))

    on_virtual_time(story)


def test_an_answer_is_read_in_pieces() -> None:
    async def story(rig: NetworkRig) -> None:
        link = await rig.open()
        link.write(b"?")
        await asyncio.sleep(2 * DELAY_S)
        rig.server.links[0].answer(b"12")
        rig.server.links[0].answer(b"3456")
        assert await link.readexactly(4) == b"1234"
        assert await link.readexactly(2) == b"56"

    on_virtual_time(story)


def test_a_hang_up_ends_the_stream_after_what_was_sent_before() -> None:
    async def story(rig: NetworkRig) -> None:
        link = await rig.open()
        link.write(b"?")
        await asyncio.sleep(2 * DELAY_S)
        rig.server.links[0].answer(b"12")
        rig.server.links[0].hang_up()
        with pytest.raises(asyncio.IncompleteReadError) as ended:
            await link.readexactly(4)
        assert ended.value.partial == b"12"
        assert link.ended()

    on_virtual_time(story)


def test_a_cut_loses_what_is_under_way_in_both_directions() -> None:
    async def story(rig: NetworkRig) -> None:
        link = await rig.open()
        link.write(b"first")
        await asyncio.sleep(2 * DELAY_S)
        link.write(b"lost")
        rig.server.links[0].answer(b"lost too")
        assert rig.network.cut(owner="one") == 1
        with pytest.raises(ConnectionResetError):
            await link.readexactly(1)
        await asyncio.sleep(1)
        assert rig.server.got == [b"first"]

    on_virtual_time(story)


def test_what_a_killed_instance_had_sent_arrives_before_its_hang_up() -> None:
    async def story(rig: NetworkRig) -> None:
        link = await rig.open()
        link.write(b"last words")
        rig.network.kill("one")
        await asyncio.sleep(1)
        assert (rig.server.got, rig.server.hang_ups, rig.network.links()) == ([b"last words"], 1, [])

    on_virtual_time(story)


def test_bytes_wait_for_a_frozen_instance() -> None:
    async def story(rig: NetworkRig) -> None:
        read: list[tuple[float, bytes]] = []

        async def reader() -> None:
            link = await rig.open()
            link.write(b"?")
            read.append((rig.loop.time(), await link.readexactly(1)))
            read.append((rig.loop.time(), await link.readexactly(1)))

        rig.loop.spawn("one", reader())
        await asyncio.sleep(5 * DELAY_S)
        rig.loop.freeze("one")
        rig.server.links[0].answer(b"ab")
        await asyncio.sleep(10)
        assert read == []
        rig.loop.thaw("one")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [each for _, each in read] == [b"a", b"b"]

    on_virtual_time(story)


@pytest.mark.parametrize("willing", [False, None])
def test_a_server_refuses_or_does_not_answer_at_all(*, willing: bool | None) -> None:
    async def story(rig: NetworkRig) -> None:
        rig.server.willing = willing
        with pytest.raises(ConnectionRefusedError if willing is False else TimeoutError):
            async with asyncio.timeout(5):
                await rig.open()
        assert rig.loop.time() < 1 if willing is False else rig.loop.time() >= 5

    on_virtual_time(story)


def test_an_address_without_listener_refuses() -> None:
    async def story(rig: NetworkRig) -> None:
        rig.network.leave(rig.server)
        with pytest.raises(ConnectionRefusedError):
            await rig.open()

    on_virtual_time(story)


def test_a_blocked_way_is_blocked_for_one_instance_only() -> None:
    async def story(rig: NetworkRig) -> None:
        before = await rig.open()
        rig.network.block("one", 1)
        with pytest.raises(ConnectionResetError):
            await before.readexactly(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await rig.open()
        assert (await rig.network.transport("two").open(*ADDRESS)).is_open
        rig.network.unblock("one", 1)
        assert (await rig.open()).is_open

    on_virtual_time(story)


def test_frames_are_counted_and_seen_when_they_are_sent() -> None:
    async def story(rig: NetworkRig) -> None:
        seen: list[tuple[str, int, int]] = []
        rig.network.on_send.append(lambda owner, broker, api: seen.append((owner, broker, api)))
        link = await rig.open()
        link.write(b"\0\0\0\x08\0\x06rest")
        assert seen == [("one", 1, 6)]
        assert rig.network.frames["one", 1] == 1

    on_virtual_time(story)
