"""A read-only session reads like the one below it, and neither writes nor watches."""

from pathlib import Path

import pytest

from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.errors import InvariantBroken
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Fired, Znode
from controllerd.zk.client import open_read_only
from controllerd.zk.image import read_image
from controllerd.zk.read_only import ReadOnly, read_cluster_id
from tests.fakes.audit import RecordingAudit
from tests.fakes.zookeeper import FakeZooKeeper
from tests.zk.world import Events


@pytest.fixture
def below() -> FakeZooKeeper:
    zk = FakeZooKeeper(session_id=7)
    zk.tree.put("/a", b"x")
    zk.tree.put("/a/b", b"y")
    return zk


async def test_reads_pass(below: FakeZooKeeper) -> None:
    zk = ReadOnly(below)
    below.secured.add("/a/b")

    assert zk.session_id == 7
    assert await zk.read(["/a", "/none"]) == await below.read(["/a", "/none"])
    assert await zk.children("/a", watch=True) == ["b"]
    assert await zk.have_open_acl(["/a", "/a/b"]) == [True, False]
    await zk.sync()


async def test_a_transaction_is_refused_and_not_sent(below: FakeZooKeeper) -> None:
    with pytest.raises(InvariantBroken, match="observe writes nothing, but 1 operations"):
        await ReadOnly(below).commit([[Create("/c", None)]])

    assert below.transactions == []


async def test_no_watch_is_set(below: FakeZooKeeper) -> None:
    fired: list[tuple[str, Fired]] = []
    below.on_watch = lambda path, kind: fired.append((path, kind))
    zk = ReadOnly(below)

    await zk.children("/a", watch=True)
    assert await zk.read_and_watch(["/a", "/none"], absent_too=True) == await below.read(["/a", "/none"])
    below.tree.put("/a/c")
    below.tree.put("/a", b"z")
    below.tree.put("/none")

    assert fired == []


async def test_a_background_task_runs_on_the_session(below: FakeZooKeeper) -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("done")

    ReadOnly(below).spawn(work)

    assert done == ["done"]


async def test_the_id_of_the_cluster_is_read_and_never_created(below: FakeZooKeeper) -> None:
    assert await read_cluster_id(ReadOnly(below)) is None

    below.tree.put(paths.CLUSTER_ID, codecs.encode_cluster_id("Zx3vQ1hTQ-2cF4m8o0aBcD"))

    assert await read_cluster_id(ReadOnly(below)) == "Zx3vQ1hTQ-2cF4m8o0aBcD"


@pytest.mark.zookeeper
async def test_a_read_only_session_leaves_only_its_end_in_the_transaction_log_of_the_server(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path)
    await server.start()
    try:
        client = await open_read_only(
            server.connect + "/kafka/there",
            session_timeout_ms=10_000,
            queue=Events(),
            audit=RecordingAudit(),
            connect_timeout_s=20,
        )
        ours = client.session.session_id
        image = await read_image(client.zk)
        found: list[Znode | None] = await client.zk.read_and_watch([paths.CONTROLLER], absent_too=True)
        await client.close()
        logged = TransactionLog(tmp_path / "data").read_new()
    finally:
        await server.close()

    assert (image.nodes, found) == ({}, [None])
    assert [each.op for one in logged if one.session_id == ours for each in one.operations] == ["closeSession"]
