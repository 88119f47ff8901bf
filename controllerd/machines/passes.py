"""Passes over many partitions that give the event loop a turn now and then, written like any other loop."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.machines.outbox import SLICE
from controllerd.pace import Pace, sliced

T = TypeVar("T")


async def paced(items: Iterable[T], pace: Pace) -> AsyncIterator[T]:
    """The items as they are now, with a turn for the loop after a slice of them when it is due."""
    these: Sequence[T] = list(items)
    for part in sliced(these, SLICE):
        for item in part:
            yield item
        await pace.breathe()


async def in_order(partitions: Iterable[TopicPartition], pace: Pace) -> list[TopicPartition]:
    """As ``sorted``, topic by topic: to sort a hundred thousand partitions at once takes too long."""
    by_topic: dict[str, list[TopicPartition]] = {}
    async for tp in paced(partitions, pace):
        by_topic.setdefault(tp.topic, []).append(tp)
    found: list[TopicPartition] = []
    for topic in sorted(by_topic):
        found += sorted(by_topic[topic])
        await pace.breathe()
    return found


async def by_broker(
    rows: AsyncIterator[tuple[TopicPartition, Iterable[BrokerId]]],
) -> dict[BrokerId, list[TopicPartition]]:
    """Partitions with brokers, as brokers with partitions."""
    found: dict[BrokerId, list[TopicPartition]] = {}
    async for tp, brokers in rows:
        for broker in brokers:
            found.setdefault(broker, []).append(tp)
    return found
