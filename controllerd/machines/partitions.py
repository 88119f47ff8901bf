"""The partition state machine: initialises new partitions and elects leaders, many at a time.

Writes are compare-and-set on the partition epoch; a partition that lost the race is read again and decided anew.
A failed election is a value and leaves the partition's state as it was.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.election import (
    ControlledShutdown,
    Elected,
    ElectionStrategy,
    LeaderEpochExhausted,
    Offline,
    Preferred,
    Reassign,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassign,
    initial_leadership,
    next_leadership,
)
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.sanitizer import names_us
from controllerd.core.soundness import leadership_flaw
from controllerd.core.transitions import is_valid_partition_move
from controllerd.errors import BadZnode, IllegalState
from controllerd.machines.outbox import Outbox
from controllerd.ports import AdminStore, AuditLog, Conflict, Metrics, StatesRead, StateStore, TopicConfigs, Written
from replay.records import MAX_ROWS, DecisionRecord, RefusedRecord

log = structlog.get_logger(__name__)

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"


class ElectionStore(StateStore, AdminStore, Protocol):
    """What the machine needs of ZooKeeper."""


@dataclass(slots=True)
class Elections:
    """The outcome of elections per partition; partitions that were initialised are in neither."""

    elected: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)


class PartitionStateMachine:
    """Carries out partition transitions against ZooKeeper and tells the brokers."""

    def __init__(
        self,
        context: ControllerContext,
        store: ElectionStore,
        outbox: Outbox,
        audit: AuditLog,
        configs: TopicConfigs,
        metrics: Metrics,
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._audit = audit
        self._configs = configs
        self._metrics = metrics

    async def startup(self) -> None:
        """Give every partition its initial state from the cached leadership, then bring online what can be."""
        for tp in list(self._context.partitions()):
            leadership = self._context.leadership(tp)
            if leadership is not None:
                sound = leadership_flaw(leadership, self._context.assignment(tp).replicas) is None
                online = sound and self._context.is_online(leadership.leader, tp)
                self._context.set_partition_state(tp, PartitionState.ONLINE if online else PartitionState.OFFLINE)
            elif not self._is_quarantined(tp):
                self._context.set_partition_state(tp, PartitionState.NEW)
        await self.trigger_online()

    def _is_quarantined(self, tp: TopicPartition) -> bool:
        return f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state" in self._context.quarantine

    async def trigger_online(self) -> Elections:
        """Try to bring every New and Offline partition online."""
        return await self.handle(self._context.waiting_partitions(), PartitionState.ONLINE, Offline())

    async def handle(
        self,
        partitions: Collection[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy | None = None,
    ) -> Elections:
        """Move partitions to ``target``; those for which the table forbids it are refused and recorded."""
        elections = Elections()
        if not partitions:
            return elections
        async with self._outbox.batch() as batch:
            allowed = self._allowed(partitions, target)
            if target is PartitionState.ONLINE:
                await self._bring_online(allowed, strategy, batch, elections)
            else:
                for tp in allowed:
                    self._context.set_partition_state(tp, target)
        return elections

    def _allowed(self, partitions: Iterable[TopicPartition], target: PartitionState) -> list[TopicPartition]:
        allowed, refused = [], {}
        for tp in partitions:
            state = self._context.partition_state(tp)
            if tp in self._context and is_valid_partition_move(state, target):
                allowed.append(tp)
            else:
                refused[tp] = f"no transition from {state.value} to {target.value}"
        self._refuse("partition transition", refused)
        return allowed

    def _refuse(self, what: str, refused: Mapping[TopicPartition, str]) -> None:
        rows = list(refused.items())
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
            self._audit.record(
                RefusedRecord(
                    what,
                    [tp.topic for tp, _ in part],
                    [tp.partition for tp, _ in part],
                    [reason for _, reason in part],
                )
            )
        if rows:
            log.warning("refused", what=what, partitions=len(rows), first=str(rows[0][0]), reason=rows[0][1])

    async def _bring_online(
        self,
        partitions: list[TopicPartition],
        strategy: ElectionStrategy | None,
        batch: RequestBatch,
        elections: Elections,
    ) -> None:
        fresh = [tp for tp in partitions if self._context.partition_state(tp) is PartitionState.NEW]
        known = [tp for tp in partitions if self._context.partition_state(tp) is not PartitionState.NEW]
        adopted = await self._initialise(fresh, batch) if fresh else []
        if known or adopted:
            if strategy is None:
                raise IllegalState("an election needs a strategy")
            await self._elect(known + adopted, strategy, batch, elections)
        self._refuse(f"election {type(strategy).__name__}", elections.failed)

    # -- new partitions ----------------------------------------------------------------------------------------------

    async def _initialise(self, partitions: list[TopicPartition], batch: RequestBatch) -> list[TopicPartition]:
        """Create state znodes; returns the partitions whose znode existed already, for an election instead."""
        wanted, refused = self._initial_states(partitions)
        results = await self._store.create_states(wanted) if wanted else {}
        existing = []
        for tp, result in results.items():
            if isinstance(result, Written):
                self._go_online(tp, wanted[tp]._replace(partition_epoch=result.version))
                batch.add_leader_and_isr(wanted[tp].isr, tp, is_new=True)
            elif isinstance(result, Conflict):
                existing.append(tp)
            else:
                refused[tp] = result.reason
        self._refuse("initial leadership", refused)
        return await self._adopt(existing)

    def _initial_states(
        self, partitions: list[TopicPartition]
    ) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, str]]:
        wanted: dict[TopicPartition, LeaderAndIsr] = {}
        refused: dict[TopicPartition, str] = {}
        for tp in partitions:
            assignment = self._context.assignment(tp)
            if names_us(assignment):
                refused[tp] = "waits for a live broker to replace a replica assigned to controllerd"
                continue
            state = initial_leadership(assignment.replicas, self._online(tp), self._context.epoch)
            if state is None:
                refused[tp] = "no assigned replica is live"
            else:
                wanted[tp] = state
        return wanted, refused

    async def _adopt(self, existing: list[TopicPartition]) -> list[TopicPartition]:
        """The state znode of a new partition exists already (a write of an earlier term): take it over."""
        if not existing:
            return []
        read = await self._store.read_states(existing)
        self._quarantine(read)
        for tp, leadership in read.states.items():
            self._context.set_leadership(tp, leadership)
        return list(read.states)

    def _go_online(self, tp: TopicPartition, leadership: LeaderAndIsr) -> None:
        self._context.set_leadership(tp, leadership)
        self._context.set_partition_state(tp, PartitionState.ONLINE)

    # -- elections ---------------------------------------------------------------------------------------------------

    async def _elect(
        self,
        partitions: list[TopicPartition],
        strategy: ElectionStrategy,
        batch: RequestBatch,
        elections: Elections,
    ) -> None:
        """Read, decide, write; partitions that lost the compare-and-set go round again with fresh state."""
        remaining = partitions
        while remaining:
            read = await self._store.read_states(remaining)
            usable = self._usable(read, elections.failed)
            decided = await self._decide(usable, strategy, elections.failed)
            remaining = await self._write(decided, strategy, batch, elections)

    def _usable(self, read: StatesRead, failed: dict[TopicPartition, str]) -> dict[TopicPartition, LeaderAndIsr]:
        self._quarantine(read)
        failed.update((tp, bad.reason) for tp, bad in read.broken.items())
        failed.update((tp, "the state znode does not exist") for tp in read.missing)
        usable = {}
        for tp, state in read.states.items():
            if state.controller_epoch > self._context.epoch:
                failed[tp] = f"written by controller epoch {state.controller_epoch}, ours is {self._context.epoch}"
            else:
                usable[tp] = state
        return usable

    def _quarantine(self, read: StatesRead) -> None:
        for bad in read.broken.values():
            self._context.put_in_quarantine(bad.path, bad.reason)

    async def _decide(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        strategy: ElectionStrategy,
        failed: dict[TopicPartition, str],
    ) -> dict[TopicPartition, LeaderAndIsr]:
        decide = await self._rule(states, strategy, failed)
        elected: dict[TopicPartition, Elected] = {}
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        for tp, state in states.items():
            if tp in failed:
                continue
            outcome = decide(tp, state)
            update = next_leadership(state, outcome, self._context.epoch) if outcome is not None else None
            if outcome is None or update is None:
                failed[tp] = f"no replica is electable: isr {list(state.isr)}, online {sorted(self._online(tp))}"
            elif isinstance(update, LeaderEpochExhausted):
                failed[tp] = "the leader epoch is exhausted"
            else:
                elected[tp], updates[tp] = outcome, update
        self._record_decisions(strategy, elected)
        return updates

    async def _rule(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        strategy: ElectionStrategy,
        failed: dict[TopicPartition, str],
    ) -> Callable[[TopicPartition, LeaderAndIsr], Elected | None]:
        """The election rule of ``strategy`` as a function of a partition and its state."""
        context = self._context
        match strategy:
            case Offline():
                unclean = await self._unclean_topics(states, strategy, failed)
                recovery = context.features.leader_recovery
                return lambda tp, state: elect_offline(
                    context.assignment(tp).replicas,
                    state.isr,
                    self._online(tp),
                    unclean_allowed=tp.topic in unclean,
                    leader_recovery=recovery,
                )
            case Reassign():
                return lambda tp, state: elect_reassign(context.assignment(tp).target, state.isr, self._online(tp))
            case Preferred():
                return lambda tp, state: elect_preferred(context.assignment(tp).replicas, state.isr, self._online(tp))
            case ControlledShutdown():
                return lambda tp, state: elect_controlled_shutdown(
                    context.assignment(tp).replicas,
                    state.isr,
                    self._online(tp, include_shutting_down=True),
                    context.shutting_down,
                )

    async def _unclean_topics(
        self, states: Mapping[TopicPartition, LeaderAndIsr], strategy: Offline, failed: dict[TopicPartition, str]
    ) -> set[str]:
        """Topics that may elect outside the ISR; asked only for partitions without an online ISR member."""
        hopeless = [tp for tp, state in states.items() if not self._online(tp) & set(state.isr)]
        topics = {tp.topic for tp in hopeless}
        if strategy.allow_unclean or not topics:
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
            if not isinstance(config, BadZnode) and config.get(UNCLEAN_CONFIG, default).lower() == "true"
        }

    def _record_decisions(self, strategy: ElectionStrategy, elected: Mapping[TopicPartition, Elected]) -> None:
        rows = list(elected.items())
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
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
        unclean = sum(outcome.unclean for outcome in elected.values())
        if unclean:
            log.warning("unclean leader elections", partitions=unclean)
            self._metrics.count_unclean_elections(unclean)

    async def _write(
        self,
        updates: Mapping[TopicPartition, LeaderAndIsr],
        strategy: ElectionStrategy,
        batch: RequestBatch,
        elections: Elections,
    ) -> list[TopicPartition]:
        """Write the new leaderships; returns the partitions that lost the compare-and-set."""
        lost = []
        results = await self._store.update_states(updates) if updates else {}
        for tp, result in results.items():
            if isinstance(result, Written):
                leadership = updates[tp]._replace(partition_epoch=result.version)
                self._go_online(tp, leadership)
                elections.elected[tp] = leadership
                batch.add_leader_and_isr(self._recipients(tp, strategy), tp, is_new=False)
            elif isinstance(result, Conflict):
                lost.append(tp)
            else:
                elections.failed[tp] = result.reason
        return lost

    def _recipients(self, tp: TopicPartition, strategy: ElectionStrategy) -> tuple[BrokerId, ...]:
        assignment = self._context.assignment(tp)
        match strategy:
            case Reassign():
                return assignment.target
            case Preferred():
                return assignment.replicas
            case Offline() | ControlledShutdown():
                leaving_too = isinstance(strategy, ControlledShutdown)
                online = self._online(tp, include_shutting_down=leaving_too)
                return tuple(broker for broker in assignment.replicas if broker in online)

    def _online(self, tp: TopicPartition, *, include_shutting_down: bool = False) -> set[BrokerId]:
        return {
            broker
            for broker in self._context.assignment(tp).replicas
            if self._context.is_online(broker, tp, include_shutting_down=include_shutting_down)
        }
