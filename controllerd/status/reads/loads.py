"""How the leaderships and replicas are spread over the brokers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import BrokerId
from controllerd.pace import Pace
from controllerd.snapshot import ClusterSnapshot, PartitionView, TopicView
from controllerd.status.per_topic import PerTopic


@dataclass(slots=True)
class Load:
    """One broker's share of some partitions."""

    leaders: int = 0
    preferred: int = 0
    """Partitions whose preferred replica it is."""
    led_by_others: int = 0
    """Of those, how many another broker leads, or none."""
    replicas: int = 0
    offline: int = 0

    def add(self, other: "Load") -> None:
        """Count the other's in."""
        self.leaders += other.leaders
        self.preferred += other.preferred
        self.led_by_others += other.led_by_others
        self.replicas += other.replicas
        self.offline += other.offline


Loads = dict[BrokerId, Load]


@dataclass(slots=True)
class _Tally:
    loads: Loads = field(default_factory=dict)

    def of(self, broker: BrokerId) -> Load:
        load = self.loads.get(broker)
        if load is None:
            load = self.loads[broker] = Load()
        return load

    def add(self, part: Loads) -> None:
        for broker, load in part.items():
            self.of(broker).add(load)


def measure(partitions: Sequence[PartitionView]) -> Loads:
    """The loads by these partitions."""
    tally = _Tally()
    for partition in partitions:
        replicas, leadership = partition.assignment.replicas, partition.leadership
        for broker in replicas:
            tally.of(broker).replicas += 1
        for broker in partition.offline_replicas:
            tally.of(broker).offline += 1
        if leadership is not None and leadership.leader >= 0:
            tally.of(leadership.leader).leaders += 1
        if replicas:
            preferred = tally.of(replicas[0])
            preferred.preferred += 1
            preferred.led_by_others += is_imbalanced(partition)
    return tally.loads


def merge(parts: Iterable[Loads]) -> Loads:
    """All of them together."""
    tally = _Tally()
    for part in parts:
        tally.add(part)
    return tally.loads


class LoadTally:
    """The loads of the newest picture."""

    def __init__(self) -> None:
        self._topics = PerTopic(measure, merge)
        self._loads: Loads = {}
        self._version: int | None = None

    async def loads(self, snapshot: ClusterSnapshot, pace: Pace) -> Loads:
        """By broker, with turns for the event loop in between; brokers without replicas are absent."""
        version = snapshot.version
        if version != self._version:
            total = _Tally()
            for part in (await self._topics.all(snapshot, pace)).values():
                total.add(part)
                await pace.breathe()
            self._loads, self._version = total.loads, version
        return self._loads

    async def of(self, view: TopicView, pace: Pace) -> Loads:
        """By broker, of one topic."""
        return await self._topics.of(view, pace)
