"""The replica state machine: starts, stops and removes replicas, broker by broker, many partitions at a time.

Which transitions are legal, and why: ``core/transitions.py``. The event loop gets a turn after each slice of
partitions. Only the event task changes the context, so nothing else changes it between two slices.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId, Replica, ReplicaState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.replica_states import ReplicaStates
from controllerd.core.soundness import is_in_doubt
from controllerd.core.transitions import is_valid_replica_move
from controllerd.machines.isr_removal import IsrRemoval
from controllerd.machines.outbox import Outbox
from controllerd.machines.recorded import record_refusals
from controllerd.ports.audit import AuditLog
from controllerd.ports.states import StateUpdater
from controllerd.slicer import SLICE

Brokers = tuple[BrokerId, ...]
Records = list[PartitionRecord]


class ReplicaStateMachine:
    """Carries out replica transitions in ZooKeeper, and sends the outcome to the brokers."""

    def __init__(self, context: ControllerContext, states: StateUpdater, outbox: Outbox, audit: AuditLog) -> None:
        self._context = context
        self._outbox = outbox
        self._audit = audit
        self._states = states

    async def startup(self) -> None:
        """Give replicas their states, send LeaderAndIsr for those online, and take the others out of their ISRs."""
        records = list(self._context.records())
        offline = await self._begin(records)
        async with self._outbox.batch() as batch:
            online = self._context.liveness.online

            def add(part: Sequence[PartitionRecord]) -> None:
                led = [(record, online(record)) for record in part if record.leadership is not None]
                batch.add_leaderships((row for row in led if row[1]), is_new=False)

            await self._outbox.slicer.for_each_slice(records, add)
        await self.handle_on(offline, ReplicaState.OFFLINE)

    async def _begin(self, records: Records) -> Mapping[BrokerId, list[TopicPartition]]:
        """Give every replica its initial state; returns the offline ones by broker."""
        online: defaultdict[BrokerId, Records] = defaultdict(list)
        offline: defaultdict[BrokerId, Records] = defaultdict(list)
        liveness = self._context.liveness

        def divide(part: Sequence[PartitionRecord]) -> None:
            for record in part:
                for broker in liveness.online(record):
                    online[broker].append(record)
                for broker in liveness.offline(record):
                    offline[broker].append(record)

        await self._outbox.slicer.for_each_slice(records, divide)
        await self._move(online, ReplicaState.ONLINE)
        # As in Kafka, to be on the safe side if the topic is being deleted. ``startup`` moves all of them to Offline.
        await self._move(offline, ReplicaState.DELETION_INELIGIBLE)
        return {broker: [record.tp for record in of_broker] for broker, of_broker in offline.items()}

    async def _move(self, replicas: Mapping[BrokerId, Records], state: ReplicaState) -> None:
        move = self._context.move_replicas
        for broker, records in sorted(replicas.items()):
            await self._outbox.slicer.for_each_slice(records, partial(move, broker, state=state), 5 * SLICE)

    async def handle(self, replicas: Iterable[Replica], target: ReplicaState) -> None:
        """Move replicas to ``target``; a move that the transition table forbids is refused and recorded."""
        by_broker: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for tp, broker in replicas:
            by_broker[broker].append(tp)
        await self.handle_on(by_broker, target)

    async def handle_on(self, replicas: Mapping[BrokerId, Collection[TopicPartition]], target: ReplicaState) -> bool:
        """As ``handle``, for replicas by broker.

        Returns whether the requests of this call send the list of live brokers to every live broker.
        """
        return await self._handle_on(replicas, target, hand_over=False)

    async def stop_handing_over(self, replicas: Mapping[BrokerId, Collection[TopicPartition]]) -> bool:
        """Move replicas to Offline; where one of them leads, the same write names its successor (``IsrRemoval``).

        Returns the same as ``handle_on``.
        """
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
            return batch.reaches_every_broker

    async def _allowed(self, broker: BrokerId, partitions: Collection[TopicPartition], target: ReplicaState) -> Records:
        allowed, refused = Records(), list[tuple[TopicPartition, str]]()
        may_move: dict[ReplicaStates, bool] = {}

        def divide(part: Sequence[TopicPartition]) -> None:
            for tp in part:
                record = self._context.find(tp)
                states = self._context.no_replica_states if record is None else record.replica_states
                if states not in may_move:
                    may_move[states] = is_valid_replica_move(states[broker], target)
                if record is not None and may_move[states]:
                    allowed.append(record)
                else:
                    state = states[broker]
                    refused.append((tp, f"replica {broker}: no transition from {state.value} to {target.value}"))

        await self._outbox.slicer.for_each_slice(list(partitions), divide)
        record_refusals(self._audit, "replica transition", refused)
        return allowed

    async def _apply(
        self, broker: BrokerId, records: Records, target: ReplicaState, batch: RequestBatch, *, hand_over: bool
    ) -> None:
        if target is ReplicaState.OFFLINE:
            await self._stop(broker, records, batch, hand_over=hand_over)
            return
        await self._outbox.slicer.for_each_slice(records, lambda part: self._step(broker, part, target, batch))

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
        """Start new replicas; returns the partitions of these. A new replica that leads its partition is refused.

        A new replica has no data to lead with.
        """
        leads = [each for each in part if each.leadership is not None and each.leadership.leader == broker]
        reason = f"replica {broker} is new but leads the partition"
        record_refusals(self._audit, "replica transition", [(record.tp, reason) for record in leads])
        others = [each for each in part if each not in leads] if leads else part
        led = [each for each in others if each.leadership is not None]
        batch.add_leaderships(zip(led, repeat((broker,))), is_new=True)
        return others

    def _start(self, broker: BrokerId, part: Collection[PartitionRecord], batch: RequestBatch) -> None:
        """Send LeaderAndIsr for replicas that are not new.

        A new replica got its LeaderAndIsr with the first leadership of its partition, or gets it when its reassignment
        goes on. While the partition state is in quarantine, the reassignment does not go on. Then the replica gets its
        LeaderAndIsr here, and not as a new replica, because it may be in the ISR by now.
        """
        # Many partitions share one ReplicaStates value, so each value is checked once.
        new = {states for states in {each.replica_states for each in part} if states[broker] is ReplicaState.NEW}
        led = [each for each in part if each.leadership is not None]
        due = [each for each in led if each.replica_states not in new or is_in_doubt(self._context, each.tp)]
        batch.add_leaderships(zip(due, repeat((broker,))), is_new=False)

    def _unassign(self, broker: BrokerId, part: Collection[PartitionRecord]) -> None:
        for record in part:
            before = record.assignment
            without = tuple(tuple(member for member in members if member != broker) for members in before)
            self._context.set_assignment(record.tp, type(before)(*without))

    # -- going offline -----------------------------------------------------------------------------------------------

    async def _stop(self, broker: BrokerId, records: Records, batch: RequestBatch, *, hand_over: bool) -> None:
        slicer = self._outbox.slicer
        # StopReplica goes into the batch before the ISR changes: it must carry the leader epoch that the broker knows.
        await slicer.for_each_slice(records, lambda part: batch.add_stops(broker, part, delete=False))
        led = [record for record in records if record.leadership is not None]
        removal = IsrRemoval(broker, self._context, self._states, self._audit, slicer, hand_over=hand_over)

        def finish(part: Sequence[PartitionRecord]) -> None:
            self._send_to_others(broker, part, batch)
            self._context.move_replicas(broker, part, ReplicaState.OFFLINE)

        await slicer.for_each_slice(await removal.run(led), finish)
        self._force_offline(broker, led)
        leaderless = [record for record in records if record.leadership is None]
        if leaderless:
            self._context.move_replicas(broker, leaderless, ReplicaState.OFFLINE)
            batch.add_update_metadata(self._context.live_or_shutting_down)
            batch.add_metadata(leaderless)

    def _force_offline(self, broker: BrokerId, records: Records) -> None:
        """Move replicas of topics that are being deleted to Offline, even if the ISR was not changed (KAFKA-6650)."""
        hidden = hidden_topics(self._context)
        of_hidden = [record for record in records if record.tp.topic in hidden] if hidden else []
        self._context.move_replicas(broker, of_hidden, ReplicaState.OFFLINE)

    def _send_to_others(self, broker: BrokerId, part: Collection[PartitionRecord], batch: RequestBatch) -> None:
        others: dict[Brokers, Brokers] = {}
        hidden = hidden_topics(self._context)
        shown = [record for record in part if record.tp.topic not in hidden]
        for record in shown:
            replicas = record.assignment.replicas
            if replicas not in others:
                others[replicas] = tuple(other for other in replicas if other != broker)
        batch.add_leaderships(((record, others[record.assignment.replicas]) for record in shown), is_new=False)
