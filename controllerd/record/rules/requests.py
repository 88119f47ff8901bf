"""Invariants of the control requests to brokers. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from controllerd.core.model import LEADER_DURING_DELETE, BrokerId, TopicPartition
from controllerd.record.records import BrokersRecord, RequestRecord, SnapshotBegin, TermRecord, TopicsForgotten
from controllerd.record.rules.base import Entry, Evidence, Rule, is_picture

_Target = tuple[int, int]
"""A broker and its epoch."""


def _targets(record: RequestRecord) -> list[_Target]:
    return list(zip(record.brokers, record.broker_epochs, strict=True))


class RequestsAreOfTheTerm(Rule):
    """Brokers follow the highest controller epoch they have heard of."""

    id = "I-03"
    title = "a request carries the epoch of the present term, and none is made outside a term"
    severity = "error"
    question = "Did brokers act on a request of a controller that no longer led?"
    kinds = frozenset({TermRecord, SnapshotBegin, RequestRecord})
    sees_pictures = True

    def __init__(self) -> None:
        self._epoch = 0

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, SnapshotBegin):
            self._epoch = record.controller_epoch
        elif isinstance(record, TermRecord):
            begins = record.change in ("elected", "renewed")
            self._epoch = record.controller_epoch if begins else 0
        elif isinstance(record, RequestRecord) and record.controller_epoch != self._epoch:
            yield f"{record.api} of epoch {record.controller_epoch} in the term {self._epoch or 'of nobody'}"


class NobodyIsDeleted(Rule):
    """-2 tells a broker to drop the partition from its metadata; in a LeaderAndIsr it is no broker's id."""

    id = "I-09"
    title = "leader -2 stands only in UpdateMetadata"
    severity = "critical"
    question = "Did a broker take -2 for the id of a leader, and stop serving the partition?"
    kinds = frozenset({RequestRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if (
            isinstance(record, RequestRecord)
            and record.api != "UpdateMetadata"
            and LEADER_DURING_DELETE in record.leaders
        ):
            at = record.leaders.index(LEADER_DURING_DELETE)
            yield f"{record.api} with leader -2 for {record.topics[at]}-{record.partitions[at]}"


class _Sent:
    """The newest epochs that each broker was sent per partition; a topic that is gone is forgotten."""

    def __init__(self) -> None:
        self._epochs: defaultdict[str, dict[tuple[_Target, int], tuple[int, ...]]] = defaultdict(dict)

    def forget(self, topics: list[str]) -> None:
        for topic in topics:
            self._epochs.pop(topic, None)

    def newest(self, target: _Target, tp: TopicPartition) -> tuple[int, ...]:
        return self._epochs[tp.topic].get((target, tp.partition), ())

    def sent(self, target: _Target, tp: TopicPartition, epochs: tuple[int, ...]) -> None:
        self._epochs[tp.topic][target, tp.partition] = max(epochs, self.newest(target, tp))


class LeaderAndIsrNeverGoesBack(Rule):
    """A broker would refuse it; sending it shows that the controller's state is stale."""

    id = "I-10"
    title = "LeaderAndIsr to a broker never goes back in (controller epoch, leader epoch) of a partition"
    severity = "error"
    question = "Which picture was this request made from, and did the broker refuse it?"
    kinds = frozenset({TopicsForgotten, RequestRecord})

    def __init__(self) -> None:
        self._sent = _Sent()

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, TopicsForgotten):
            self._sent.forget(record.names)
        if not isinstance(record, RequestRecord) or record.api != "LeaderAndIsr":
            return
        for target in _targets(record):
            for topic, number, epoch in zip(record.topics, record.partitions, record.leader_epochs, strict=True):
                tp, epochs = TopicPartition(topic, number), (record.controller_epoch, epoch)
                if epochs < self._sent.newest(target, tp):
                    yield f"broker {target[0]} got {tp} with {epochs} after {self._sent.newest(target, tp)}"
                self._sent.sent(target, tp, epochs)


class MetadataNeverGoesBack(Rule):
    """Clients would be sent to a former leader."""

    id = "I-11"
    title = "UpdateMetadata never shows a broker an older partition than it was sent before"
    severity = "warning"
    question = "Were clients sent to a former leader, and for how long?"
    kinds = frozenset({TopicsForgotten, RequestRecord})

    def __init__(self) -> None:
        self._sent = _Sent()

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, TopicsForgotten):
            self._sent.forget(record.names)
        if isinstance(record, RequestRecord) and record.api != "StopReplica":
            for target in _targets(record):
                yield from self._see_request(record, target)

    def _see_request(self, record: RequestRecord, target: _Target) -> Iterator[str | Evidence]:
        columns = (record.topics, record.partitions, record.leaders, record.leader_epochs, record.partition_epochs)
        for topic, number, leader, leader_epoch, partition_epoch in zip(*columns, strict=True):
            if leader == LEADER_DURING_DELETE:
                continue
            tp, epochs = TopicPartition(topic, number), (record.controller_epoch, leader_epoch, partition_epoch)
            if record.api == "UpdateMetadata" and epochs < self._sent.newest(target, tp):
                yield f"broker {target[0]} was shown {tp} with {epochs} after {self._sent.newest(target, tp)}"
            self._sent.sent(target, tp, epochs)


