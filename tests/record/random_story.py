"""A random workload on a whole controller over a ZooKeeper in memory; a seed gives the same story each time."""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import StopReplicaRequest
from controllerd.errors import CallFailed, CallRefused, NotController
from events.admin import ControlledShutdown
from events.base import Call, Reply
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReceived, ProposedIsr
from events.topics import TopicDeletionStopReplicaResponseReceived
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids

BROKERS: Final = (1, 2, 3, 4, 5)
_MOST_TOPICS: Final = 6


class RandomStory:
    """Brokers come and go, topics are created, extended, moved and deleted, leaders report ISRs."""

    def __init__(self, seed: int) -> None:
        self.world = World()
        self._random = random.Random(seed)
        self._ended: Callable[[World], None] = lambda _world: None
        self._ends = self._created = 0
        self._acts: list[Callable[[], Awaitable[object]]] = [
            self._create,
            self._extend,
            self._delete,
            self._broker_goes,
            self._broker_comes,
            self._bounce,
            self._shut_down,
            self._report_isrs,
            self._report_isrs,
            self._reassign,
            self._cancel,
            self._elect,
            self._answer_deletions,
        ]

    async def run(self, ended: Callable[[World], None], *, ends: int) -> World:
        """Go on until so many events have ended, and tell ``ended`` after each of them."""
        self._ended = ended
        for broker in BROKERS:
            self.world.register(broker)
        await self.world.start()
        while self._ends < ends:
            await self._random.choice(self._acts)()
        return self.world

    async def _settle(self) -> None:
        while len(self.world.queue):
            await self.world.loop.handle(await self.world.queue.take())
            self._ends += 1
            self._ended(self.world)

    async def _ask(self, call: Call[Reply]) -> None:
        reply = self.world.queue.call(call)
        await self._settle()
        with suppress(NotController, CallRefused, CallFailed):
            await reply

    def _replicas(self) -> list[int]:
        return self._random.sample(BROKERS, self._random.randint(1, 3))

    def _topic(self) -> str | None:
        return self._random.choice(sorted(self.world.context.topics)) if self.world.context.topics else None

    def _partition(self) -> TopicPartition | None:
        known = sorted(self.world.context.partitions())
        return self._random.choice(known) if known else None

    # -- topics --------------------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        if len(self.world.context.topics) < _MOST_TOPICS:
            self._created += 1
            count = self._random.randint(1, 4)
            self.world.put_topic(f"t{self._created}", {number: self._replicas() for number in range(count)})
            await self._settle()

    async def _extend(self) -> None:
        name = self._topic()
        if name is None or name in self.world.context.queued_for_deletion:
            return
        known = self.world.context.topics[name].partitions
        if any(record.assignment.is_being_reassigned for record in known.values()):
            return  # a tool would keep what is being added and removed; this one does not know it
        partitions = {number: list(record.assignment.replicas) for number, record in known.items()}
        self.world.put_topic(name, {**partitions, len(partitions): self._replicas()})
        await self._settle()

    async def _delete(self) -> None:
        name = self._topic()
        if name is not None and name not in self.world.context.queued_for_deletion:
            self.world.tree.put(f"/admin/delete_topics/{name}")
            await self._settle()

    async def _answer_deletions(self) -> None:
        orders = [
            (broker, request)
            for broker, request in self.world.channels.sent
            if isinstance(request, StopReplicaRequest) and any(row.delete for row in request.partitions.values())
        ]
        self.world.channels.sent.clear()
        for broker, request in orders:
            done = dict.fromkeys(request.partitions, KafkaError.NONE)
            self.world.queue.put(
                TopicDeletionStopReplicaResponseReceived(
                    broker, request.broker_epoch, request.controller_epoch, KafkaError.NONE, done
                )
            )
        await self._settle()

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def _broker_goes(self) -> None:
        if len(self.world.context.brokers) > 2:
            self.world.die(self._random.choice(sorted(self.world.context.brokers)))
            await self._settle()

    async def _broker_comes(self) -> None:
        for broker in sorted(set(BROKERS) - self.world.context.brokers.keys()):
            self.world.register(broker)
        await self._settle()

    async def _bounce(self) -> None:
        self.world.bounce(self._random.choice(sorted(self.world.context.brokers)))
        await self._settle()

    async def _shut_down(self) -> None:
        broker = BrokerId(self._random.choice(sorted(self.world.context.brokers)))
        await self._ask(ControlledShutdown(broker, self.world.context.epochs()[broker]))

    # -- partitions ----------------------------------------------------------------------------------------------------

    async def _report_isrs(self) -> None:
        """Leaders report some of their live replicas, themselves among them."""
        for tp in self._random.sample(known := sorted(self.world.context.partitions()), min(4, len(known))):
            if tp not in self.world.context:
                continue  # deleted meanwhile
            state, live = self.world.context.record(tp).leadership, self.world.context.live
            if state is None or state.leader not in live:
                continue
            others = [b for b in self.world.context.assignment(tp).replicas if b in live and b != state.leader]
            isr = (state.leader, *self._random.sample(others, self._random.randint(0, len(others))))
            ask = {tp: ProposedIsr(state.leader_epoch, state.partition_epoch, isr)}
            await self._ask(AlterPartitionReceived(state.leader, self.world.context.epochs()[state.leader], 1, ask, {}))

    async def _reassign(self) -> None:
        tp = self._partition()
        if tp is not None:
            await self._ask(ApiPartitionReassignment(ALICE, {tp: ids(*self._replicas())}))

    async def _cancel(self) -> None:
        moving = {tp: None for tp in sorted(self.world.context.partitions()) if self._is_moving(tp)}
        await self._ask(ApiPartitionReassignment(ALICE, moving))

    def _is_moving(self, tp: TopicPartition) -> bool:
        return self.world.context.assignment(tp).is_being_reassigned

    async def _elect(self) -> None:
        kind = self._random.choice([ElectionType.PREFERRED, ElectionType.UNCLEAN])
        await self._ask(ReplicaLeaderElection(None, kind, ElectionTrigger.ADMIN_CLIENT))
