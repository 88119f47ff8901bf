"""SIGTERM while ZooKeeper does not answer."""

import asyncio
from pathlib import Path

import pytest

from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.daemon.daemons import STOPS_S, active, daemon, stopped
from tests.zk.proxy import ZooKeeperProxy

EVERY_REQUEST = (-11, 1, 3, 4, 8, 9, 11, 12, 14, 22, 101)


@pytest.mark.zookeeper
async def test_an_instance_whose_zookeeper_stalls_does_not_wait_for_it_to_stop(
    server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with ZooKeeperProxy(server.connect) as proxy, daemon(f"{proxy.connect}/stall", tmp_path) as instance:
        await active(instance)
        proxy.held = {opcode: asyncio.Event() for opcode in EVERY_REQUEST}

        status, took_s = await stopped(instance)

        for event in proxy.held.values():
            event.set()
    assert status == 0
    assert took_s < STOPS_S
