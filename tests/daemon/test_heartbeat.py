"""The heartbeat: the one task that lets requests leave again after the process slept."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from channel_manager.manager import ChannelManager
from controllerd.core.model import BrokerId
from controllerd.daemon.instance import Instance
from controllerd.errors import StoreUnavailable
from controllerd.zk.client import ZooKeeperClient
from tests.daemon.daemons import configuration
from tests.daemon.lone import SESSION_MS, Reads, Session
from tests.fakes.audit import RecordingAudit


@dataclass
class Elector:
    """Says whose the role is; ``losses`` times the session turns out to be lost instead."""

    losses: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def is_ours(self) -> bool:
        if self.losses:
            self.losses -= 1
            raise StoreUnavailable("expired")
        self.asked.set()
        return True


@dataclass
class Client:
    """The part of the ZooKeeper client that the heartbeat uses."""

    zk: Reads = field(default_factory=Reads)
    session: Session = field(default_factory=Session)
    elector: Elector = field(default_factory=Elector)


async def test_a_session_lost_during_the_validation_of_the_role_does_not_hold_requests_for_ever(node: Instance) -> None:
    """After a freeze the session mostly is over: the check itself fails, and must be made again in the next session."""
    node.context.begin_term(7, 1)
    node.guard.put_in_doubt("a test")
    client = Client(elector=Elector(losses=2))
    beats = asyncio.create_task(node.heartbeat(cast("ZooKeeperClient", client), lambda: None))

    async with asyncio.timeout(20):
        await client.elector.asked.wait()
    await asyncio.sleep(0)

    assert node.guard.may_send()

    beats.cancel()
    with suppress(asyncio.CancelledError):
        await beats


async def test_the_limit_of_a_freeze_counts_from_the_last_ping(node: Instance) -> None:
    """A ping may be a third of the session old when the process freezes, and the server counts from there."""
    node.guard._seen_at -= 0.7 * SESSION_MS / 1000

    assert not node.guard.may_send()


async def test_an_instance_without_heartbeat_ends(node: Instance) -> None:
    async def broken() -> None:
        raise RuntimeError("planted")

    task = asyncio.create_task(broken(), name="heartbeat")
    task.add_done_callback(node._task_ended)

    async with asyncio.timeout(20):
        await node.stop.wait()
    assert "heartbeat" in node.stop_reason


async def test_a_failed_sender_is_reopened_after_a_delay(node: Instance) -> None:
    """If it fails again, each round costs every broker an UpdateMetadata: it must not spin."""
    node._sender_failed(BrokerId(1), RuntimeError("planted"))

    assert len(node.queue) == 0


@dataclass
class Channels:
    """Channels that count how often all connections were closed."""

    closed: int = 0

    def disconnect(self) -> None:
        self.closed += 1


async def test_a_noticed_freeze_closes_every_connection_at_once(node: Instance) -> None:
    """Bytes in asyncio's buffers would leave by themselves, without a check of the epoch."""
    node.channels = channels = cast("ChannelManager", Channels())
    node.guard._seen_at -= 0.7 * SESSION_MS / 1000

    node.guard.tick()

    assert cast("Channels", channels).closed == 1


async def test_nothing_leaves_after_a_broker_reported_a_newer_controller(node: Instance) -> None:
    node._stale_epoch(BrokerId(1), 3)

    assert not node.guard.may_send()
    assert len(node.queue) == 1


@pytest.mark.zookeeper
async def test_a_freeze_is_judged_by_the_session_timeout_of_the_server(connect: str, tmp_path: Path) -> None:
    """The server of these tests grants 60 s at most: after 41 s of sleep its session may be over."""
    node = Instance(configuration(connect, tmp_path, session_ms=120_000), "an instance", RecordingAudit(), tuple)
    client = await node.connect()
    try:
        node.guard._seen_at -= 39.0
        assert node.guard.may_send()

        node.guard._seen_at -= 41.0
        assert not node.guard.may_send()
    finally:
        await client.close()
