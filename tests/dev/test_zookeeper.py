"""The embedded ZooKeeper is a real server that keeps its data over a crash."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controllerd.dev.processes import DevError
from controllerd.dev.zookeeper import EmbeddedZooKeeper, zookeeper_jars


@pytest.mark.zookeeper
async def test_the_server_keeps_its_address_and_its_data_over_a_crash(zookeeper: EmbeddedZooKeeper) -> None:
    before = zookeeper.connect
    client = KazooClient(before, timeout=10.0)
    client.start()
    client.create("/kept", b"yes")
    client.stop()
    client.close()
    await zookeeper.restart()
    assert zookeeper.connect == before
    client = KazooClient(zookeeper.connect, timeout=10.0)
    client.start()
    assert client.get("/kept")[0] == b"yes"
    client.stop()
    client.close()


@pytest.mark.zookeeper
async def test_the_server_grants_short_session_timeouts(zookeeper: EmbeddedZooKeeper) -> None:
    client = KazooClient(zookeeper.connect, timeout=2.0)
    client.start()
    assert client._session_timeout == 2_000
    client.stop()
    client.close()


@pytest.mark.zookeeper
async def test_a_killed_server_does_not_serve(zookeeper: EmbeddedZooKeeper) -> None:
    await zookeeper.kill()
    assert not await zookeeper.serving()


@pytest.mark.zookeeper
async def test_no_process_is_left_after_the_context(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server:
        process = server.process
    assert not process.running


def test_without_pyspark_the_error_has_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DevError, match="make setup"):
        zookeeper_jars()


def test_a_pyspark_without_the_jars_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hollow = importlib.machinery.ModuleSpec("pyspark", None, is_package=True)
    hollow.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: hollow)
    with pytest.raises(DevError, match="holds no zookeeper jar"):
        zookeeper_jars()
