"""``POST /v1/reassignments``, ``:cancel`` and ``:plan``."""

from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.errors import NotController
from controllerd.pace import Pace, sliced
from controllerd.planning.moves import foresee_cancellation, outcome_of_cancellation
from controllerd.planning.plans import Plan, ReassignmentPlanRequest
from controllerd.planning.replicas import ReassignmentPlanner
from controllerd.status.answers import answer
from controllerd.status.problems import Refused
from controllerd.status.routing import Access, Route
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import CancelRequest, ReassignmentRequest
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import BODY_LIMIT, MAX_PARTITIONS, Cluster, item_of
from controllerd.status.verbs.desk import Desk, read_body, verb
from controllerd.status.verbs.moves import AT_A_TIME, Reassignments
from controllerd.views import Role
from events.admin import Requester
from events.reassignments import ApiPartitionReassignment


class ReassignmentsApi:
    """Moving replicas."""

    def __init__(self, desk: Desk, cluster: Cluster) -> None:
        self._desk = desk
        self._cluster = cluster
        self._under_way: WeakSet[Reassignments] = WeakSet()

    def routes(self) -> list[Route]:
        """To move, to cancel, and to find out what to move."""
        return [
            verb(
                "/v1/reassignments",
                self.reassign,
                "Give partitions other replicas",
                ReassignmentRequest,
                body_limit=BODY_LIMIT,
            ),
            verb(
                "/v1/reassignments:cancel",
                self.cancel,
                "Leave partitions where they were",
                CancelRequest,
                body_limit=BODY_LIMIT,
            ),
            Route(
                method="POST",
                path="/v1/reassignments:plan",
                handler=self.plan,
                summary="Find out which replicas to move where; changes nothing",
                access=Access.READ,
                body=ReassignmentPlanRequest,
                answers={HTTPStatus.OK: Plan},
            ),
        ]

    async def reassign(self, request: web.Request) -> web.Response:
        """Move replicas. :raises Refused: what is asked for makes no sense."""
        asked = await self._desk.body(request, ReassignmentRequest)
        _check(asked)
        operation = Reassignments(asked, self._desk.who(request), self._cluster)
        task = await self._desk.admit(request, operation, asked.reason)
        if task.state == "running":
            self._under_way.add(operation)
        return await self._desk.answer(task)

    async def cancel(self, request: web.Request) -> web.Response:
        """Leave partitions where they were. :raises Refused: it is not said which."""
        asked = await self._desk.body(request, CancelRequest)
        if not asked.all and not asked.partitions:
            detail = "name partitions, or say all = true"
            raise Refused(HTTPStatus.BAD_REQUEST, "nothing_named", detail)
        operation = Cancellation(asked, self._desk.who(request), self._cluster, self._under_way)
        return await self._desk.answer(await self._desk.admit(request, operation, asked.reason))

    async def plan(self, request: web.Request) -> web.Response:
        """What would have to move. :raises NotController: the cluster is not known here."""
        asked = await read_body(request, ReassignmentPlanRequest)
        snapshot = self._cluster.snapshot
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        planner, pace = ReassignmentPlanner(asked, snapshot.brokers, snapshot.staying), Pace()
        await pace.run(planner.plan(snapshot.topics.values()))
        await pace.run(planner.weigh(await self._cluster.sources.measure(planner.moved)))
        return answer(planner.result())


class Cancellation(Operation):
    """Partitions that are to stay where they were."""

    verb = "reassignments:cancel"

    def __init__(
        self, asked: CancelRequest, by: Requester, cluster: Cluster, under_way: "WeakSet[Reassignments]"
    ) -> None:
        self._asked = asked
        self._by = by
        self._cluster = cluster
        self._under_way = under_way
        self._named = [TopicPartition(name.topic, name.partition) for name in asked.partitions]
        self._partitions: list[TopicPartition] = []

    async def plan(self) -> list[TaskItem]:
        """What goes back where."""
        wanted = dict.fromkeys(self._named)
        if self._asked.all:
            every = self._cluster.partitions(self._cluster.snapshot.topics.values())
            wanted = {tp: None async for tp, view in every if view.assignment.is_being_reassigned}
        items = Items(map(self._foresee, wanted))
        going = {item.subject for item in items.of("planned")}
        self._partitions = [tp for tp in wanted if str(tp) in going]
        return items.of("failed", "planned")

    async def run(self, items: Items) -> str:
        """Take back what waits in operations of ours first, lest it begins as soon as something else is cancelled."""
        taken_back = None if self._asked.all else self._named
        withdrawn = sum([operation.withdraw(taken_back) for operation in self._under_way])
        for part in sliced(self._partitions, AT_A_TIME):
            reply = await self._cluster.call(ApiPartitionReassignment(self._by, dict.fromkeys(part)))
            await self._cluster.shown()
            for tp in part:
                items.put(self._outcome(tp, reply.get(tp, KafkaError.UNKNOWN_SERVER_ERROR)))
        return f"{items}; {withdrawn} that waited for their turn will not begin" if withdrawn else ""

    def _foresee(self, tp: TopicPartition) -> TaskItem:
        return item_of(tp, foresee_cancellation(self._cluster.snapshot.partition(tp)))

    def _outcome(self, tp: TopicPartition, error: KafkaError) -> TaskItem:
        return item_of(tp, outcome_of_cancellation(self._cluster.snapshot.partition(tp), error))


def _check(asked: ReassignmentRequest) -> None:
    """:raises Refused: it names nothing, or too much."""
    if not 0 < len(asked.partitions) <= MAX_PARTITIONS:
        detail = f"name 1 to {MAX_PARTITIONS} partitions, not {len(asked.partitions)}"
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
