"""Clients that bootstrap from controllerd's address alone: librdkafka and the tools that come with Kafka."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Final

import pytest
import pytest_asyncio
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from controllerd.dev.cluster import BROKER_IDS, FIRST_NODE_ID, DevCluster, open_cluster
from controllerd.dev.kafka import ToolResult, run_tool
from controllerd.dev.load import ProducerLoad
from controllerd.dev.observe import metadata_differences
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.waiting import Waiting

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

TOPIC, PARTITIONS, GROUP = "orders", 6, "readers"
READ_S: Final = 30.0
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
API_VERSIONS_COMMAND = "kafka.admin.BrokerApiVersionsCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"


class ThroughControllerd:
    """The cluster, with controllerd as the only bootstrap server."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.controllers[0].kafka_port.address
        self.waiting = Waiting(cluster, print)

    async def tool(self, main_class: str, *arguments: str, stdin: str = "", bootstrap: str | None = None) -> ToolResult:
        """Run one of Kafka's tools, by default against controllerd, and print its result."""
        options = ["--bootstrap-server", bootstrap or self.bootstrap, *arguments]
        done = await run_tool(main_class, options, directory=self.cluster.directory, stdin=stdin)
        error_output = done.stderr.strip() or "no error output"
        print(f"{main_class} {' '.join(arguments)}: exit status {done.exit_status}, {error_output}")
        return done

    async def create(self, topic: str) -> None:
        assignments = {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)}
        await self.cluster.observer.create_topic(topic, assignments)
        await self.waiting.until(self.waiting.missing_agreement, f"every broker knows {topic}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def through(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ThroughControllerd]:
    async with open_cluster("kafka", tmp_path_factory.mktemp("clients"), print, instances=1) as cluster:
        through = ThroughControllerd(cluster)
        await through.create(TOPIC)
        yield through


async def test_librdkafka_lists_the_brokers_the_controller_and_the_topics(through: ThroughControllerd) -> None:
    admin = AdminClient({"bootstrap.servers": through.bootstrap})
    listed = await asyncio.to_thread(admin.list_topics, timeout=READ_S)

    assert sorted(listed.brokers) == [*BROKER_IDS, FIRST_NODE_ID]
    assert listed.controller_id == FIRST_NODE_ID
    leaders = {number: partition.leader for number, partition in listed.topics[TOPIC].partitions.items()}
    assert leaders == {p: 1 + p % 3 for p in range(PARTITIONS)}


async def test_librdkafka_produces_idempotently_and_reads_back(through: ThroughControllerd) -> None:
    topic = "through-librdkafka"
    await through.create(topic)
    load = ProducerLoad(through.bootstrap, topic, PARTITIONS, max_records=1_000)
    load.start()

    async def missing() -> str | None:
        return None if load.acknowledged == 1_000 else f"{load.acknowledged} are acknowledged"

    await through.waiting.until(missing, "1000 records are acknowledged")
    result = await asyncio.to_thread(load.stop)
    consumed = await asyncio.to_thread(consume_all, through.bootstrap, topic)

    assert verify(result.acknowledged, consumed).ok
    assert result.fatal_error is None


async def test_a_consumer_group_reads_commits_and_is_listed(through: ThroughControllerd) -> None:
    topic = "for-a-group"
    await through.create(topic)
    with ProducerLoad(through.bootstrap, topic, PARTITIONS, max_records=60, records_per_s=1_000) as load:

        async def missing() -> str | None:
            return None if load.acknowledged == 60 else f"{load.acknowledged} are acknowledged"

        await through.waiting.until(missing, "60 records are acknowledged")
    assert await asyncio.to_thread(read_as_group, through.bootstrap, topic, 60) == 60

    listed = await through.tool(GROUPS_COMMAND, "--list")
    assert (listed.exit_status, listed.stdout.split()) == (0, [GROUP])


def read_as_group(bootstrap: str, topic: str, expected: int) -> int:
    """Read and commit records as a group, and return their number."""
    settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    read = 0
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([topic])
        while read < expected:
            messages = consumer.consume(expected - read, READ_S)
            if not messages:
                break
            read += sum(message.error() is None for message in messages)
        consumer.commit(asynchronous=False)
    return read


async def test_kafka_topics_lists_the_topics(through: ThroughControllerd) -> None:
    done = await through.tool(TOPIC_COMMAND, "--list")

    assert done.exit_status == 0
    assert TOPIC in done.stdout.splitlines()


async def test_kafka_broker_api_versions_gets_an_answer_from_every_node(through: ThroughControllerd) -> None:
    done = await through.tool(API_VERSIONS_COMMAND)

    assert done.exit_status == 0
    nodes = re.findall(r"\(id: (\d+) rack: \S+\) -> \(", done.stdout)
    assert sorted(map(int, nodes)) == [*BROKER_IDS, FIRST_NODE_ID]
    assert "ERROR" not in done.stdout


async def test_the_console_producer_and_consumer_exchange_records(through: ThroughControllerd) -> None:
    topic = "through-the-console"
    await through.create(topic)
    lines = [f"line {number}" for number in range(20)]
    produced = await through.tool(CONSOLE_PRODUCER, "--topic", topic, stdin="".join(f"{line}\n" for line in lines))
    options = ("--topic", topic, "--from-beginning", "--max-messages", "20", "--timeout-ms", "30000")
    consumed = await through.tool(CONSOLE_CONSUMER, *options)

    assert (produced.exit_status, consumed.exit_status) == (0, 0)
    assert sorted(consumed.stdout.splitlines()) == sorted(lines)


async def test_the_configuration_of_a_topic_is_described_by_way_of_the_relay(through: ThroughControllerd) -> None:
    done = await through.tool(CONFIG_COMMAND, "--describe", "--topic", TOPIC, "--all")

    assert done.exit_status == 0
    assert "min.insync.replicas=2" in done.stdout


@pytest.mark.parametrize("by_way_of", ["controllerd", "a broker"])
async def test_kafka_topics_describes_a_topic(through: ThroughControllerd, by_way_of: str) -> None:
    """The tool asks the controller for reassignments too; there are none."""
    options = ["--describe", "--topic", TOPIC]
    broker = f"127.0.0.1:{through.cluster.brokers[1].port}"
    done = await through.tool(TOPIC_COMMAND, *options, bootstrap=broker if by_way_of == "a broker" else None)

    assert done.exit_status == 0
    described = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", done.stdout)
    replicas = [",".join(str(1 + (p + i) % 3) for i in range(3)) for p in range(PARTITIONS)]
    assert described == [(str(p), str(1 + p % 3), replicas[p], replicas[p]) for p in range(PARTITIONS)]


async def test_kafka_log_dirs_describes_the_brokers_beside_a_node_without_logs(through: ThroughControllerd) -> None:
    done = await through.tool("org.apache.kafka.tools.LogDirsCommand", "--describe")

    described = json.loads(done.stdout.splitlines()[-1])
    brokers = {row["broker"]: row["logDirs"] for row in described["brokers"]}
    assert done.exit_status == 0
    assert all(brokers[broker][0]["partitions"] for broker in through.cluster.brokers)
    assert [row["partitions"] for row in brokers[through.cluster.controllers[0].node_id]] == [[]]


async def test_brokers_controllerd_and_the_audit_log_agree_with_zookeeper(through: ThroughControllerd) -> None:
    await through.waiting.until(through.waiting.missing_agreement, "every broker shows what ZooKeeper has")
    controller, view = through.cluster.controllers[0], await through.cluster.view()

    assert metadata_differences(view, {"controllerd": await controller.metadata()}, FIRST_NODE_ID) == []
    await through.waiting.until(lambda: through.waiting.missing_audit(controller, view), "the audit log folds to it")
