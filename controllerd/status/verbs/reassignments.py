"""``POST /v1/reassignments``, ``:cancel`` and ``:plan``.

The reassignment of many partitions is one operation: so many at a time, each followed to its end.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final

from aiohttp import web

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.text import counted
from controllerd.errors import NotController
from controllerd.planning.moves import (
    Replicas,
    foresee_cancellation,
    foresee_move,
    outcome_of_cancellation,
    outcome_of_refusal,
    progress_of_move,
)
from controllerd.planning.plans import Plan, ReassignmentPlanRequest, failed
from controllerd.planning.replicas import ReassignmentPlanner
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Api, route
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import CancelRequest, ReassignmentRequest
from controllerd.status.sources import StatusSources
from controllerd.status.verbs.admission import read_body
from controllerd.status.verbs.cluster import (
    MAX_PARTITIONS,
    OperatedCluster,
    WatchedPartitions,
    named,
    paced,
)
from controllerd.status.verbs.tasks import Operation, TaskItems, VerbCall, item_of
from controllerd.views import PartitionView, Role
from events.operator import ThrottleReassignments
from events.reassignments import ApiPartitionReassignment

AT_A_TIME: Final = 2_000
"""Partitions of one event: more urgent events may come in between."""


class PlanApi(Api):
    """``:plan``, which begins no task."""

    def __init__(self, sources: StatusSources) -> None:
        self._cluster = OperatedCluster(sources)

    @route(
        "/v1/reassignments:plan",
        "Find out which replicas to move where; changes nothing",
        Plan,
        method="POST",
        body=ReassignmentPlanRequest,
    )
    async def plan(self, request: web.Request) -> Plan:
        """Answer which replicas would have to move. :raises NotController: this instance does not know the cluster."""
        asked = await read_body(request, ReassignmentPlanRequest)
        snapshot = self._cluster.snapshot
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        planner, slicer = ReassignmentPlanner(asked, snapshot.brokers, snapshot.staying), Slicer()
        await slicer.run(planner.plan(snapshot.topics.values()))
        await slicer.run(planner.weigh(await self._cluster.sources.measure(planner.moved)))
        return planner.result()


class Reassign(Operation[ReassignmentRequest]):
    """Gives partitions other replicas."""

    verb = "reassignments"
    summary = "Give partitions other replicas"

    def __init__(self, asked: ReassignmentRequest, call: VerbCall) -> None:
        super().__init__(asked, call)
        self._targets: dict[TopicPartition, Replicas] = {}
        """The reassignments that are not asked for yet."""
        self._moving: dict[TopicPartition, Replicas] = {}
        """The reassignments that were asked for and are followed."""
        self._items = TaskItems()
        self._watched = WatchedPartitions(self._cluster, self._is_over)

    def check(self) -> None:
        """:raises Refused: it names no partitions, or too many."""
        if not 0 < len(self.asked.partitions) <= MAX_PARTITIONS:
            detail = f"name 1 to {MAX_PARTITIONS} partitions, not {len(self.asked.partitions)}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)

    # -- before --------------------------------------------------------------------------------------------------------

    async def plan(self) -> list[TaskItem]:
        """Return which partitions would move, which have their replicas already, and which cannot move.

        :raises Refused: others move, and are not to be left beside these.
        """
        if not self.asked.additional:
            await self._refuse_beside_others()
        items = TaskItems()
        async for move in paced(self.asked.partitions):
            tp, target = TopicPartition(move.topic, move.partition), tuple(map(BrokerId, move.replicas))
            foreseen = foresee_move(self._cluster.snapshot, tp, target)
            if self._targets.get(tp, target) != target:
                foreseen = failed(KafkaError.INVALID_REQUEST, "it is named twice, with different replicas")
            self._targets[tp] = target
            items.put(item_of(tp, foreseen))
        for each in items.of("failed", "not-needed"):
            topic, _, number = each.subject.rpartition("-")
            del self._targets[TopicPartition(topic, int(number))]
        return items.of("failed", "planned", "not-needed")

    async def _refuse_beside_others(self) -> None:
        every = self._cluster.partitions()
        moving = {tp async for tp, view in every if view.assignment.is_being_reassigned}
        others = sorted(moving - {(move.topic, move.partition) for move in self.asked.partitions}) if moving else []
        if others:
            detail = f"{counted(len(others), 'other partition')} being reassigned already: {named(others)}"
            hint = "say additional = true to leave these beside them, wait for them, or cancel them"
            raise Refused(HTTPStatus.CONFLICT, "reassignment_in_progress", detail, hint)

    # -- meanwhile -----------------------------------------------------------------------------------------------------

    async def run(self, items: TaskItems) -> str:
        """Ask for as many as may move at a time, and for more as they end."""
        self._items = items
        self._cluster.withdrawable.add(self)
        if self._targets:
            await self._cluster.follow(self._go_on)
        return ""

    def withdraw(self, partitions: Iterable[TopicPartition] | None) -> int:
        """Give up what is not asked for yet of these partitions, None: of all; return how many."""
        given_up = list(self._targets) if partitions is None else [tp for tp in partitions if tp in self._targets]
        for tp in given_up:
            del self._targets[tp]
            self._items.mark(tp, "failed", "cancelled before it began")
        return len(given_up)

    async def _go_on(self) -> bool:
        """Look once, perhaps ask for another part, and return whether anything is left to wait for."""
        await self._watched.look()
        while self._targets and (room := self._room()):
            await self._submit(dict(islice(self._targets.items(), room)))
            await self._cluster.published()
            await self._watched.look()
        return bool(self._targets or self._moving)

    def _room(self) -> int:
        limit = self.asked.batch or len(self._targets) + len(self._moving)
        return min(limit - len(self._moving), AT_A_TIME)

    async def _submit(self, part: Mapping[TopicPartition, Replicas]) -> None:
        rate = self.asked.throttle_bytes_per_s
        if rate is not None:
            await self._cluster.call(ThrottleReassignments(rate, {**self._moving, **part}, self._by.principal))
        for tp in part:
            self._targets.pop(tp, None)
            self._moving[tp] = part[tp]
            self._items.mark(tp, "running", "is asked for")
        reply = await self._cluster.call(ApiPartitionReassignment(self._by, part))
        async for tp, target in paced(part.items()):
            error = reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)
            if error is KafkaError.NONE:
                self._watched.add([tp])
            else:
                del self._moving[tp]
                refusal = outcome_of_refusal(self._cluster.snapshot, tp, target, error)
                self._items.put(item_of(tp, refusal))

    def _is_over(self, tp: TopicPartition, view: PartitionView | None) -> bool:
        """Mark how far a partition has come; return whether it is followed no longer."""
        progress = item_of(tp, progress_of_move(view, self._moving[tp]))
        self._items.put(progress)
        if progress.state == "running":
            return False
        del self._moving[tp]
        return True


class CancelReassignments(Operation[CancelRequest]):
    """Leaves partitions where they were."""

    verb = "reassignments:cancel"
    summary = "Leave partitions where they were"

    def __init__(self, asked: CancelRequest, call: VerbCall) -> None:
        super().__init__(asked, call)
        self._named = [TopicPartition(name.topic, name.partition) for name in asked.partitions]
        self._partitions: list[TopicPartition] = []

    def check(self) -> None:
        """:raises Refused: no partitions are named."""
        if not self.asked.all and not self.asked.partitions:
            raise Refused(HTTPStatus.BAD_REQUEST, "nothing_named", "name partitions, or say all = true")

    async def plan(self) -> list[TaskItem]:
        """Return which partitions go back to which replicas."""
        wanted = dict.fromkeys(self._named)
        if self.asked.all:
            every = self._cluster.partitions()
            wanted = {tp: None async for tp, view in every if view.assignment.is_being_reassigned}
        items = TaskItems(map(self._foresee, wanted))
        going = {each.subject for each in items.of("planned")}
        self._partitions = [tp for tp in wanted if str(tp) in going]
        return items.of("failed", "planned")

    async def run(self, items: TaskItems) -> str:
        """Withdraw the waiting parts of operations first, lest they begin as soon as something else is cancelled."""
        partitions = None if self.asked.all else self._named
        withdrawn = sum([operation.withdraw(partitions) for operation in self._cluster.withdrawable])
        for part in sliced(self._partitions, AT_A_TIME):
            reply = await self._cluster.call(ApiPartitionReassignment(self._by, dict.fromkeys(part)))
            await self._cluster.published()
            for tp in part:
                items.put(self._outcome(tp, reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)))
        return f"{items}; {withdrawn} that waited for their turn will not begin" if withdrawn else ""

    def _foresee(self, tp: TopicPartition) -> TaskItem:
        return item_of(tp, foresee_cancellation(self._cluster.snapshot.partition(tp)))

    def _outcome(self, tp: TopicPartition, error: KafkaError) -> TaskItem:
        return item_of(tp, outcome_of_cancellation(self._cluster.snapshot.partition(tp), error))
