"""The replica state machine: starts, stops and removes replicas, broker by broker, many partitions at a time."""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby

import structlog

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.election import LeaderEpochExhausted, shrink_isr
from controllerd.core.model import BrokerId, LeaderAndIsr, Replica, ReplicaState, TopicPartition
from controllerd.core.transitions import is_valid_replica_move
from controllerd.machines.outbox import Outbox
from controllerd.ports import AuditLog, Conflict, StatesRead, StateStore, Written
from replay.records import MAX_ROWS, RefusedRecord

log = structlog.get_logger(__name__)


class ReplicaStateMachine:
    """Carries out replica transitions against ZooKeeper and tells the brokers."""

    def __init__(self, context: ControllerContext, store: StateStore, outbox: Outbox, audit: AuditLog) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._audit = audit

    async def startup(self) -> None:
        """Initial states, then LeaderAndIsr to everybody who is online and ISR removal for everybody who is not."""
        online: list[Replica] = []
        offline: list[Replica] = []
        for tp in list(self._context.partitions()):
            for broker in self._context.assignment(tp).replicas:
                is_online = self._context.is_online(broker, tp)
                (online if is_online else offline).append(Replica(tp, broker))
        for replica in online:
            self._context.set_replica_state(replica, ReplicaState.ONLINE)
        for replica in offline:
            self._context.set_replica_state(replica, ReplicaState.DELETION_INELIGIBLE)
        await self.handle(online, ReplicaState.ONLINE)
        await self.handle(offline, ReplicaState.OFFLINE)

    async def handle(self, replicas: Collection[Replica], target: ReplicaState) -> None:
        """Move replicas to ``target``; those for which the table forbids it are refused and recorded."""
        if not replicas:
            return
        async with self._outbox.batch() as batch:
            allowed = sorted(self._allowed(replicas, target), key=lambda replica: replica.broker)
            for broker, group in groupby(allowed, key=lambda replica: replica.broker):
                await self._apply(broker, [replica.tp for replica in group], target, batch)

    def _allowed(self, replicas: Iterable[Replica], target: ReplicaState) -> list[Replica]:
        allowed, refused = [], {}
        for replica in replicas:
            state = self._context.replica_state(replica)
            if replica.tp in self._context and is_valid_replica_move(state, target):
                allowed.append(replica)
            else:
                refused[replica] = f"replica {replica.broker}: no transition from {state.value} to {target.value}"
        self._refuse("replica transition", [(replica.tp, reason) for replica, reason in refused.items()])
        return allowed

    def _refuse(self, what: str, rows: list[tuple[TopicPartition, str]]) -> None:
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
            topics, partitions = [tp.topic for tp, _ in part], [tp.partition for tp, _ in part]
            self._audit.record(RefusedRecord(what, topics, partitions, [reason for _, reason in part]))
        if rows:
            log.warning("refused", what=what, partitions=len(rows), first=str(rows[0][0]), reason=rows[0][1])

    async def _apply(
        self, broker: BrokerId, partitions: list[TopicPartition], target: ReplicaState, batch: RequestBatch
    ) -> None:
        match target:
            case ReplicaState.NEW:
                self._start_new(broker, partitions, batch)
            case ReplicaState.ONLINE:
                self._start(broker, partitions, batch)
            case ReplicaState.OFFLINE:
                await self._stop(broker, partitions, batch)
            case ReplicaState.DELETION_STARTED:
                self._set(broker, partitions, target)
                for tp in partitions:
                    batch.add_stop_replica((broker,), tp, delete=True)
            case ReplicaState.DELETION_INELIGIBLE | ReplicaState.DELETION_SUCCESSFUL:
                self._set(broker, partitions, target)
            case ReplicaState.NON_EXISTENT:
                self._remove(broker, partitions)

    def _set(self, broker: BrokerId, partitions: Iterable[TopicPartition], state: ReplicaState) -> None:
        for tp in partitions:
            self._context.set_replica_state(Replica(tp, broker), state)

    def _start_new(self, broker: BrokerId, partitions: list[TopicPartition], batch: RequestBatch) -> None:
        for tp in partitions:
            leadership = self._context.leadership(tp)
            if leadership is not None and leadership.leader == broker:
                self._refuse("replica transition", [(tp, f"replica {broker} is new but leads the partition")])
                continue
            if leadership is not None:
                batch.add_leader_and_isr((broker,), tp, is_new=True)
            self._context.set_replica_state(Replica(tp, broker), ReplicaState.NEW)

    def _start(self, broker: BrokerId, partitions: list[TopicPartition], batch: RequestBatch) -> None:
        for tp in partitions:
            replica = Replica(tp, broker)
            is_new = self._context.replica_state(replica) is ReplicaState.NEW
            if not is_new and self._context.leadership(tp) is not None:
                batch.add_leader_and_isr((broker,), tp, is_new=False)
            self._context.set_replica_state(replica, ReplicaState.ONLINE)

    def _remove(self, broker: BrokerId, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            before = self._context.assignment(tp)
            without = tuple(tuple(member for member in members if member != broker) for members in before)
            self._context.set_replica_state(Replica(tp, broker), ReplicaState.NON_EXISTENT)
            self._context.set_assignment(tp, type(before)(*without))

    # -- going offline -----------------------------------------------------------------------------------------------

    async def _stop(self, broker: BrokerId, partitions: list[TopicPartition], batch: RequestBatch) -> None:
        for tp in partitions:  # before the ISR changes: it carries the leader epoch that the broker knows
            batch.add_stop_replica((broker,), tp, delete=False)
        led = [tp for tp in partitions if self._context.leadership(tp) is not None]
        for tp in await self._remove_from_isr(broker, led):
            if not self._context.is_queued_for_deletion(tp.topic):
                others = [other for other in self._context.assignment(tp).replicas if other != broker]
                batch.add_leader_and_isr(others, tp, is_new=False)
            self._context.set_replica_state(Replica(tp, broker), ReplicaState.OFFLINE)
        leaderless = [tp for tp in partitions if self._context.leadership(tp) is None]
        self._set(broker, leaderless, ReplicaState.OFFLINE)
        if leaderless:
            batch.add_update_metadata(self._context.live_or_shutting_down, leaderless)

    async def _remove_from_isr(self, broker: BrokerId, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Take the broker out of the ISRs; returns the partitions for which it is out now. Retries what lost a race."""
        done: list[TopicPartition] = []
        failed: list[tuple[TopicPartition, str]] = []
        remaining = partitions
        while remaining:
            read = await self._store.read_states(remaining)
            usable = self._usable(read, failed)
            updates = self._shrink(broker, usable, failed)
            for tp, state in usable.items():
                if broker not in state.isr:
                    self._context.set_leadership(tp, state)
                    done.append(tp)
            remaining = await self._write(updates, done, failed)
        self._refuse("isr removal", failed)
        order = {tp: number for number, tp in enumerate(partitions)}
        return sorted(done, key=order.__getitem__)

    def _usable(
        self, read: StatesRead, failed: list[tuple[TopicPartition, str]]
    ) -> Mapping[TopicPartition, LeaderAndIsr]:
        for tp, bad in read.broken.items():
            self._context.put_in_quarantine(bad.path, bad.reason)
            failed.append((tp, bad.reason))
        queued = self._context.is_queued_for_deletion
        failed += [(tp, "the state znode does not exist") for tp in read.missing if not queued(tp.topic)]
        usable = {}
        for tp, state in read.states.items():
            if state.controller_epoch > self._context.epoch:
                failed.append((tp, f"written by controller epoch {state.controller_epoch}, a newer one"))
            else:
                usable[tp] = state
        return usable

    def _shrink(
        self,
        broker: BrokerId,
        states: Mapping[TopicPartition, LeaderAndIsr],
        failed: list[tuple[TopicPartition, str]],
    ) -> dict[TopicPartition, LeaderAndIsr]:
        updates = {}
        for tp, state in states.items():
            shrunk = shrink_isr(state, broker, self._context.epoch)
            if isinstance(shrunk, LeaderEpochExhausted):
                failed.append((tp, "the leader epoch is exhausted"))
            elif shrunk is not None:
                updates[tp] = shrunk
        return updates

    async def _write(
        self,
        updates: Mapping[TopicPartition, LeaderAndIsr],
        done: list[TopicPartition],
        failed: list[tuple[TopicPartition, str]],
    ) -> list[TopicPartition]:
        lost = []
        results = await self._store.update_states(updates) if updates else {}
        for tp, result in results.items():
            if isinstance(result, Written):
                self._context.set_leadership(tp, updates[tp]._replace(partition_epoch=result.version))
                done.append(tp)
            elif isinstance(result, Conflict):
                lost.append(tp)
            else:
                failed.append((tp, result.reason))
        return lost
