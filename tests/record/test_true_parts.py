"""No false alarm where only a part of a true log is there: at the level ``summary``, and without its first segments."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Literal

import pytest

from controllerd.audit.settings import at_level
from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.fold import apply
from controllerd.record.invariants import check
from controllerd.record.records import RequestRecord, SnapshotEnd, TermRecord, ZkWriteRecord
from controllerd.record.state import ClusterState
from tests.record.logs import Log
from tests.record.true_logs import SEEDS, true_log

CUTS = 5
"""In each log: some hundred places in all, most of them within a term, some within its opening snapshot."""


def written(log: Log, level: Literal["summary", "normal"]) -> Log:
    """The log as it would have been written at this level, with the numbers that its lines have then."""
    numbers: Counter[str] = Counter()
    lines: Log = []
    for envelope, record in log:
        kept = at_level(level, record)
        if kept is not None:
            numbers[envelope.boot] += 1
            lines.append((replace(envelope, seq=numbers[envelope.boot]), kept))
    return lines


def folded(log: Log) -> ClusterState:
    """The state after the last record."""
    state = ClusterState()
    for envelope, record in log:
        apply(state, envelope, record)
    return state


@pytest.mark.parametrize("seed", SEEDS)
def test_a_summary_of_a_story_with_faults_breaks_no_rule_and_leads_to_the_same_cluster(seed: int) -> None:
    log = true_log(seed)
    summary = written(log, "summary")
    assert not any(isinstance(record, RequestRecord | ZkWriteRecord) for _, record in summary)
    assert list(check(summary)) == []
    short, full = folded(summary), folded(log)
    assert short.leaderships() == full.leaderships()
    assert short.assignments() == full.assignments()
    assert short.topic_ids() == full.topic_ids()
    assert short.brokers == full.brokers


@pytest.mark.parametrize("level", ["summary", "normal"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_without_its_beginning_breaks_nothing(seed: int, level: Literal["summary", "normal"]) -> None:
    log = written(true_log(seed), level)
    rng = Random(f"cut {seed}")
    opening = next(at for at, (_, record) in enumerate(log) if isinstance(record, SnapshotEnd))
    cuts = [*range(1, opening + 2), *(rng.randrange(1, len(log)) for _ in range(CUTS))]
    assert {cut: violations for cut in cuts if (violations := list(check(log[cut:])))} == {}


def test_a_violation_after_the_first_snapshot_is_found() -> None:
    """From the next term on a log without its beginning is judged as every other."""
    log = next(log for log in map(true_log, SEEDS) if len(_terms(log)) > 1)
    first, second = _terms(log)[:2]
    rest = log[first + 1 :]
    at = next(at for at, (_, record) in enumerate(rest) if at > second - first and isinstance(record, SnapshotEnd))
    envelope, record = rest[at]
    assert isinstance(record, SnapshotEnd)
    rest[at] = envelope, replace(record, partitions=record.partitions + 1)
    assert [violation.id for violation in check(rest)] == ["I-30"]


def _terms(log: Log) -> list[int]:
    """Where terms of the same boot begin."""
    begins = [
        at for at, (_, record) in enumerate(log) if isinstance(record, TermRecord) and record.change in TERM_BEGINS
    ]
    return [at for at in begins if log[at][0].boot == log[begins[0]][0].boot]
