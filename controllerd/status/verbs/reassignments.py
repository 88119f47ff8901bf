"""``POST /v1/reassignments``, ``:cancel`` and ``:plan``."""

from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.errors import NotController
from controllerd.pace import Pace, sliced
from controllerd.snapshot import Role
from controllerd.status.answers import answer
from controllerd.status.planning import Planner
from controllerd.status.problems import Refused
from controllerd.status.routing import Access, Route
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import CancelRequest, Plan, ReassignmentRequest, ReassignmentWish
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import BODY_LIMIT, MAX_PARTITIONS, Cluster, listed
from controllerd.status.verbs.desk import Desk, read_body, verb
from controllerd.status.verbs.moves import AT_A_TIME, Reassignments
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
                body=ReassignmentWish,
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
        wish = await read_body(request, ReassignmentWish)
        snapshot = self._cluster.snapshot
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        planner, pace = Planner(wish, snapshot.brokers, self._cluster.staying), Pace()
        topics = sorted(snapshot.topics.values(), key=lambda topic: topic.name)
        for topic in topics:
            planner.count(topic)
            await pace.breathe()
        for topic in topics:
            for _ in planner.plan(topic):
                await pace.breathe()
        for _ in planner.weigh(await self._cluster.sources.measure(planner.moved)):
            await pace.breathe()
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
        view = self._cluster.snapshot.partition(tp)
        if view is None:
            return _failed(tp, KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
        if not view.assignment.is_being_reassigned:
            return _failed(tp, KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "it is not being reassigned")
        back = f"{listed(view.assignment.target)} -> back to {listed(view.assignment.origin)}"
        return TaskItem(subject=str(tp), state="planned", detail=back)

    def _outcome(self, tp: TopicPartition, error: KafkaError) -> TaskItem:
        view = self._cluster.snapshot.partition(tp)
        if error is KafkaError.INVALID_REPLICA_ASSIGNMENT:
            return _failed(tp, error, "the replicas that would remain could not lead the partition")
        if error is not KafkaError.NONE or view is None:
            return _failed(tp, error, "it ended, or its topic is being deleted")
        return TaskItem(subject=str(tp), state="done", detail=f"its replicas are {listed(view.assignment.replicas)}")


def _check(asked: ReassignmentRequest) -> None:
    """:raises Refused: it names nothing, or too much."""
    if not 0 < len(asked.partitions) <= MAX_PARTITIONS:
        detail = f"name 1 to {MAX_PARTITIONS} partitions, not {len(asked.partitions)}"
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)


def _failed(tp: TopicPartition, error: KafkaError, detail: str) -> TaskItem:
    return TaskItem(subject=str(tp), state="failed", detail=detail, kafka_error=error.name)
