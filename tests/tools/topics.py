"""kafka-topics, kafka-get-offsets and kafka-delete-records."""

import asyncio
from typing import Final

from controllerd.dev.cluster import BROKER_IDS
from tests.tools.cells import Client, Way, cell, contains
from tests.tools.data import group_of

TOPICS: Final = Client("kafka-topics", "org.apache.kafka.tools.TopicCommand")
OFFSETS: Final = Client("kafka-get-offsets", "org.apache.kafka.tools.GetOffsetShell")
DELETE_RECORDS: Final = Client("kafka-delete-records", "org.apache.kafka.tools.DeleteRecordsCommand")
INTERNAL: Final = "__consumer_offsets"
DEFAULT_PARTITIONS, DEFAULT_REPLICAS = 2, 2
"""The configuration of the test clusters, which differs from Kafka's defaults of 1 and 1."""


def counts(replicas: dict[int, tuple[int, ...]]) -> dict[int, int]:
    """The number of different brokers of each partition, without controllerd."""
    return {number: len(set(brokers) & set(BROKER_IDS)) for number, brokers in replicas.items()}


@cell(TOPICS, "`--create` with counts and configurations")
async def create(way: Way) -> None:
    name = way.new_name()
    wanted = ("--partitions", "3", "--replication-factor", "2", "--config", "retention.ms=77000")
    contains(await way.tool(TOPICS, "--create", "--topic", name, *wanted), f"Created topic {name}.")
    await way.until_shown(name, range(3))
    assert counts(await way.replicas(name)) == {0: 2, 1: 2, 2: 2}
    assert await way.configs(f"topics/{name}") == {"retention.ms": "77000"}


@cell(TOPICS, "`--create` with the cluster's defaults")
async def create_by_default(way: Way) -> None:
    name = way.new_name()
    contains(await way.tool(TOPICS, "--create", "--topic", name), f"Created topic {name}.")
    await way.until_shown(name, range(DEFAULT_PARTITIONS))
    assert counts(await way.replicas(name)) == dict.fromkeys(range(DEFAULT_PARTITIONS), DEFAULT_REPLICAS)
    assert await way.configs(f"topics/{name}") == {}


@cell(TOPICS, "`--create --replica-assignment`")
async def create_by_hand(way: Way) -> None:
    name = way.new_name()
    await way.tool(TOPICS, "--create", "--topic", name, "--replica-assignment", "3:1,1:2")
    await way.until_shown(name, range(2))
    assert await way.replicas(name) == {0: (3, 1), 1: (1, 2)}


@cell(TOPICS, "`--create` what exists, with and without `--if-not-exists`", "refused, or passed over as asked for")
async def create_again(way: Way) -> None:
    name = await way.topic({0: [1]})
    await way.refused(TOPICS, "--create", "--topic", name, says=f"Topic '{name}' already exists.")
    assert await way.tool(TOPICS, "--create", "--topic", name, "--if-not-exists") == ""
    assert await way.replicas(name) == {0: (1,)}


@cell(TOPICS, "`--create` with more replicas than brokers", "refused in Kafka's words")
async def create_too_wide(way: Way) -> None:
    name = way.new_name()
    says = "Replication factor: 4 larger than available brokers: 3."
    await way.refused(TOPICS, "--create", "--topic", name, "--replication-factor", "4", says=says)
    assert await way.replicas(name) == {}


@cell(TOPICS, "`--create` with a name that must not be", "refused in Kafka's words")
async def create_unnameable(way: Way) -> None:
    name = f"{way.new_name()}!"
    says = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    await way.refused(TOPICS, "--create", "--topic", name, says=says)
    assert await way.replicas(name) == {}


@cell(TOPICS, "`--list`, `--exclude-internal`")
async def list_all(way: Way) -> None:
    name, _ = await group_of(way)
    every, plain = await asyncio.gather(way.tool(TOPICS, "--list"), way.tool(TOPICS, "--list", "--exclude-internal"))
    assert {name, INTERNAL} <= set(every.split())
    assert set(every.split()) - set(plain.split()) >= {INTERNAL}
    assert name in plain.split()


@cell(TOPICS, "`--describe`, by name and by id")
async def describe(way: Way) -> None:
    name = await way.topic({0: [2, 1], 1: [3, 2]}, {"flush.ms": "8000"})
    await way.scene.until_isr(name, {3, 2}, partition=1)
    topic_id = (await way.scene.cluster.view()).topic_ids[name]
    assert topic_id is not None
    by_name, by_id = await asyncio.gather(
        way.tool(TOPICS, "--describe", "--topic", name), way.tool(TOPICS, "--describe", "--topic-id", topic_id)
    )
    for told in (by_name, by_id):
        contains(told, f"Topic: {name} TopicId: {topic_id} PartitionCount: 2 ReplicationFactor: 2 Configs: ")
        contains(told, "flush.ms=8000", f"Topic: {name} Partition: 0 Leader: 2 Replicas: 2,1 Isr: 2,1")
        contains(told, f"Topic: {name} Partition: 1 Leader: 3 Replicas: 3,2 Isr: 3,2")


@cell(TOPICS, "`--describe --topics-with-overrides`")
async def overrides(way: Way) -> None:
    name = await way.topic({0: [1]}, {"flush.ms": "9000"})
    told = await way.tool(TOPICS, "--describe", "--topics-with-overrides", "--topic", name)
    contains(told, f"Topic: {name} ", "flush.ms=9000")
    assert "Partition: 0" not in " ".join(told.split())


