"""The cluster that is there before a workload: topics and states as brokers and the controller before us left them."""

import base64
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from controllerd.clock import SystemClock
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.zk import codecs, paths
from controllerd.zk.access import Committed, Create, Operation
from controllerd.zk.client import ZooKeeperClient, open_store
from controllerd.zk.elector import Contender
from events.queue import EventQueue
from replay.records import Record

BROKERS: Final = 6
REPLICATION: Final = 3
TOPIC_PARTITIONS: Final = 20
NODE: Final = 2_000_000_000
SESSION_MS: Final = 60_000
"""So long that no session pings while something is measured."""
WAIT_S: Final = 20.0
_TRANSACTION: Final = 500
_EPOCH: Final = 1


class BenchError(Exception):
    """Something was refused that must work."""


class _Unheard:
    """What the preparing session writes is nobody's concern."""

    def record(self, *records: Record) -> None:
        """Forget."""

    async def accepted(self) -> None:
        """Nothing to wait for."""


@asynccontextmanager
async def connected(connect: str) -> AsyncIterator[ZooKeeperClient]:
    """A session to prepare with; it never contends."""
    clock = SystemClock()
    client = await open_store(
        connect,
        session_timeout_ms=SESSION_MS,
        contender=Contender(NODE + 1, ""),
        queue=EventQueue(clock.monotonic),
        audit=_Unheard(),
        clock=clock,
        connect_timeout_s=WAIT_S,
    )
    try:
        yield client
    finally:
        await client.close()


async def commit(client: ZooKeeperClient, operations: Sequence[Operation]) -> None:
    """Write without a fence. Up to 500 operations are one transaction: one cause for one event.

    :raises BenchError: ZooKeeper refused.
    """
    chunks = [operations[start : start + _TRANSACTION] for start in range(0, len(operations), _TRANSACTION)]
    for outcome in await client.zk.commit(chunks):
        if not isinstance(outcome, Committed):
            raise BenchError(f"the cluster could not be prepared: {outcome}")


def topic(prefix: str, number: int) -> Operation:
    """A topic as the tools create it, by its znode."""
    name = _name(prefix, number)
    assignments = {p: ReplicaAssignment(_replicas(number + p)) for p in range(TOPIC_PARTITIONS)}
    return Create(paths.topic(name), codecs.encode_topic(TopicImage(name, assignments, _topic_id(name), 0)))


def epoch() -> Operation:
    """The epoch that the controller before us left."""
    return Create(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(_EPOCH))


def states(prefix: str, topics: int) -> list[Operation]:
    """The state of every partition of so many topics, led by the preferred replica, with the znodes above it."""
    operations: list[Operation] = []
    for number in range(topics):
        name = _name(prefix, number)
        operations.append(Create(paths.topic_partitions(name), None))
        for p in range(TOPIC_PARTITIONS):
            tp, replicas = TopicPartition(name, p), _replicas(number + p)
            data = codecs.encode_state(LeaderAndIsr(replicas[0], 0, replicas, _EPOCH, 0))
            operations += [Create(paths.partition(tp), None), Create(paths.partition_state(tp), data)]
    return operations


def _name(prefix: str, number: int) -> str:
    return f"{prefix}-{number:05}"


def _replicas(number: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId((number + k) % BROKERS + 1) for k in range(REPLICATION))


def _topic_id(name: str) -> str:
    """The same in every run."""
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_OID, name).bytes).decode().rstrip("=")
