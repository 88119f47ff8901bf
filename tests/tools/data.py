"""Producing and consuming: the console tools, the performance tools, idempotence and transactions."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from controllerd.dev.cluster import BROKER_IDS
from tests.tools.cells import Client, Way, cell, contains, in_thread

PRODUCER: Final = Client("kafka-console-producer", "kafka.tools.ConsoleProducer")
CONSUMER: Final = Client("kafka-console-consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer")
PERFORMANCE: Final = Client("kafka-producer-perf-test", "org.apache.kafka.tools.ProducerPerformance")
READING: Final = Client("kafka-consumer-perf-test", "org.apache.kafka.tools.ConsumerPerformance")
VERIFIABLE: Final = Client("kafka-verifiable-producer", "org.apache.kafka.tools.VerifiableProducer")
TRANSACTIONS: Final = Client("kafka-transactions", "org.apache.kafka.tools.TransactionsCommand")
LIBRDKAFKA: Final = Client("confluent-kafka", "Producer, Consumer")
RECORDS: Final = 200
BALLAST: Final = 20
READ_S: Final = 30.0
PLACED: Final = {0: [1, 2, 3], 1: [2, 3, 1]}

# -- what cells have in common -----------------------------------------------------------------------------------------


async def group_of(way: Way) -> tuple[str, str]:
    """A topic with records, and an empty group that has committed them all."""
    topic = await way.topic({0: [1, 2]}, {"min.insync.replicas": "1"})
    group = way.new_name("group")
    await way.scene.ballast(topic)
    await in_thread(committed, way.bootstrap, topic, group, BALLAST)
    return topic, group


@asynccontextmanager
async def member_of(way: Way, topic: str, group: str) -> AsyncIterator[None]:
    """Keep a consumer in the group that is assigned the whole topic."""
    assigned, leaving = threading.Event(), threading.Event()
    working = asyncio.create_task(in_thread(_stay, way.bootstrap, topic, group, assigned, leaving))
    try:
        assert await asyncio.to_thread(assigned.wait, READ_S), f"nothing was assigned to the member of {group}"
        yield
    finally:
        leaving.set()
        await working


def _stay(bootstrap: str, topic: str, group: str, assigned: threading.Event, leaving: threading.Event) -> None:
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
        while not leaving.is_set():
            consumer.poll(0.1)


def produced(settings: dict[str, object], topic: str) -> None:
    """Produce records that must all be acknowledged."""
    failed: list[str] = []
    producer = Producer({"acks": "all", **settings})
    for number in range(RECORDS):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    assert producer.flush(READ_S) == 0
    assert failed == []


def transacted(bootstrap: str, topic: str, transactional_id: str) -> None:
    """Produce records in a transaction that is aborted, and others in one that is committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(READ_S)
    for count, end in ((7, producer.abort_transaction), (RECORDS, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, str(number))
        assert producer.flush(READ_S) == 0
        end(READ_S)


def committed(bootstrap: str, topic: str, group: str, count: int) -> None:
    """Read exactly so many records as a group, commit, and leave."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    with closing(Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})) as consumer:
        consumer.subscribe([topic])
        read, ended = 0, set[int | None]()
        partitions = len(consumer.list_topics(topic, READ_S).topics[topic].partitions)
        while read < count or len(ended) < partitions:
            messages = consumer.consume(count + partitions, READ_S)
            assert messages, f"only {read} records came"
            for message in messages:
                if message.error() is None:
                    read += 1
                else:
                    ended.add(message.partition())
        consumer.commit(asynchronous=False)
    assert read == count


def has_committed(bootstrap: str, topic: str, group: str, count: int) -> None:
    """Check that the committed offsets of a group add up to so many records; an empty partition may have none."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        offsets = consumer.committed([TopicPartition(topic, number) for number in PLACED], READ_S)
    assert sum(max(each.offset, 0) for each in offsets) == count


async def _perf(way: Way, topic: str, *options: str) -> None:
    wanted = ("--topic", topic, "--num-records", str(RECORDS), "--record-size", "100", "--throughput", "-1")
    properties = ("--producer-props", f"bootstrap.servers={way.bootstrap}", "acks=all")
    told = await way.tool(PERFORMANCE, *wanted, *properties, *options, connect="")
    contains(told, f"{RECORDS} records sent, ")


async def _consumed(way: Way, topic: str, *options: str, count: int = RECORDS) -> list[str]:
    reading = ("--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000")
    return (await way.tool(CONSUMER, *reading, *options)).split()


async def _idempotent(way: Way, topic: str) -> bool:
    """Whether the partitions have producer states, which only idempotent producers leave."""
    told = [
        await way.tool(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", str(number))
        for number in PLACED
    ]
    return any(len(text.strip().splitlines()) > 1 for text in told)


# -- the console -------------------------------------------------------------------------------------------------------


@cell(PRODUCER, "records from standard input")
async def console(way: Way) -> None:
    topic = await way.topic(PLACED)
    await way.tool(PRODUCER, "--topic", topic, stdin="one\ntwo\nthree\n")
    assert sorted(await _consumed(way, topic, count=3)) == ["one", "three", "two"]


@cell(PRODUCER, "to a topic that there is not: a broker creates it, and controllerd keeps no replica of it")
async def console_auto_created(way: Way) -> None:
    topic = way.new_name()
    await way.tool(PRODUCER, "--topic", topic, stdin="one\n", complaining=True)  # there is no leader at first
    assert await _consumed(way, topic, count=1) == ["one"]
    replicas = await way.replicas(topic)
    assert replicas
    assert {broker for brokers in replicas.values() for broker in brokers} <= set(BROKER_IDS)


@cell(CONSUMER, "`--from-beginning`, `--group`")
async def console_group(way: Way) -> None:
    topic, group = await way.topic(PLACED), way.new_name("group")
    await _perf(way, topic)
    assert len(await _consumed(way, topic, "--group", group)) == RECORDS
    await in_thread(has_committed, way.bootstrap, topic, group, RECORDS)


# -- performance, idempotence and transactions -------------------------------------------------------------------------


@cell(PERFORMANCE, "`acks=all`")
async def perf(way: Way) -> None:
    topic = await way.topic(PLACED)
    await _perf(way, topic, "enable.idempotence=false")
    assert len(await _consumed(way, topic)) == RECORDS
    assert not await _idempotent(way, topic)


@cell(PERFORMANCE, "`enable.idempotence=true`")
async def perf_idempotent(way: Way) -> None:
    topic = await way.topic(PLACED)
    await _perf(way, topic, "enable.idempotence=true")
    assert len(await _consumed(way, topic)) == RECORDS
    assert await _idempotent(way, topic)


@cell(PERFORMANCE, "`--transactional-id`, read with `--isolation-level read_committed`")
async def perf_transactional(way: Way) -> None:
    topic, transaction = await way.topic(PLACED), way.new_name("tx")
    await _perf(way, topic, "--transactional-id", transaction, "--transaction-duration-ms", "100")
    assert len(await _consumed(way, topic, "--isolation-level", "read_committed")) == RECORDS
    told = await way.tool(TRANSACTIONS, "describe", "--transactional-id", transaction)
    assert re.search(rf"\d+\s+{transaction}\s+\d+\s+\d+\s+(?:Prepare|Complete)Commit\s", told), told


@cell(READING, "all records of a topic")
async def perf_reading(way: Way) -> None:
    topic = await way.topic(PLACED)
    await _perf(way, topic)
    told = await way.tool(READING, "--topic", topic, "--messages", str(RECORDS), "--timeout", "30000")
    assert re.search(rf", {RECORDS}, ", told)


@cell(VERIFIABLE, "`acks=-1`")
async def verifiable(way: Way) -> None:
    topic = await way.topic(PLACED)
    told = await way.tool(VERIFIABLE, "--topic", topic, "--max-messages", "20", "--acks", "-1")
    said = [json.loads(line) for line in told.splitlines()]
    assert [(row["sent"], row["acked"]) for row in said if row["name"] == "tool_data"] == [(20, 20)]
    assert len(await _consumed(way, topic, count=20)) == 20


@cell(LIBRDKAFKA, "idempotent producer, consumer group")
async def idempotence(way: Way) -> None:
    topic = await way.topic(PLACED)
    await in_thread(produced, {"bootstrap.servers": way.bootstrap, "enable.idempotence": True}, topic)
    await in_thread(committed, way.bootstrap, topic, way.new_name("group"), RECORDS)
    assert await _idempotent(way, topic)


@cell(LIBRDKAFKA, "transactions: one aborted, one committed; `read_committed`")
async def transactional(way: Way) -> None:
    topic = await way.topic(PLACED)
    await in_thread(transacted, way.bootstrap, topic, way.new_name("tx"))
    await in_thread(committed, way.bootstrap, topic, way.new_name("group"), RECORDS)
