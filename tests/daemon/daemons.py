"""Daemons as processes of their own, and what a test sees of them from outside."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from controllerd.config.load import load_config
from controllerd.config.model import Config
from controllerd.core.model import BrokerId
from controllerd.dev.controllers import ControllerProcess
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from tests.channel_manager.stub_broker import StubBroker
from tests.cli.running import Outcome, outcome_of
from tests.zk.world import Peer

NODE = 2_000_000_000
STARTS_S = 60.0
"""The longest that a start may take on a machine that is busy with other things."""
STOPS_S = 10.0
"""A stop takes less than two seconds on a machine of its own; one that waits for ZooKeeper takes a session time-out."""
LONG_MS = 40_000
"""A session that outlives any test: what happens earlier was not brought about by its expiry."""
SHORT_MS = 2_000


@asynccontextmanager
async def daemon(
    connect: str,
    directory: Path,
    node_id: int = NODE,
    *,
    session_ms: int = LONG_MS,
    when_broker_holds: str = "standby",
) -> AsyncIterator[ControllerProcess]:
    """An instance that leads or stands by; killed at the end if it still runs."""
    process = ControllerProcess(
        node_id, connect, directory, session_timeout_ms=session_ms, when_broker_holds=when_broker_holds
    )
    try:
        process.process.start()
        await process.process.wait_until(process.is_settled, timeout_s=STARTS_S, what="settled")
        yield process
    finally:
        await process.close()


async def active(instance: ControllerProcess, *, within_s: float = STARTS_S) -> None:
    """Wait until the instance leads."""
    await instance.process.wait_until(instance.is_active, timeout_s=within_s, what="become active")


async def until(condition: Callable[[], Awaitable[bool]], *, within_s: float = STARTS_S) -> None:
    """Wait until a condition that is observed from outside holds."""
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110  # other processes are observed, which cannot set an event
            await asyncio.sleep(0.01)


async def stopped(instance: ControllerProcess) -> tuple[int, float]:
    """SIGTERM: the exit status, and the seconds from the signal to the end of the process."""
    began = time.monotonic()
    status = await instance.process.terminate(timeout_s=30)
    return status, time.monotonic() - began


async def controllerd(*arguments: str, env: Mapping[str, str] | None = None) -> Outcome:
    """``controllerd`` from beginning to end."""
    return await outcome_of(await begin(*arguments, env=env))


async def begin(*arguments: str, env: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    """``controllerd``, begun, with its output in pipes; ``env`` is added to an environment without its variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTROLLERD__")}
    command = (sys.executable, "-P", "-m", "controllerd", *arguments)
    return await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=kept | dict(env or {})
    )


def flags(connect: str, data_dir: Path) -> list[str]:
    """The least arguments of ``controllerd run``, with ports that the operating system chooses."""
    given = ["--zookeeper", connect, "--node-id", str(NODE), "--data-dir", str(data_dir)]
    return ["run", *given, "--listener", "PLAINTEXT://127.0.0.1:0", "--http", "127.0.0.1:0"]


def settings(connect: str, data_dir: Path, *, session_ms: int) -> dict[str, object]:
    """The same by key."""
    return {
        "zookeeper.connect": connect,
        "zookeeper.session_timeout_ms": str(session_ms),
        "node.id": NODE,
        "node.data_dir": str(data_dir),
        "kafka.listeners": ["PLAINTEXT://127.0.0.1:0"],
        "http.listen": "127.0.0.1:0",
    }


def configuration(connect: str, data_dir: Path, *, session_ms: int) -> Config:
    """The same as a value, for an instance inside the test's own process."""
    return load_config(None, {}, settings(connect, data_dir, session_ms=session_ms))


# -- what others do in ZooKeeper ---------------------------------------------------------------------------------------


async def controller(peer: Peer) -> codecs.ControllerZnode | None:
    """The content of ``/controller``."""
    node = await peer.node(paths.CONTROLLER)
    return codecs.decode_controller(node.data) if node is not None else None


async def hold_as_broker(peer: Peer, broker_id: int = 1) -> None:
    """Take the role as a broker's own controller does: without an instance, in the session of ``peer``."""
    await peer.put(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(7))
    held = codecs.encode_controller(codecs.ControllerZnode(broker_id, 1_700_000_000_000, None))
    await peer.act(Create(paths.CONTROLLER, held, ephemeral=True))


async def register(peer: Peer, stub: StubBroker) -> None:
    """Register a broker that answers at the stub's port, in the session of ``peer``."""
    data = codecs.encode_broker(stub.registration(), timestamp_ms=1_700_000_000_000)
    if await peer.node(paths.BROKER_IDS) is None:
        await peer.put(paths.BROKER_IDS)
    await peer.act(Create(paths.broker(BrokerId(stub.id)), data, ephemeral=True))
