"""An instance that only watches, beside a controller whose part the test plays in a real ZooKeeper."""

import asyncio
import json
import signal
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllerd.audit.reader import AuditReader
from controllerd.config.load import load_config
from controllerd.config.model import Config
from controllerd.core.cluster_settings import PROTOCOL_VERSION, UNCLEAN
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.daemon.observing import ObservingNode, open_observer
from controllerd.daemon.settings_memory import SETTINGS_FILE
from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.errors import NoCluster
from controllerd.identity import claim_data_dir
from controllerd.observer.observer import Observer
from controllerd.record.families.operators import ObservationRecord
from controllerd.views import Role
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, Create, Delete, SetData
from tests.daemon.daemons import LONG_MS, NODE, STARTS_S, begin, controllerd, hold_as_broker
from tests.daemon.supervisor import Supervisor
from tests.fakes.settings_broker import SettingsBroker
from tests.fakes.world import registration
from tests.scenarios.nodes import expire
from tests.zk.proxy import ZooKeeperProxy
from tests.zk.world import Peer, until

pytestmark = pytest.mark.zookeeper

CLUSTER = "F3b7X-qcQQO2zc0sIq49Pw"
TOPICS = {"t": [[1, 2, 3], [2, 3, 1]], "u": [[1, 3]]}
UNREACHABLE = 69


class BuiltIn:
    """A cluster of three brokers, and the controller inside one of them, whose writes the test decides on."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.epoch = 7

    async def begin(self) -> "BuiltIn":
        """Everything is led by its preferred replica, and all are in sync."""
        await self.peer.put(paths.CLUSTER_ID, codecs.encode_cluster_id(CLUSTER))
        await hold_as_broker(self.peer, 3)
        await self.peer.put(paths.BROKER_IDS)
        for broker in (1, 2, 3):
            await self.register(broker)
        for topic, assignment in TOPICS.items():
            await self.peer.add_topic(topic, assignment)
            await self.peer.put(paths.topic_partitions(topic))
            for number, replicas in enumerate(assignment):
                await self.begin_partition(TopicPartition(topic, number), replicas)
        return self

    async def register(self, broker: int, port: int | None = None) -> None:
        data = registration(broker, port or 9000 + broker)
        await self.peer.act(Create(paths.broker(BrokerId(broker)), data, ephemeral=True))

    async def begin_partition(self, tp: TopicPartition, replicas: Sequence[int]) -> None:
        state = codecs.encode_state(state_of(replicas[0], 0, replicas, self.epoch))
        folder = paths.partition_state(tp).rpartition("/")[0]
        await self.peer.act(Create(folder, None), Create(paths.partition_state(tp), state))

    async def write(self, tp: TopicPartition, leader: int, leader_epoch: int, isr: Sequence[int]) -> None:
        """Write a decision of the controller."""
        state = codecs.encode_state(state_of(leader, leader_epoch, isr, self.epoch))
        await self.peer.act(SetData(paths.partition_state(tp), state, ANY_VERSION))

    async def die(self, broker: int) -> None:
        await self.peer.remove(paths.broker(BrokerId(broker)))

    async def take_over(self, broker: int) -> None:
        """Another broker's controller takes the role."""
        self.epoch += 1
        held = codecs.encode_controller(codecs.ControllerZnode(broker, 1_700_000_100_000, None))
        epoch = SetData(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(self.epoch), ANY_VERSION)
        await self.peer.act(Delete(paths.CONTROLLER), Create(paths.CONTROLLER, held, ephemeral=True), epoch)

    async def elect_without(self, broker: int) -> None:
        """Write the states of a controller after a broker failure: the first member left in the ISR leads."""
        for topic, assignment in TOPICS.items():
            for number, replicas in enumerate(assignment):
                left = [replica for replica in replicas if replica != broker]
                if broker in replicas:
                    await self.write(TopicPartition(topic, number), left[0], 1, left)


def state_of(leader: int, leader_epoch: int, isr: Sequence[int], controller_epoch: int) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), leader_epoch, tuple(map(BrokerId, isr)), controller_epoch, 0)


