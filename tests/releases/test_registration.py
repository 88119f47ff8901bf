"""Real brokers of older releases and the registration of controllerd under ``/brokers/ids``.

A broker finds the controller there for its controlled shutdown. Whenever a broker becomes the controller, the
registration is gone, and controllerd never had a replica. Replicas that tools and brokers assign to controllerd,
``__consumer_offsets`` included, are reassigned to brokers.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from controllerd.dev.cluster import BROKER_IDS, CHROOT, FIRST_NODE_ID, DevCluster, open_cluster
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.kafka import run_tool
from controllerd.dev.releases import tool_class
from controllerd.dev.txnlog import LoggedTransaction, TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.cli.running import controllerctl

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.zookeeper,
    pytest.mark.releases,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.timeout(600),
]

SESSION_MS: Final = 6_000
PATIENCE_S: Final = 90.0
NOTICED_S: Final = 2.0
"""The time in which a watch notifies controllerd that ``/controller`` was deleted, on a busy machine."""
REGISTRATION: Final = f"/brokers/ids/{FIRST_NODE_ID}"
_CONTROLLERD_ID: Final = re.compile(rb"\b20000000[0-9][0-9]\b")
OLD: Final = ("2.6.3", "2.7.2", "2.8.2")
PARTITIONS: Final = 6
AUTO_CREATION: Final = {
    "num.partitions": str(PARTITIONS),
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "3",
}
"""With so many replicas on three brokers and controllerd, every assignment gives controllerd some of them."""
OFFSETS: Final = "__consumer_offsets"
GROUPS: Final = "012345"
"""One group for each partition of ``__consumer_offsets``: the hash of a digit in Java is 48 more than the digit."""


class RegistrationScene:
    """Three brokers of one release and one controllerd, with a ZooKeeper client and ZooKeeper's transaction log."""

    def __init__(
        self, cluster: DevCluster, controller: ControllerProcess, client: KazooClient, log: TransactionLog
    ) -> None:
        self.cluster = cluster
        self.controller = controller
        self._client = client
        self._log = log
        self._history: list[LoggedTransaction] = []
        self.operator: int = client.client_id[0]
        """The ZooKeeper session that deletes ``/controller``."""

    async def read(self, path: str) -> dict[str, Any] | None:
        """Return a znode's JSON; None if the znode does not exist."""
        try:
            data, _ = await asyncio.to_thread(self._client.get, CHROOT + path)
        except NoNodeError:
            return None
        return dict(json.loads(data))

    async def registered(self) -> set[int]:
        return {int(name) for name in await asyncio.to_thread(self._client.get_children, f"{CHROOT}/brokers/ids")}

    async def delete(self, path: str) -> None:
        await asyncio.to_thread(self._client.delete, CHROOT + path)

    async def leads(self) -> int | None:
        """Return the id in ``/controller``; None if the znode does not exist."""
        found = await self.read("/controller")
        return None if found is None else int(found["brokerid"])

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(timeout_s):
            while not await condition():  # noqa: ASYNC110  # another process decides
                await asyncio.sleep(0.05)
        print(f"  {what}")

    async def until_registered(self) -> None:
        async def is_registered() -> bool:
            return FIRST_NODE_ID in await self.registered()

        await self.until(is_registered, "controllerd is registered")

    async def until_a_broker_leads(self) -> None:
        async def broker_leads() -> bool:
            return await self.leads() in BROKER_IDS

        await self.until(broker_leads, "a broker's own controller leads")

    async def until_whole(self, topic: str) -> None:
        async def is_whole() -> bool:
            view = await self.cluster.view()
            of_topic = [tp for tp in view.assignments if tp.topic == topic]
            return bool(of_topic) and all(
                tp in view.leaderships and set(view.leaderships[tp].isr) == set(view.assignments[tp].replicas)
                for tp in of_topic
            )

        await self.until(is_whole, f"{topic} is whole")

    async def until_served_by_brokers(self, topic: str) -> None:
        """Wait until the replicas and the ISR of each partition are the three brokers, and one of them leads it."""
        brokers = set(BROKER_IDS)

        async def is_served() -> bool:
            view = await self.cluster.view()
            assigned = {tp: replicas for tp, replicas in view.assignments.items() if tp.topic == topic}
            return len(assigned) == PARTITIONS and all(
                set(replicas.replicas) == brokers
                and not replicas.is_being_reassigned
                and tp in view.leaderships
                and view.leaderships[tp].leader in brokers
                and set(view.leaderships[tp].isr) == brokers
                for tp, replicas in assigned.items()
            )

        await self.until(is_served, f"{topic} is served by brokers only")

    async def take_back(self) -> None:
        """Make controllerd the active controller; take over from a broker if necessary."""
        if not self.controller.process.running:
            await self.controller.start()
        if await self.leads() != FIRST_NODE_ID:
            done = await controllerctl("--api", f"http://{self.controller.http}", "--yes", "--reason", "t", "takeover")
            assert done.code == 0, done.err

    def transactions(self) -> list[LoggedTransaction]:
        """Return every transaction since the cluster started, without refused ones."""
        self._history += self._log.read_new()
        return [each for each in self._history if not each.was_refused]


