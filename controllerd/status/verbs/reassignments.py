"""``POST /v1/reassignments`` and ``:cancel``.

The reassignment of many partitions is one operation. It requests them in batches, and follows each to its end.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.text import counted
from controllerd.planning.moves import (
    foresee_cancellation,
    foresee_move,
    outcome_of_cancellation,
    outcome_of_refusal,
    progress_of_move,
)
from controllerd.planning.plans import Replicas, failed
from controllerd.slicer import sliced
from controllerd.status.http.problems import Refused
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import CancelRequest, ReassignmentRequest
from controllerd.status.verbs.admission import Verb
from controllerd.status.verbs.cluster import (
    BODY_LIMIT,
    MAX_PARTITIONS,
    WatchedPartitions,
    named,
    yielding_to_loop,
)
from controllerd.status.verbs.tasks import Operation, TaskItems, VerbCall, item
from controllerd.views import PartitionView
from events.operator import ThrottleReassignments
from events.reassignments import ApiPartitionReassignment

AT_A_TIME: Final = 2_000
"""The most partitions of one event: urgent events may come in between."""


class Reassign(Operation[ReassignmentRequest]):
    """Assigns other replicas to partitions."""

    verb = "reassignments"
    summary = "Assign other replicas to partitions"

    def __init__(self, request: ReassignmentRequest, call: VerbCall) -> None:
        super().__init__(request, call)
        self._targets: dict[TopicPartition, Replicas] = {}
        """The reassignments that are not requested yet."""
        self._moving: dict[TopicPartition, Replicas] = {}
        """The reassignments that were requested and have not ended."""
        self._items = TaskItems()
        self._watched = WatchedPartitions(self._cluster, self._is_over)

    def check(self) -> None:
        """Check the size of the request. :raises Refused: it names no partitions, or too many."""
        if not 0 < len(self.request.partitions) <= MAX_PARTITIONS:
            detail = f"name 1 to {MAX_PARTITIONS} partitions, not {len(self.request.partitions)}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)

    async def plan(self) -> list[TaskItem]:
        """Return the partitions that would move, that need no move, and that cannot move.

        :raises Refused: other partitions are being reassigned, and the request does not permit that.
        """
        if not self.request.additional:
            await self._refuse_beside_others()
        items = TaskItems()
        async for move in yielding_to_loop(self.request.partitions):
            tp, target = TopicPartition(move.topic, move.partition), tuple(map(BrokerId, move.replicas))
            foreseen = foresee_move(self._cluster.snapshot, tp, target)
            if self._targets.get(tp, target) != target:
                foreseen = failed(KafkaError.INVALID_REQUEST, "it is named twice, with different replicas")
            self._targets[tp] = target
            items.put(item(tp, *foreseen))
        for each in items.of("failed", "not-needed"):
            topic, _, number = each.subject.rpartition("-")
            del self._targets[TopicPartition(topic, int(number))]
        return items.of("failed", "planned", "not-needed")

    async def _refuse_beside_others(self) -> None:
        every = self._cluster.partitions()
        moving = {tp async for tp, view in every if view.assignment.is_being_reassigned}
        others = sorted(moving - {(move.topic, move.partition) for move in self.request.partitions}) if moving else []
        if others:
            detail = f"{counted(len(others), 'other partition')} being reassigned already: {named(others)}"
            hint = "set additional = true to run both, wait for the other ones, or cancel them"
            raise Refused(HTTPStatus.CONFLICT, "reassignment_in_progress", detail, hint)

    async def run(self, items: TaskItems) -> str:
        """Request as many as may move at a time, and request more when some have ended."""
        self._items = items
        self._cluster.withdrawable.add(self)
        if self._targets:
            await self._cluster.follow(self._advance)
        return ""

    def withdraw(self, partitions: Iterable[TopicPartition] | None) -> int:
        """Drop these partitions, or all (None), as far as they are not requested yet; return how many were dropped."""
        dropped = list(self._targets) if partitions is None else [tp for tp in partitions if tp in self._targets]
        for tp in dropped:
            del self._targets[tp]
            self._items.mark(tp, "failed", "cancelled before it began")
        return len(dropped)

    async def _advance(self) -> bool:
        """Check the progress, request more partitions if there is room, and return whether any are left."""
        await self._watched.look()
        while self._targets and (room := self._room()):
            await self._submit(dict(islice(self._targets.items(), room)))
            await self._cluster.published()
            await self._watched.look()
        return bool(self._targets or self._moving)

    def _room(self) -> int:
        limit = self.request.batch or len(self._targets) + len(self._moving)
        return min(limit - len(self._moving), AT_A_TIME)

    async def _submit(self, part: Mapping[TopicPartition, Replicas]) -> None:
        rate = self.request.throttle_bytes_per_s
        if rate is not None:
            await self._cluster.call(ThrottleReassignments(rate, {**self._moving, **part}, self._by.principal))
        for tp in part:
            self._targets.pop(tp, None)
            self._moving[tp] = part[tp]
            self._items.mark(tp, "running", "requested")
        reply = await self._cluster.call(ApiPartitionReassignment(self._by, part))
        async for tp, target in yielding_to_loop(part.items()):
            error = reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)
            if error is KafkaError.NONE:
                self._watched.add([tp])
            else:
                del self._moving[tp]
                refusal = outcome_of_refusal(self._cluster.snapshot, tp, target, error)
                self._items.put(item(tp, *refusal))

    def _is_over(self, tp: TopicPartition, view: PartitionView | None) -> bool:
        """Mark the progress of a partition; return whether its reassignment has ended."""
        progress = item(tp, *progress_of_move(view, self._moving[tp]))
        self._items.put(progress)
        if progress.state == "running":
            return False
        del self._moving[tp]
        return True


class CancelReassignments(Operation[CancelRequest]):
    """Cancels reassignments: the partitions return to their original replicas."""

    verb = "reassignments:cancel"
    summary = "Cancel reassignments"

    def __init__(self, request: CancelRequest, call: VerbCall) -> None:
        super().__init__(request, call)
        self._named = [TopicPartition(name.topic, name.partition) for name in request.partitions]
        self._partitions: list[TopicPartition] = []

    def check(self) -> None:
        """Check the selection. :raises Refused: no partitions are named."""
        if not self.request.all and not self.request.partitions:
            raise Refused(HTTPStatus.BAD_REQUEST, "nothing_named", "name partitions, or set all = true")

    async def plan(self) -> list[TaskItem]:
        """Return the partitions whose reassignment would be cancelled, and their replicas after that."""
        wanted = dict.fromkeys(self._named)
        if self.request.all:
            every = self._cluster.partitions()
            wanted = {tp: None async for tp, view in every if view.assignment.is_being_reassigned}
        partition = self._cluster.snapshot.partition
        items = TaskItems(item(tp, *foresee_cancellation(partition(tp))) for tp in wanted)
        planned = {each.subject for each in items.of("planned")}
        self._partitions = [tp for tp in wanted if str(tp) in planned]
        return items.of("failed", "planned")

    async def run(self, items: TaskItems) -> str:
        """Cancel. Drop reassignments that are not requested yet first: else they would take the freed places."""
        partitions = None if self.request.all else self._named
        withdrawn = sum([operation.withdraw(partitions) for operation in self._cluster.withdrawable])
        for part in sliced(self._partitions, AT_A_TIME):
            reply = await self._cluster.call(ApiPartitionReassignment(self._by, dict.fromkeys(part)))
            await self._cluster.published()
            for tp in part:
                view, error = self._cluster.snapshot.partition(tp), reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)
                items.put(item(tp, *outcome_of_cancellation(view, error)))
        return f"{items}; {counted(withdrawn, 'waiting reassignment')} cancelled" if withdrawn else ""


VERBS: Final = (
    Verb("/v1/reassignments", ReassignmentRequest, Reassign, body_limit=BODY_LIMIT),
    Verb("/v1/reassignments:cancel", CancelRequest, CancelReassignments, body_limit=BODY_LIMIT),
)