DECIDING = {
    "kafka.inter_broker_protocol_version": "3.9",
    "kafka.delete_topic_enable": "true",
    "kafka.unclean_leader_election_enable": "false",
}
"""The settings for elections, which brokers without answers cannot give."""


def settings(connect: str, directory: Path, configured: Mapping[str, object] = DECIDING) -> Config:
    given: dict[str, object] = {
        **configured,
        "zookeeper.connect": connect,
        "zookeeper.session_timeout_ms": str(LONG_MS),
        "node.id": NODE,
        "node.data_dir": str(directory),
        "http.listen": "127.0.0.1:0",
        "controller.mode": "observe",
        "controller.observe_interval_ms": "20",
    }
    return load_config(None, {}, given)


@asynccontextmanager
async def watching(config: Config) -> AsyncIterator[tuple[ObservingNode, Observer]]:
    """An instance that has looked once."""
    async with AsyncExitStack() as stack:
        identity = stack.enter_context(claim_data_dir(config.node.data_dir))
        node = await stack.enter_async_context(open_observer(config, identity))
        await until(lambda: node.snapshot.role is Role.OBSERVER)
        assert node.observer is not None
        yield node, node.observer


async def settled(observer: Observer, partitions: int) -> dict[tuple[str, str], int]:
    """The totals of the report, as soon as it has so many partitions."""
    await until(lambda: observer.report.totals.total() >= partitions)
    return dict(observer.report.totals)


@pytest.fixture
async def cluster(peer: Peer) -> BuiltIn:
    return await BuiltIn(peer).begin()


def written_by(session_id: int, server: EmbeddedZooKeeper) -> list[str]:
    """Every operation of a session in the server's own transaction log, its beginning aside."""
    logged = TransactionLog(server.data_directory).read_new()
    ours = [transaction for transaction in logged if transaction.session_id == session_id]
    assert ours, "not even its beginning"
    return [each.op for transaction in ours for each in transaction.operations]


# -- beside a controller -----------------------------------------------------------------------------------------------