class PartitionEpochsAreRead(Rule):
    """Brokers send the partition epoch back as the condition of their AlterPartition."""

    id = "I-13"
    title = "a partition epoch in a request was read from ZooKeeper or answered by it"
    severity = "error"
    question = "Where does this partition epoch come from, and did brokers send it back in an AlterPartition?"
    kinds = frozenset({RequestRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if not isinstance(record, RequestRecord) or record.api == "StopReplica":
            return
        columns = (record.topics, record.partitions, record.leaders, record.partition_epochs)
        for topic, number, leader, epoch in zip(*columns, strict=True):
            tp = TopicPartition(topic, number)
            known = entry.state.partition(tp)
            highest = known.leadership.partition_epoch if known is not None and known.leadership is not None else -1
            if epoch > highest and leader != LEADER_DURING_DELETE:
                yield f"{record.api} has the partition epoch {epoch} of {tp}, the log knows {highest}"


class MetadataComesFirst(Rule):
    """A follower that does not know its leader's broker refuses in silence."""

    id = "I-23"
    title = "the first request of a term to a broker is an UpdateMetadata with the live brokers"
    severity = "warning"
    question = "Did followers on this broker refuse leaders whose brokers they did not know?"
    kinds = frozenset({BrokersRecord, RequestRecord})
    sees_pictures = True

    def __init__(self) -> None:
        self._greeted: set[tuple[int, int, int]] = set()

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, BrokersRecord):
            if is_picture(entry):
                self._greeted.update((row.id, row.epoch, entry.state.controller_epoch) for row in record.live)
        elif isinstance(record, RequestRecord):
            yield from self._see_request(record)

    def _see_request(self, record: RequestRecord) -> Iterator[str]:
        for broker, epoch in _targets(record):
            key = (broker, epoch, record.controller_epoch)
            if key not in self._greeted and not (record.api == "UpdateMetadata" and record.live_brokers):
                yield f"the first request to broker {broker} (epoch {epoch}) is {record.api}"
            self._greeted.add(key)


class BrokerEpochsAreCurrent(Rule):
    """KIP-380: a request for an earlier life of a broker must not reach its next."""

    id = "I-27"
    title = "a request goes to a registered broker and carries the broker epoch of its registration"
    severity = "error"
    question = "Did a request for an earlier life of this broker reach its present one?"
    kinds = frozenset({RequestRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        if not isinstance(entry.record, RequestRecord):
            return
        for broker, epoch in _targets(entry.record):
            known = entry.state.brokers.get(BrokerId(broker))
            if known is None:
                yield f"{entry.record.api} to broker {broker}, which is not registered"
            elif known.epoch != epoch:
                yield f"{entry.record.api} to broker {broker} with epoch {epoch}, registered with {known.epoch}"
