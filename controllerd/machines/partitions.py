"""The partition state machine: initialises new partitions and elects leaders, many partitions at a time.

Why each write precedes its request, and what fences it: ``state_changes.py``. Which transitions are legal, and why:
``core/transitions.py``.
"""

from collections.abc import Collection, Sequence

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.election import ElectionStrategy, OfflineElection, initial_leadership, recorded_name
from controllerd.core.model import LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.sanitizer import names_us
from controllerd.core.soundness import leadership_flaw
from controllerd.core.transitions import is_valid_partition_move
from controllerd.errors import IllegalState
from controllerd.machines.elections import ElectionOutcomes, ElectionService
from controllerd.machines.outbox import Outbox
from controllerd.machines.recorded import record_refusals
from controllerd.ports.audit import AuditLog, ElectionMetrics
from controllerd.ports.configs import TopicConfigReader, TopicConfigs
from controllerd.ports.results import Conflict, StatesRead, WriteResult, Written
from controllerd.ports.states import StateStore


class PartitionStateMachine:
    """Carries out partition transitions in ZooKeeper, and sends the outcome to the brokers."""

    def __init__(
        self,
        context: ControllerContext,
        states: StateStore,
        outbox: Outbox,
        audit: AuditLog,
        overrides: TopicConfigReader,
        configs: TopicConfigs,
        metrics: ElectionMetrics,
    ) -> None:
        self._context = context
        self._states = states
        self._outbox = outbox
        self._audit = audit
        self._election_service = ElectionService(context, states, overrides, audit, configs, metrics, outbox.slicer)

    async def startup(self) -> None:
        """Give every partition its initial state from the cached leadership, then elect missing leaders."""
        await self._outbox.slicer.for_each_slice(list(self._context.records()), self._initialise_states)
        await self.trigger_online()

    def _initialise_states(self, part: Sequence[PartitionRecord]) -> None:
        """Set the initial state of each partition.

        The state is computed once for all partitions with the same leader, ISR, replicas and online replicas. This is
        a hot loop of every failover, so fields of tuples are read by number.
        """
        state_by_key: dict[object, PartitionState] = {}
        by_state: dict[PartitionState, list[PartitionRecord]] = {}
        online = self._context.liveness.online
        for record in part:
            leadership = record.leadership
            key = (
                record.tp
                if leadership is None
                else (leadership[0], leadership[2], record.assignment[0], online(record))
            )
            state = state_by_key.get(key)
            if state is None:
                state = state_by_key[key] = self._initial_state(record)
            by_state.setdefault(state, []).append(record)
        for state, records in by_state.items():
            self._context.move_partitions(records, state)

    def _initial_state(self, record: PartitionRecord) -> PartitionState:
        leadership, tp = record.leadership, record.tp
        if leadership is None:
            # A state znode in quarantine exists, and only cannot be used: the partition must not start as a new one.
            return PartitionState.NON_EXISTENT if self._is_quarantined(tp) else PartitionState.NEW
        online = leadership.leader in self._context.liveness.online(record)
        sound = leadership_flaw(leadership, record.assignment.replicas) is None
        return PartitionState.ONLINE if sound and online else PartitionState.OFFLINE

    def _is_quarantined(self, tp: TopicPartition) -> bool:
        return bool(self._context.quarantine) and tp.state_path in self._context.quarantine

    def take_unclean(self) -> set[TopicPartition]:
        """Return the partitions whose leader was elected from outside the ISR since the last call."""
        return self._election_service.take_unclean()

    async def trigger_online(self, topic: str | None = None) -> ElectionOutcomes:
        """Try to bring online every partition in New or Offline, or only the partitions of one topic."""
        waiting = self._context.waiting_partitions() if topic is None else self._context.waiting_partitions_of(topic)
        return await self.handle(waiting, PartitionState.ONLINE, OfflineElection())

    async def handle(
        self,
        partitions: Collection[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy | None = None,
    ) -> ElectionOutcomes:
        """Move partitions to ``target``; a move that the transition table forbids is refused and recorded."""
        elections = ElectionOutcomes()
        if not partitions:
            return elections
        async with self._outbox.batch() as batch:
            allowed = await self._allowed(partitions, target)
            if target is PartitionState.ONLINE:
                elections = await self._bring_online(allowed, strategy, batch)
            else:
                await self._outbox.slicer.for_each_slice(
                    allowed, lambda part: self._context.move_partitions(part, target)
                )
        return elections

    async def _allowed(self, partitions: Collection[TopicPartition], target: PartitionState) -> list[PartitionRecord]:
        allowed, refused = list[PartitionRecord](), list[tuple[TopicPartition, str]]()
        find = self._context.find

        def divide(part: Sequence[TopicPartition]) -> None:
            for tp in part:
                record = find(tp)
                state = PartitionState.NON_EXISTENT if record is None else record.state
                if record is not None and is_valid_partition_move(state, target):
                    allowed.append(record)
                else:
                    refused.append((tp, f"no transition from {state.value} to {target.value}"))

        await self._outbox.slicer.for_each_slice(list(partitions), divide)
        record_refusals(self._audit, "partition transition", refused)
        return allowed

    async def _bring_online(
        self, records: list[PartitionRecord], strategy: ElectionStrategy | None, batch: RequestBatch
    ) -> ElectionOutcomes:
        fresh = [record for record in records if record.state is PartitionState.NEW]
        known = [record for record in records if record.state is not PartitionState.NEW]
        adopted = await self._initialise(fresh, batch) if fresh else []
        if not known and not adopted:
            return ElectionOutcomes()
        if strategy is None:
            raise IllegalState("an election needs a strategy")
        elections = await self._election_service.run(known + adopted, strategy, batch)
        record_refusals(self._audit, f"election {recorded_name(strategy)}", elections.failed.items())
        return elections

    # -- new partitions ----------------------------------------------------------------------------------------------

    async def _initialise(self, records: list[PartitionRecord], batch: RequestBatch) -> list[PartitionRecord]:
        """Create state znodes; returns the partitions whose znode exists already, and which need an election instead.

        No znode is created for a partition without a live replica. But its znode is read, because it may exist: the
        topic may have been in quarantine when the controller loaded the partition states.
        """
        wanted: dict[TopicPartition, LeaderAndIsr] = {}
        refused: dict[TopicPartition, str] = {}
        existing: list[TopicPartition] = []
        slicer = self._outbox.slicer
        await slicer.for_each_slice(records, lambda part: existing.extend(self._decide_initial(part, wanted, refused)))
        results = await self._states.create_states(wanted) if wanted else {}
        await slicer.for_each_slice(
            list(results.items()), lambda part: existing.extend(self._take_created(part, wanted, refused, batch))
        )
        adopted = await self._adopt(existing, batch)
        for record in adopted:
            refused.pop(record.tp, None)
        record_refusals(self._audit, "initial leadership", refused.items())
        return adopted

    def _decide_initial(
        self,
        part: Collection[PartitionRecord],
        wanted: dict[TopicPartition, LeaderAndIsr],
        refused: dict[TopicPartition, str],
    ) -> list[TopicPartition]:
        """Decide the initial leaderships, into ``wanted`` or ``refused``.

        Returns the partitions without a live replica, which are in ``refused`` as well.
        """
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
        """Put created states into the context and into the batch; returns the partitions whose state exists already."""
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

    async def _adopt(self, existing: list[TopicPartition], batch: RequestBatch) -> list[PartitionRecord]:
        """Load the state znodes that new partitions have from an earlier term, as a failover loads all state znodes.

        Returns the partitions with a usable state. Every broker gets their metadata, even if no leader can be elected.
        Otherwise brokers would hide the partition from clients, and would never forget it when its topic is deleted.
        """
        if not existing:
            return []
        read = await self._states.read_states(existing)
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
