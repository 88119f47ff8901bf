"""Invariants of the role and of the writes to ZooKeeper. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from controllerd.core.model import NO_LEADER, OUR_IDS, TopicPartition
from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.records import (
    DecisionRecord,
    LeadershipRecord,
    RequestRecord,
    SnapshotBegin,
    TermRecord,
    TopicsRecord,
    ZkWriteRecord,
)
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule
from controllerd.record.rules.leaderships import ALTER_PARTITION

_ELECTION_PATHS: Final = frozenset({"/controller", "/controller_epoch"})
_OUR_REGISTRATIONS: Final = frozenset(f"/brokers/ids/{node_id}" for node_id in OUR_IDS)
_HARMLESS: Final = frozenset({"create", "delete"})
_PERSISTENT_ROOTS: Final = ("/admin", "/config", "/cluster", "/consumers")
_PERSISTENT: Final = frozenset({
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/log_dir_event_notification",
})  # fmt: skip


class OneTermPerEpoch(Rule):
    """Two terms with the same epoch would both pass the fence."""

    id = "I-01"
    title = "a controller epoch is won once, and each is higher than those before it"
    severity = "critical"
    question = "Which other controller won this epoch, and was /controller_epoch written or restored by hand?"
    across_nodes = True
    kinds = frozenset({TermRecord})

    def __init__(self) -> None:
        self._won: dict[int, str] = {}
        self._last: dict[int, int] = {}

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record, node = checked.record, checked.envelope.node
        if not isinstance(record, TermRecord) or record.change not in ("elected", "renewed"):
            return
        epoch, last = record.controller_epoch, self._last.get(node, 0)
        if record.change == "renewed" and epoch == last:
            return  # the end of the old term, recorded before the new one is won
        if epoch in self._won:
            yield f"epoch {epoch} was won by node {node} and before by {self._won[epoch]}"
        elif epoch < last:
            yield f"node {node} won epoch {epoch} after {last}"
        self._won[epoch] = f"node {node}"
        self._last[node] = max(epoch, last)


class WritesAreFenced(Rule):
    """The fence makes a deposed controller harmless."""

    id = "I-02"
    title = "every write demands the version of /controller_epoch that this term won"
    severity = "critical"
    question = "Which code wrote without the fence of its term, and had another controller been elected by then?"
    kinds = frozenset({TermRecord, SnapshotBegin, ZkWriteRecord})
    checks_snapshot_rows = True

    def __init__(self) -> None:
        self._version = -1

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, TermRecord):
            if record.change in TERM_BEGINS:
                self._version = record.epoch_zk_version
        elif isinstance(record, SnapshotBegin):
            if record.periodic:
                self._version = record.epoch_zk_version
        elif isinstance(record, ZkWriteRecord):
            yield from self._judge(record)

    def _judge(self, record: ZkWriteRecord) -> Iterator[str]:
        if record.fence >= 0 and record.fence != self._version:
            yield f"fence {record.fence}, but the term was won at version {self._version}: {record.paths[:3]}"
        if record.fence < 0:
            rows = zip(record.operations, record.paths, strict=True)
            bare = [path for operation, path in rows if not _may_be_unfenced(operation, path)]
            if bare:
                yield f"written without fence: {bare[:3]}"


def _may_be_unfenced(operation: str, path: str) -> bool:
    """Whether a write needs no fence.

    It needs none in the election, to delete controllerd's own registration, and to create missing persistent parents.
    Brokers create these parents as well. An ephemeral registration is deleted by the election that
    takes the role, or by its own session, which no other instance has.
    """
    if path in _ELECTION_PATHS or (operation.lower() == "delete" and path in _OUR_REGISTRATIONS):
        return True
    return operation.lower() == "create" and (path in _PERSISTENT or path.startswith(_PERSISTENT_ROOTS))


class FencingHolds(Rule):
    """The property that the fence provides."""

    id = "I-04"
    title = "in the order of ZooKeeper, no write of an older epoch succeeds after one of a newer epoch"
    severity = "critical"
    question = "How could a deposed controller write: was /controller_epoch deleted, or ZooKeeper restored?"
    across_nodes = True
    kinds = frozenset({ZkWriteRecord})

    def __init__(self) -> None:
        self._spans: dict[int, tuple[int, int]] = {}

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record, epoch = checked.record, checked.envelope.epoch
        if isinstance(record, ZkWriteRecord) and record.fence >= 0 and epoch and record.zxid and "ok" in record.results:
            first, last = self._spans.get(epoch, (record.zxid, record.zxid))
            self._spans[epoch] = min(first, record.zxid), max(last, record.zxid)
        yield from ()

    def finish(self) -> Iterator[str | Evidence]:
        highest, holder = 0, 0
        for epoch, (first, last) in sorted(self._spans.items()):
            if first < highest:
                yield f"epoch {holder} wrote at zxid {highest:#x}, after epoch {epoch} had written at {first:#x}"
            if last > highest:
                highest, holder = last, epoch


class IsrIsNeverEmpty(Rule):
    """An empty ISR does not say which replica has the data."""

    id = "I-06"
    title = "no ISR that is decided on or written is empty"
    severity = "critical"
    question = "Which replica has the data of this partition, now that its ISR is empty?"
    kinds = frozenset({LeadershipRecord, DecisionRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        for tp, _, isr in _intended(checked):
            if not isr:
                yield f"{tp} has an empty ISR"


class IsrGrowsByLiveBrokers(Rule):
    """KIP-841: a broker that is shutting down must not become a candidate for leader."""

    id = "I-08"
    title = "a broker that AlterPartition adds to an ISR is live and not shutting down"
    severity = "error"
    question = "Was the broker that joined the ISR shutting down, and is it a candidate for leader now?"
    kinds = frozenset({LeadershipRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        if checked.event != ALTER_PARTITION:
            return
        for change in checked.changes:
            if change.before is None:
                continue
            added = set(change.after.isr) - set(change.before.isr) - checked.state.live
            if added:
                yield f"{change.tp}: brokers {sorted(added)} joined the ISR and are not live"


class LeaderIsInIsr(Rule):
    """The invariant ``LeaderInIsr`` of Kafka's TLA+ models."""

    id = "I-09"
    title = "a leader that is decided on or written is in its ISR, or there is none"
    severity = "critical"
    question = "Does the leader have every acknowledged record, though it is not in sync?"
    kinds = frozenset({LeadershipRecord, DecisionRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        for tp, leader, isr in _intended(checked):
            if leader != NO_LEADER and isr and leader not in isr:
                yield f"{tp} has the leader {leader} and the ISR {list(isr)}"


def _intended(checked: CheckedRecord) -> Iterator[tuple[TopicPartition, int, Sequence[int]]]:
    """The leaders and ISRs that this controller decided on or wrote, and not those that it read from ZooKeeper."""
    record = checked.record
    if isinstance(record, DecisionRecord):
        columns = (record.topics, record.partitions, record.leaders, record.isrs)
        for topic, number, leader, isr in zip(*columns, strict=True):
            yield TopicPartition(topic, number), leader, isr
    for change in checked.changes:
        if change.is_ours:
            yield change.tp, change.after.leader, change.after.isr


class LeaderEpochRises(Rule):
    """Brokers distinguish leaderships by the leader epoch alone."""

    id = "I-12"
    title = "a leader epoch rises with each write of the controller and stays the same in an AlterPartition"
    severity = "critical"
    question = "Do two leaderships have one epoch, so that brokers cannot distinguish them?"
    kinds = frozenset({LeadershipRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        for change in checked.changes:
            before, after = change.before, change.after
            if before is None or after.partition_epoch <= before.partition_epoch:
                continue
            said = f"{change.tp}: leader epoch {before.leader_epoch} to {after.leader_epoch}"
            # If a foreign write interferes with an AlterPartition, an election in the same event resolves it.
            is_requested = checked.event == ALTER_PARTITION and change.decided is None
            if after.leader_epoch < before.leader_epoch:
                yield f"{said}, which is lower"
            elif change.is_ours and is_requested and after.leader_epoch != before.leader_epoch:
                yield f"{said} in an AlterPartition"
            elif change.is_ours and not is_requested and after.leader_epoch == before.leader_epoch:
                yield f"{said} by a write of the controller"


class TopicIdStays(Rule):
    """Brokers refuse a topic whose id has changed (KIP-516)."""

    id = "I-26"
    title = "a topic keeps its id for as long as it exists"
    severity = "critical"
    question = "Was the topic deleted and created anew, and do brokers refuse it because of its id?"
    kinds = frozenset({TopicsRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        if not isinstance(checked.record, TopicsRecord):
            return
        for name, topic_id in zip(checked.record.names, checked.record.ids, strict=True):
            known = checked.state.topics.get(name)
            if known is not None and known.topic_id is not None and known.topic_id != topic_id:
                yield f"topic {name} had the id {known.topic_id} and has {topic_id}"


class AmbiguousWritesAreResolvedFirst(Rule):
    """A write whose response was lost must be read back before it is used."""

    id = "I-38"
    title = "a write with an unknown outcome is read back before a request names its partition"
    severity = "error"
    question = "Did the write happen, and were brokers sent a state that is not in ZooKeeper?"
    kinds = frozenset({ZkWriteRecord, TermRecord, SnapshotBegin, RequestRecord})

    def __init__(self) -> None:
        self._doubtful: set[str] = set()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, ZkWriteRecord):
            if self._doubtful or record.ambiguous:
                self._add_write(record)
        elif not self._doubtful:
            return
        elif isinstance(record, TermRecord | SnapshotBegin):
            self._doubtful.clear()
        elif isinstance(record, RequestRecord):
            for topic, number in zip(record.topics, record.partitions, strict=True):
                path = f"/brokers/topics/{topic}/partitions/{number}/state"
                if path in self._doubtful:
                    yield f"{record.api} names {topic}-{number}, whose last write has an unknown outcome"

    def _add_write(self, record: ZkWriteRecord) -> None:
        for path, result in zip(record.paths, record.results, strict=True):
            if record.ambiguous and result == "unknown":
                self._doubtful.add(path)
            else:
                self._doubtful.discard(path)


class QuarantineIsRespected(Rule):
    """An unreadable znode must not be overwritten."""

    id = "I-37"
    title = "a znode in quarantine is not written"
    severity = "error"
    question = "What did the znode hold before it was overwritten, and does a backup have it?"
    kinds = frozenset({ZkWriteRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if not isinstance(record, ZkWriteRecord):
            return
        for operation, path, result in zip(record.operations, record.paths, record.results, strict=True):
            # An operator removes it by deleting the topic, and a create overwrites nothing.
            if path in checked.state.quarantine and result == "ok" and operation.lower() not in _HARMLESS:
                yield f"{operation} {path} while in quarantine: {checked.state.quarantine[path]}"
