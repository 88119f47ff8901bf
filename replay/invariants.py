"""Checks a log against everything that must hold, record by record: in the daemon, in tests, or in a replay. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from replay.envelope import Envelope
from replay.fold import ClusterState, apply
from replay.records import Record
from replay.rules import requests, states, writes
from replay.rules.base import Entry, EventName, Rule

RULES: Final[tuple[type[Rule], ...]] = (
    writes.OneTermPerEpoch,
    writes.WritesAreFenced,
    requests.RequestsAreOfTheTerm,
    writes.FencingHolds,
    writes.IsrIsNeverEmpty,
    writes.IsrGrowsByLiveBrokers,
    writes.LeaderIsInIsr,
    requests.NobodyIsDeleted,
    requests.LeaderAndIsrNeverGoesBack,
    requests.MetadataNeverGoesBack,
    writes.LeaderEpochRises,
    requests.PartitionEpochsAreRead,
    states.ReplicaMovesAreLegal,
    states.PartitionMovesAreLegal,
    requests.MetadataComesFirst,
    writes.TopicIdStays,
    requests.BrokerEpochsAreCurrent,
    states.SnapshotsAreComplete,
    writes.QuarantineIsRespected,
    states.LogIsWhole,
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
    """The log of one boot of one node."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.event = EventName()
        self.rules = [rule() for rule in RULES if not rule.across_nodes]


class InvariantChecker:
    """Give it the records in order; logs of several nodes may be mixed as long as each is in order."""

    def __init__(self) -> None:
        self._boots: dict[tuple[str, int, str], _Boot] = {}
        self._rules = [rule() for rule in RULES if rule.across_nodes]

    def see(self, envelope: Envelope, record: Record) -> list[Violation]:
        """The next record, and what it violates."""
        boot = self._boots.setdefault((envelope.cluster, envelope.node, envelope.boot), _Boot())
        boot.event.see(record)
        entry = Entry(envelope, record, boot.state, boot.event.name)
        violations = [
            Violation(rule.id, envelope.seq, evidence, envelope.node, envelope.boot)
            for rules in (self._rules, boot.rules)
            for rule in rules
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
