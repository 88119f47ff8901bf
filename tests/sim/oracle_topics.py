"""Judges the other znodes that an instance writes: topics, and blocks of producer ids."""

from collections.abc import Mapping
from typing import Any, Final

from tests.sim.oracle_history import (
    PRODUCER_IDS,
    History,
    assignments_of,
    block_of,
    document_of,
)
from tests.sim.oracle_seen import ANY_VERSION, OUR_IDS, Operation, Report, Transaction

RULES: Final = {
    "Z-18": "a topic keeps its id",
    "Z-19": "a topic znode loses no partition and no field",
    "Z-20": "in an assignment only ids of instances are replaced, each by one broker",
    "Z-22": "blocks of producer ids are disjoint and rise",
}
_REPLICA_LISTS: Final = ("adding_replicas", "removing_replicas")
_JUDGED_APART: Final = frozenset({"version", "partitions", "topic_id", *_REPLICA_LISTS})


class TopicJudge:
    """Compares each new content with the one before."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report

    def judge_topic(self, operation: Operation, topic: str, transaction: Transaction) -> None:
        """An instance writes a topic znode; not applied yet."""
        now, before, after = transaction.time, self._history.documents.get(topic), document_of(operation.data)
        if operation.kind == "set" and operation.expected == ANY_VERSION:
            self._report("Z-11", now, f"{operation.path} was written at whatever version")
        if before is None or after is None:
            self._report("Z-21", now, f"{operation.path} from {before} to {operation.data!r}")
            return
        if before.get("topic_id") is not None and after.get("topic_id") != before["topic_id"]:
            self._report("Z-18", now, f"{topic} had the id {before['topic_id']} and got {after.get('topic_id')}")
        lost = sorted(self._lost(before, after))
        if lost:
            self._report("Z-19", now, f"{topic} lost or changed {lost}")
        self._judge_assignments(topic, before, after, now)

    def _lost(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
        lost = {name for name in before.keys() - _JUDGED_APART if after.get(name) != before[name]}
        for name in _REPLICA_LISTS:
            old, new = before.get(name) or {}, after.get(name) or {}
            lost.update(f"{name} of {partition}" for partition in old if old[partition] and partition not in new)
        gone = assignments_of(before).keys() - assignments_of(after).keys()
        return lost | {f"partition {number}" for number in gone}

    def _judge_assignments(self, topic: str, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        new = assignments_of(after)
        for number, replicas in assignments_of(before).items():
            if number in new and new[number] != replicas and not self._is_replacement(replicas, new[number], now):
                self._report("Z-20", now, f"{topic}-{number} from {list(replicas)} to {list(new[number])}")

    def _is_replacement(self, before: tuple[int, ...], after: tuple[int, ...], now: float) -> bool:
        if len(before) != len(after) or len(set(after)) < len(after):
            return False
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        return all(old in OUR_IDS and self._history.was_live(new, now) for old, new in changed)

    def judge_block(self, operation: Operation, transaction: Transaction) -> None:
        """An instance hands out producer ids; not applied yet."""
        first, last = block_of(operation.data)
        highest = self._history.last_producer_id
        if operation.path == PRODUCER_IDS and not highest < first <= last:
            self._report("Z-22", transaction.time, f"block {first} to {last} after ids up to {highest}")
