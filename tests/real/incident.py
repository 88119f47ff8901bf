"""An incident to report on: a broker is down for a minute under load, and the producer records each failed record."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from controllerd.dev.cluster import DevCluster, open_cluster
from controllerd.dev.waiting import Waiting
from tests.real.trial import RECORDS_PER_S

VICTIM: Final = 2
DEAD_S: Final = 60.0
GIVES_UP_S: Final = 1.5
"""A record that is not acknowledged within this time has failed."""
PRECIOUS: Final = {partition: [1 + (partition + i) % 3 for i in range(3)] for partition in range(6)}
FRAGILE: Final = {partition: [1 + partition % 3] for partition in range(6)}
"""Partitions with one replica each: without its broker, such a partition has no leader."""
TOPICS: Final = {"orders": PRECIOUS, "payments": FRAGILE}
_BEFORE_S, _AFTER_S = 5.0, 10.0


class Sent(NamedTuple):
    """One record of the producer's own log, by the wall clock in milliseconds."""

    topic: str
    partition: int
    sent_ms: int
    answered_ms: int
    error: str | None


@dataclass(slots=True)
class Failures:
    """The records of one partition that failed: how many, and when the first and the last of them were sent."""

    count: int
    first_sent_ms: int
    last_sent_ms: int
    acknowledged_again_ms: int | None
    """When the first record after them was acknowledged."""


class ImpatientLoad:
    """A producer that gives up records early, and records the outcome of each."""

    def __init__(self, bootstrap: str) -> None:
        self.log: list[Sent] = []
        # One for each topic: a topic that waits for followers must not delay the other one in the same request.
        self._producers = {topic: _producer(bootstrap) for topic in TOPICS}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="impatient load", daemon=True)

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, and wait for the last answers."""
        self._stopping.set()
        self._thread.join()
        for producer in self._producers.values():
            producer.flush(2 * GIVES_UP_S)

    def failures(self) -> dict[tuple[str, int], Failures]:
        """The failed records by partition."""
        failed = defaultdict[tuple[str, int], list[Sent]](list)
        for sent in self.log:
            if sent.error is not None:
                failed[sent.topic, sent.partition].append(sent)
        return {partition: self._summary(partition, records) for partition, records in failed.items()}

    def _summary(self, partition: tuple[str, int], failed: list[Sent]) -> Failures:
        first, last = min(one.sent_ms for one in failed), max(one.sent_ms for one in failed)
        again = [
            one.answered_ms
            for one in self.log
            if (one.topic, one.partition) == partition and one.error is None and one.sent_ms >= last
        ]
        return Failures(len(failed), first, last, min(again, default=None))

    def _run(self) -> None:
        partitions = [(topic, partition) for topic, assignment in TOPICS.items() for partition in assignment]
        while not self._stopping.is_set():
            for topic, partition in partitions:
                self._send(topic, partition)
                self._producers[topic].poll(0)
                self._stopping.wait(1 / RECORDS_PER_S)

    def _send(self, topic: str, partition: int) -> None:
        sent_ms = _now_ms()

        def answered(error: KafkaError | None, _: Message) -> None:
            self.log.append(Sent(topic, partition, sent_ms, _now_ms(), None if error is None else error.name()))

        self._producers[topic].produce(topic, b"x", partition=partition, on_delivery=answered)


def _producer(bootstrap: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "message.timeout.ms": int(GIVES_UP_S * 1000),
            "topic.metadata.refresh.interval.ms": 1_000,
            "retry.backoff.max.ms": 500,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
        }
    )


@dataclass(slots=True)
class Incident:
    """The incident as the test and its producer observed it."""

    logs: list[Path] = field(default_factory=list)
    """The audit logs of all instances."""
    killed_ms: int = 0
    back_ms: int = 0
    """When the broker was started again."""
    failures: dict[tuple[str, int], Failures] = field(default_factory=dict)
    acknowledged: int = 0


@asynccontextmanager
async def incident(directory: Path) -> AsyncIterator[Incident]:
    """Three brokers under load, one of them down for a minute; all processes have ended before it yields."""
    seen = Incident()
    async with open_cluster("kafka", directory, print, instances=2) as cluster:
        waiting = Waiting(cluster, print)
        for topic, assignment in TOPICS.items():
            await cluster.observer.create_topic(topic, assignment, {})
        await waiting.until(waiting.missing_agreement, "every broker knows the topics")
        load = ImpatientLoad(cluster.bootstrap)
        load.start()
        try:
            await _happen(cluster, waiting, load, seen)
        finally:
            load.stop()
        seen.failures, seen.acknowledged = load.failures(), sum(one.error is None for one in load.log)
        cluster_id = await cluster.observer.cluster_id()
        seen.logs = [controller.audit_directory(cluster_id) for controller in cluster.controllers]
    yield seen


async def _happen(cluster: DevCluster, waiting: Waiting, load: ImpatientLoad, seen: Incident) -> None:
    await _until_acknowledged(waiting, load)
    await _stay(_BEFORE_S)
    seen.killed_ms = _now_ms()
    await cluster.brokers[VICTIM].kill()
    await _stay(DEAD_S)
    seen.back_ms = _now_ms()
    await cluster.brokers[VICTIM].start()
    await waiting.until(waiting.missing_isr, "the ISRs are full again")
    await _until_acknowledged(waiting, load)
    await _stay(_AFTER_S)


async def _until_acknowledged(waiting: Waiting, load: ImpatientLoad) -> None:
    """Wait until every partition has acknowledged a record that was sent from now on."""
    since, everything = _now_ms(), {(topic, partition) for topic, rows in TOPICS.items() for partition in rows}

    async def missing() -> str | None:
        done = {(one.topic, one.partition) for one in load.log if one.sent_ms >= since and one.error is None}
        return f"{len(everything - done)} partitions are missing" if everything - done else None

    await waiting.until(missing, "every partition acknowledges")


async def _stay(seconds: float) -> None:
    """Sleep: the length of the incident is part of the test."""

    await asyncio.sleep(seconds)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