async def test_after_a_broker_failure_the_dry_run_elects_the_same_leaders_without_a_write(
    cluster: BuiltIn, connect: str, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with watching(settings(connect, tmp_path)) as (node, observer):
        assert node.client is not None
        session_id = node.client.session.session_id
        await cluster.die(1)
        await cluster.elect_without(1)
        found = await settled(observer, 3)

    assert found == {("broker died", "equal"): 3}
    assert written_by(session_id, server) == ["closeSession"]


async def test_after_a_failure_of_the_controller_the_next_one_elects_as_the_dry_run(
    cluster: BuiltIn, connect: str, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with watching(settings(connect, tmp_path)) as (node, observer):
        assert node.client is not None
        session_id = node.client.session.session_id
        await cluster.die(3)
        await cluster.take_over(2)
        await cluster.elect_without(3)
        found = await settled(observer, 3)
        holder, epoch = node.snapshot.holder, node.snapshot.controller_epoch

    assert found == {("broker died", "equal"): 3}
    assert (str(holder), epoch) == ("broker 2 (built-in)", 8)
    assert written_by(session_id, server) == ["closeSession"]


async def test_a_leader_unlike_the_dry_run_is_reported(cluster: BuiltIn, connect: str, tmp_path: Path) -> None:
    config = settings(connect, tmp_path)
    async with watching(config) as (_, observer):
        await cluster.die(1)
        await cluster.write(TopicPartition("t", 0), 3, 1, [2, 3])
        await cluster.write(TopicPartition("t", 1), 2, 1, [2, 3])
        await cluster.write(TopicPartition("u", 0), 3, 1, [3])
        found = await settled(observer, 3)

    assert found == {("broker died", "equal"): 2, ("broker died", "different"): 1}
    log = AuditReader(config.audit.dir / CLUSTER / str(NODE))
    (observed,) = [record for _, record in log if isinstance(record, ObservationRecord)]
    verdicts = dict(zip(zip(observed.topics, observed.partitions, strict=True), observed.verdicts, strict=True))
    assert verdicts == {("t", 0): "different: leader", ("t", 1): "equal", ("u", 0): "equal"}


async def test_the_cluster_is_shown_as_it_is(cluster: BuiltIn, connect: str, tmp_path: Path) -> None:
    async with watching(settings(connect, tmp_path)) as (node, _):
        before = {name: len(view.partitions) for name, view in node.snapshot.topics.items()}
        await cluster.die(1)
        await until(lambda: set(node.snapshot.brokers) == {2, 3})
        offline = node.snapshot.offline_partitions
        await cluster.elect_without(1)
        await until(lambda: node.snapshot.offline_partitions == 0)

    assert (before, offline) == ({"t": 2, "u": 1}, 2)
    assert node.snapshot.cluster_id == CLUSTER


async def test_while_every_image_is_torn_the_snapshot_is_reported_as_old(
    cluster: BuiltIn, connect: str, tmp_path: Path
) -> None:
    async def write_on() -> None:
        while True:
            await cluster.peer.act(SetData(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(7), ANY_VERSION))

    async with watching(settings(connect, tmp_path)) as (node, observer):
        writing = asyncio.create_task(write_on())
        await until(lambda: observer.torn > 0)
        reason = node.snapshot.reason
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await until(lambda: node.snapshot.reason == "watches broker 3 (built-in)")

    assert reason == "brokers or the controller change during each reading: the snapshot may be out of date"


async def test_a_cluster_that_this_instance_would_refuse_to_lead_is_observed_all_the_same(
    cluster: BuiltIn, connect: str, tmp_path: Path
) -> None:
    await cluster.peer.put(paths.MIGRATION, b"{}")

    async with watching(settings(connect, tmp_path)) as (node, _):
        reason = node.snapshot.reason
        with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{node.http_port}/v1/observations") as r:
            refusal = json.load(r)["observations"]["would_refuse"]

    assert refusal.startswith("the cluster is being migrated to KRaft")
    assert reason == f"watches broker 3 (built-in); would refuse to lead: {refusal}"


async def test_an_unreadable_controller_znode_is_an_unknown_process(
    cluster: BuiltIn, connect: str, tmp_path: Path
) -> None:
    await cluster.peer.act(Delete(paths.CONTROLLER), Create(paths.CONTROLLER, b"?", ephemeral=True))

    async with watching(settings(connect, tmp_path)) as (node, _):
        reason = node.snapshot.reason

    assert reason == "watches an unknown process (/controller is unreadable)"


async def test_it_observes_on_after_its_session_ended(
    cluster: BuiltIn, connect: str, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    chroot = connect.removeprefix(server.connect)
    async with (
        ZooKeeperProxy(server.connect) as proxy,
        watching(settings(proxy.connect + chroot, tmp_path)) as (node, observer),
    ):
        assert node.client is not None
        session = node.client.session
        proxy.is_open = False
        proxy.cut()
        await expire(session, server.connect)
        await cluster.die(2)
        await cluster.elect_without(2)
        proxy.is_open = True
        await until(lambda: set(node.snapshot.brokers) == {1, 3})
        await cluster.die(1)
        await cluster.write(TopicPartition("t", 0), 3, 2, [3])
        await cluster.write(TopicPartition("t", 1), 3, 2, [3])
        await cluster.write(TopicPartition("u", 0), 3, 1, [3])
        found = await settled(observer, 3)
        reason, generation = node.snapshot.reason, session.generation

    # Changes during the gap are not compared.
    assert found == {("broker died", "equal"): 3}
    assert (reason, generation) == ("watches broker 3 (built-in)", 2)


async def test_causes_that_are_unsettled_at_the_end_of_the_session_are_unclear(
    cluster: BuiltIn, connect: str, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    async with watching(settings(connect, tmp_path)) as (node, observer):
        assert node.client is not None
        await cluster.die(1)
        await until(lambda: observer.unsettled == 1)
        await expire(node.client.session, server.connect)
        found = await settled(observer, 3)

    assert found == {("broker died", "unclear"): 3}


async def test_without_a_cluster_nothing_is_created_in_zookeeper(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    nowhere = f"{server.connect}/nowhere/at/all"

    with pytest.raises(NoCluster, match="/cluster/id is missing"):
        async with watching(settings(nowhere, tmp_path)):
            pass

    paths_written = {each.path for one in TransactionLog(server.data_directory).read_new() for each in one.operations}
    assert not {path for path in paths_written if path.startswith("/nowhere")}


# -- settings of brokers -----------------------------------------------------------------------------------------------


async def asked(node: ObservingNode, path: str) -> dict[str, Any]:
    with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{node.http_port}{path}") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


async def test_it_takes_settings_from_brokers_shows_them_keeps_them_and_writes_nothing_to_zookeeper(
    cluster: BuiltIn, connect: str, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    old = {PROTOCOL_VERSION: "2.8-IV1", UNCLEAN: "true", "authorizer.class.name": "some.Authorizer"}
    config = settings(connect, tmp_path, {})
    async with AsyncExitStack() as stack:
        for number in (1, 2, 3):
            broker = await stack.enter_async_context(SettingsBroker(number, old))
            await cluster.die(number)
            await cluster.register(number, broker.port)
        node, _ = await stack.enter_async_context(watching(config))
        await until(lambda: node.discovery.book.is_protocol_known and "would refuse to lead" in node.snapshot.reason)
        shown = {
            each["setting"]: (each["value"], each["source"]) for each in (await asked(node, "/v1/settings"))["items"]
        }
        refusal = (await asked(node, "/v1/observations"))["observations"]["would_refuse"]
        assert node.client is not None
        session_id = node.client.session.session_id
        await until((tmp_path / SETTINGS_FILE).exists)

    assert (shown[PROTOCOL_VERSION], shown[UNCLEAN]) == (("2.8-IV1", "brokers"), ("true", "brokers"))
    assert "authorizer" in refusal
    assert written_by(session_id, server) == ["closeSession"]
    async with watching(config) as (node, _):
        assert node.discovery.book.current.values[PROTOCOL_VERSION] == "2.8-IV1"


# -- as a process ------------------------------------------------------------------------------------------------------


def flags(connect: str, data_dir: Path) -> list[str]:
    given = ["--zookeeper", connect, "--node-id", str(NODE), "--data-dir", str(data_dir)]
    return ["run", *given, "--http", "127.0.0.1:0"]


OBSERVE = {"CONTROLLERD__CONTROLLER__MODE": "observe"}


async def test_the_daemon_says_that_it_observes_and_stops_when_asked_to(
    cluster: BuiltIn, connect: str, tmp_path: Path
) -> None:
    process = await begin(*flags(connect, tmp_path), env=OBSERVE)
    assert process.stdout is not None
    ready = (await asyncio.wait_for(process.stdout.readline(), STARTS_S)).decode()
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()

    assert ready.startswith(f"controllerd ready: node {NODE} observes cluster {CLUSTER}, http 127.0.0.1:")
    assert "kafka" not in ready
    assert process.returncode == 0, err.decode()
    assert b"Traceback" not in err


async def test_systemd_receives_ready_from_an_observer_and_then_its_watchdog(
    cluster: BuiltIn, connect: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    process = await begin(*flags(connect, tmp_path), env=OBSERVE)
    await supervisor.receive("READY=1")
    assert "STATUS=observer epoch=7 partitions=3" in supervisor.received[-1]
    await supervisor.receive("WATCHDOG=1")
    process.send_signal(signal.SIGTERM)
    await supervisor.receive("STOPPING=1")
    _, err = await process.communicate()

    assert process.returncode == 0, err.decode()


async def test_two_observers_do_not_share_a_data_directory(cluster: BuiltIn, connect: str, tmp_path: Path) -> None:
    async with watching(settings(connect, tmp_path)):
        outcome = await controllerd(*flags(connect, tmp_path), env=OBSERVE)

    assert outcome.code == 78
    assert "is in use by process" in outcome.err


async def test_a_start_without_a_cluster_ends_with_a_sentence(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    outcome = await controllerd(*flags(f"{server.connect}/not/here", tmp_path), env=OBSERVE)

    assert outcome.code == UNREACHABLE
    assert f"no broker was ever started at {server.connect}/not/here" in outcome.err
    assert "Traceback" not in outcome.err
