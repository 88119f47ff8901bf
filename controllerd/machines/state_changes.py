"""One kind of change to the states of many partitions: decide, write, and decide anew what lost the race.

Decided on the states that we know, without a read; each write demands the version that it was decided on.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import LeaderEpochExhausted, bump_leader_epoch
from controllerd.core.model import NO_LEADER, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.machines.known_states import known_states
from controllerd.machines.outbox import SLICE
from controllerd.machines.refusals import refuse
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, StateStore
from controllerd.results import Conflict, StatesRead, Written

Failed = list[tuple[TopicPartition, str]]
States = Mapping[TopicPartition, LeaderAndIsr]


class StateChange(ABC):
    """A change, made for one call of a state machine."""

    what: ClassVar[str]
    """The name of the change in refusals."""

    def __init__(self, context: ControllerContext, store: StateStore, audit: AuditLog, pace: Pace) -> None:
        self._context = context
        self._store = store
        self._audit = audit
        self._pace = pace
        self._done: set[TopicPartition] = set()
        self._failed: Failed = []

    @abstractmethod
    def decide(self, record: PartitionRecord, state: LeaderAndIsr) -> LeaderAndIsr | LeaderEpochExhausted | None:
        """What to write in place of ``state``; None when it is right as it is."""

    @abstractmethod
    def record_decisions(self) -> None:
        """Write down who was chosen, before it is written to ZooKeeper."""

    async def run(self, records: Sequence[PartitionRecord]) -> list[PartitionRecord]:
        """The partitions that are as wanted now, in their order. All of them have leadership."""
        known, remaining, quarantined = await known_states(records, self._context, self._pace)
        self._failed += quarantined.items()
        remaining += await self._change(known)
        while remaining:
            remaining = await self._change(self._usable(await self._store.read_states(remaining)))
        refuse(self._audit, self.what, self._failed)
        done: list[PartitionRecord] = []
        for part in sliced(records, SLICE):
            done += [record for record in part if record.tp in self._done]
            await self._pace.breathe()
        return done

    def _usable(self, read: StatesRead) -> States:
        for tp, bad in read.broken.items():
            self._context.put_in_quarantine(bad.path, bad.reason)
            self._failed.append((tp, bad.reason))
        hidden = hidden_topics(self._context)
        self._failed += [(tp, "the state znode does not exist") for tp in read.missing if tp.topic not in hidden]
        usable = {}
        for tp, state in read.states.items():
            if state.controller_epoch > self._context.epoch:
                self._failed.append((tp, f"written by controller epoch {state.controller_epoch}, a newer one"))
            else:
                usable[tp] = state
        return usable

    async def _change(self, states: States) -> list[TopicPartition]:
        """Decide and write once; returns the partitions that lost the race."""
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        pace = self._pace
        for part in sliced(list(states.items()), SLICE):
            self._decide(part, updates)
            await pace.breathe()
        self.record_decisions()
        return await self._write(updates) if updates else []

    def _decide(
        self, part: Sequence[tuple[TopicPartition, LeaderAndIsr]], updates: dict[TopicPartition, LeaderAndIsr]
    ) -> None:
        right: list[tuple[PartitionRecord, LeaderAndIsr]] = []
        for tp, state in part:
            record = self._context.record(tp)
            changed = self.decide(record, state)
            if changed is None:
                right.append((record, state))  # it may have been read just now
                self._done.add(tp)
            elif isinstance(changed, LeaderEpochExhausted):
                self._failed.append((tp, "the leader epoch is exhausted"))
            elif changed.isr != state.isr and changed.leader not in (NO_LEADER, *changed.isr):
                # As somebody else left it: what is not sound is changed by an election alone.
                self._failed.append((tp, f"the leader {changed.leader} is not in the ISR"))
            else:
                updates[tp] = changed
        self._context.set_leaderships(right)

    async def _write(self, updates: States) -> list[TopicPartition]:
        lost: list[TopicPartition] = []
        results, pace = await self._store.update_states(updates), self._pace
        for part in sliced(list(results.items()), SLICE):
            written: list[tuple[PartitionRecord, LeaderAndIsr]] = []
            for tp, result in part:
                if isinstance(result, Written):
                    written.append((self._context.record(tp), updates[tp].at(result.version)))
                    self._done.add(tp)
                elif isinstance(result, Conflict):
                    lost.append(tp)
                else:
                    self._failed.append((tp, result.reason))
            self._context.set_leaderships(written)
            await pace.breathe()
        return lost


class EpochBump(StateChange):
    """The same leadership with the next leader epoch, so that brokers take a changed assignment (KIP-455)."""

    what: ClassVar[str] = "leader epoch"

    def decide(self, _record: PartitionRecord, state: LeaderAndIsr) -> LeaderAndIsr | LeaderEpochExhausted | None:
        """Always something."""
        return bump_leader_epoch(state, self._context.epoch)

    def record_decisions(self) -> None:
        """Nobody was chosen."""
