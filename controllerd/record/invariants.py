"""Checks a log against everything that must hold, record by record: in the daemon, in tests, or in a replay. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from controllerd.record.envelope import TERM_BEGINS, Envelope
from controllerd.record.fold import apply
from controllerd.record.records import (
    AssignmentRecord,
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    Record,
    ReplicaStateRecord,
    RequestRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
    ZkWriteRecord,
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
from controllerd.record.rules.base import CurrentEvent, Entry, Evidence, Rule, Severity
from controllerd.record.state import ClusterState

RULES: Final[tuple[type[Rule], ...]] = (
    writes.OneTermPerEpoch,
    writes.WritesAreFenced,
    requests.RequestsAreOfTheTerm,
    writes.FencingHolds,
    events.NothingMovesOutsideOfATerm,
    writes.IsrIsNeverEmpty,
    leaderships.IsrIsAssigned,
    writes.IsrGrowsByLiveBrokers,
    writes.LeaderIsInIsr,
    requests.NobodyIsDeleted,
    requests.LeaderAndIsrNeverGoesBack,
    requests.MetadataNeverGoesBack,
    writes.LeaderEpochRises,
    requests.PartitionEpochsAreRead,
    leaderships.UncleanIsDecided,
    leaderships.FirstEligibleLeads,
    reassignments.ReassignmentsKeepTheirSteps,
    reassignments.OnlyWhatWasAskedForChanges,
    states.ReplicaMovesAreLegal,
    states.PartitionMovesAreLegal,
    deletions.DeletedReplicasAreOutOfSync,
    deletions.AssignedReplicasAreKept,
    deletions.TopicsGoLast,
    requests.MetadataComesFirst,
    events.MembershipIsTold,
    events.NewcomersGetEverything,
    writes.TopicIdStays,
    requests.BrokerEpochsAreCurrent,
    events.OneReplyPerCall,
    responses.AnswersInOrder,
    states.SnapshotsAreComplete,
    states.DigestsAgree,
    deletions.DeletionsAreCounted,
    leaderships.LeaderAsksForIsr,
    leaderships.RecoveryIsEarned,
    liveness.LeaderlessPartitionsAreLed,
    liveness.RequestsGoOn,
    promises.WatchesAreFollowed,
    writes.QuarantineIsRespected,
    writes.DoubtEndsFirst,
    promises.ProducerIdsAreDisjoint,
    states.LogIsWhole,
    events.NothingHadToBeStopped,
)
TITLES: Final[Mapping[str, str]] = {rule.id: rule.title for rule in reversed(RULES)}
"""The title of each invariant, by its id."""


def _sees_leaderships(rule: type[Rule]) -> bool:
    return rule.kinds is None or LeadershipRecord in rule.kinds


GROUPS: Final[tuple[tuple[type[Rule], ...], ...]] = (
    tuple(rule for rule in RULES if _sees_leaderships(rule)),
    tuple(rule for rule in RULES if not _sees_leaderships(rule)),
)
"""All rules in two parts of about equal cost: those of the first share what it takes to tell a change of leadership."""
_PICTURE: Final[frozenset[type[Record]]] = frozenset({
    AssignmentRecord,
    BrokersRecord,
    PendingDeletionsRecord,
    DeletionRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    QuarantineRecord,
    ReplicaStateRecord,
    SnapshotBegin,
    TopicsRecord,
})  # fmt: skip
"""The kinds in a periodic snapshot: within one they show no change."""
_BORDERS: Final = frozenset({SnapshotBegin, SnapshotEnd, TermRecord})
SUMMARY: Final = "summary"
"""The level of a log without the records on which many rules rest."""
LEFT_OUT_OF_SUMMARIES: Final[frozenset[type[Record]]] = frozenset({
    DecisionRecord,
    ReplicaStateRecord,
    RequestRecord,
    ZkWriteRecord,
})  # fmt: skip


def is_told_by_summaries(rule: Rule | type[Rule]) -> bool:
    """Whether a log of the level ``SUMMARY`` has all records that the rule rests on."""
    return rule.kinds is None or rule.kinds.isdisjoint(LEFT_OUT_OF_SUMMARIES)


class Violation(NamedTuple):
    """An invariant that does not hold, where, and what shows it. ``seq`` 0: only the complete log shows it."""

    id: str
    seq: int
    evidence: str
    node: int = 0
    boot: str = ""
    seqs: tuple[int, ...] = ()
    """The records of that node and boot that show it, in order; at most ``MOST_SEQS``."""
    severity: Severity = "error"


class _Boot:
    """The log of one boot of one node; ``shared`` are the rules that speak about all nodes.

    A log whose beginning is gone is judged from its first complete periodic snapshot, or its next term on. Of a log of
    a lower level only what is in it is judged.
    """

    def __init__(self, rules: Iterable[type[Rule]], shared: Sequence[Rule], *, is_cut: bool) -> None:
        self.state = ClusterState()
        self.event = CurrentEvent()
        self._rules = [*shared, *(rule() for rule in rules if not rule.across_nodes)]
        self._by_kind: dict[tuple[type[Record], bool], list[Rule]] = {}
        self._is_cut = is_cut
        self._level = ""
        self._is_periodic = False
        """In the middle of a periodic snapshot, whose rows are no changes."""

    def see(self, envelope: Envelope, record: Record) -> list[Violation]:
        """The next record, and what it violates."""
        event, state, kind = self.event, self.state, type(record)
        if kind in _BORDERS:
            self._see_border(record)
        is_row = self._is_cut or (self._is_periodic and kind in _PICTURE and envelope.event == 0)
        found: list[Violation] = []
        event.see(envelope, record)
        rules = self._by_kind.get((kind, is_row))
        if rules is None:
            rules = self._by_kind[kind, is_row] = self._rules_for(kind, is_row)
        if rules:
            changes = event.changes(record, state) if kind is LeadershipRecord else ()
            entry = Entry(envelope, record, state, event.name, event.detail, changes, self._is_cut)
            found = [self._violation(rule, said, envelope) for rule in rules for said in rule.see(entry)]
        apply(state, envelope, record)
        return found

    def _see_border(self, record: Record) -> None:
        """Judge the records to come otherwise."""
        if isinstance(record, SnapshotBegin):
            self._is_periodic = record.periodic
            if record.level != self._level:
                self._level = record.level
                self._by_kind.clear()
        elif isinstance(record, SnapshotEnd):
            # The opening one says nothing of the term, which was announced before it and may be lost.
            self._is_cut = self._is_cut and not self._is_periodic
            self._is_periodic = False
        elif isinstance(record, TermRecord) and record.change in TERM_BEGINS:
            self._is_cut = False

    def _rules_for(self, kind: type[Record], is_row: bool) -> list[Rule]:
        """The rules that look at records of this kind; what is no change is not for all of them."""
        rules = [rule for rule in self._rules if rule.kinds is None or kind in rule.kinds]
        if self._level == SUMMARY:
            rules = [rule for rule in rules if is_told_by_summaries(rule)]
        if not is_row:
            return rules
        return [rule for rule in rules if rule.kinds is None or (rule.sees_pictures and kind in _PICTURE)]

    def _violation(self, rule: Rule, said: str | Evidence, envelope: Envelope) -> Violation:
        evidence = said if isinstance(said, Evidence) else Evidence(said)
        seqs = sorted({*evidence.seqs, *self.event.seqs(rule.kinds)})
        place = (envelope.node, envelope.boot, tuple(seqs))
        return Violation(rule.id, envelope.seq, evidence.text, *place, rule.severity)


class InvariantChecker:
    """Give it the records in order; logs of several nodes may be mixed as long as each is in order.

    ``rules`` may be some of them: rules know nothing of each other, so that ``GROUPS`` of them may run side by side.
    """

    def __init__(self, rules: Iterable[type[Rule]] = RULES) -> None:
        self._chosen = tuple(rules)
        self._boots: dict[tuple[str, int, str], _Boot] = {}
        self._shared = [rule() for rule in self._chosen if rule.across_nodes]

    def see(self, envelope: Envelope, record: Record) -> list[Violation]:
        """The next record, and what it violates."""
        key = (envelope.cluster, envelope.node, envelope.boot)
        boot = self._boots.get(key)
        if boot is None:
            boot = self._boots[key] = _Boot(self._chosen, self._shared, is_cut=envelope.seq > 1)
        return boot.see(envelope, record)

    def finish(self) -> list[Violation]:
        """The violations that only the complete log shows."""
        return [_at_the_end(rule, said) for rule in self._shared for said in rule.finish()]


def _at_the_end(rule: Rule, said: str | Evidence) -> Violation:
    evidence = said if isinstance(said, Evidence) else Evidence(said)
    if evidence.at is None:
        return Violation(rule.id, 0, evidence.text, severity=rule.severity)
    at = evidence.at
    return Violation(rule.id, at.seq, evidence.text, at.node, at.boot, (at.seq,), rule.severity)


def check(log: Iterable[tuple[Envelope, Record]], rules: Iterable[type[Rule]] = RULES) -> Iterator[Violation]:
    """Every violation in a complete log."""
    checker = InvariantChecker(rules)
    for envelope, record in log:
        yield from checker.see(envelope, record)
    yield from checker.finish()
