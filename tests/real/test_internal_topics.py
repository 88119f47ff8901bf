"""Topics that brokers auto-create with controllerd among the replicas: controllerd never keeps a replica."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from controllerd.audit.reader import AuditReader
from controllerd.core.model import OUR_IDS
from controllerd.dev.cluster import BROKER_IDS, DevCluster, open_cluster
from controllerd.dev.observe import ZooKeeperView
from controllerd.dev.waiting import Waiting
from controllerd.record.records import ZkWriteRecord

AUTO_CREATE = {"auto.create.topics.enable": "true", "num.partitions": "6", "default.replication.factor": "3"}
RECORDS = 60
DEAD = 3
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITIONS_OF_INTERNAL = {OFFSETS: 4, TRANSACTIONS: 2}
DELIVERY_S, READ_S = 60.0, 60.0
REPLACED = "replaced controllerd in an assignment"
WAITS = "kept topic waiting for live brokers"


class Clients:
    """librdkafka clients of the brokers, each on a thread, that auto-create the topics they use."""

    def __init__(self, cluster: DevCluster) -> None:
        self._common = {"bootstrap.servers": cluster.bootstrap, "log_level": 2}
        self.delivered: Counter[str] = Counter()
        self.failures: list[str] = []

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered[str(message.topic())] += 1
        else:
            self.failures.append(f"{message.topic()}: {error}")

    def produce(self, topics: Sequence[str]) -> None:
        """Send records to topics that do not exist, and wait until every one is acknowledged."""
        producer = Producer({**self._common, "acks": "all", "allow.auto.create.topics": True})
        for number in range(RECORDS):
            for topic in topics:
                producer.produce(topic, f"{topic}/{number}", on_delivery=self._note)
        left = producer.flush(DELIVERY_S)
        assert left == 0, f"{left} records are not acknowledged"

    def transact(self, topics: Sequence[str]) -> None:
        """One transaction over these topics."""
        producer = Producer({**self._common, "transactional.id": "story", "transaction.timeout.ms": 30_000})
        producer.init_transactions(DELIVERY_S)
        producer.begin_transaction()
        for topic in topics:
            producer.produce(topic, f"{topic}/transaction", on_delivery=self._note)
        producer.commit_transaction(DELIVERY_S)

    def read_as_group(self, topics: Sequence[str], expected: int) -> Counter[str]:
        """The records that a consumer group reads of these topics from the beginning, committed at the end."""
        settings = {"group.id": "story", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        seen: Counter[str] = Counter()
        deadline = time.monotonic() + READ_S
        with closing(Consumer({**self._common, **settings})) as consumer:
            consumer.subscribe(list(topics))
            while seen.total() < expected and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    seen[bytes(message.value() or b"").decode()] += 1
            consumer.commit(asynchronous=False)
        return seen


class Topics:
    """The topics in ZooKeeper, and the log lines and audit records of controllerd about them."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.waiting = Waiting(cluster, print)

    async def until_whole_and_agreed(self) -> ZooKeeperView:
        """Wait until the ISRs are full and all brokers and the audit log agree with ZooKeeper; return its state."""
        await self.waiting.until(self.waiting.missing_isr, "the ISRs are full")
        await self.waiting.until(self.waiting.missing_agreement, "every broker shows what ZooKeeper has")
        active = await self.waiting.active()

        async def missing() -> str | None:
            return await self.waiting.missing_audit(active, await self.cluster.view())

        await self.waiting.until(missing, "the audit log folds to ZooKeeper")
        return await self.cluster.view()

    async def until_exist(self, partitions: Mapping[str, int]) -> None:
        async def missing() -> str | None:
            counts = Counter(tp.topic for tp in (await self.cluster.view()).assignments)
            lacking = [name for name, count in partitions.items() if counts[name] != count]
            return f"{lacking} do not exist" if lacking else None

        await self.waiting.until(missing, f"{len(partitions)} topics exist")

    async def until_waiting(self, partitions: int) -> None:
        """Wait until the status counts so many partitions that wait for live brokers."""
        active = await self.waiting.active()

        async def missing() -> str | None:
            counts = (await active.status() or {}).get("counts", {})
            return None if counts.get("waiting") == partitions else f"counts are {counts}"

        await self.waiting.until(missing, f"{partitions} partitions wait")

    async def logged(self, event: str) -> list[Mapping[str, object]]:
        """The lines of controllerd's log with this event."""
        log_file = (await self.waiting.active()).process.log_file
        lines = [json.loads(line) for line in log_file.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    async def rewritten(self) -> set[str]:
        """The topics whose znode controllerd wrote, by its audit log."""
        directory = (await self.waiting.active()).audit_directory(await self.cluster.observer.cluster_id())
        writes = [record for _, record in AuditReader(directory) if isinstance(record, ZkWriteRecord)]
        done = [zip(w.operations, w.paths, w.results, strict=True) for w in writes]
        names = [
            path.removeprefix("/brokers/topics/") for w in done for op, path, ok in w if (op, ok) == ("setData", "ok")
        ]
        return {name for name in names if "/" not in name}


@asynccontextmanager
async def cluster_of_brokers_that_create_topics(directory: Path) -> AsyncIterator[Topics]:
    overrides = dict.fromkeys(BROKER_IDS, AUTO_CREATE)
    async with open_cluster("kafka", directory, print, instances=1, overrides=overrides) as cluster:
        topics = Topics(cluster)
        await topics.waiting.until(topics.waiting.missing_agreement, "every broker knows every other")
        yield topics


def assert_only_real_replicas(view: ZooKeeperView, partitions: Mapping[str, int]) -> None:
    assert Counter(tp.topic for tp in view.assignments) == partitions
    for tp, assignment in view.assignments.items():
        assert sorted(assignment.replicas) == list(BROKER_IDS), tp
        assert view.leaderships[tp].leader in BROKER_IDS, tp
        assert sorted(view.leaderships[tp].isr) == list(BROKER_IDS), tp


def expected_values(topics: Sequence[str]) -> Counter[str]:
    return Counter([f"{t}/{n}" for t in topics for n in range(RECORDS)] + [f"{t}/transaction" for t in topics])


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(240)
async def test_controllerd_keeps_no_replica_of_topics_that_brokers_create(tmp_path: Path) -> None:
    names = [f"auto-{n}" for n in range(4)]
    partitions = {**dict.fromkeys(names, 6), **PARTITIONS_OF_INTERNAL}
    async with cluster_of_brokers_that_create_topics(tmp_path) as topics:
        clients = Clients(topics.cluster)
        await asyncio.to_thread(clients.produce, names)
        await asyncio.to_thread(clients.transact, names)
        read = await asyncio.to_thread(clients.read_as_group, names, expected_values(names).total())
        view = await topics.until_whole_and_agreed()

        assert_only_real_replicas(view, partitions)
        assert clients.failures == []
        assert read == expected_values(names)
        replaced = await topics.logged(REPLACED)
        print(f"brokers chose controllerd in {[(line['topic'], line['partitions']) for line in replaced]}")
        # Six partitions with three replicas each on four nodes always include controllerd.
        assert {str(line["topic"]) for line in replaced} >= set(names)
        assert await topics.rewritten() == {str(line["topic"]) for line in replaced}


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(240)
async def test_topics_created_while_a_broker_is_down_wait_for_it_with_all_their_replicas(tmp_path: Path) -> None:
    names = [f"auto-{n}" for n in range(3)]
    partitions = {**dict.fromkeys(names, 6), **PARTITIONS_OF_INTERNAL}
    async with cluster_of_brokers_that_create_topics(tmp_path) as topics:
        await topics.cluster.brokers[DEAD].kill()
        await topics.waiting.until(topics.waiting.missing_agreement, "no broker shows the dead broker")
        clients = Clients(topics.cluster)
        working = asyncio.gather(
            asyncio.to_thread(clients.produce, names),
            asyncio.to_thread(clients.transact, names),
            asyncio.to_thread(clients.read_as_group, names, expected_values(names).total()),
        )
        await topics.until_exist(partitions)
        await topics.until_waiting(sum(partitions.values()))

        view = await topics.cluster.view()
        assert all(len(assignment.replicas) == 3 for assignment in view.assignments.values())
        assert not view.leaderships, "no leader is elected while a replica is on controllerd"
        assert clients.delivered == Counter()
        chosen = {tp.topic for tp, a in view.assignments.items() if any(b in OUR_IDS for b in a.replicas)}
        assert chosen == set(partitions)
        assert {str(line["topic"]) for line in await topics.logged(WAITS)} == set(partitions)

        since = time.monotonic()
        await topics.cluster.brokers[DEAD].start()
        view = await topics.until_whole_and_agreed()
        print(f"whole {time.monotonic() - since:.1f} s after the broker was started again")
        _, _, read = await working

        assert_only_real_replicas(view, partitions)
        assert clients.failures == []
        assert read == expected_values(names)
        await topics.until_waiting(0)
        await topics.until_whole_and_agreed()
