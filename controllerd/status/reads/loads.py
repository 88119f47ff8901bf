"""How the leaderships and replicas are spread over the brokers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import BrokerId
from controllerd.pace import Pace
from controllerd.status.per_topic import PerTopic
from controllerd.views import ClusterView, PartitionView, TopicView


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


def measure(partitions: Iterable[PartitionView]) -> Loads:
    """The loads by these partitions: gathered in one plain loop, for after a failover it runs over all of them."""
    places, offline, leaders, preferred, led_by_others = (list[BrokerId]() for _ in range(5))
    for partition in partitions:
        _, _, (replicas, _, _), leadership, away, _ = partition
        places += replicas
        offline += away
        preferred += replicas[:1]
        if leadership is not None:
            leaders.append(leadership[0])
            if leadership[0] not in replicas[:1] and is_imbalanced(partition):  # most are led as they should be
                led_by_others += replicas[:1]
    columns = [Counter(column) for column in (leaders, preferred, led_by_others, places, offline)]
    brokers = {broker for column in columns for broker in column if broker >= 0}  # less than that: nobody leads
    return {broker: Load(*(column[broker] for column in columns)) for broker in brokers}


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

    async def loads(self, snapshot: ClusterView, pace: Pace) -> Loads:
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
