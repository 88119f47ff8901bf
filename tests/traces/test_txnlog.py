"""ZooKeeper's transaction log is read correctly, from a real server."""

import pytest

from controllerd.dev.txnlog import Logged, LoggedTransaction
from controllerd.zk.access import Create, Delete, SetData
from tests.traces.outsiders import Outsiders
from tests.traces.real_rig import TraceServer

ROOT = "/txnlog"


def written(server: TraceServer) -> list[LoggedTransaction]:
    """The multi transactions that were logged since the last call: the ones of these tests."""
    return [found for found in server.log.read_new() if len(found.operations) > 1]


@pytest.mark.zookeeper
async def test_every_operation_is_read_with_its_data_and_version(server: TraceServer) -> None:
    outsiders = Outsiders(server.address + ROOT)
    try:
        zxid = await outsiders.act("test", [Create("/a", None), Create("/b", b"1", ephemeral=True)])
        await outsiders.act("test", [SetData("/a", b"2", 0), Delete("/b")])

        first, second = written(server)

        assert first.zxid == zxid
        assert first.operations == (
            Logged("create", f"{ROOT}/a"),
            Logged("create", f"{ROOT}/b", b"1", ephemeral=True),
        )
        assert second.operations == (Logged("setData", f"{ROOT}/a", b"2", 1), Logged("delete", f"{ROOT}/b"))
        assert first.session_id == second.session_id
        assert written(server) == []
    finally:
        await outsiders.close()


@pytest.mark.zookeeper
async def test_a_refused_transaction_is_read_as_refused_though_it_begins_well(server: TraceServer) -> None:
    outsiders = Outsiders(server.address + ROOT)
    try:
        with pytest.raises(AssertionError, match="Aborted"):
            await outsiders.act("test", [Create("/c", None), Delete("/not there")])

        (refused,) = written(server)

        assert refused.was_refused
        assert refused.operations == (Logged("create", f"{ROOT}/c"), Logged("refused", error="NoNode"))
    finally:
        await outsiders.close()
