"""The role between processes: given back, taken back, taken over, left alone."""

import time
from pathlib import Path

import pytest

from controllerd.zk import codecs, paths
from tests.daemon.daemons import (
    LONG_MS,
    NODE,
    SHORT_MS,
    STARTS_S,
    STOPS_S,
    active,
    controller,
    daemon,
    hold_as_broker,
    stopped,
    until,
)
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

OTHER = NODE + 1


async def epoch(peer: Peer) -> int:
    """The controller epoch as ZooKeeper has it."""
    node = await peer.node(paths.CONTROLLER_EPOCH)
    assert node is not None
    return codecs.decode_controller_epoch(node.data)


async def test_sigterm_gives_the_role_back_and_ends_within_two_seconds(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)

        status, took_s = await stopped(instance)

        assert await peer.node(paths.CONTROLLER) is None
        assert status == 0
        assert took_s < STOPS_S


async def test_sigterm_of_a_standby_leaves_the_role_where_it_is(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        status, took_s = await stopped(instance)

        holder = await controller(peer)
        assert holder is not None
        assert holder.broker_id == 1
        assert status == 0
        assert took_s < STOPS_S


async def test_after_sigkill_the_same_instance_takes_its_own_role_back_at_once(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path, session_ms=LONG_MS) as instance:
        await active(instance)
        left = await peer.node(paths.CONTROLLER)
        await instance.process.kill()
        killed = time.monotonic()

        await instance.start()
        await active(instance)

        assert time.monotonic() - killed < LONG_MS / 1000 / 2
        mine = await peer.node(paths.CONTROLLER)
        assert left is not None
        assert mine is not None
        assert mine.ephemeral_owner != left.ephemeral_owner
        assert await epoch(peer) == 2


async def test_a_standby_takes_over_as_soon_as_the_active_one_is_stopped(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path / "a") as first, daemon(connect, tmp_path / "b", OTHER) as second:
        await active(first)
        assert await second.role() == "standby"
        began = time.monotonic()

        await first.process.terminate()
        await active(second)

        assert time.monotonic() - began < LONG_MS / 1000 / 4
        assert await epoch(peer) == 2


async def test_a_standby_takes_over_when_the_session_of_a_killed_one_ends(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    first = daemon(connect, tmp_path / "a", session_ms=SHORT_MS)
    second = daemon(connect, tmp_path / "b", OTHER, session_ms=SHORT_MS)
    async with first as killed, second as standby:
        await active(killed)
        await killed.process.kill()

        await active(standby)

        holder = await controller(peer)
        assert holder is not None
        assert holder.broker_id == OTHER


async def test_a_role_held_by_a_broker_is_left_there_by_default(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        status = await instance.status()

    assert status is not None
    assert status["role"] == "standby"
    assert status["holder"]["kind"] == "broker"
    assert "when_broker_holds = standby" in status["reason"]
    assert await epoch(peer) == 7


async def test_a_role_held_by_a_broker_is_taken_when_configured_so(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path, when_broker_holds="takeover") as instance:
        await active(instance)
        holder = await controller(peer)

    assert holder is not None
    assert holder.broker_id == NODE
    assert await epoch(peer) == 8


async def test_a_role_held_by_another_controllerd_is_never_taken_without_being_asked(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with (
        daemon(connect, tmp_path / "a") as first,
        daemon(connect, tmp_path / "b", OTHER, when_broker_holds="takeover") as second,
    ):
        assert (await first.role(), await second.role()) == ("active", "standby")
        assert await epoch(peer) == 1


async def test_a_standby_takes_the_role_that_a_broker_lets_go(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        await peer.remove(paths.CONTROLLER)

        await active(instance)

        assert await epoch(peer) == 8


async def test_one_that_was_replaced_stands_by(connect: str, peer: Peer, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)

        await peer.lead()

        async def stands_by() -> bool:
            return await instance.role() == "standby"

        await until(stands_by, within_s=STARTS_S)
        assert await epoch(peer) == 2