@cell(TOPICS, "`--describe --exclude-internal`, with a reassignment under way", alone=True)
async def describe_moving(way: Way) -> None:
    await group_of(way)
    async with way.stuck_topic() as name:
        told = await way.tool(TOPICS, "--describe", "--exclude-internal")
        contains(told, f"Topic: {name} Partition: 0 Leader: 1 Replicas: 3,1 Isr: 1 ")
        contains(told, "Adding Replicas: 3 Removing Replicas: 1")
        assert INTERNAL not in told


@cell(TOPICS, "`--alter --partitions`")
async def grow(way: Way) -> None:
    name = await way.topic({0: [1, 2]})
    assert await way.tool(TOPICS, "--alter", "--topic", name, "--partitions", "4") == ""
    await way.until_shown(name, range(4))
    after = await way.replicas(name)
    assert after[0] == (1, 2)
    assert counts(after) == dict.fromkeys(range(4), 2)


@cell(TOPICS, "`--alter --partitions --replica-assignment`")
async def grow_by_hand(way: Way) -> None:
    name = await way.topic({0: [1, 2]})
    placed = ("--partitions", "2", "--replica-assignment", "1:2,3:1")
    await way.tool(TOPICS, "--alter", "--topic", name, *placed)
    await way.until_shown(name, range(2))
    assert await way.replicas(name) == {0: (1, 2), 1: (3, 1)}


@cell(TOPICS, "`--alter --partitions` to fewer", "refused in Kafka's words")
async def shrink(way: Way) -> None:
    name = await way.topic({0: [1], 1: [2]})
    says = "Topic currently has 2 partitions, which is higher than the requested 1."
    await way.refused(TOPICS, "--alter", "--topic", name, "--partitions", "1", says=says)
    assert await way.replicas(name) == {0: (1,), 1: (2,)}


@cell(TOPICS, "`--delete`")
async def delete(way: Way) -> None:
    name = await way.topic({0: [1, 2, 3]})
    await way.scene.until_hosted(name, {1, 2, 3})
    assert await way.tool(TOPICS, "--delete", "--topic", name) == ""
    assert name not in (await way.tool(TOPICS, "--list")).split()
    await way.until_deleted(name)


@cell(TOPICS, "`--delete` what there is not, with and without `--if-exists`", "refused, or passed over as asked for")
async def delete_unknown(way: Way) -> None:
    says = "Topic 'Optional[no-such-topic]' does not exist as expected"  # so it is in Kafka's own
    await way.refused(TOPICS, "--delete", "--topic", "no-such-topic", says=says)
    assert await way.tool(TOPICS, "--delete", "--topic", "no-such-topic", "--if-exists") == ""


@cell(TOPICS, "`--describe --under-replicated-partitions`", while_away=True)
async def under_replicated(way: Way) -> None:
    name = await way.topic({0: [1, 3], 1: [1, 2]})
    told = await way.tool(TOPICS, "--describe", "--under-replicated-partitions", "--topic", name)
    contains(told, f"Topic: {name} Partition: 0 Leader: 1 Replicas: 1,3 Isr: 1")
    assert "Partition: 1" not in told


@cell(TOPICS, "`--describe --unavailable-partitions`", while_away=True)
async def unavailable(way: Way) -> None:
    name = way.prepared["unavailable"]
    told = await way.tool(TOPICS, "--describe", "--unavailable-partitions", "--topic", name)
    contains(told, f"Topic: {name} Partition: 0 Leader: none Replicas: 3 Isr: 3")
    assert "Partition: 1" not in told


@cell(TOPICS, "`--describe --under-min-isr-partitions`", while_away=True)
async def under_min_isr(way: Way) -> None:
    name = await way.topic({0: [1, 3], 1: [1, 2]}, {"min.insync.replicas": "2"})
    told = await way.tool(TOPICS, "--describe", "--under-min-isr-partitions", "--topic", name)
    contains(told, f"Topic: {name} Partition: 0")
    assert "Partition: 1" not in told


@cell(TOPICS, "`--describe --at-min-isr-partitions`", while_away=True)
async def at_min_isr(way: Way) -> None:
    name = await way.topic({0: [1, 3], 1: [1, 2]}, {"min.insync.replicas": "1"})
    told = await way.tool(TOPICS, "--describe", "--at-min-isr-partitions", "--topic", name)
    contains(told, f"Topic: {name} Partition: 0")
    assert "Partition: 1" not in told


@cell(OFFSETS, "offsets of a topic")
async def offsets(way: Way) -> None:
    name = await way.topic({0: [1], 1: [2]}, {"min.insync.replicas": "1"})
    await way.scene.ballast(name, 1)
    assert sorted((await way.tool(OFFSETS, "--topic", name)).split()) == [f"{name}:0:0", f"{name}:1:20"]


@cell(DELETE_RECORDS, "`--offset-json-file`")
async def delete_records(way: Way) -> None:
    name = await way.topic({0: [1]}, {"min.insync.replicas": "1"})
    await way.scene.ballast(name)
    wanted = way.file({"partitions": [{"topic": name, "partition": 0, "offset": 7}], "version": 1})
    told = await way.tool(DELETE_RECORDS, "--offset-json-file", wanted)
    contains(told, "low_watermark: 7")
    assert (await way.tool(OFFSETS, "--topic", name, "--time", "earliest")).split() == [f"{name}:0:7"]
