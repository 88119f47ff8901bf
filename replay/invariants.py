"""Checks a log against everything that must hold, record by record: in the daemon, in tests, or in a replay. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from replay.envelope import Envelope
from replay.fold import ClusterState, apply
from replay.records import Record
from replay.rules import deletions, events, leaderships, liveness, reassignments, requests, responses, states, writes
from replay.rules.base import CurrentEvent, Entry, Rule

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
    deletions.DeletionsAreCounted,
    leaderships.LeaderAsksForIsr,
    leaderships.RecoveryIsEarned,
    liveness.LeaderlessPartitionsAreLed,
    writes.QuarantineIsRespected,
    writes.DoubtEndsFirst,
    states.LogIsWhole,
    events.NothingHadToBeStopped,
)
TITLES: Final[Mapping[str, str]] = {rule.id: rule.title for rule in reversed(RULES)}
"""What each invariant says, by its id."""


class Violation(NamedTuple):
    """An invariant that does not hold, where, and what shows it. ``seq`` 0: only the complete log shows it."""

    id: str
    seq: int
    evidence: str
    node: int = 0
    boot: str = ""


class _Boot:
    """The log of one boot of one node; ``shared`` are the rules that speak about all nodes."""

    def __init__(self, shared: Sequence[Rule]) -> None:
        self.state = ClusterState()
        self.event = CurrentEvent()
        self._rules = [*shared, *(rule() for rule in RULES if not rule.across_nodes)]
        self._by_kind: dict[type[Record], list[Rule]] = {}

    def rules_for(self, record: Record) -> Sequence[Rule]:
        """The rules that look at records of this kind."""
        kind = type(record)
        rules = self._by_kind.get(kind)
        if rules is None:
            rules = [rule for rule in self._rules if rule.kinds is None or kind in rule.kinds]
            self._by_kind[kind] = rules
        return rules


class InvariantChecker:
    """Give it the records in order; logs of several nodes may be mixed as long as each is in order."""

    def __init__(self) -> None:
        self._boots: dict[tuple[str, int, str], _Boot] = {}
        self._rules = [rule() for rule in RULES if rule.across_nodes]

    def see(self, envelope: Envelope, record: Record) -> list[Violation]:
        """The next record, and what it violates."""
        key = (envelope.cluster, envelope.node, envelope.boot)
        boot = self._boots.get(key)
        if boot is None:
            boot = self._boots[key] = _Boot(self._rules)
        boot.event.see(record)
        changes = boot.event.changes(record, boot.state)
        entry = Entry(envelope, record, boot.state, boot.event.name, boot.event.detail, changes)
        violations = [
            Violation(rule.id, envelope.seq, evidence, envelope.node, envelope.boot)
            for rule in boot.rules_for(record)
            for evidence in rule.see(entry)
        ]
        apply(boot.state, envelope, record)
        return violations

    def finish(self) -> list[Violation]:
        """What only the complete log shows."""
        return [Violation(rule.id, 0, evidence) for rule in self._rules for evidence in rule.finish()]


def check(log: Iterable[tuple[Envelope, Record]]) -> Iterator[Violation]:
    """Every violation in a complete log."""
    checker = InvariantChecker()
    for envelope, record in log:
        yield from checker.see(envelope, record)
    yield from checker.finish()
