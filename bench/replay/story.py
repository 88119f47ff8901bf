"""The invented audit log of a healthy controller: terms of two instances in turn, broker failures, ISR changes.

The log can be folded, and violates no invariant.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from controllerd.record.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    ConfigRecord,
    DecisionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    ResponseRecord,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
    ZkWriteRecord,
)

BROKERS: Final = (1, 2, 3, 4, 5)
TOPICS: Final = 10
PARTITIONS: Final = 20
REPLICAS: Final = 3
QUIET: Final = 500
"""The number of ISR changes between two broker failures."""

_STRIDE: Final = 37

StampedRecord = tuple[int, int, Record]
"""The epoch and the event number of the envelope, and the record."""


class Partition:
    """The current state of a partition."""

    def __init__(self, topic: str, number: int, replicas: list[int]) -> None:
        self.topic = topic
        self.number = number
        self.path = f"/brokers/topics/{topic}/partitions/{number}/state"
        self.replicas = replicas
        self.leader = replicas[0]
        self.leader_epoch = 0
        self.isr = list(replicas)
        self.version = 0
        self.state_epoch = 1


class Cluster:
    """Brokers and partitions, from one term to the next."""

    def __init__(self) -> None:
        self._turns = count()
        self.epochs = {broker: 100 + broker for broker in BROKERS}
        self.partitions = [
            Partition(
                f"topic-{topic}", number, [BROKERS[(topic + number + at) % len(BROKERS)] for at in range(REPLICAS)]
            )
            for topic in range(TOPICS)
            for number in range(PARTITIONS)
        ]
        self.zxid = 1_000

    def partition_in_turn(self) -> Partition:
        """Return another partition with every call."""
        return self.partitions[next(self._turns) * _STRIDE % len(self.partitions)]

    def broker_in_turn(self) -> int:
        """Return another broker with every call."""
        return BROKERS[next(self._turns) % len(BROKERS)]


class Change(NamedTuple):
    """The next state of a partition."""

    partition: Partition
    leader: int
    isr: list[int]


class Term:
    """One term: its records, and its changes of the cluster."""

    def __init__(self, cluster: Cluster, epoch: int, node: int) -> None:
        self._cluster = cluster
        self._epoch = epoch
        self._fence = 10 + epoch
        self._holder = f"controllerd {node}"
        self._event = 0
        self._correlations = dict.fromkeys(BROKERS, 0)

    def records(self, at_least: int) -> Iterator[StampedRecord]:
        """Yield the records of the whole term: at least this many, until no change is left open."""
        written = 0
        for stamped in self._takeover():
            written += 1
            yield stamped
        while written < at_least:
            for stamped in self._round():
                written += 1
                yield stamped
        yield (
            self._epoch,
            0,
            TermRecord("resigned", self._epoch, self._fence, self._holder, "the operator asked for it"),
        )
        yield 0, 0, SessionRecord("closed", self._epoch, 1)

    def _takeover(self) -> Iterator[StampedRecord]:
        yield 0, 0, ConfigRecord({"audit": {"fsync": "interval", "level": "normal"}})
        yield 0, 0, SessionRecord("connected", self._epoch, 1)
        yield 0, 0, TermRecord("elected", self._epoch, self._fence, self._holder, "no instance held the role")
        yield from self._in_event("Startup", 1, self._snapshot())

    def _snapshot(self) -> Iterator[Record]:
        known, epochs = self._cluster.partitions, self._cluster.epochs
        topics, numbers = _names(known)
        many = len(known)
        nothing: list[list[int]] = [[] for _ in known]
        names = sorted(set(topics))
        yield SnapshotBegin(self._epoch)
        yield BrokersRecord(
            live=[BrokerRow(broker, epoch, _endpoints(broker), None) for broker, epoch in epochs.items()]
        )
        yield TopicsRecord(names, [f"id-{name}" for name in names], [0] * len(names))
        yield AssignmentRecord(topics, numbers, [one.replicas for one in known], nothing, nothing)
        yield _leaderships(known)
        yield SnapshotEnd(len(epochs), len(names), many)
        yield PartitionStateRecord(topics, numbers, ["NonExistentPartition"] * many, ["OnlinePartition"] * many)
        for at in range(REPLICAS):
            brokers = [one.replicas[at] for one in known]
            yield ReplicaStateRecord(topics, numbers, brokers, ["NonExistentReplica"] * many, ["OnlineReplica"] * many)
        yield self._metadata(BROKERS, BROKERS, ())
        yield from self._requests(known, BROKERS)

    def _round(self) -> Iterator[StampedRecord]:
        """Let ISRs shrink and grow; then let a broker fail, return, catch up and lead again."""
        for _ in range(QUIET):
            partition = self._cluster.partition_in_turn()
            slow = next(one for one in reversed(partition.isr) if one != partition.leader)
            yield from self._isr_change(partition, [one for one in partition.isr if one != slow], BROKERS)
            yield from self._isr_change(partition, list(partition.replicas), BROKERS)
        broker = self._cluster.broker_in_turn()
        others = tuple(one for one in BROKERS if one != broker)
        hosted = [one for one in self._cluster.partitions if broker in one.replicas]
        yield from self._in_event("BrokerChange", 2, self._death(broker, hosted, others))
        yield from self._in_event("BrokerChange", 2, self._return(broker, hosted, others))
        for partition in hosted:
            yield from self._isr_change(partition, [*partition.isr, broker], BROKERS)
        led = [one for one in hosted if one.replicas[0] == broker]
        yield from self._in_event("AutoPreferredReplicaLeaderElection", 5, self._preferred(led))

    def _in_event(
        self, name: str, state: int, records: Iterable[Record], *, leader: int = 0
    ) -> Iterator[StampedRecord]:
        """Yield the records of one event, and the responses to its requests."""
        self._event = number = self._event + 1
        sent: list[RequestRecord] = []
        yield self._epoch, number, EventBegin(number, name, state, 0.21, {"broker": leader} if leader else {})
        for record in records:
            if isinstance(record, RequestRecord):
                sent.append(record)
            yield self._epoch, number, record
        if leader:
            yield self._epoch, number, ReplyRecord(number, name, "done")
        yield self._epoch, number, EventEnd(number, name, "done", 1.75)
        for request in sent:
            for broker, epoch in zip(request.brokers, request.broker_epochs, strict=True):
                correlation = self._correlations[broker] = self._correlations[broker] + 1
                yield self._epoch, 0, ResponseRecord(broker, epoch, request.api, 8, correlation, 310, 1, 2.5, 0)

    def _isr_change(self, partition: Partition, isr: list[int], live: Sequence[int]) -> Iterator[StampedRecord]:
        """Yield the event of an AlterPartition request."""
        return self._in_event("AlterPartitionReceived", 9, self._altered(partition, isr, live), leader=partition.leader)

    def _altered(self, partition: Partition, isr: list[int], live: Sequence[int]) -> Iterator[Record]:
        yield from self._write([Change(partition, partition.leader, isr)], by_us=False)
        yield self._metadata(live, live, [partition])

    def _death(self, broker: int, hosted: list[Partition], live: Sequence[int]) -> Iterator[Record]:
        led = [one for one in hosted if one.leader == broker]
        yield BrokersRecord(gone=[broker])
        yield _partition_moves(led, "OnlinePartition", "OfflinePartition")
        yield _replica_moves(broker, hosted, "OnlineReplica", "OfflineReplica")
        yield from self._elect("offline", [Change(one, *_without(one, broker)) for one in led])
        yield _partition_moves(led, "OfflinePartition", "OnlinePartition")
        followed = [one for one in hosted if one not in led]
        yield from self._write([Change(one, one.leader, _without(one, broker)[1]) for one in followed])
        yield from self._requests(hosted, live)

    def _return(self, broker: int, hosted: list[Partition], others: Sequence[int]) -> Iterator[Record]:
        self._cluster.zxid += 1
        epoch = self._cluster.epochs[broker] = self._cluster.zxid
        self._correlations[broker] = 0
        yield BrokersRecord(live=[BrokerRow(broker, epoch, _endpoints(broker), None)])
        yield self._metadata(others, BROKERS, ())
        yield self._metadata([broker], BROKERS, self._cluster.partitions)
        yield _replica_moves(broker, hosted, "OfflineReplica", "OnlineReplica")
        yield self._leader_and_isr(broker, hosted)

    def _preferred(self, led: list[Partition]) -> Iterator[Record]:
        yield from self._elect("preferred", [Change(one, one.replicas[0], one.isr) for one in led])
        yield from self._requests(led, BROKERS)

    def _elect(self, strategy: str, changes: list[Change]) -> Iterator[Record]:
        topics, numbers = _names([one.partition for one in changes])
        leaders, isrs = [one.leader for one in changes], [one.isr for one in changes]
        yield DecisionRecord(strategy, topics, numbers, leaders, isrs, [False] * len(changes))
        yield from self._write(changes)

    def _write(self, changes: list[Change], *, by_us: bool = True) -> Iterator[Record]:
        """Yield one transaction, and the leaderships after it."""
        many, cluster = len(changes), self._cluster
        changed = [change.partition for change in changes]
        expected = [one.version for one in changed]
        for partition, leader, isr in changes:
            partition.leader, partition.isr, partition.state_epoch = leader, isr, self._epoch
            partition.leader_epoch += by_us
            partition.version += 1
        cluster.zxid += 1
        versions = [one.version for one in changed]
        paths = [one.path for one in changed]
        yield ZkWriteRecord(
            self._fence, cluster.zxid, 1.3, ["setData"] * many, paths, expected, ["ok"] * many, versions
        )
        yield _leaderships(changed)

    def _requests(self, changed: Sequence[Partition], live: Sequence[int]) -> Iterator[Record]:
        for broker in live:
            hosted = [one for one in changed if broker in one.replicas]
            if hosted:
                yield self._leader_and_isr(broker, hosted)
        yield self._metadata(live, live, changed)

    def _leader_and_isr(self, broker: int, partitions: Sequence[Partition]) -> Record:
        return RequestRecord(
            "LeaderAndIsr",
            self._epoch,
            [broker],
            [self._cluster.epochs[broker]],
            *_columns(partitions),
            is_new=[False] * len(partitions),
        )

    def _metadata(self, to: Sequence[int], live: Sequence[int], partitions: Sequence[Partition]) -> Record:
        epochs = [self._cluster.epochs[broker] for broker in to]
        return RequestRecord("UpdateMetadata", self._epoch, [*to], epochs, *_columns(partitions), [*live])


def _without(partition: Partition, broker: int) -> tuple[int, list[int]]:
    isr = [one for one in partition.isr if one != broker]
    return next(one for one in partition.replicas if one in isr), isr


def _endpoints(broker: int) -> list[str]:
    return [f"PLAINTEXT=PLAINTEXT://broker-{broker}.example:9092"]


def _names(partitions: Sequence[Partition]) -> tuple[list[str], list[int]]:
    return [one.topic for one in partitions], [one.number for one in partitions]


def _columns(partitions: Sequence[Partition]) -> tuple[list[str], list[int], list[int], list[int], list[int]]:
    topics, numbers = _names(partitions)
    leaders = [one.leader for one in partitions]
    return topics, numbers, leaders, [one.leader_epoch for one in partitions], [one.version for one in partitions]


def _leaderships(partitions: Sequence[Partition]) -> Record:
    topics, numbers, leaders, leader_epochs, versions = _columns(partitions)
    isrs, epochs = [one.isr for one in partitions], [one.state_epoch for one in partitions]
    return LeadershipRecord(topics, numbers, leaders, leader_epochs, isrs, epochs, versions, [0] * len(partitions))


def _partition_moves(partitions: Sequence[Partition], before: str, after: str) -> Record:
    return PartitionStateRecord(*_names(partitions), [before] * len(partitions), [after] * len(partitions))


def _replica_moves(broker: int, partitions: Sequence[Partition], before: str, after: str) -> Record:
    many = len(partitions)
    return ReplicaStateRecord(*_names(partitions), [broker] * many, [before] * many, [after] * many)