@asynccontextmanager
async def scene_of(
    version: str,
    directory: Path,
    *,
    register: str = "auto",
    settings: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> AsyncIterator[RegistrationScene]:
    """Open a cluster of brokers of one version at its default protocol version, in which controllerd has taken over.

    controllerd stands by while a broker is the controller, so that a broker that wins the election stays it.
    """
    protocol = ".".join(version.split(".")[:2])
    configuration = {
        "CONTROLLERD__KAFKA__INTER_BROKER_PROTOCOL_VERSION": protocol,
        "CONTROLLERD__KAFKA__REGISTER": register,
        "CONTROLLERD__KAFKA__AUTO_LEADER_REBALANCE_ENABLE": "false",
        **(settings or {}),
    }
    versions = dict.fromkeys(BROKER_IDS, version)
    async with open_cluster(
        "kafka",
        directory,
        print,
        instances=0,
        versions=versions,
        overrides={n: {"zookeeper.connection.timeout.ms": "60000", **(overrides or {})} for n in BROKER_IDS},
    ) as cluster:
        assert isinstance(cluster.zookeeper, EmbeddedZooKeeper)
        client = KazooClient(cluster.zookeeper.connect)
        await asyncio.to_thread(client.start)
        controller = ControllerProcess(
            FIRST_NODE_ID,
            cluster.connect,
            directory / "controllerd-0",
            session_timeout_ms=SESSION_MS,
            when_broker_holds="standby",
            settings=configuration,
        )
        try:
            scene = RegistrationScene(cluster, controller, client, TransactionLog(cluster.zookeeper.data_directory))
            await scene.take_back()
            yield scene
        finally:
            await controller.close()
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)


def log_of(scene: RegistrationScene, broker: int) -> str:
    return (scene.cluster.directory / f"broker-{broker}" / "broker.log").read_text(errors="replace")


@pytest.mark.parametrize("version", OLD)
async def test_a_controlled_shutdown_is_answered_and_its_leaders_have_moved_before(
    version: str, tmp_path: Path
) -> None:
    async with scene_of(version, tmp_path) as scene:
        await scene.cluster.observer.create_topic("t", {0: [2, 1, 3], 1: [2, 3, 1], 2: [1, 2, 3]})
        await scene.until_whole("t")
        await scene.until_registered()

        assert await scene.cluster.brokers[2].terminate() == 0

        log = log_of(scene, 2)
        assert "Controlled shutdown succeeded" in log
        assert "unclean shutdown" not in log
        assert moved_before_the_end(scene, 2) >= {0, 1}


def moved_before_the_end(scene: RegistrationScene, broker: int) -> set[int]:
    """Return the partitions of topic t whose leadership moved away from the broker while its session lived."""
    moved: set[int] = set()
    leaders: dict[int, int] = {}
    for transaction, ephemerals in transactions_with_ephemerals(scene):
        for operation in transaction.operations:
            parts = operation.path.split("/")
            if operation.data and parts[-1] == "state" and "t" in parts:
                partition, leader = int(parts[-2]), int(json.loads(operation.data)["leader"])
                was_led = leaders.get(partition) == broker
                if was_led and leader != broker and f"/brokers/ids/{broker}" in ephemerals:
                    moved.add(partition)
                leaders[partition] = leader
    return moved


def transactions_with_ephemerals(scene: RegistrationScene) -> Iterator[tuple[LoggedTransaction, Mapping[str, int]]]:
    """Yield each transaction with the ephemeral znodes that exist after it, and the sessions that own them."""
    ephemerals: dict[str, int] = {}
    for transaction in scene.transactions():
        for operation in transaction.operations:
            path = operation.path.removeprefix(CHROOT)
            if operation.op == "create" and operation.ephemeral:
                ephemerals[path] = transaction.session_id
            elif operation.op == "delete":
                ephemerals.pop(path, None)
            elif operation.op == "closeSession":
                mine = [each for each, owner in ephemerals.items() if owner == transaction.session_id]
                for each in mine:
                    del ephemerals[each]
        yield transaction, ephemerals


