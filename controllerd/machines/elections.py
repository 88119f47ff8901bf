"""Elections of leaders, many at a time: decide by the rule of a strategy, write, and decide again what lost the race.

Writes are compare-and-set on the partition epoch. A failed election is a value and leaves the partition as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

import structlog

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.election import (
    ControlledShutdown,
    Elected,
    ElectionStrategy,
    LeaderEpochExhausted,
    MoveLeadershipAway,
    Offline,
    Preferred,
    Reassign,
    elect_controlled_shutdown,
    elect_instead,
    elect_offline,
    elect_preferred,
    elect_reassign,
    next_leadership,
)
from controllerd.core.model import OUR_IDS, BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.errors import BadZnode
from controllerd.machines.known_states import known_states
from controllerd.machines.outbox import SLICE
from controllerd.pace import Pace, sliced
from controllerd.ports import AdminStore, AuditLog, Metrics, StateStore, TopicConfigs
from controllerd.record.records import MAX_ROWS, DecisionRecord
from controllerd.results import Conflict, StatesRead, Written

log = structlog.get_logger(__name__)

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"

Brokers = tuple[BrokerId, ...]
States = Mapping[TopicPartition, LeaderAndIsr]


def is_true(value: str) -> bool:
    """Whether a configuration says yes; what is neither yes nor no allows nothing that may lose records."""
    return value.strip().lower() == "true"


class ElectionStore(StateStore, AdminStore, Protocol):
    """What elections need of ZooKeeper."""


@dataclass(slots=True)
class Elections:
    """The outcome of elections per partition; partitions that were initialised are in neither."""

    elected: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    may_be_unclean: set[TopicPartition] = field(default_factory=set)
    """The partitions of which configuration or request allow a leader from outside the ISR, where there is no other."""


class Electing:
    """How this controller holds elections."""

    def __init__(
        self,
        context: ControllerContext,
        store: ElectionStore,
        audit: AuditLog,
        configs: TopicConfigs,
        metrics: Metrics,
        pace: Pace,
    ) -> None:
        self._context = context
        self._store = store
        self._audit = audit
        self._configs = configs
        self._metrics = metrics
        self._pace = pace
        self._unclean: set[TopicPartition] = set()

    def take_unclean(self) -> set[TopicPartition]:
        """Return the partitions whose leader was elected from outside the ISR since the last call."""
        taken, self._unclean = self._unclean, set()
        return taken

    async def run(
        self, records: Sequence[PartitionRecord], strategy: ElectionStrategy, batch: RequestBatch, elections: Elections
    ) -> None:
        """Elect; what was written is in the context and in the batch afterwards, the outcome in ``elections``."""
        states, remaining, quarantined = await known_states(records, self._context, self._pace)
        elections.failed.update(quarantined)
        if states:
            remaining += await self._round(states, strategy, batch, elections)
        while remaining:
            usable = self._usable(await self._store.read_states(remaining), elections.failed)
            remaining = await self._round(usable, strategy, batch, elections)

    async def _round(
        self, states: States, strategy: ElectionStrategy, batch: RequestBatch, elections: Elections
    ) -> list[TopicPartition]:
        """Decide and write once; returns the partitions that lost the compare-and-set."""
        decided = await self._decide(states, strategy, elections)
        return await self._write(decided, strategy, batch, elections) if decided else []

    def _usable(self, read: StatesRead, failed: dict[TopicPartition, str]) -> States:
        for bad in read.broken.values():
            self._context.put_in_quarantine(bad.path, bad.reason)
        failed.update((tp, bad.reason) for tp, bad in read.broken.items())
        failed.update((tp, "the state znode does not exist") for tp in read.missing)
        usable = {}
        for tp, state in read.states.items():
            if state.controller_epoch > self._context.epoch:
                failed[tp] = f"written by controller epoch {state.controller_epoch}, ours is {self._context.epoch}"
            else:
                usable[tp] = state
        return usable

    # -- deciding ----------------------------------------------------------------------------------------------------

    async def _decide(
        self, states: States, strategy: ElectionStrategy, elections: Elections
    ) -> dict[TopicPartition, LeaderAndIsr]:
        elected: dict[TopicPartition, Elected] = {}
        await self._apply(self._rule(strategy), states, elected)
        if isinstance(strategy, Offline):
            await self._decide_unclean(states, strategy, elected, elections)
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        pace = self._pace
        for part in sliced(list(states), SLICE):
            self._next(part, states, elected, updates, elections.failed)
            await pace.breathe()
        await self._record_decisions(strategy, elected)
        return updates

    async def _apply(self, rule: "Rule", states: States, elected: dict[TopicPartition, Elected]) -> None:
        """One decision for all partitions that have the same replicas, ISR and online replicas."""
        pace, find = self._pace, self._context.record
        for part in sliced(list(states.items()), SLICE):
            for tp, state in part:
                outcome = rule(find(tp), state)
                if outcome is not None:
                    elected[tp] = outcome
            await pace.breathe()

    def _rule(self, strategy: ElectionStrategy, *, unclean: bool = False) -> "Rule":
        """The election rule of ``strategy`` as a function of a partition and its state."""
        context = self._context
        leaving = isinstance(strategy, ControlledShutdown)

        @cache
        def decide(replicas: Brokers, isr: Brokers, target: Brokers, online: Brokers) -> Elected | None:
            match strategy:
                case Offline():
                    recovery = context.features.leader_recovery
                    return elect_offline(replicas, isr, set(online), unclean_allowed=unclean, leader_recovery=recovery)
                case Reassign():
                    return elect_reassign(target, isr, set(online))
                case Preferred():
                    return elect_preferred(replicas, isr, set(online))
                case ControlledShutdown():
                    return elect_controlled_shutdown(replicas, isr, set(online), context.shutting_down)
                case MoveLeadershipAway():
                    return elect_instead(replicas, isr, set(online), strategy.broker)

        def rule(record: PartitionRecord, state: LeaderAndIsr) -> Elected | None:
            assignment = record.assignment
            target = assignment.target if assignment.removing else assignment.replicas
            online = context.liveness.online(record, include_shutting_down=leaving)
            if unclean:
                online = self._staying(record.tp, online)
            return decide(assignment.replicas, state.isr, target, online)

        return rule

    def _staying(self, tp: TopicPartition, online: Brokers) -> Brokers:
        """Without those that are about to delete what they have, though they are to have the replica again.

        Whoever is in sync is past that: the order to begin anew comes after the one to delete.
        """
        is_going = self._context.pending_deletions.is_going
        return tuple(broker for broker in online if not is_going(broker, tp))

    async def _decide_unclean(
        self,
        states: States,
        strategy: Offline,
        elected: dict[TopicPartition, Elected],
        elections: Elections,
    ) -> None:
        """Partitions without an online ISR member may elect outside the ISR, if their topic's configuration says so."""
        hopeless = {tp: state for tp, state in states.items() if tp not in elected}
        if not hopeless:
            return
        unclean = await self._unclean_topics(hopeless, strategy, elections.failed)
        allowed = {
            tp: state
            for tp, state in hopeless.items()
            if tp not in elections.failed and (tp.topic in unclean or self._is_given_by_us(tp, state))
        }
        elections.may_be_unclean.update(allowed)
        await self._apply(self._rule(strategy, unclean=True), allowed, elected)

    def _is_given_by_us(self, tp: TopicPartition, state: LeaderAndIsr) -> bool:
        """Whether the ISR is controllerd alone, and the partition has one replica, on a broker.

        ``controllerd/services/our_replicas.py`` writes the assignment first and elects then; a controller that
        dies between leaves this. Controllerd holds no records, and with one replica there is no
        other that could hold more, so that its election loses nothing. Where there are several
        replicas an operator decides.
        """
        replicas = self._context.record(tp).assignment.replicas
        is_given = len(replicas) == 1 and replicas[0] not in OUR_IDS
        return is_given and len(state.isr) > 0 and all(member in OUR_IDS for member in state.isr)

    async def _unclean_topics(self, hopeless: States, strategy: Offline, failed: dict[TopicPartition, str]) -> set[str]:
        topics = {tp.topic for tp in hopeless}
        if strategy.allow_unclean:
            return topics
        configs = await self._store.read_topic_configs(topics)
        for tp in hopeless:
            config = configs[tp.topic]
            if isinstance(config, BadZnode):
                failed[tp] = f"the topic's configuration cannot be read: {config.reason}"
        default = "true" if self._configs.unclean_by_default() else "false"
        return {
            topic
            for topic, config in configs.items()
            if not isinstance(config, BadZnode) and is_true(config.get(UNCLEAN_CONFIG, default))
        }

    def _next(
        self,
        part: Sequence[TopicPartition],
        states: States,
        elected: Mapping[TopicPartition, Elected],
        updates: dict[TopicPartition, LeaderAndIsr],
        failed: dict[TopicPartition, str],
    ) -> None:
        epoch = self._context.epoch
        for tp in part:
            outcome = elected.get(tp)
            if outcome is None:
                failed.setdefault(tp, self._why_nobody(tp, states[tp]))
                continue
            update = next_leadership(states[tp], outcome, epoch)
            if isinstance(update, LeaderEpochExhausted):
                failed[tp] = "the leader epoch is exhausted"
            else:
                updates[tp] = update

    def _why_nobody(self, tp: TopicPartition, state: LeaderAndIsr) -> str:
        online = self._context.liveness.online(self._context.record(tp))
        going = sorted(set(online).difference(self._staying(tp, online)))
        deleted_first = f", to be deleted first {going}" if going else ""
        return f"no replica is electable: isr {list(state.isr)}, online {sorted(online)}{deleted_first}"

    async def _record_decisions(self, strategy: ElectionStrategy, elected: Mapping[TopicPartition, Elected]) -> None:
        for part in sliced(list(elected.items()), MAX_ROWS):
            self._audit.record(
                DecisionRecord(
                    type(strategy).__name__,
                    [tp.topic for tp, _ in part],
                    [tp.partition for tp, _ in part],
                    [outcome.leader for _, outcome in part],
                    [list(outcome.isr) for _, outcome in part],
                    [outcome.unclean for _, outcome in part],
                )
            )
            await self._pace.breathe()
        unclean = {tp for tp, outcome in elected.items() if outcome.unclean}
        if unclean:
            log.warning("unclean leader elections", partitions=len(unclean))
            self._metrics.count_unclean_elections(len(unclean))
            self._unclean |= unclean

    # -- writing -----------------------------------------------------------------------------------------------------

    async def _write(
        self, updates: States, strategy: ElectionStrategy, batch: RequestBatch, elections: Elections
    ) -> list[TopicPartition]:
        """Write the new leaderships; returns the partitions that lost the compare-and-set."""
        lost: list[TopicPartition] = []
        results, pace = await self._store.update_states(updates, unclean=elections.may_be_unclean), self._pace
        for part in sliced(list(results.items()), SLICE):
            written: list[tuple[PartitionRecord, LeaderAndIsr]] = []
            for tp, result in part:
                if isinstance(result, Written):
                    leadership = elections.elected[tp] = updates[tp].at(result.version)
                    written.append((self._context.record(tp), leadership))
                elif isinstance(result, Conflict):
                    lost.append(tp)
                else:
                    elections.failed[tp] = result.reason
            self._take(written, strategy, batch)
            await pace.breathe()
        return lost

    def _take(
        self, written: list[tuple[PartitionRecord, LeaderAndIsr]], strategy: ElectionStrategy, batch: RequestBatch
    ) -> None:
        """What was elected goes into the context and into the batch."""
        self._context.set_leaderships(written)
        self._context.move_partitions([record for record, _ in written], PartitionState.ONLINE)
        batch.add_leaderships(((record, self._recipients(record, strategy)) for record, _ in written), is_new=False)

    def _recipients(self, record: PartitionRecord, strategy: ElectionStrategy) -> Brokers:
        match strategy:
            case Reassign():
                return record.assignment.target
            case Preferred() | MoveLeadershipAway():
                return record.assignment.replicas
            case Offline() | ControlledShutdown():
                leaving_too = isinstance(strategy, ControlledShutdown)
                return self._context.liveness.online(record, include_shutting_down=leaving_too)


Rule = Callable[[PartitionRecord, LeaderAndIsr], Elected | None]
