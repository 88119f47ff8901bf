"""The online replicas of partitions, and the difference between two reads of the registered brokers.

Online replicas are computed once for all partitions that have the same replicas.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.records import PartitionRecord

Brokers = tuple[BrokerId, ...]


class Liveness:
    """The online replicas by live brokers, brokers that are shutting down, and failed log directories."""

    def __init__(
        self,
        brokers: Mapping[BrokerId, Broker],
        shutting_down: AbstractSet[BrokerId],
        offline_dirs: Mapping[BrokerId, AbstractSet[TopicPartition]],
    ) -> None:
        """Take three containers of the context, which calls ``changed`` whenever one of them has changed."""
        self._brokers = brokers
        self._shutting_down = shutting_down
        self._offline_dirs = offline_dirs
        self.changed()

    def changed(self) -> None:
        """Forget the computed lists: one of the three has changed."""
        brokers, leaving = self._brokers, self._shutting_down
        self._online = _Known(lambda broker: broker in brokers and broker not in leaving)
        self._registered = _Known(lambda broker: broker in brokers)
        self._offline = _Known(lambda broker: broker not in brokers or broker in leaving)

    def is_online(self, broker: BrokerId, tp: TopicPartition, *, include_shutting_down: bool = False) -> bool:
        """Whether this replica can be read and written: its broker is live and its log directory has not failed."""
        if broker not in self._brokers or (broker in self._shutting_down and not include_shutting_down):
            return False
        return tp not in self._offline_dirs.get(broker, ())

    def online(self, record: PartitionRecord, *, include_shutting_down: bool = False) -> Brokers:
        """The online replicas of a partition in assignment order."""
        replicas = record.assignment[0]  # by number: called for every partition in each pass
        if self._offline_dirs:
            is_online = partial(self.is_online, tp=record.tp, include_shutting_down=include_shutting_down)
            return tuple([broker for broker in replicas if is_online(broker)])
        return self._registered[replicas] if include_shutting_down else self._online[replicas]

    def offline(self, record: PartitionRecord) -> Brokers:
        """The other replicas of a partition in assignment order."""
        replicas = record.assignment[0]  # by number, as above
        if self._offline_dirs:
            return tuple([broker for broker in replicas if not self.is_online(broker, record.tp)])
        return self._offline[replicas]


class _Known(dict[Brokers, Brokers]):
    """The replicas that a rule selects, computed once for equal lists: 100,000 partitions have a few hundred."""

    def __init__(self, rule: Callable[[BrokerId], bool]) -> None:
        self._rule = rule

    def __missing__(self, replicas: Brokers) -> Brokers:
        chosen = self[replicas] = tuple(filter(self._rule, replicas))
        return chosen


class BrokerDiff(NamedTuple):
    """New, bounced and dead brokers, each sorted by id; falsy when nothing changed."""

    new: tuple[BrokerId, ...] = ()
    bounced: tuple[BrokerId, ...] = ()
    """Registered again with a greater broker epoch: they restarted or lost their session (KIP-380)."""
    dead: tuple[BrokerId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.bounced or self.dead)


def diff_brokers(known: Mapping[BrokerId, int], observed: Mapping[BrokerId, int]) -> BrokerDiff:
    """Compare two views of broker id -> broker epoch; an epoch that went back is an old read and is ignored."""
    return BrokerDiff(
        new=tuple(sorted(observed.keys() - known.keys())),
        bounced=tuple(sorted(broker for broker, epoch in observed.items() if epoch > known.get(broker, epoch))),
        dead=tuple(sorted(known.keys() - observed.keys())),
    )
