"""The reassignment of many partitions as one operation: so many at a time, each followed to its end."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final

from controllerd.core.counted import counted
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.pace import Pace
from controllerd.planning.moves import Replicas, foresee_move, outcome_of_refusal, progress_of_move
from controllerd.planning.plans import failed
from controllerd.status.problems import Refused
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import ReassignmentRequest
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import Cluster, Watched, item_of, named
from controllerd.views import PartitionView
from events.admin import Requester
from events.operator import ThrottleReassignments
from events.reassignments import ApiPartitionReassignment

AT_A_TIME: Final = 2_000
"""Partitions of one event: what is more urgent may come in between."""


class Reassignments(Operation):
    """The wished replicas of some partitions."""

    verb = "reassignments"

    def __init__(self, asked: ReassignmentRequest, by: Requester, cluster: Cluster) -> None:
        self._asked = asked
        self._by = by
        self._cluster = cluster
        self._targets: dict[TopicPartition, Replicas] = {}
        """What is left to be asked for."""
        self._moving: dict[TopicPartition, Replicas] = {}
        """What was asked for and is followed."""
        self._items = Items()
        self._watched = Watched(cluster, self._is_over)

    # -- before --------------------------------------------------------------------------------------------------------

    async def plan(self) -> list[TaskItem]:
        """What would move, what has its replicas already, and what cannot be.

        :raises Refused: others move, and are not to be left beside these.
        """
        if not self._asked.additional:
            await self._refuse_beside_others()
        items, pace = Items(), Pace()
        for move in self._asked.partitions:
            tp, target = TopicPartition(move.topic, move.partition), tuple(map(BrokerId, move.replicas))
            item = item_of(tp, foresee_move(self._cluster.snapshot, tp, target))
            if self._targets.get(tp, target) != target:
                twice = failed(KafkaError.INVALID_REQUEST, "it is named twice, with different replicas")
                item = item_of(tp, twice)
            self._targets[tp] = target
            items.put(item)
            await pace.breathe()
        for item in items.of("failed", "not-needed"):
            topic, _, number = item.subject.rpartition("-")
            del self._targets[TopicPartition(topic, int(number))]
        return items.of("failed", "planned", "not-needed")

    async def _refuse_beside_others(self) -> None:
        every = self._cluster.partitions(self._cluster.snapshot.topics.values())
        moving = {tp async for tp, view in every if view.assignment.is_being_reassigned}
        others = sorted(moving - {(move.topic, move.partition) for move in self._asked.partitions}) if moving else []
        if others:
            detail = f"{counted(len(others), 'other partition')} being reassigned already: {named(others)}"
            hint = "say additional = true to leave these beside them, wait for them, or cancel them"
            raise Refused(HTTPStatus.CONFLICT, "reassignment_in_progress", detail, hint)

    # -- meanwhile -----------------------------------------------------------------------------------------------------

    async def run(self, items: Items) -> str:
        """Ask for as many as may move at a time, and for more as they end."""
        self._items = items
        if self._targets:
            await self._cluster.follow(self._go_on)
        return ""

    def withdraw(self, partitions: Iterable[TopicPartition] | None) -> int:
        """Do not ask for these any more, None: for none of those that are left; how many that were."""
        named = list(self._targets) if partitions is None else [tp for tp in partitions if tp in self._targets]
        for tp in named:
            del self._targets[tp]
            self._items.mark(str(tp), "failed", "cancelled before it began")
        return len(named)

    async def _go_on(self) -> bool:
        """Whether anything is left to wait for, after one look and perhaps another part."""
        await self._watched.look()
        while self._targets and (room := self._room()):
            part = dict(islice(self._targets.items(), room))
            await self._submit(part)
            await self._cluster.shown()
            await self._watched.look()
        return bool(self._targets or self._moving)

    def _room(self) -> int:
        limit = self._asked.batch or len(self._targets) + len(self._moving)
        return min(limit - len(self._moving), AT_A_TIME)

    async def _submit(self, part: Mapping[TopicPartition, Replicas]) -> None:
        rate = self._asked.throttle_bytes_per_s
        if rate is not None:
            await self._cluster.call(ThrottleReassignments(rate, {**self._moving, **part}, self._by.principal))
        for tp in part:
            self._targets.pop(tp, None)
            self._moving[tp] = part[tp]
            self._items.mark(str(tp), "running", "is asked for")
        reply = await self._cluster.call(ApiPartitionReassignment(self._by, part))
        pace = Pace()
        for tp, target in part.items():
            error = reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)
            if error is KafkaError.NONE:
                self._watched.add([tp])
            else:
                del self._moving[tp]
                refusal = outcome_of_refusal(self._cluster.snapshot, tp, target, error)
                self._items.put(item_of(tp, refusal))
            await pace.breathe()

    def _is_over(self, tp: TopicPartition, view: PartitionView | None) -> bool:
        """Mark how far a partition has come; whether it is followed no longer."""
        item = item_of(tp, progress_of_move(view, self._moving[tp]))
        self._items.put(item)
        if item.state == "running":
            return False
        del self._moving[tp]
        return True
