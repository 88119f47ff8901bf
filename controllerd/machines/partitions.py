"""The partition state machine: initialises new partitions and has leaders elected, many at a time.

A slice of partitions is one step; between two the event loop gets a turn when its time has come.
"""

from collections.abc import Collection

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.election import ElectionStrategy, Offline, initial_leadership
from controllerd.core.model import LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.sanitizer import names_us
from controllerd.core.soundness import leadership_flaw
from controllerd.core.transitions import is_valid_partition_move
from controllerd.errors import IllegalState
from controllerd.machines.elections import Electing, Elections, ElectionStore
from controllerd.machines.outbox import SLICE, Outbox
from controllerd.machines.refusals import refuse
from controllerd.pace import sliced
from controllerd.ports import AuditLog, Metrics, TopicConfigs
from controllerd.results import Conflict, StatesRead, WriteResult, Written

Those = list[PartitionRecord]


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
        self._electing = Electing(context, store, audit, configs, metrics, outbox.pace)

    async def startup(self) -> None:
        """Give every partition its initial state from the cached leadership, then bring online what can be."""
        pace = self._outbox.pace
        for part in sliced(list(self._context.records()), SLICE):
            for state, those in self._by_initial_state(part).items():
                self._context.move_partitions(those, state)
            await pace.breathe()
        await self.trigger_online()

    def _by_initial_state(self, part: Collection[PartitionRecord]) -> dict[PartitionState, Those]:
        """One judgement for all partitions whose leader, ISR, replicas and online replicas are the same."""
        judged: dict[object, PartitionState] = {}
        by_state: dict[PartitionState, Those] = {}
        online = self._context.liveness.online
        for record in part:
            leadership = record.leadership
            alike = (
                record.tp
                if leadership is None
                else (leadership[0], leadership[2], record.assignment[0], online(record))
            )
            state = judged.get(alike)
            if state is None:
                state = judged[alike] = self._initial_state(record)
            by_state.setdefault(state, []).append(record)
        return by_state

    def _initial_state(self, record: PartitionRecord) -> PartitionState:
        leadership, tp = record.leadership, record.tp
        if leadership is None:
            return PartitionState.NON_EXISTENT if self._is_quarantined(tp) else PartitionState.NEW
        online = leadership.leader in self._context.liveness.online(record)
        sound = leadership_flaw(leadership, record.assignment.replicas) is None
        return PartitionState.ONLINE if sound and online else PartitionState.OFFLINE

    def _is_quarantined(self, tp: TopicPartition) -> bool:
        return bool(self._context.quarantine) and tp.state_path in self._context.quarantine

    def take_unclean(self) -> set[TopicPartition]:
        """Return the partitions whose leader was elected from outside the ISR since the last call."""
        return self._electing.take_unclean()

    async def trigger_online(self, topic: str | None = None) -> Elections:
        """Try to bring every New and Offline partition online, or only those of one topic."""
        waiting = self._context.waiting_partitions() if topic is None else self._context.waiting_partitions_of(topic)
        return await self.handle(waiting, PartitionState.ONLINE, Offline())

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
            allowed = await self._allowed(partitions, target)
            if target is PartitionState.ONLINE:
                await self._bring_online(allowed, strategy, batch, elections)
            else:
                await self._move(allowed, target)
        return elections

    async def _allowed(self, partitions: Collection[TopicPartition], target: PartitionState) -> Those:
        allowed, refused, pace = [], [], self._outbox.pace
        for part in sliced(list(partitions), SLICE):
            for tp in part:
                record = self._context.find(tp)
                state = PartitionState.NON_EXISTENT if record is None else record.state
                if record is not None and is_valid_partition_move(state, target):
                    allowed.append(record)
                else:
                    refused.append((tp, f"no transition from {state.value} to {target.value}"))
            await pace.breathe()
        refuse(self._audit, "partition transition", refused)
        return allowed

    async def _move(self, records: Those, target: PartitionState) -> None:
        pace = self._outbox.pace
        for part in sliced(records, SLICE):
            self._context.move_partitions(part, target)
            await pace.breathe()

    async def _bring_online(
        self, records: Those, strategy: ElectionStrategy | None, batch: RequestBatch, elections: Elections
    ) -> None:
        fresh = [record for record in records if record.state is PartitionState.NEW]
        known = [record for record in records if record.state is not PartitionState.NEW]
        adopted = await self._initialise(fresh, batch) if fresh else []
        if known or adopted:
            if strategy is None:
                raise IllegalState("an election needs a strategy")
            await self._electing.run(known + adopted, strategy, batch, elections)
        refuse(self._audit, f"election {type(strategy).__name__}", elections.failed.items())

    # -- new partitions ----------------------------------------------------------------------------------------------

    async def _initialise(self, records: Those, batch: RequestBatch) -> Those:
        """Create state znodes; returns the partitions whose znode existed already, for an election instead.

        One that nobody can lead may have a state as well: its topic was in quarantine when we loaded.
        """
        wanted: dict[TopicPartition, LeaderAndIsr] = {}
        refused: dict[TopicPartition, str] = {}
        existing: list[TopicPartition] = []
        pace = self._outbox.pace
        for part in sliced(records, SLICE):
            existing += self._decide_initial(part, wanted, refused)
            await pace.breathe()
        results = await self._store.create_states(wanted) if wanted else {}
        for results_part in sliced(list(results.items()), SLICE):
            existing += self._take_created(results_part, wanted, refused, batch)
            await pace.breathe()
        adopted = await self._adopt(existing, batch)
        for record in adopted:
            refused.pop(record.tp, None)
        refuse(self._audit, "initial leadership", refused.items())
        return adopted

    def _decide_initial(
        self,
        part: Collection[PartitionRecord],
        wanted: dict[TopicPartition, LeaderAndIsr],
        refused: dict[TopicPartition, str],
    ) -> list[TopicPartition]:
        """Returns the partitions without a live replica."""
        leaderless = []
        for record in part:
            assignment, tp = record.assignment, record.tp
            if names_us(assignment):
                refused[tp] = "waits for a live broker to replace a replica assigned to controllerd"
                continue
            if self._is_quarantined(tp):
                refused[tp] = "its state znode is in quarantine"
                continue
            online = self._context.liveness.online(record)
            state = initial_leadership(assignment.replicas, online, self._context.epoch)
            if state is None:
                refused[tp] = "no assigned replica is live"
                leaderless.append(tp)
            else:
                wanted[tp] = state
        return leaderless

    def _take_created(
        self,
        part: Collection[tuple[TopicPartition, WriteResult]],
        wanted: dict[TopicPartition, LeaderAndIsr],
        refused: dict[TopicPartition, str],
        batch: RequestBatch,
    ) -> list[TopicPartition]:
        """Created ones go into the context and into the batch; returns those that exist already."""
        created: list[tuple[PartitionRecord, LeaderAndIsr]] = []
        existing = []
        for tp, result in part:
            if isinstance(result, Written):
                created.append((self._context.record(tp), wanted[tp].at(result.version)))
            elif isinstance(result, Conflict):
                existing.append(tp)
            else:
                refused[tp] = result.reason
        self._context.set_leaderships(created)
        self._context.move_partitions([record for record, _ in created], PartitionState.ONLINE)
        batch.add_leaderships(((record, leadership.isr) for record, leadership in created), is_new=True)
        return existing

    async def _adopt(self, existing: list[TopicPartition], batch: RequestBatch) -> Those:
        """Take over states of new partitions that exist already (a write of an earlier term), as a failover does.

        Everybody is told, even if nobody can be elected: brokers would hide the partition, or never forget it when its
        topic is deleted.
        """
        if not existing:
            return []
        read = await self._store.read_states(existing)
        self._quarantine(read)
        adopted = [(self._context.record(tp), leadership) for tp, leadership in read.states.items()]
        records = [record for record, _ in adopted]
        self._context.set_leaderships(adopted)
        self._context.move_partitions(records, PartitionState.OFFLINE)
        if records:
            batch.add_update_metadata(self._context.live_or_shutting_down)
            batch.add_metadata(records)
        return records

    def _quarantine(self, read: StatesRead) -> None:
        for bad in read.broken.values():
            self._context.put_in_quarantine(bad.path, bad.reason)
