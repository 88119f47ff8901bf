"""Which replicas are online, by assignment: computed once for all partitions that have the same replicas."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.records import PartitionRecord

Brokers = tuple[BrokerId, ...]


class Liveness:
    """Live brokers, brokers that are shutting down, and failed log directories, as one question."""

    def __init__(
        self,
        brokers: Mapping[BrokerId, Broker],
        shutting_down: AbstractSet[BrokerId],
        offline_dirs: Mapping[BrokerId, AbstractSet[TopicPartition]],
    ) -> None:
        """The three belong to the context, which says ``changed`` whenever it changed one."""
        self._brokers = brokers
        self._shutting_down = shutting_down
        self._offline_dirs = offline_dirs
        self.changed()

    def changed(self) -> None:
        """What was computed holds no longer."""
        brokers, leaving = self._brokers, self._shutting_down
        self._online = _Known(lambda broker: broker in brokers and broker not in leaving)
        self._registered = _Known(lambda broker: broker in brokers)
        self._offline = _Known(lambda broker: broker not in brokers or broker in leaving)

    def is_online(self, broker: BrokerId, tp: TopicPartition, *, include_shutting_down: bool = False) -> bool:
        """Whether this replica can be read and written: its broker is live and its log directory is good."""
        if broker not in self._brokers or (broker in self._shutting_down and not include_shutting_down):
            return False
        return tp not in self._offline_dirs.get(broker, ())

    def online(self, record: PartitionRecord, *, include_shutting_down: bool = False) -> Brokers:
        """The online replicas of a partition in assignment order."""
        replicas = record.assignment[0]
        if self._offline_dirs:
            is_online = partial(self.is_online, tp=record.tp, include_shutting_down=include_shutting_down)
            return tuple([broker for broker in replicas if is_online(broker)])
        return self._registered[replicas] if include_shutting_down else self._online[replicas]

    def offline(self, record: PartitionRecord) -> Brokers:
        """The other replicas of a partition in assignment order."""
        replicas = record.assignment[0]
        if self._offline_dirs:
            return tuple([broker for broker in replicas if not self.is_online(broker, record.tp)])
        return self._offline[replicas]


class _Known(dict[Brokers, Brokers]):
    """Of replicas those that a rule chooses; asked for 100,000 partitions, computed for a few hundred assignments."""

    def __init__(self, rule: Callable[[BrokerId], bool]) -> None:
        self._rule = rule

    def __missing__(self, replicas: Brokers) -> Brokers:
        chosen = self[replicas] = tuple(filter(self._rule, replicas))
        return chosen
