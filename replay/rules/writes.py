"""Invariants of the role and of what is written to ZooKeeper. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from controllerd.core.model import NO_LEADER, TopicPartition
from replay.fold import leaderships_of
from replay.records import DecisionRecord, LeadershipRecord, TermRecord, TopicsRecord, ZkWriteRecord
from replay.rules.base import Entry, Rule

ALTER_PARTITION: Final = "AlterPartitionReceived"
_STATE_PATH: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_ELECTION_PATHS: Final = frozenset({"/controller", "/controller_epoch"})
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
    """Two terms with one epoch would both pass the fence."""

    id = "I-01"
    title = "a controller epoch is won once, and each is higher than those before it"
    across_nodes = True

    def __init__(self) -> None:
        self._won: dict[int, str] = {}
        self._last: dict[int, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        record, node = entry.record, entry.envelope.node
        if not isinstance(record, TermRecord) or record.change not in ("elected", "renewed"):
            return
        epoch, last = record.controller_epoch, self._last.get(node, 0)
        if record.change == "renewed" and epoch == last:
            return  # the end of the old term, said before the new one is won
        if epoch in self._won:
            yield f"epoch {epoch} was won by node {node} and before by {self._won[epoch]}"
        elif epoch < last:
            yield f"node {node} won epoch {epoch} after {last}"
        self._won[epoch] = f"node {node}"
        self._last[node] = max(epoch, last)


class WritesAreFenced(Rule):
    """The fence is what makes a deposed controller harmless."""

    id = "I-02"
    title = "every write demands the version of /controller_epoch that this term won"

    def __init__(self) -> None:
        self._version = -1

    def see(self, entry: Entry) -> Iterator[str]:
        record = entry.record
        if isinstance(record, TermRecord) and record.change in ("elected", "renewed"):
            self._version = record.epoch_zk_version
        if not isinstance(record, ZkWriteRecord):
            return
        if record.fence >= 0 and record.fence != self._version:
            yield f"fence {record.fence}, but the term was won at version {self._version}: {record.paths[:3]}"
        if record.fence < 0:
            rows = zip(record.operations, record.paths, strict=True)
            bare = [path for operation, path in rows if not _may_be_unfenced(operation, path)]
            if bare:
                yield f"written without fence: {bare[:3]}"


def _may_be_unfenced(operation: str, path: str) -> bool:
    """The election, and the creation of missing persistent parents, which each broker does as well."""
    if path in _ELECTION_PATHS:
        return True
    return operation.lower() == "create" and (path in _PERSISTENT or path.startswith(_PERSISTENT_ROOTS))


class FencingHolds(Rule):
    """The theorem that the fence is there for."""

    id = "I-04"
    title = "in the order of ZooKeeper no write of an older epoch succeeds after one of a newer"
    across_nodes = True

    def __init__(self) -> None:
        self._spans: dict[int, tuple[int, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        record, epoch = entry.record, entry.envelope.epoch
        if isinstance(record, ZkWriteRecord) and record.fence >= 0 and epoch and record.zxid and "ok" in record.results:
            first, last = self._spans.get(epoch, (record.zxid, record.zxid))
            self._spans[epoch] = min(first, record.zxid), max(last, record.zxid)
        yield from ()

    def finish(self) -> Iterator[str]:
        highest, holder = 0, 0
        for epoch, (first, last) in sorted(self._spans.items()):
            if first < highest:
                yield f"epoch {holder} wrote at zxid {highest:#x}, after epoch {epoch} had written at {first:#x}"
            if last > highest:
                highest, holder = last, epoch


class IsrIsNeverEmpty(Rule):
    """An empty ISR has forgotten who holds the data."""

    id = "I-06"
    title = "an ISR is never empty"

    def see(self, entry: Entry) -> Iterator[str]:
        record = entry.record
        if isinstance(record, LeadershipRecord | DecisionRecord):
            for topic, number, isr in zip(record.topics, record.partitions, record.isrs, strict=True):
                if not isr:
                    yield f"{topic}-{number} has an empty ISR"


class IsrGrowsByLiveBrokers(Rule):
    """KIP-841: a broker that is going away must not become a candidate for leader."""

    id = "I-08"
    title = "a broker that AlterPartition adds to an ISR is live and not shutting down"

    def see(self, entry: Entry) -> Iterator[str]:
        if not isinstance(entry.record, LeadershipRecord) or entry.event != ALTER_PARTITION:
            return
        for tp, leadership in leaderships_of(entry.record):
            known = entry.state.partition(tp)
            if known is None or known.leadership is None:
                continue
            added = set(leadership.isr) - set(known.leadership.isr) - entry.state.live
            if added:
                yield f"{tp}: brokers {sorted(added)} came into the ISR and are not live"


class LeaderIsInIsr(Rule):
    """LeaderInIsr of the TLA+ models."""

    id = "I-09"
    title = "a leader is in its ISR, or there is none"

    def see(self, entry: Entry) -> Iterator[str]:
        record = entry.record
        if isinstance(record, LeadershipRecord | DecisionRecord):
            columns = (record.topics, record.partitions, record.leaders, record.isrs)
            for topic, number, leader, isr in zip(*columns, strict=True):
                if leader != NO_LEADER and isr and leader not in isr:
                    yield f"{topic}-{number} has the leader {leader} and the ISR {isr}"


class LeaderEpochRises(Rule):
    """Brokers tell leaderships apart by the leader epoch alone."""

    id = "I-12"
    title = "a leader epoch rises with each write of the controller and stays the same in an AlterPartition"

    def __init__(self) -> None:
        self._written: dict[TopicPartition, int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        if isinstance(entry.record, ZkWriteRecord):
            self._written.update(_state_writes(entry.record))
        elif isinstance(entry.record, LeadershipRecord):
            yield from self._see_leaderships(entry, entry.record)

    def _see_leaderships(self, entry: Entry, record: LeadershipRecord) -> Iterator[str]:
        for tp, after in leaderships_of(record):
            known = entry.state.partition(tp)
            before = known.leadership if known is not None else None
            if before is None or after.partition_epoch <= before.partition_epoch:
                continue
            change = f"{tp}: leader epoch {before.leader_epoch} to {after.leader_epoch}"
            ours = self._written.get(tp) == after.partition_epoch
            if after.leader_epoch < before.leader_epoch:
                yield f"{change}, which is lower"
            elif ours and entry.event == ALTER_PARTITION and after.leader_epoch != before.leader_epoch:
                yield f"{change} in an AlterPartition"
            elif ours and entry.event != ALTER_PARTITION and after.leader_epoch == before.leader_epoch:
                yield f"{change} by a write of the controller"


def _state_writes(record: ZkWriteRecord) -> Iterator[tuple[TopicPartition, int]]:
    for path, result, version in zip(record.paths, record.results, record.versions, strict=True):
        match = _STATE_PATH.fullmatch(path)
        if match is not None and result == "ok" and version >= 0:
            yield TopicPartition(match[1], int(match[2])), version


class TopicIdStays(Rule):
    """A topic that changes its id under brokers makes them refuse it (KIP-516)."""

    id = "I-26"
    title = "a topic keeps its id for as long as it lives"

    def see(self, entry: Entry) -> Iterator[str]:
        if not isinstance(entry.record, TopicsRecord):
            return
        for name, topic_id in zip(entry.record.names, entry.record.ids, strict=True):
            known = entry.state.topics.get(name)
            if known is not None and known.topic_id is not None and known.topic_id != topic_id:
                yield f"topic {name} had the id {known.topic_id} and has {topic_id}"


class QuarantineIsRespected(Rule):
    """What could not be understood must not be overwritten."""

    id = "I-37"
    title = "a znode in quarantine is not written"

    def see(self, entry: Entry) -> Iterator[str]:
        record = entry.record
        if not isinstance(record, ZkWriteRecord):
            return
        for operation, path, result in zip(record.operations, record.paths, record.results, strict=True):
            # Deleting is how an operator gets rid of it, by deleting the topic.
            if path in entry.state.quarantine and result == "ok" and operation.lower() != "delete":
                yield f"{operation} {path} while in quarantine: {entry.state.quarantine[path]}"
