"""Rows of the two tables that are not SQL: the folded partitions and the violations. Pure, for every engine."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from controllerd.record.envelope import Envelope
from controllerd.record.invariants import RULES, InvariantChecker, Violation
from controllerd.record.records import Record
from controllerd.record.rules.base import Rule
from controllerd.record.state import ClusterState
from replay.facts.engine import Row

MOST: Final = 1000
"""Number of violations of one rule and cluster that are listed; the others are counted."""
_RULES: Final = {rule.id: rule for rule in RULES}


def partition_rows(cluster: str, state: ClusterState) -> Iterator[Row]:
    """Return the table ``partitions`` of one cluster, sorted."""
    for tp, known in sorted(state.partitions()):
        leadership, assignment = known.leadership, known.assignment
        yield {
            "cluster": cluster,
            "topic": tp.topic,
            "partition": tp.partition,
            "leader": leadership.leader if leadership is not None else None,
            "leader_epoch": leadership.leader_epoch if leadership is not None else None,
            "isr": [*leadership.isr] if leadership is not None else None,
            "partition_epoch": leadership.partition_epoch if leadership is not None else None,
            "replicas": [*assignment.replicas],
            "adding": [*assignment.adding],
            "removing": [*assignment.removing],
            "state": known.state.value,
        }


def violation_rows(
    cluster: str, log: Iterable[tuple[Envelope, Record]], rules: Sequence[type[Rule]] = RULES
) -> list[Row]:
    """Return the violations of these rules in one cluster for the table ``violations``: the first ``MOST`` of each.

    :param log: all of the cluster's records, from ``controllerd.record.travel.merged``
    """
    checker, found = InvariantChecker(rules), _FoundViolations(cluster)
    for envelope, record in log:
        for violation in checker.check(envelope, record):
            found.add(violation, envelope.ts_ms)
    for violation in checker.finish():
        found.add(violation, None)
    return found.rows()


class _FoundViolations:
    """Violations up to a bound."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._rows: list[Row] = []
        self._counts: Counter[str] = Counter()

    def add(self, violation: Violation, ts_ms: int | None) -> None:
        """Add a violation, or only count it beyond the bound."""
        self._counts[violation.id] += 1
        if self._counts[violation.id] <= MOST:
            row = _row(self._cluster, violation.id, violation.evidence)
            has_place = violation.boot != ""
            row["node"], row["boot"] = (violation.node, violation.boot) if has_place else (None, None)
            self._rows.append({**row, "seq": violation.seq, "ts_ms": ts_ms})

    def rows(self) -> list[Row]:
        """Return the rows, and a row with the number left out for each rule."""
        more = [(name, count - MOST) for name, count in self._counts.items() if count > MOST]
        return self._rows + [
            _row(self._cluster, name, f"{count} more that are not listed", count) for name, count in more
        ]


def _row(cluster: str, name: str, evidence: str, times: int = 1) -> Row:
    rule = _RULES[name]
    return {
        "cluster": cluster,
        "id": name,
        "severity": rule.severity,
        "title": rule.title,
        "question": rule.question,
        "node": None,
        "boot": None,
        "seq": 0,
        "ts_ms": None,
        "evidence": evidence,
        "times": times,
    }
