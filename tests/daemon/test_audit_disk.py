"""A daemon whose audit log cannot be written any more continues, or gives up its role, as configured.

The kernel limits the size of files here; on a full disk the same call fails.
"""

import resource
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controllerd.audit.heads import decode_head, decode_heads
from controllerd.audit.reader import AuditReader, fold_directory, verify
from controllerd.audit.segments import list_segments
from controllerd.dev.controllers import ControllerProcess
from controllerd.record.fold import diff_with_zookeeper
from controllerd.record.records import GapRecord
from controllerd.zk import codecs, paths
from tests.channel_manager.stub_broker import StubBroker, stub_broker
from tests.daemon.daemons import LONG_MS, NODE, active, controller, controllerd, flags, register, until
from tests.daemon.killing import observed
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

ROOM = 2_000
"""Bytes that a file may still grow: a few records."""
KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
async def stub(peer: Peer) -> AsyncIterator[StubBroker]:
    """A registered broker that answers everything well."""
    async with stub_broker(1) as running:
        await register(peer, running)
        yield running


@asynccontextmanager
async def leading(connect: str, directory: Path, settings: Mapping[str, str]) -> AsyncIterator[ControllerProcess]:
    """An instance that leads, with these settings of its audit log."""
    variables = {f"CONTROLLERD__AUDIT__{key}": value for key, value in settings.items()}
    instance = ControllerProcess(NODE, connect, directory, session_timeout_ms=LONG_MS, settings=variables)
    try:
        await instance.start()
        await active(instance)
        yield instance
    finally:
        await instance.close()


async def log_of(instance: ControllerProcess, peer: Peer) -> Path:
    """Where the instance keeps its audit log of this cluster."""
    node = await peer.node(paths.CLUSTER_ID)
    assert node is not None
    return instance.audit_directory(codecs.decode_cluster_id(node.data))


