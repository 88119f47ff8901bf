"""Group A, sessions: they expire, end while everything ends, are refused, and are cut with requests in flight."""

import asyncio
import threading
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import aiohttp
import pytest
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import KeeperState

from controllerd.core.model import BrokerId
from controllerd.daemon.node import ControllerNode
from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.errors import NotController, StoreUnavailable
from controllerd.zk import paths
from controllerd.zk.session import ConnectionBroken, SessionState
from events.admin import AllocateProducerIds
from events.cluster import ShutdownEventThread
from tests.scenarios.nodes import NODE, RecordedEvents, Rig, expire, kazoo_of, rig_of, session_of
from tests.zk.proxy import MULTI, ZooKeeperProxy
from tests.zk.world import until

pytestmark = pytest.mark.zookeeper

GET_DATA = 4
IN_FLIGHT = 100


async def test_a13_an_expired_controller_clears_its_queue_and_contends_in_a_new_session_kafka_4447(rig: Rig) -> None:
    async with rig.brokers(1, 2) as stubs, rig.node() as node:
        await rig.peer.add_topic("before", [[1, 2]])
        await rig.led_by("before", 1)
        old = session_of(node).session_id
        gate = rig.proxy.held[MULTI] = asyncio.Event()
        rig.proxy.requests.clear()
        await rig.peer.add_topic("t", [[1, 2], [2, 1]])
        await until(lambda: MULTI in rig.proxy.requests)
        waiting = node.instance.queue.call(AllocateProducerIds(BrokerId(NODE), -1))  # which needs ZooKeeper
        seen = {broker: len(stub.got) for broker, stub in stubs.items()}
        await expire(session_of(node), rig.server)
        ended_at = rig.written()[-1].zxid
        with pytest.raises(NotController):
            await waiting
        del rig.proxy.held[MULTI]
        gate.set()
        await rig.led_by("t", 1, 2)
        await until(lambda: node.snapshot.is_active)

        assert rig.written_by(old, since=ended_at) == []
        assert (await rig.epoch(), session_of(node).generation) == (2, 2)
        assert {state.controller_epoch for state in (await rig.states("t", 2)).values()} == {2}
        epochs = [got.entity.controller_epoch for broker, stub in stubs.items() for got in stub.got[seen[broker] :]]
        assert set(epochs) <= {2}


async def test_a14_no_new_session_is_opened_after_the_close_kafka_8121(rig: Rig) -> None:
    before = connecting()
    async with rig.node() as node:
        session, held = session_of(node), asyncio.Event()
        rig.proxy.held[MULTI] = held
        rig.proxy.requests.clear()
        expiring = asyncio.create_task(_expire_while_it_stops(rig, node))
    await expiring
    await until(lambda: connecting() == before)
    await until(lambda: not rig.proxy._writers)

    assert session.state is SessionState.CLOSED
    assert (await rig.epoch(), await rig.holder()) == (1, -1)
    with pytest.raises(StoreUnavailable):
        await session.until_connected()


def connecting() -> int:
    """How many of kazoo's clients are connected or try to be."""
    return len([thread for thread in threading.enumerate() if "zk_loop" in thread.name])


async def _expire_while_it_stops(rig: Rig, node: ControllerNode) -> None:
    """End the session while the resignation of a stopping controller is under way."""
    loop = node.instance.loop
    assert loop is not None
    await until(lambda: loop.current is not None and isinstance(loop.current.event, ShutdownEventThread))
    await until(lambda: MULTI in rig.proxy.requests)
    await expire(session_of(node), rig.server)


async def test_a15_a_server_that_asks_for_authentication_for_a_while_is_led_again_afterwards_kafka_13461(
    tmp_path: Path,
) -> None:
    """The server refuses every request of a client without authentication; the watches must come back later."""
    directory = tmp_path / "zookeeper"
    async with (
        EmbeddedZooKeeper(directory) as server,
        ZooKeeperProxy(server.connect) as proxy,
        rig_of(server.connect, "/kafka", proxy, TransactionLog(directory / "data"), tmp_path) as rig,
        rig.brokers(1),
        rig.node() as node,
    ):
        plain = (directory / "zoo.cfg").read_text()
        await restart(server, proxy, directory, f"{plain}enforce.auth.enabled=true\nenforce.auth.schemes=digest\n")
        await until(lambda: len(proxy.requests) > 0)
        await restart(server, proxy, directory, plain)
        await until(lambda: session_of(node).state is SessionState.CONNECTED)

        await rig.peer.add_topic("t", [[1]])
        await rig.led_by("t", 1)
        await until(lambda: node.snapshot.is_active)


async def restart(server: EmbeddedZooKeeper, proxy: ZooKeeperProxy, directory: Path, configuration: str) -> None:
    """Restart the server with another configuration; no request was sent to it yet."""
    proxy.is_open = False
    await server.kill()
    (directory / "zoo.cfg").write_text(configuration)
    await server.start()
    proxy.requests.clear()
    proxy.is_open = True


