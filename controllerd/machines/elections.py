"""Elections of leaders, many at a time: each strategy has one rule, and the same loop decides, writes and repeats.

A failed election is a value, not an exception: it leaves the partition as it was, and ``ElectionOutcomes`` says why.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import structlog

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.election import (
    ControlledShutdownElection,
    Elected,
    ElectionStrategy,
    LeaderEpochExhausted,
    MoveLeadershipAway,
    OfflineElection,
    PreferredElection,
    ReassignmentElection,
    elect_controlled_shutdown,
    elect_move_away,
    elect_offline,
    elect_preferred,
    elect_reassign,
    next_leadership,
    recorded_name,
)
from controllerd.core.model import OUR_IDS, BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.errors import BadZnode
from controllerd.machines.state_changes import NewLeadership, StateChange, States
from controllerd.ports.audit import AuditLog, ElectionMetrics
from controllerd.ports.configs import TopicConfigReader, TopicConfigs
from controllerd.ports.results import WriteResult
from controllerd.ports.states import StateUpdater
from controllerd.record.records import MAX_ROWS, DecisionRecord
from controllerd.slicer import Slicer, sliced

log = structlog.get_logger(__name__)

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"

Brokers = tuple[BrokerId, ...]
Rule = Callable[[PartitionRecord, LeaderAndIsr], Elected | None]


def is_true(value: str) -> bool:
    """Whether a setting is on; an unknown value is off, so that it allows nothing that may lose records."""
    return value.strip().lower() == "true"


@dataclass(slots=True)
class ElectionOutcomes:
    """The outcome of elections per partition.

    Partitions that went from New to Online got their first leadership without an election, and are in neither.
    """

    elected: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)


@dataclass(slots=True)
class ElectionService:
    """Holds the elections of one controller, and keeps the partitions whose elections were unclean."""

    context: ControllerContext
    states: StateUpdater
    overrides: TopicConfigReader
    audit: AuditLog
    configs: TopicConfigs
    metrics: ElectionMetrics
    slicer: Slicer
    unclean: set[TopicPartition] = field(default_factory=set)

    def take_unclean(self) -> set[TopicPartition]:
        """Return the partitions whose leader was elected from outside the ISR since the last call."""
        taken, self.unclean = self.unclean, set()
        return taken

    async def run(
        self, records: Sequence[PartitionRecord], strategy: ElectionStrategy, batch: RequestBatch
    ) -> ElectionOutcomes:
        """Elect; afterwards the leaderships that were written are in the context and in the batch."""
        election = ElectionRun(self, strategy, batch)
        await election.change(records)
        return ElectionOutcomes(election.elected, election.failed)


class ElectionRun(StateChange):
    """The elections of one call of the state machine."""

    def __init__(self, service: ElectionService, strategy: ElectionStrategy, batch: RequestBatch) -> None:
        super().__init__(service.context, service.states, service.audit, service.slicer)
        self._service = service
        self._strategy = strategy
        self._batch = batch
        self.elected: dict[TopicPartition, LeaderAndIsr] = {}
        self._may_be_unclean: set[TopicPartition] = set()
        """The partitions whose configuration or request allows a leader from outside the ISR, if there is no other."""

    # -- deciding ----------------------------------------------------------------------------------------------------

    async def decide(self, states: States) -> dict[TopicPartition, LeaderAndIsr]:
        """Elect by the strategy; where it finds no leader, elect outside the ISR if that is allowed."""
        chosen: dict[TopicPartition, Elected] = {}
        await self._apply(self._rule(), states, chosen)
        if isinstance(self._strategy, OfflineElection):
            await self._decide_unclean(states, self._strategy, chosen)
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        await self._slicer.for_each_slice(list(states.items()), lambda part: self._add_updates(part, chosen, updates))
        await self._record_decisions(chosen)
        return updates

    async def _apply(self, rule: Rule, states: States, chosen: dict[TopicPartition, Elected]) -> None:
        record_of = self._context.record

        def step(part: Sequence[tuple[TopicPartition, LeaderAndIsr]]) -> None:
            for tp, state in part:
                outcome = rule(record_of(tp), state)
                if outcome is not None:
                    chosen[tp] = outcome

        await self._slicer.for_each_slice(list(states.items()), step)

    def _rule(self, *, unclean: bool = False) -> Rule:
        """The rule of the strategy, as a function of a partition and its state.

        It decides once for all partitions that have the same replicas, ISR and online replicas.
        """
        context, strategy = self._context, self._strategy
        leaving = isinstance(strategy, ControlledShutdownElection)

        @cache
        def decide(replicas: Brokers, isr: Brokers, target: Brokers, online: Brokers) -> Elected | None:
            match strategy:
                case OfflineElection():
                    recovery = context.features.leader_recovery
                    return elect_offline(replicas, isr, set(online), unclean_allowed=unclean, leader_recovery=recovery)
                case ReassignmentElection():
                    return elect_reassign(target, isr, set(online))
                case PreferredElection():
                    return elect_preferred(replicas, isr, set(online))
                case ControlledShutdownElection():
                    return elect_controlled_shutdown(replicas, isr, set(online), context.shutting_down)
                case MoveLeadershipAway():
                    return elect_move_away(replicas, isr, set(online), strategy.broker)

        def rule(record: PartitionRecord, state: LeaderAndIsr) -> Elected | None:
            assignment = record.assignment
            # Without removing replicas ``target`` is the same, but it is computed at each call.
            target = assignment.target if assignment.removing else assignment.replicas
            online = context.liveness.online(record, include_shutting_down=leaving)
            if unclean:
                online = self._without_pending_deletions(record.tp, online)
            return decide(assignment.replicas, state.isr, target, online)

        return rule

    def _without_pending_deletions(self, tp: TopicPartition, online: Brokers) -> Brokers:
        """Return ``online`` without the brokers that may still have to delete their data of this partition.

        Such a broker has an unanswered StopReplica with deletion, although the partition is assigned to it again.
        No member of the ISR is affected: it joined the ISR after it had deleted its earlier data.
        """
        is_going = self._context.pending_deletions.is_going
        return tuple(broker for broker in online if not is_going(broker, tp))

    async def _decide_unclean(
        self, states: States, strategy: OfflineElection, chosen: dict[TopicPartition, Elected]
    ) -> None:
        """Elect outside the ISR where no member of it is online, and the topic's configuration allows that."""
        leaderless = {tp: state for tp, state in states.items() if tp not in chosen}
        if not leaderless:
            return
        unclean = await self._unclean_topics(leaderless, strategy)
        allowed = {
            tp: state
            for tp, state in leaderless.items()
            if tp not in self.failed and (tp.topic in unclean or self._is_given_by_us(tp, state))
        }
        self._may_be_unclean.update(allowed)
        await self._apply(self._rule(unclean=True), allowed, chosen)

    def _is_given_by_us(self, tp: TopicPartition, state: LeaderAndIsr) -> bool:
        """Whether the ISR is controllerd's own broker id alone, while the only replica is assigned to a broker.

        Brokers see controllerd in their metadata, so that they may assign replicas to it, and another controller may
        start these. ``controllerd/services/our_replicas.py`` gives such replicas to brokers: it writes the assignment
        first and elects then. A controller that dies between the two leaves this state. Controllerd holds no records,
        and with one replica there is no other that could hold more, so electing that broker loses nothing. Where there
        are several replicas an operator decides.
        """
        replicas = self._context.record(tp).assignment.replicas
        is_given = len(replicas) == 1 and replicas[0] not in OUR_IDS
        return is_given and len(state.isr) > 0 and all(member in OUR_IDS for member in state.isr)

    async def _unclean_topics(self, leaderless: Collection[TopicPartition], strategy: OfflineElection) -> set[str]:
        topics = {tp.topic for tp in leaderless}
        if strategy.allow_unclean:
            return topics
        configs = await self._service.overrides.read_topic_configs(topics)
        for tp in leaderless:
            config = configs[tp.topic]
            if isinstance(config, BadZnode):
                self.failed[tp] = f"the topic's configuration cannot be read: {config.reason}"
        default = "true" if self._service.configs.unclean_by_default() else "false"
        return {
            topic
            for topic, config in configs.items()
            if not isinstance(config, BadZnode) and is_true(config.get(UNCLEAN_CONFIG, default))
        }

    def _add_updates(
        self,
        part: Sequence[tuple[TopicPartition, LeaderAndIsr]],
        chosen: Mapping[TopicPartition, Elected],
        updates: dict[TopicPartition, LeaderAndIsr],
    ) -> None:
        epoch = self._context.epoch
        for tp, state in part:
            outcome = chosen.get(tp)
            if outcome is None:
                self.failed.setdefault(tp, self._why_no_leader(tp, state))
                continue
            update = next_leadership(state, outcome, epoch)
            if isinstance(update, LeaderEpochExhausted):
                self.failed[tp] = "the leader epoch is exhausted"
            else:
                updates[tp] = update

    def _why_no_leader(self, tp: TopicPartition, state: LeaderAndIsr) -> str:
        online = self._context.liveness.online(self._context.record(tp))
        going = sorted(set(online).difference(self._without_pending_deletions(tp, online)))
        deleted_first = f", to be deleted first {going}" if going else ""
        return f"no replica is electable: isr {list(state.isr)}, online {sorted(online)}{deleted_first}"

    async def _record_decisions(self, chosen: Mapping[TopicPartition, Elected]) -> None:
        for part in sliced(list(chosen.items()), MAX_ROWS):
            self._audit.record(
                DecisionRecord(
                    recorded_name(self._strategy),
                    [tp.topic for tp, _ in part],
                    [tp.partition for tp, _ in part],
                    [outcome.leader for _, outcome in part],
                    [list(outcome.isr) for _, outcome in part],
                    [outcome.unclean for _, outcome in part],
                )
            )
            await self._slicer.yield_to_loop()
        unclean = {tp for tp, outcome in chosen.items() if outcome.unclean}
        if unclean:
            log.warning("elected leaders from outside the ISR", partitions=len(unclean))
            self._service.metrics.count_unclean_elections(len(unclean))
            self._service.unclean |= unclean

    # -- writing -----------------------------------------------------------------------------------------------------

    async def write(self, updates: States) -> Mapping[TopicPartition, WriteResult]:
        """Write the new leaderships; the store refuses an unclean one that was not allowed."""
        return await self._states.update_states(updates, unclean=self._may_be_unclean)

    def take_written(self, written: Sequence[NewLeadership]) -> None:
        """Put the new leaderships into the context and into the batch."""
        self.elected.update((record.tp, leadership) for record, leadership in written)
        self._context.set_leaderships(written)
        self._context.move_partitions([record for record, _ in written], PartitionState.ONLINE)
        self._batch.add_leaderships(((record, self._recipients(record)) for record, _ in written), is_new=False)

    def _recipients(self, record: PartitionRecord) -> Brokers:
        match self._strategy:
            case ReassignmentElection():
                return record.assignment.target
            case PreferredElection() | MoveLeadershipAway():
                return record.assignment.replicas
            case OfflineElection() | ControlledShutdownElection():
                leaving_too = isinstance(self._strategy, ControlledShutdownElection)
                return self._context.liveness.online(record, include_shutting_down=leaving_too)
