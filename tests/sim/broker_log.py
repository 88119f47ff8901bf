"""Logs of replicas, and the ledger of what producers were promised: an acknowledged record is never lost.

A record is a leader epoch and a value, an offset its place in the list. Followers truncate by leader epochs (KIP-101),
in the form in which a fetch carries the last epoch and the leader answers where the two logs part (KIP-595).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LogKey = tuple[str, str | None, int]
"""Topic, topic id (None without ids) and partition: a topic that was created again is another one."""


class Record(NamedTuple):
    """A record; its epoch is that of the leader that appended it."""

    epoch: int
    value: int


class ReplicaLog:
    """What one broker has on disk of one partition. It survives everything but StopReplica with delete."""

    __slots__ = ("high_watermark", "records", "topic_id")

    def __init__(self, topic_id: str | None) -> None:
        self.topic_id = topic_id
        self.records: list[Record] = []
        self.high_watermark = 0

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record, -1 when there is none."""
        return self.records[-1].epoch if self.records else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch in the log up to this one (-1 if none), and the offset behind its last record."""
        end = bisect_right(self.records, epoch, key=_epoch)
        return (self.records[end - 1].epoch if end else -1), end

    def parts_from(self, other_epoch: int, other_end: int) -> tuple[int, int] | None:
        """Where a log that ends there, with this last epoch, leaves this one; None if it is a beginning of it."""
        if other_end == 0:
            return None
        epoch, end = self.end_of_epoch(other_epoch)
        return (epoch, end) if epoch < other_epoch or end < other_end else None

    def truncate_to(self, end: int) -> None:
        """Drop everything from this offset on."""
        del self.records[end:]
        self.high_watermark = min(self.high_watermark, end)


def _epoch(record: Record) -> int:
    return record.epoch


class Acknowledged(NamedTuple):
    """A record whose producer was told that it is safe."""

    offset: int
    record: Record
    leader_epoch: int
    """Of the leader that acknowledged it; not less than the record's own."""
    leader: int


class Loss(NamedTuple):
    """A record that was acknowledged and that a broker that must have it does not have."""

    key: LogKey
    acknowledged: Acknowledged
    broker: int
    leader_epoch: int | None
    """The leader epoch in which the broker leads; None if it was looked at for the end of the story."""

    def __str__(self) -> str:
        topic, _, partition = self.key
        offset, record, epoch, leader = self.acknowledged
        why = "which must have it at the end" if self.leader_epoch is None else f"leader of epoch {self.leader_epoch}"
        return (
            f"{topic}-{partition}: record {record.value} at {offset}, acknowledged by {leader} in epoch {epoch}, "
            f"is not in the log of {self.broker}, {why}"
        )


class _Reign(NamedTuple):
    epoch: int
    leader: int
    log: Sequence[Record]


@dataclass(slots=True)
class Ledger:
    """Every acknowledgement and every leader of every partition, compared as they happen."""

    acknowledged: dict[LogKey, list[Acknowledged]] = field(default_factory=dict)
    """What must still be there; what was lost once is not reported again."""
    unclean_allowed: set[str] = field(default_factory=set)
    """Topics that may lose records: the story names them before it allows, or orders, an unclean election."""
    doomed: set[str] = field(default_factory=set)
    """Topics that are to be deleted: nothing of them is promised any more."""
    lost: list[Loss] = field(default_factory=list)
    """Losses that nothing excuses."""
    lost_uncleanly: list[Loss] = field(default_factory=list)
    """Losses of topics with unclean elections."""
    count: int = 0
    """How many records were ever acknowledged."""
    double_leaders: list[str] = field(default_factory=list)
    """Two brokers that led one partition in the same leader epoch, as sentences."""
    _reigns: dict[LogKey, list[_Reign]] = field(default_factory=dict)

    def leads(self, key: LogKey, leader: int, epoch: int, log: ReplicaLog) -> None:
        """A broker begins to lead: what leaders of lower epochs acknowledged must be in its log."""
        rivals = [reign.leader for reign in self._reigns_of(key) if reign.epoch == epoch and reign.leader != leader]
        if rivals and key[0] not in self.doomed:
            self.double_leaders.append(f"{key[0]}-{key[2]}: {rivals[0]} and {leader} both lead in epoch {epoch}")
        self._reigns.setdefault(key, []).append(_Reign(epoch, leader, tuple(log.records)))
        for same in _of_one_topic(key, self.acknowledged):
            promises = self.acknowledged[same]
            for each in [each for each in promises if each.leader_epoch < epoch and not _has(log, each)]:
                self._lose(same, each, leader, epoch)

    def acknowledge(self, key: LogKey, offset: int, record: Record, leader: int, epoch: int) -> None:
        """A leader told a producer that its record is safe; leaders of higher epochs there may be already have it."""
        promise = Acknowledged(offset, record, epoch, leader)
        self.acknowledged.setdefault(key, []).append(promise)
        self.count += 1
        for reign in self._reigns_of(key):
            if reign.epoch > epoch and reign.log[offset : offset + 1] != (record,):
                self._lose(key, promise, reign.leader, reign.epoch)
                return

    def forget(self, key: LogKey) -> None:
        """The topic is being deleted: nothing of it is promised any more."""
        self.acknowledged.pop(key, None)
        self._reigns.pop(key, None)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone; one that gets its name is another one."""
        for key in [key for key in {**self.acknowledged, **self._reigns} if key[0] == topic]:
            self.forget(key)

    def last_leader(self, key: LogKey) -> int | None:
        """The broker that led in the highest epoch."""
        return max(self._reigns[key], key=_reign_epoch).leader if key in self._reigns else None

    def check_last(self, key: LogKey, broker: int, log: ReplicaLog | None) -> list[Loss]:
        """What the log of this broker lacks, which must have everything at the end (None: it has no log at all)."""
        promises = self.acknowledged.get(key, ())
        return [Loss(key, each, broker, None) for each in promises if log is None or not _has(log, each)]

    def _reigns_of(self, key: LogKey) -> list[_Reign]:
        return [reign for same in _of_one_topic(key, self._reigns) for reign in self._reigns[same]]

    def _lose(self, key: LogKey, promise: Acknowledged, leader: int, epoch: int) -> None:
        self.acknowledged[key].remove(promise)
        if key[0] in self.doomed:
            return
        losses = self.lost_uncleanly if key[0] in self.unclean_allowed else self.lost
        losses.append(Loss(key, promise, leader, epoch))


def _of_one_topic(key: LogKey, keys: Iterable[LogKey]) -> list[LogKey]:
    """The keys of a partition whose ids do not differ: a broker may host a topic without knowing its id."""
    topic, topic_id, partition = key
    named = (each for each in keys if each[0] == topic and each[2] == partition)
    return [each for each in named if each[1] == topic_id or None in {each[1], topic_id}]


def _has(log: ReplicaLog, promise: Acknowledged) -> bool:
    records: Final = log.records
    return promise.offset < len(records) and records[promise.offset] == promise.record


def _reign_epoch(reign: _Reign) -> int:
    return reign.epoch