async def kill(scene: RegistrationScene) -> None:
    """Kill controllerd: its session, and /controller with it, last until the session expires."""
    await scene.controller.process.kill()


async def terminate(scene: RegistrationScene) -> None:
    assert await scene.controller.process.terminate() == 0


async def freeze(scene: RegistrationScene) -> None:
    scene.controller.process.pause()
    try:
        await scene.until_a_broker_leads()
        assert FIRST_NODE_ID not in await scene.registered()
    finally:
        scene.controller.process.resume()


async def delete_controller(scene: RegistrationScene) -> None:
    """Delete /controller until a broker wins the election."""
    while await scene.leads() not in BROKER_IDS:
        await scene.until_registered()
        await scene.delete("/controller")
        await scene.until(lambda: _is_led(scene), "there is a controller")


async def _is_led(scene: RegistrationScene) -> bool:
    return await scene.leads() is not None


WAYS: Final = (terminate, kill, freeze, delete_controller)


@pytest.mark.parametrize(("version", "register"), [("2.8.2", "auto"), ("2.6.3", "auto"), ("3.9.1", "always")])
async def test_the_registration_of_controllerd_is_gone_when_a_broker_becomes_the_controller(
    version: str, register: str, tmp_path: Path
) -> None:
    async with scene_of(version, tmp_path, register=register) as scene:
        for way in WAYS:
            print(way.__name__)
            await scene.take_back()
            await scene.until_registered()
            await way(scene)
            await scene.until_a_broker_leads()

            async def is_gone() -> bool:
                return FIRST_NODE_ID not in await scene.registered()

            if way is delete_controller:
                await scene.until(is_gone, "the registration is gone", NOTICED_S)
            else:
                assert await is_gone()
            await scene.cluster.observer.create_topic(f"under-{way.__name__}", {0: [1, 2, 3], 1: [2, 3, 1]})
            await scene.until_whole(f"under-{way.__name__}")

        assert assigned_to_controllerd(scene) == []
        assert elections_while_registered(scene) == []


@pytest.mark.parametrize("version", ["2.6.3", "2.8.2"])
async def test_replicas_that_the_topics_tool_or_a_broker_assigns_to_controllerd_are_given_to_brokers(
    version: str, tmp_path: Path
) -> None:
    async with scene_of(version, tmp_path, overrides=AUTO_CREATION) as scene:
        await scene.until_registered()

        await create_by_tool(scene, version, "by-the-tool")
        await scene.until_served_by_brokers("by-the-tool")
        await asyncio.to_thread(produce, scene.cluster.bootstrap, "by-a-broker", [None])
        await scene.until_served_by_brokers("by-a-broker")
        for topic in ("by-the-tool", "by-a-broker"):
            await asyncio.to_thread(produce, scene.cluster.bootstrap, topic, range(PARTITIONS))
        await use_groups(scene, "by-the-tool")

        creators = {"by-the-tool": [None], "by-a-broker": BROKER_IDS, OFFSETS: BROKER_IDS}
        for topic, possible in creators.items():
            assert_given_to_brokers(scene, topic, possible)
            named = [write for write in assigned_to_controllerd(scene) if f"/brokers/topics/{topic}" in write]
            assert len(named) == 1, "the assignment that its creator wrote, and no state"
        assert await scene.leads() == FIRST_NODE_ID
        assert FIRST_NODE_ID in await scene.registered()


async def create_by_tool(scene: RegistrationScene, version: str, topic: str) -> None:
    """Run ``kafka-topics --zookeeper --create``, which assigns the replicas to the ids in ``/brokers/ids``."""
    arguments = ["--zookeeper", scene.cluster.connect, "--create", "--topic", topic]
    arguments += ["--partitions", str(PARTITIONS), "--replication-factor", "3"]
    tool = tool_class("TopicCommand", version)
    done = await run_tool(tool, arguments, directory=scene.cluster.directory, version=version)
    assert (done.exit_status, f"Created topic {topic}." in done.stdout) == (0, True), done


