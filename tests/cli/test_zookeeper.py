"""Reading ZooKeeper without a daemon: the same commands, the same answers, and nothing is written."""

import asyncio
import json
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.cli.documents import run
from tests.cli.running import controllerctl

pytestmark = pytest.mark.zookeeper


def state(leader: int, isr: list[int]) -> dict[str, object]:
    """A partition's state znode."""
    return {"controller_epoch": 3, "leader": leader, "version": 1, "leader_epoch": 4, "isr": isr}


def registration(port: int) -> dict[str, object]:
    """A broker's."""
    return {
        "version": 5,
        "host": "127.0.0.1",
        "port": port,
        "jmx_port": -1,
        "timestamp": str(time.time_ns() // 1_000_000),
        "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "rack": None,
        "features": {},
    }


CLUSTER: dict[str, object] = {
    "/cluster/id": {"version": "1", "id": "cluster-zk"},
    "/controller_epoch": 3,
    "/brokers/topics/orders": {"version": 2, "partitions": {"0": [1, 2], "1": [2, 1]}},
    "/brokers/topics/orders/partitions/0/state": state(1, [1]),
    "/brokers/topics/orders/partitions/1/state": state(-1, [2]),
    "/config/topics/orders": {"version": 1, "config": {"min.insync.replicas": "2"}},
    "/config/topics/ghost": {"version": 1, "config": {}},
    "/admin/reassign_partitions": {"version": 1, "partitions": [{"topic": "gone", "partition": 0, "replicas": [1]}]},
}


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``zookeeper.connect`` of a cluster whose broker 2 is dead, with leftovers."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    with asyncio.Runner() as runner:
        runner.run(server.start())
        client = KazooClient(f"{server.connect}")
        client.start()
        now = time.time_ns() // 1_000_000
        for path, content in CLUSTER.items():
            client.create(f"/kafka{path}", json.dumps(content).encode(), makepath=True)
        controller = {"version": 1, "brokerid": 1, "timestamp": f"{now}"}
        ephemeral = {"/brokers/ids/1": registration(1), "/controller": controller}
        for path, content in ephemeral.items():
            client.create(f"/kafka{path}", json.dumps(content).encode(), makepath=True, ephemeral=True)
        yield f"{server.connect}/kafka"
        client.stop()
        client.close()
        runner.run(server.close())


async def test_status_without_a_daemon_names_the_controller(zookeeper: str) -> None:
    outcome = await controllerctl("status", "--zk", zookeeper)

    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("controller  broker 1 (built-in), controller epoch 3, since ")
    assert "no daemon was asked: this is the state in ZooKeeper" in outcome.out
    assert not any(word in outcome.out for word in ("this instance", "audit log", "node -1"))
    assert "2 of 1 topic: 1 offline" in outcome.out


async def test_lists_filters_and_formats_are_the_same_as_with_a_daemon(zookeeper: str) -> None:
    outcome = await controllerctl("--zk", zookeeper, "get", "partitions", "--offline", "-o", "name")

    assert (outcome.code, outcome.out) == (0, "orders-1\n")


@pytest.mark.parametrize(
    "command",
    ["get queue", "get requests", "get elections", "get tasks", "events tail", "config show"],
)
def test_data_of_the_daemon_alone_is_not_reported_as_empty(command: str) -> None:
    outcome = run(*command.split(), "--zk", "127.0.0.1:1")

    assert (outcome.code, "name a daemon with --api URL" in outcome.err) == (2, True), outcome.err


async def test_why_without_a_daemon_names_the_dead_broker(zookeeper: str) -> None:
    outcome = await controllerctl("--zk", zookeeper, "why", "orders-1")

    assert outcome.code == 0, outcome.err
    assert "OFFLINE" in outcome.out.splitlines()[0]
    assert "broker 2" in outcome.out


async def test_doctor_finds_problems_from_zookeeper_alone(zookeeper: str) -> None:
    outcome = await controllerctl("doctor", "--zk", zookeeper)

    assert outcome.code == 1, outcome.err
    table = outcome.out.partition("\n\n")[0].splitlines()[1:]
    lines = {line.split()[1]: line.split()[0] for line in table}
    assert lines["offline-partitions"] == "critical"
    assert lines["isr-below-min"] == lines["listeners"] == "critical"
    assert lines["zombie-reassignments"] == lines["orphan-topics"] == lines["brokers"] == "warning"
    assert lines["duplicate-ids"] == lines["clock-skew"] == lines["two-controllers"] == "ok"
    assert f"offline-partitions: controllerctl --zk {zookeeper} why orders-1" in outcome.out
    assert "broker 2 holds replicas and is not registered" in outcome.out


async def test_a_chroot_without_a_cluster_is_reported(zookeeper: str) -> None:
    outcome = await controllerctl("status", "--zk", zookeeper.replace("/kafka", "/other"))

    assert outcome.code == 3
    assert "no broker was ever started" in outcome.err


@pytest.mark.parametrize("command", ["status", "doctor"])
async def test_an_unreachable_zookeeper_is_reported_within_the_timeout(command: str) -> None:
    outcome = await controllerctl(command, "--zk", "127.0.0.1:1", "--timeout", "500ms")

    assert outcome.code == 69
    assert "no ZooKeeper server of 127.0.0.1:1 answered" in outcome.err
    assert not any(word in outcome.err for word in ("Connection dropped", "retry policy"))
