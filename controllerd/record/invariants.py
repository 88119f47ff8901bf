"""Checks a log against all rules, record by record: in the daemon, in tests, or in a replay. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from controllerd.record.envelope import TERM_BEGINS, Envelope
from controllerd.record.fold import apply
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import (
    LeadershipRecord,
    Record,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
)
from controllerd.record.rules import (
    deletions,
    events,
    leaderships,
    liveness,
    promises,
    reassignments,
    requests,
    responses,
    states,
    writes,
)
from controllerd.record.rules.base import CheckedRecord, CurrentEvent, Evidence, Rule, Severity
from controllerd.record.state import ClusterState

RULES: Final[tuple[type[Rule], ...]] = (
    writes.OneTermPerEpoch,
    writes.WritesAreFenced,
    requests.RequestsAreOfTheTerm,
    writes.FencingHolds,
    events.NothingChangesOutsideOfATerm,
    writes.IsrIsNeverEmpty,
    leaderships.IsrIsAssigned,
    writes.IsrGrowsByLiveBrokers,
    writes.LeaderIsInIsr,
    requests.DeletedLeaderOnlyInMetadata,
    requests.LeaderAndIsrNeverGoesBack,
    requests.MetadataNeverGoesBack,
    writes.LeaderEpochRises,
    requests.PartitionEpochsAreRead,
    leaderships.UncleanLeaderIsDecided,
    leaderships.FirstEligibleLeads,
    reassignments.ReassignmentsKeepTheirSteps,
    reassignments.OnlyReassignedPartitionsChange,
    states.ReplicaTransitionsAreLegal,
    states.PartitionTransitionsAreLegal,
    deletions.DeletedReplicasAreOutOfSync,
    deletions.AssignedReplicasAreKept,
    deletions.TopicsAreDeletedLast,
    requests.MetadataComesFirst,
    events.LiveBrokersAreSent,
    events.StartedBrokersGetFullState,
    writes.TopicIdStays,
    requests.BrokerEpochsAreCurrent,
    events.OneReplyPerCall,
    responses.ResponsesInOrder,
    states.SnapshotsAreComplete,
    states.DigestsAgree,
    deletions.DeletionsAreCounted,
    leaderships.OnlyLeaderAltersIsr,
    leaderships.LeaderEndsRecovery,
    liveness.LeaderlessPartitionsAreLed,
    liveness.WorkMakesProgress,
    promises.WatchesAreFollowed,
    writes.QuarantineIsRespected,
    writes.AmbiguousWritesAreResolvedFirst,
    promises.ProducerIdsAreDisjoint,
    states.LogIsWhole,
    events.NoBreachAtRuntime,
)
TITLES: Final[Mapping[str, str]] = {rule.id: rule.title for rule in reversed(RULES)}
"""The title of each invariant, by its id."""


def _checks_leaderships(rule: type[Rule]) -> bool:
    return rule.kinds is None or LeadershipRecord in rule.kinds


GROUPS: Final[tuple[tuple[type[Rule], ...], ...]] = (
    tuple(rule for rule in RULES if _checks_leaderships(rule)),
    tuple(rule for rule in RULES if not _checks_leaderships(rule)),
)
"""All rules in two groups of about equal cost. The first group has the rules that need the changes of leaderships."""
_SNAPSHOT_KINDS: Final = frozenset(record for record, kind in DESCRIPTIONS.items() if kind.in_snapshot)
_MODE_CHANGES: Final = frozenset({SnapshotBegin, SnapshotEnd, TermRecord})
SUMMARY: Final = "summary"
"""The level of a log that lacks the records which many rules need."""
LEFT_OUT_OF_SUMMARIES: Final = frozenset(record for record, kind in DESCRIPTIONS.items() if not kind.in_summary)


def is_checkable_in_summaries(rule: Rule | type[Rule]) -> bool:
    """Whether a log of the level ``SUMMARY`` has all records that the rule needs."""
    return rule.kinds is None or rule.kinds.isdisjoint(LEFT_OUT_OF_SUMMARIES)


class Violation(NamedTuple):
    """A violated rule, its place and its evidence. ``seq`` 0 means that only the complete log shows the violation."""

    id: str
    seq: int
    evidence: str
    node: int = 0
    boot: str = ""
    seqs: tuple[int, ...] = ()
    """The records of that node and boot that prove it, in order; at most ``MOST_SEQS``."""
    severity: Severity = "error"


class _Boot:
    """Checks the log of one boot of one node. ``shared`` are the rules about all nodes.

    A log without its beginning is checked from its first complete periodic snapshot or its next term on. In a log of a
    lower level, rules without their records are not checked.
    """

    def __init__(self, rules: Iterable[type[Rule]], shared: Sequence[Rule], *, is_cut: bool) -> None:
        self.state = ClusterState()
        self.event = CurrentEvent()
        self._rules = [*shared, *(rule() for rule in rules if not rule.across_nodes)]
        self._by_kind: dict[tuple[type[Record], bool], list[Rule]] = {}
        self._is_cut = is_cut
        self._level = ""
        self._is_periodic = False
        """Whether the current record is within a periodic snapshot, whose rows are no changes."""

    def check(self, envelope: Envelope, record: Record) -> list[Violation]:
        """Check the next record and return its violations."""
        event, state, kind = self.event, self.state, type(record)
        if kind in _MODE_CHANGES:
            self._set_mode(record)
        is_row = self._is_cut or (self._is_periodic and kind in _SNAPSHOT_KINDS and envelope.event == 0)
        found: list[Violation] = []
        event.add(envelope, record)
        rules = self._by_kind.get((kind, is_row))
        if rules is None:
            rules = self._by_kind[kind, is_row] = self._rules_for(kind, is_row)
        if rules:
            changes = event.changes(record, state) if kind is LeadershipRecord else ()
            checked = CheckedRecord(envelope, record, state, event.name, event.detail, changes, self._is_cut)
            found = [self._violation(rule, said, envelope) for rule in rules for said in rule.check(checked)]
        apply(state, envelope, record)
        return found

    def _set_mode(self, record: Record) -> None:
        """Set how the following records are checked."""
        if isinstance(record, SnapshotBegin):
            self._is_periodic = record.periodic
            if record.level != self._level:
                self._level = record.level
                self._by_kind.clear()
        elif isinstance(record, SnapshotEnd):
            # A snapshot at the beginning of a term does not complete the state: the record of the term may be lost.
            self._is_cut = self._is_cut and not self._is_periodic
            self._is_periodic = False
        elif isinstance(record, TermRecord) and record.change in TERM_BEGINS:
            self._is_cut = False

    def _rules_for(self, kind: type[Record], is_row: bool) -> list[Rule]:
        """The rules that check records of this kind. Rows that are no changes are checked by some rules only."""
        rules = [rule for rule in self._rules if rule.kinds is None or kind in rule.kinds]
        if self._level == SUMMARY:
            rules = [rule for rule in rules if is_checkable_in_summaries(rule)]
        if not is_row:
            return rules
        return [rule for rule in rules if rule.kinds is None or (rule.checks_snapshot_rows and kind in _SNAPSHOT_KINDS)]

    def _violation(self, rule: Rule, said: str | Evidence, envelope: Envelope) -> Violation:
        evidence = said if isinstance(said, Evidence) else Evidence(said)
        seqs = sorted({*evidence.seqs, *self.event.seqs(rule.kinds)})
        place = (envelope.node, envelope.boot, tuple(seqs))
        return Violation(rule.id, envelope.seq, evidence.text, *place, rule.severity)


class InvariantChecker:
    """Checks records in order. Logs of several nodes may be interleaved, if each is in order.

    ``rules`` may be a selection: rules are independent of each other, so that ``GROUPS`` may run in parallel.
    """

    def __init__(self, rules: Iterable[type[Rule]] = RULES) -> None:
        self._chosen = tuple(rules)
        self._boots: dict[tuple[str, int, str], _Boot] = {}
        self._shared = [rule() for rule in self._chosen if rule.across_nodes]

    def check(self, envelope: Envelope, record: Record) -> list[Violation]:
        """Check the next record and return its violations."""
        key = (envelope.cluster, envelope.node, envelope.boot)
        boot = self._boots.get(key)
        if boot is None:
            boot = self._boots[key] = _Boot(self._chosen, self._shared, is_cut=envelope.seq > 1)
        return boot.check(envelope, record)

    def finish(self) -> list[Violation]:
        """The violations that only the complete log shows."""
        return [_final_violation(rule, said) for rule in self._shared for said in rule.finish()]


def _final_violation(rule: Rule, said: str | Evidence) -> Violation:
    evidence = said if isinstance(said, Evidence) else Evidence(said)
    if evidence.at is None:
        return Violation(rule.id, 0, evidence.text, severity=rule.severity)
    at = evidence.at
    return Violation(rule.id, at.seq, evidence.text, at.node, at.boot, (at.seq,), rule.severity)


def check(log: Iterable[tuple[Envelope, Record]], rules: Iterable[type[Rule]] = RULES) -> Iterator[Violation]:
    """Every violation in a complete log."""
    checker = InvariantChecker(rules)
    for envelope, record in log:
        yield from checker.check(envelope, record)
    yield from checker.finish()
