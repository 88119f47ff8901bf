"""The HTTP endpoint of a whole node over a real ZooKeeper: who asked is written down, and no request finds a defect."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from controllerd.audit.reader import AuditReader
from controllerd.config.load import load_config
from controllerd.daemon.node import ControllerNode, open_node
from controllerd.identity import claim_data_dir
from controllerd.record.families.operators import AdminRecord
from tests.daemon.daemons import LONG_MS, NODE, settings, until
from tests.status.hostile.requesting import requests_made
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

ADMIN = "an admin token of tests"


@asynccontextmanager
async def leading(connect: str, directory: Path, **http: str) -> AsyncIterator[ControllerNode]:
    """A node that leads, inside this process; ``http``: keys of that section."""
    given = settings(connect, directory, session_ms=LONG_MS) | {f"http.{key}": value for key, value in http.items()}
    with claim_data_dir(directory) as identity:
        async with open_node(load_config(None, {}, given), identity) as node:

            async def is_active() -> bool:
                return node.snapshot.is_active

            await until(is_active)
            yield node


async def resync(http: aiohttp.ClientSession, address: str, **headers: str) -> int:
    """A verb that any cluster can be asked for; the status of the answer."""
    async with http.post(f"{address}/v1/resync", json={"reason": "drill"}, headers=headers) as response:
        return response.status


async def test_the_audit_log_has_the_user_of_the_socket_and_the_token_of_other_clients(
    connect: str, tmp_path: Path
) -> None:
    socket = tmp_path / "admin.sock"
    async with leading(connect, tmp_path, socket=str(socket), admin_token=ADMIN) as node:
        log, port = node.config.audit.dir / node.snapshot.cluster_id / str(NODE), node.http_port
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as local:
            by_socket = await resync(local, "http://localhost")
        async with aiohttp.ClientSession() as remote:
            by_token = await resync(remote, f"http://127.0.0.1:{port}", Authorization=f"Bearer {ADMIN}")
            without_token = await resync(remote, f"http://127.0.0.1:{port}")

    asked = [record for _, record in AuditReader(log) if isinstance(record, AdminRecord) and record.step == "asked"]
    assert {by_socket, by_token} <= {200, 202}
    assert without_token == 401
    assert [(record.verb, record.principal, record.reason) for record in asked] == [
        ("resync", f"unix:{os.getuid()}", "drill"),
        ("resync", "token:admin", "drill"),
    ]
    assert ADMIN not in repr(asked)


async def test_requests_made_from_the_document_find_no_defect(connect: str, peer: Peer, tmp_path: Path) -> None:
    async with leading(connect, tmp_path) as node:
        await peer.add_topic("orders", [[1, 2], [2, 1]])
        made = await requests_made(
            f"http://127.0.0.1:{node.http_port}", tmp_path, examples=3, phases="examples,fuzzing"
        )

    assert made >= 100
