"""Judges the other znodes that an instance writes: topics, and blocks of producer ids."""

from collections.abc import Mapping
from typing import Any, Final

from tests.sim.oracle_admin import AdminJudge
from tests.sim.oracle_calls import CallJudge
from tests.sim.oracle_history import PRODUCER_IDS, History, block_of, document_of
from tests.sim.oracle_seen import ANY_VERSION, Operation, Report, Transaction

RULES: Final = {
    "Z-18": "a topic keeps its id",
    "Z-19": "a topic znode loses no partition and no field",
    "Z-22": "blocks of producer ids are disjoint and rise",
}
_JUDGED_APART: Final = frozenset({"version", "partitions", "topic_id", "adding_replicas", "removing_replicas"})


class TopicJudge:
    """Compares each new content with the previous one."""

    def __init__(self, history: History, report: Report, admin: AdminJudge, calls: CallJudge) -> None:
        self._history = history
        self._report = report
        self._admin = admin
        self._calls = calls

    def judge_topic(self, operation: Operation, topic: str, transaction: Transaction) -> None:
        """Judge a topic znode written by an instance, before it is applied."""
        now, before, after = transaction.time, self._history.documents.get(topic), document_of(operation.data)
        if operation.kind == "create":
            self._calls.judge_created(operation, topic, transaction)
            return
        if operation.expected == ANY_VERSION:
            self._report("Z-11", now, f"{operation.path} was written at whatever version")
        if before is None or after is None:
            self._report("Z-21", now, f"{operation.path} from {before} to {operation.data!r}")
            return
        if before.get("topic_id") is not None and after.get("topic_id") != before["topic_id"]:
            self._report("Z-18", now, f"{topic} had the id {before['topic_id']} and got {after.get('topic_id')}")
        lost = sorted(self._lost(before, after))
        if lost:
            self._report("Z-19", now, f"{topic} lost or changed {lost}")
        self._admin.judge_assignments(topic, before, after, now)
        self._calls.judge_growth(topic, before, after, now)

    def _lost(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
        return {name for name in before.keys() - _JUDGED_APART if after.get(name) != before[name]}

    def judge_block(self, operation: Operation, transaction: Transaction) -> None:
        """Judge a block of producer ids that an instance allocates, before it is applied."""
        first, last = block_of(operation.data)
        highest = self._history.last_producer_id
        if operation.path == PRODUCER_IDS and not highest < first <= last:
            self._report("Z-22", transaction.time, f"block {first} to {last} after ids up to {highest}")