def limit_files(instance: ControllerProcess, size: int) -> None:
    """No file of the process may grow beyond this."""
    resource.prlimit(instance.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def fill(instance: ControllerProcess, peer: Peer) -> None:
    """The newest segment, and with it every file of the process, may hardly grow any more."""
    newest = list_segments(await log_of(instance, peer))[-1].path
    size = newest.stat().st_size
    assert instance.process.log_file.stat().st_size < size, "its own log must not be the first to be refused"
    limit_files(instance, size + ROOM)


async def create_topics(peer: Peer, *names: str) -> None:
    """Topics of which the controller has much to write down; each is led before the next comes."""
    for name in names:
        await peer.add_topic(name, [[1]] * 20)

        async def is_led(name: str = name) -> bool:
            return len([tp for tp in (await observed(peer)).leaderships if tp.topic == name]) == 20

        await until(is_led)


async def trouble(instance: ControllerProcess) -> str | None:
    """The error of the audit log in the status."""
    status = await instance.status()
    assert status is not None
    reason: str | None = status["audit"]["trouble"]
    return reason


async def test_the_controller_continues_without_room_for_its_log_and_writes_a_gap_record_later(
    connect: str, peer: Peer, stub: StubBroker, tmp_path: Path
) -> None:
    async with leading(connect, tmp_path, {}) as instance:
        await create_topics(peer, "before")
        await fill(instance, peer)
        await create_topics(peer, "a", "b", "c")
        assert await trouble(instance) is not None
        limit_files(instance, resource.RLIM_INFINITY)

        async def is_healed() -> bool:
            return await trouble(instance) is None

        await until(is_healed)
        await create_topics(peer, "after")
        assert await instance.process.terminate() == 0
        log = await log_of(instance, peer)

    assert verify(log).is_intact
    assert not any(isinstance(record, GapRecord) for _, record in AuditReader(log))
    assert diff_with_zookeeper(fold_directory(log), await observed(peer)) == []


async def test_the_controller_gives_up_its_role_and_ends_with_74_if_so_configured(
    connect: str, peer: Peer, stub: StubBroker, tmp_path: Path
) -> None:
    async with leading(connect, tmp_path, {"ON_FAILURE": "resign"}) as instance:
        await create_topics(peer, "before")
        await fill(instance, peer)
        await peer.add_topic("a", [[1]] * 20)
        assert await instance.process.wait_ended(timeout_s=30) == 74
        assert await controller(peer) is None
        assert "the audit log cannot be written" in instance.process.log_tail()


async def test_a_second_daemon_with_the_same_audit_directory_is_refused_with_the_name_of_the_first(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    shared = {"CONTROLLERD__AUDIT__DIR": str(tmp_path / "audit")}
    async with leading(connect, tmp_path / "one", {"DIR": str(tmp_path / "audit")}):
        second = await controllerd(*flags(connect, tmp_path / "two"), env=shared)
    assert second.code == 78
    assert "is being written by boot" in second.err
    assert "two controllerd with the same node id and cluster must not run" in second.err


async def test_heads_are_exported_signed_to_a_file_and_to_zookeeper(
    connect: str, peer: Peer, stub: StubBroker, tmp_path: Path
) -> None:
    key, file = tmp_path / "key", tmp_path / "heads"
    key.write_text(KEY)
    settings = {
        "HEAD_FILE": str(file),
        "HEAD_KEY_FILE": str(key),
        "HEAD_ZNODE": "true",
        "HEAD_JOURNAL": "true",
        "HEAD_INTERVAL_S": "1",
    }
    async with leading(connect, tmp_path / "one", settings) as instance:
        await create_topics(peer, "a")

        async def is_exported() -> bool:
            return await peer.node(paths.audit_head(NODE)) is not None

        await until(is_exported)
        node = await peer.node(paths.audit_head(NODE))
        assert await instance.process.terminate() == 0
        log = await log_of(instance, peer)
        log_tail = instance.process.log_tail()

    heads = decode_heads(file.read_bytes(), KEY.encode())
    assert node is not None
    in_zookeeper = decode_head(node.data or b"", KEY.encode())
    written = [(envelope.boot, envelope.seq) for envelope, _ in AuditReader(log)]
    assert (heads[-1].boot, heads[-1].seq) == written[-1], "the last head is that of the complete log"
    assert (in_zookeeper.boot, in_zookeeper.seq) in written
    assert in_zookeeper.head in [head.head for head in heads]
    assert "audit head" in log_tail


@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        ({"HEAD_JOURNAL": "true", "HEAD_KEY_FILE": "{tmp}/short"}, 78, "it needs 16: openssl rand"),
        ({"HEAD_KEY_FILE": "{tmp}/short"}, 78, "set audit.head_file, audit.head_journal or audit.head_znode"),
        ({"HEAD_JOURNAL": "true", "HEAD_KEY_FILE": "{tmp}/missing"}, 74, "missing"),
        ({"LEVEL": "verbose"}, 78, "expected one of off, summary, normal, full, got 'verbose'"),
    ],
)
async def test_unusable_settings_end_the_start_with_a_sentence(
    connect: str, tmp_path: Path, settings: Mapping[str, str], status: int, said: str
) -> None:
    (tmp_path / "short").write_text("abc")
    given = {f"CONTROLLERD__AUDIT__{key}": value.format(tmp=tmp_path) for key, value in settings.items()}
    ended = await controllerd(*flags(connect, tmp_path / "one"), env=given)
    assert ended.code == status
    assert said in ended.err + ended.out


@pytest.mark.parametrize("level", ["summary", "full", "off"])
async def test_a_daemon_writes_its_log_at_the_configured_level(
    connect: str, peer: Peer, stub: StubBroker, tmp_path: Path, level: str
) -> None:
    async with leading(connect, tmp_path, {"LEVEL": level, "DIGEST_INTERVAL_S": "1"}) as instance:
        await create_topics(peer, "a", "b")
        assert await instance.process.terminate() == 0
        log = await log_of(instance, peer)
    kinds = {record.kind for _, record in AuditReader(log)}
    assert ("request" in kinds, "zk" in kinds) == (level == "full", level == "full")
    if level == "off":
        assert kinds == set()
    else:
        assert diff_with_zookeeper(fold_directory(log), await observed(peer)) == []