async def test_a15_a_controller_that_kazoo_reports_as_not_authenticated_resigns_at_once(rig: Rig) -> None:
    async with rig.brokers(1), rig.node() as node:
        assert node.instance.channels is not None
        kazoo = kazoo_of(session_of(node))
        kazoo.add_auth_async("a scheme that no server has", "who")

        await until(lambda: session_of(node).state is SessionState.LOST)
        await until(lambda: not node.snapshot.is_active)

        await until(lambda: kazoo.client_state in {KeeperState.AUTH_FAILED, KeeperState.CLOSED})
        assert node.instance.channels.stats() == []
        assert node.snapshot.reason == "the ZooKeeper session expired"
        assert await readiness_of(node) == 503
        await until(lambda: node.snapshot.is_active)  # with a new client, as soon as it is let in again


async def readiness_of(node: ControllerNode) -> int:
    """The status of ``/readyz``."""
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{node.http_port}/readyz") as answer:
        return answer.status


async def test_a16_every_request_in_flight_ends_when_the_connection_is_lost(rig: Rig) -> None:
    async with rig.node() as node:
        session = session_of(node)
        gate = rig.proxy.held[GET_DATA] = asyncio.Event()
        rig.proxy.requests.clear()
        asked = [
            asyncio.create_task(session.ask(GetData(rig.chroot + paths.CONTROLLER, None))) for _ in range(IN_FLIGHT)
        ]
        await until(lambda: GET_DATA in rig.proxy.requests)
        rig.proxy.cut()
        async with asyncio.timeout(20):
            results = await asyncio.gather(*asked, return_exceptions=True)
        gate.set()
        del rig.proxy.held[GET_DATA]

        assert {type(result) for result in results} == {ConnectionBroken}
        assert len(await rig.peer.zk.read([paths.CONTROLLER])) == 1


async def test_a16_what_the_store_asked_is_repeated_and_what_it_wrote_is_read_back(rig: Rig) -> None:
    async with rig.brokers(1, 2), rig.node() as node:
        rig.proxy.lose_answer(GET_DATA)
        await rig.peer.add_topic("t", [[1, 2]])
        await rig.led_by("t", 1)
        rig.proxy.lose_answer(MULTI)
        await rig.die(1)
        await rig.led_by("t", 2)

        assert rig.proxy.lost == 2
        assert node.snapshot.controller_epoch == 1


SEEN = {
    "/brokers/ids/7": "BrokerChange",
    "/brokers/topics/new": "TopicChange",
    "/brokers/topics/t": "PartitionModifications",
    "/isr_change_notification/isr_change_1": "IsrChangeNotification",
    "/log_dir_event_notification/log_dir_event_1": "LogDirEventNotification",
    "/admin/delete_topics/t": "TopicDeletion",
    "/admin/reassign_partitions": "ZkPartitionReassignment",
    "/admin/preferred_replica_election": "ReplicaLeaderElection",
    "/config/changes/config_change_1": "ConfigChange",
}
"""Znodes that another program writes, with their events; none may be missed."""
READ_BY_THE_RESYNC = {"BrokerChange", "TopicChange", "PartitionModifications", "ConfigChange"}
"""Events that the Resync itself replaces, or that only matter after it."""


async def after_a_reconnect(rig: Rig, *, meanwhile: Collection[str] = (), later: Collection[str] = ()) -> Counter[str]:
    """The events of a controller whose connection breaks, with writes of other programs ``meanwhile`` and ``later``."""
    async with rig.brokers(1), rig.node() as node:
        await rig.peer.add_topic("t", [[1]])
        await rig.led_by("t", 1)
        await idle(node)
        recorded = RecordedEvents(node)
        rig.proxy.is_open = False
        rig.proxy.cut()
        await until(lambda: session_of(node).state is SessionState.SUSPENDED)
        for path in meanwhile:
            await rig.peer.put(path, LOG_DIR if "log_dir" in path else TOPIC)
        rig.proxy.is_open = True
        await until(lambda: recorded.begun()["Resync"] == 1)
        await idle(node)
        for path in later:
            await rig.peer.put(path, LOG_DIR if "log_dir" in path else TOPIC)
            await until(lambda path=path: recorded.begun()[SEEN[path]] > 0, 10)  # type: ignore[misc]
            await idle(node)
        return recorded.begun()


LOG_DIR = b'{"version":1,"broker":1,"event":1}'
TOPIC = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'


async def idle(node: ControllerNode) -> None:
    """Wait until the queue is empty and no event is being handled."""
    loop = node.instance.loop
    assert loop is not None
    await until(lambda: len(node.instance.queue) == 0 and loop.current is None)


async def test_a15_after_a_reconnect_every_watch_works_again_kafka_7987(rig: Rig) -> None:
    events = await after_a_reconnect(rig, later=SEEN)

    assert set(SEEN.values()) - set(events) == set()


async def test_a15_a_request_made_while_the_connection_was_broken_is_announced(rig: Rig) -> None:
    events = await after_a_reconnect(rig, meanwhile=SEEN)

    assert set(SEEN.values()) - READ_BY_THE_RESYNC - set(events) == set()
