"""Invariants of the control requests to brokers. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from controllerd.core.model import LEADER_DURING_DELETE, BrokerId, TopicPartition
from controllerd.record.records import BrokersRecord, RequestRecord, SnapshotBegin, TermRecord, TopicsForgotten
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule, is_snapshot_row

_Target = tuple[int, int]
"""A broker and its epoch."""


def _targets(record: RequestRecord) -> list[_Target]:
    return list(zip(record.brokers, record.broker_epochs, strict=True))


class RequestsAreOfTheTerm(Rule):
    """Brokers follow the highest controller epoch that they have received."""

    id = "I-03"
    title = "a request has the epoch of the current term, and no request is sent outside a term"
    severity = "error"
    question = "Did brokers act on a request of a controller that no longer led?"
    kinds = frozenset({TermRecord, SnapshotBegin, RequestRecord})
    checks_snapshot_rows = True

    def __init__(self) -> None:
        self._epoch = 0

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, SnapshotBegin):
            self._epoch = record.controller_epoch
        elif isinstance(record, TermRecord):
            begins = record.change in ("elected", "renewed")
            self._epoch = record.controller_epoch if begins else 0
        elif isinstance(record, RequestRecord) and record.controller_epoch != self._epoch:
            term = f"term {self._epoch}" if self._epoch else "no term"
            yield f"{record.api} of epoch {record.controller_epoch} in {term}"


class DeletedLeaderOnlyInMetadata(Rule):
    """In UpdateMetadata, -2 means that the partition is deleted. In LeaderAndIsr it would be the id of no broker."""

    id = "I-09"
    title = "leader -2 occurs only in UpdateMetadata"
    severity = "critical"
    question = "Did a broker take -2 for the id of a leader, and stop serving the partition?"
    kinds = frozenset({RequestRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if (
            isinstance(record, RequestRecord)
            and record.api != "UpdateMetadata"
            and LEADER_DURING_DELETE in record.leaders
        ):
            at = record.leaders.index(LEADER_DURING_DELETE)
            yield f"{record.api} with leader -2 for {record.topics[at]}-{record.partitions[at]}"


class _NewestEpochs:
    """The newest epochs that each broker was sent, per partition. Deleted topics are forgotten."""

    def __init__(self) -> None:
        self._epochs: defaultdict[str, dict[tuple[_Target, int], tuple[int, ...]]] = defaultdict(dict)

    def forget(self, topics: list[str]) -> None:
        for topic in topics:
            self._epochs.pop(topic, None)

    def newest(self, target: _Target, tp: TopicPartition) -> tuple[int, ...]:
        return self._epochs[tp.topic].get((target, tp.partition), ())

    def note_sent(self, target: _Target, tp: TopicPartition, epochs: tuple[int, ...]) -> None:
        self._epochs[tp.topic][target, tp.partition] = max(epochs, self.newest(target, tp))


class LeaderAndIsrNeverGoesBack(Rule):
    """A broker would refuse the request. Sending it shows that the state of the controller is stale."""

    id = "I-10"
    title = "LeaderAndIsr to a broker never goes back in (controller epoch, leader epoch) of a partition"
    severity = "error"
    question = "From which state was this request made, and did the broker refuse it?"
    kinds = frozenset({TopicsForgotten, RequestRecord})

    def __init__(self) -> None:
        self._sent = _NewestEpochs()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, TopicsForgotten):
            self._sent.forget(record.names)
        if not isinstance(record, RequestRecord) or record.api != "LeaderAndIsr":
            return
        for target in _targets(record):
            for topic, number, epoch in zip(record.topics, record.partitions, record.leader_epochs, strict=True):
                tp, epochs = TopicPartition(topic, number), (record.controller_epoch, epoch)
                if epochs < self._sent.newest(target, tp):
                    yield f"broker {target[0]} was sent {tp} with {epochs} after {self._sent.newest(target, tp)}"
                self._sent.note_sent(target, tp, epochs)


class MetadataNeverGoesBack(Rule):
    """Older metadata would direct clients to a former leader."""

    id = "I-11"
    title = "UpdateMetadata never has an older state of a partition than the broker was sent before"
    severity = "warning"
    question = "Were clients directed to a former leader, and for how long?"
    kinds = frozenset({TopicsForgotten, RequestRecord})

    def __init__(self) -> None:
        self._sent = _NewestEpochs()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, TopicsForgotten):
            self._sent.forget(record.names)
        if isinstance(record, RequestRecord) and record.api != "StopReplica":
            for target in _targets(record):
                yield from self._add_request(record, target)

    def _add_request(self, record: RequestRecord, target: _Target) -> Iterator[str | Evidence]:
        columns = (record.topics, record.partitions, record.leaders, record.leader_epochs, record.partition_epochs)
        for topic, number, leader, leader_epoch, partition_epoch in zip(*columns, strict=True):
            if leader == LEADER_DURING_DELETE:
                continue
            tp, epochs = TopicPartition(topic, number), (record.controller_epoch, leader_epoch, partition_epoch)
            if record.api == "UpdateMetadata" and epochs < self._sent.newest(target, tp):
                yield f"broker {target[0]} was sent {tp} with {epochs} after {self._sent.newest(target, tp)}"
            self._sent.note_sent(target, tp, epochs)


class PartitionEpochsAreRead(Rule):
    """Brokers return the partition epoch as the condition of their AlterPartition."""

    id = "I-13"
    title = "a partition epoch in a request was read from ZooKeeper or returned by a write"
    severity = "error"
    question = "Where does this partition epoch come from, and did brokers send it back in an AlterPartition?"
    kinds = frozenset({RequestRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if not isinstance(record, RequestRecord) or record.api == "StopReplica":
            return
        columns = (record.topics, record.partitions, record.leaders, record.partition_epochs)
        for topic, number, leader, epoch in zip(*columns, strict=True):
            tp = TopicPartition(topic, number)
            known = checked.state.partition(tp)
            highest = known.leadership.partition_epoch if known is not None and known.leadership is not None else -1
            if epoch > highest and leader != LEADER_DURING_DELETE:
                yield f"{record.api} has the partition epoch {epoch} of {tp}, but the log has {highest}"


class MetadataComesFirst(Rule):
    """A follower that does not know the broker of a new leader does not follow it, and reports no error."""

    id = "I-23"
    title = "the first request of a term to a broker is an UpdateMetadata with the live brokers"
    severity = "warning"
    question = "Did followers on this broker refuse leaders whose brokers they did not know?"
    kinds = frozenset({BrokersRecord, RequestRecord})
    checks_snapshot_rows = True

    def __init__(self) -> None:
        self._initialized: set[tuple[int, int, int]] = set()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, BrokersRecord):
            if is_snapshot_row(checked):
                self._initialized.update((row.id, row.epoch, checked.state.controller_epoch) for row in record.live)
        elif isinstance(record, RequestRecord):
            yield from self._add_request(record)

    def _add_request(self, record: RequestRecord) -> Iterator[str]:
        for broker, epoch in _targets(record):
            key = (broker, epoch, record.controller_epoch)
            if key not in self._initialized and not (record.api == "UpdateMetadata" and record.live_brokers):
                yield f"the first request to broker {broker} (epoch {epoch}) is {record.api}"
            self._initialized.add(key)


class BrokerEpochsAreCurrent(Rule):
    """KIP-380: a request for an earlier registration of a broker must not reach the restarted broker."""

    id = "I-27"
    title = "a request is sent to a registered broker and has the broker epoch of its registration"
    severity = "error"
    question = "Did a request for an earlier registration of this broker reach the restarted broker?"
    kinds = frozenset({RequestRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        if not isinstance(checked.record, RequestRecord):
            return
        for broker, epoch in _targets(checked.record):
            known = checked.state.brokers.get(BrokerId(broker))
            if known is None:
                yield f"{checked.record.api} to broker {broker}, which is not registered"
            elif known.epoch != epoch:
                yield f"{checked.record.api} to broker {broker} with epoch {epoch}, registered with {known.epoch}"