def produce(bootstrap: str, topic: str, partitions: Iterable[int | None]) -> None:
    """Produce one acknowledged record to each of these partitions; None is any partition of a topic to be created."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
    for partition in partitions:
        producer.produce(
            topic,
            b"record",
            partition=-1 if partition is None else partition,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


async def use_groups(scene: RegistrationScene, topic: str) -> None:
    """Commit an offset of one group per partition of ``__consumer_offsets``, and read all of them back.

    The first group's commit creates ``__consumer_offsets``. ``topic`` has a record in every partition.
    """
    bootstrap = scene.cluster.bootstrap
    assert await scene.read(f"/brokers/topics/{OFFSETS}") is None
    committed = {group: await asyncio.to_thread(commit, bootstrap, group, topic) for group in GROUPS}
    await scene.until_served_by_brokers(OFFSETS)

    for group, position in committed.items():
        assert await asyncio.to_thread(read_back, bootstrap, group, position) == position.offset > 0
    assert 0 not in await asyncio.to_thread(end_offsets, bootstrap, OFFSETS)


def consumer_of(bootstrap: str, group: str) -> Consumer:
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": bootstrap, "log_level": 2, **settings})


def commit(bootstrap: str, group: str, topic: str) -> TopicPartition:
    """Join the group, read one record, and commit the position after it."""
    with closing(consumer_of(bootstrap, group)) as member:
        member.subscribe([topic])
        record = member.poll(PATIENCE_S)
        assert record is not None
        assert record.error() is None
        (committed,) = member.commit(message=record, asynchronous=False)
        assert committed.error is None
        return committed


def read_back(bootstrap: str, group: str, position: TopicPartition) -> int:
    """Return the committed offset, as a new member of the group gets it from the coordinator."""
    with closing(consumer_of(bootstrap, group)) as member:
        (kept,) = member.committed([TopicPartition(position.topic, position.partition)], PATIENCE_S)
        assert kept.error is None
        return int(kept.offset)


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    """Return the end offset of each partition, as its leader reports it."""
    with closing(consumer_of(bootstrap, "nobody")) as reader:
        of_topic = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        return [int(reader.get_watermark_offsets(each, PATIENCE_S)[1]) for each in of_topic]


class AssignmentWrite(NamedTuple):
    """One write of a topic's assignment."""

    writer: int | None
    """The id that the writing session registered under ``/brokers/ids``; None for a tool."""
    registered: frozenset[int]
    """All ids that were registered at that time."""
    replicas: Mapping[str, Sequence[int]]


def assignments_of(scene: RegistrationScene, topic: str) -> Iterator[AssignmentWrite]:
    """Yield every write of the topic's assignment, in order."""
    for transaction, ephemerals in transactions_with_ephemerals(scene):
        sessions = {int(path.rpartition("/")[2]): s for path, s in ephemerals.items() if "/brokers/ids/" in path}
        for operation in transaction.operations:
            if operation.path == f"{CHROOT}/brokers/topics/{topic}" and operation.data:
                writer = next((n for n, session in sessions.items() if session == transaction.session_id), None)
                yield AssignmentWrite(writer, frozenset(sessions), json.loads(operation.data)["partitions"])


def assert_given_to_brokers(scene: RegistrationScene, topic: str, creators: Collection[int | None]) -> None:
    """Assert that the creator assigned replicas to controllerd, which replaced exactly these."""
    first, *_, last = assignments_of(scene, topic)
    ours = [partition for partition, replicas in first.replicas.items() if FIRST_NODE_ID in replicas]
    print(f"  {topic}: {first.writer} put partitions {ours} of {len(first.replicas)} on controllerd")
    assert first.writer in creators
    assert FIRST_NODE_ID in first.registered
    assert ours != [], "without one the test would show nothing"
    assert last.writer == FIRST_NODE_ID
    for partition, replicas in first.replicas.items():
        for chosen, kept in zip(replicas, last.replicas[partition], strict=True):
            assert kept in BROKER_IDS if chosen == FIRST_NODE_ID else kept == chosen


def assigned_to_controllerd(scene: RegistrationScene) -> list[str]:
    """Return the writes of topics and of partition states that contain an id of controllerd."""
    return [
        f"{operation.path}: {operation.data!r}"
        for transaction in scene.transactions()
        for operation in transaction.operations
        if operation.path.startswith(f"{CHROOT}/brokers/topics/") and _CONTROLLERD_ID.search(operation.data or b"")
    ]


def elections_while_registered(scene: RegistrationScene) -> list[int]:
    """Return the zxids of elections while controllerd was registered, except after a deletion by the operator."""
    found, deleted_by_operator = list[int](), False
    for transaction, ephemerals in transactions_with_ephemerals(scene):
        done = {(operation.op, operation.path.removeprefix(CHROOT)) for operation in transaction.operations}
        if ("create", "/controller") in done:
            if REGISTRATION in ephemerals and not deleted_by_operator:
                found.append(transaction.zxid)
            deleted_by_operator = False
        elif ("delete", "/controller") in done:
            deleted_by_operator = transaction.session_id == scene.operator
    return found
