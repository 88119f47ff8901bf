"""The replica state machine: starts, stops and removes replicas, broker by broker, many partitions at a time.

A slice of partitions is one step; between two the event loop gets a turn when its time has come. Only the event task
changes the context, so what a step finds is what the step before left.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import repeat

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId, Replica, ReplicaState, TopicPartition
from controllerd.core.quarantine import is_in_doubt
from controllerd.core.records import PartitionRecord
from controllerd.core.replica_states import ReplicaStates
from controllerd.core.transitions import is_valid_replica_move
from controllerd.machines.isr_removal import IsrRemoval
from controllerd.machines.outbox import SLICE, Outbox
from controllerd.machines.refusals import refuse
from controllerd.pace import sliced
from controllerd.ports import AuditLog, StateStore

Brokers = tuple[BrokerId, ...]
Those = list[PartitionRecord]


class ReplicaStateMachine:
    """Carries out replica transitions against ZooKeeper and tells the brokers."""

    def __init__(self, context: ControllerContext, store: StateStore, outbox: Outbox, audit: AuditLog) -> None:
        self._context = context
        self._outbox = outbox
        self._audit = audit
        self._store = store

    async def startup(self) -> None:
        """Initial states, then LeaderAndIsr to everybody who is online and ISR removal for everybody who is not."""
        records = list(self._context.records())
        offline = await self._begin(records)
        async with self._outbox.batch() as batch:
            online, pace = self._context.liveness.online, self._outbox.pace
            for part in sliced(records, SLICE):
                told = [(record, online(record)) for record in part if record.leadership is not None]
                batch.add_leaderships((row for row in told if row[1]), is_new=False)
                await pace.breathe()
        await self.handle_on(offline, ReplicaState.OFFLINE)

    async def _begin(self, records: Those) -> Mapping[BrokerId, list[TopicPartition]]:
        """Give every replica its initial state; returns those that are offline, by broker."""
        online: defaultdict[BrokerId, Those] = defaultdict(list)
        offline: defaultdict[BrokerId, Those] = defaultdict(list)
        pace, liveness = self._outbox.pace, self._context.liveness
        for part in sliced(records, SLICE):
            for record in part:
                for broker in liveness.online(record):
                    online[broker].append(record)
                for broker in liveness.offline(record):
                    offline[broker].append(record)
            await pace.breathe()
        await self._move(online, ReplicaState.ONLINE)
        await self._move(offline, ReplicaState.DELETION_INELIGIBLE)
        return {broker: [record.tp for record in those] for broker, those in offline.items()}

    async def _move(self, replicas: Mapping[BrokerId, Those], state: ReplicaState) -> None:
        pace = self._outbox.pace
        for broker, records in sorted(replicas.items()):
            for part in sliced(records, 5 * SLICE):
                self._context.move_replicas(broker, part, state)
                await pace.breathe()

    async def handle(self, replicas: Iterable[Replica], target: ReplicaState) -> None:
        """Move replicas to ``target``; those for which the table forbids it are refused and recorded."""
        by_broker: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for tp, broker in replicas:
            by_broker[broker].append(tp)
        await self.handle_on(by_broker, target)

    async def handle_on(self, replicas: Mapping[BrokerId, Collection[TopicPartition]], target: ReplicaState) -> bool:
        """As ``handle``, for replicas that are known by broker already; whether every broker was told who is live."""
        return await self._handle_on(replicas, target, hand_over=False)

    async def stop_handing_over(self, replicas: Mapping[BrokerId, Collection[TopicPartition]]) -> bool:
        """Move replicas to Offline; a leader among them is followed by another at once, see ``IsrRemoval``."""
        return await self._handle_on(replicas, ReplicaState.OFFLINE, hand_over=True)

    async def _handle_on(
        self, replicas: Mapping[BrokerId, Collection[TopicPartition]], target: ReplicaState, *, hand_over: bool
    ) -> bool:
        if not any(replicas.values()):
            return False
        async with self._outbox.batch() as batch:
            for broker, partitions in sorted(replicas.items()):
                allowed = await self._allowed(broker, partitions, target)
                await self._apply(broker, allowed, target, batch, hand_over=hand_over)
            return batch.tells_everybody

    async def _allowed(self, broker: BrokerId, partitions: Collection[TopicPartition], target: ReplicaState) -> Those:
        allowed, refused, pace = [], [], self._outbox.pace
        may_move: dict[ReplicaStates, bool] = {}
        for part in sliced(list(partitions), SLICE):
            for tp in part:
                record = self._context.find(tp)
                states = self._context.no_replicas if record is None else record.replica_states
                if states not in may_move:
                    may_move[states] = is_valid_replica_move(states[broker], target)
                if record is not None and may_move[states]:
                    allowed.append(record)
                else:
                    state = states[broker]
                    refused.append((tp, f"replica {broker}: no transition from {state.value} to {target.value}"))
            await pace.breathe()
        refuse(self._audit, "replica transition", refused)
        return allowed

    async def _apply(
        self, broker: BrokerId, records: Those, target: ReplicaState, batch: RequestBatch, *, hand_over: bool
    ) -> None:
        if target is ReplicaState.OFFLINE:
            await self._stop(broker, records, batch, hand_over=hand_over)
            return
        pace = self._outbox.pace
        for part in sliced(records, SLICE):
            self._step(broker, part, target, batch)
            await pace.breathe()

    def _step(
        self, broker: BrokerId, part: Collection[PartitionRecord], target: ReplicaState, batch: RequestBatch
    ) -> None:
        match target:
            case ReplicaState.NEW:
                part = self._start_new(broker, part, batch)
            case ReplicaState.ONLINE:
                self._start(broker, part, batch)
            case ReplicaState.DELETION_STARTED:
                batch.add_stops(broker, part, delete=True)
            case ReplicaState.NON_EXISTENT:
                self._unassign(broker, part)
            case _:
                pass
        self._context.move_replicas(broker, part, target)

    def _start_new(
        self, broker: BrokerId, part: Collection[PartitionRecord], batch: RequestBatch
    ) -> Collection[PartitionRecord]:
        """A new replica cannot lead already; returns those that do not."""
        leads = [each for each in part if each.leadership is not None and each.leadership.leader == broker]
        reason = f"replica {broker} is new but leads the partition"
        refuse(self._audit, "replica transition", [(record.tp, reason) for record in leads])
        others = [each for each in part if each not in leads] if leads else part
        told = [each for each in others if each.leadership is not None]
        batch.add_leaderships(zip(told, repeat((broker,))), is_new=True)
        return others

    def _start(self, broker: BrokerId, part: Collection[PartitionRecord], batch: RequestBatch) -> None:
        """Those that were new were told with their leadership already, or will be when their reassignment goes on.

        Where the state is in quarantine it does not go on. That is no new replica either: who knows whether it is in
        the ISR by now.
        """
        new = {states for states in {each.replica_states for each in part} if states[broker] is ReplicaState.NEW}
        led = [each for each in part if each.leadership is not None]
        told = [each for each in led if each.replica_states not in new or is_in_doubt(self._context, each.tp)]
        batch.add_leaderships(zip(told, repeat((broker,))), is_new=False)

    def _unassign(self, broker: BrokerId, part: Collection[PartitionRecord]) -> None:
        for record in part:
            before = record.assignment
            without = tuple(tuple(member for member in members if member != broker) for members in before)
            self._context.set_assignment(record.tp, type(before)(*without))

    # -- going offline -----------------------------------------------------------------------------------------------

    async def _stop(self, broker: BrokerId, records: Those, batch: RequestBatch, *, hand_over: bool) -> None:
        pace = self._outbox.pace
        for part in sliced(records, SLICE):  # before the ISR changes: it carries the leader epoch that the broker knows
            batch.add_stops(broker, part, delete=False)
            await pace.breathe()
        led = [record for record in records if record.leadership is not None]
        removal = IsrRemoval(broker, self._context, self._store, self._audit, self._outbox.pace, hand_over=hand_over)
        for part in sliced(await removal.run(led), SLICE):
            self._tell_others(broker, part, batch)
            self._context.move_replicas(broker, part, ReplicaState.OFFLINE)
            await pace.breathe()
        self._give_up(broker, led)
        leaderless = [record for record in records if record.leadership is None]
        if leaderless:
            self._context.move_replicas(broker, leaderless, ReplicaState.OFFLINE)
            batch.add_update_metadata(self._context.live_or_shutting_down)
            batch.add_metadata(leaderless)

    def _give_up(self, broker: BrokerId, records: Those) -> None:
        """Of a topic that is being deleted states need not be right, nor even exist: its replicas go (KAFKA-6650)."""
        hidden = hidden_topics(self._context)
        doomed = [record for record in records if record.tp.topic in hidden] if hidden else []
        self._context.move_replicas(broker, doomed, ReplicaState.OFFLINE)

    def _tell_others(self, broker: BrokerId, part: Collection[PartitionRecord], batch: RequestBatch) -> None:
        others: dict[Brokers, Brokers] = {}
        hidden = hidden_topics(self._context)
        told = [record for record in part if record.tp.topic not in hidden]
        for record in told:
            replicas = record.assignment.replicas
            if replicas not in others:
                others[replicas] = tuple(other for other in replicas if other != broker)
        batch.add_leaderships(((record, others[record.assignment.replicas]) for record in told), is_new=False)
