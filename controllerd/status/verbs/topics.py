"""``POST /v1/topics``, ``/v1/topics/{topic}/partitions`` and ``/v1/topics/{topic}/delete``."""

from abc import abstractmethod
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.core.counted import counted
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.partition_growth import GrowthWish
from controllerd.core.topic_creation import DEFAULT_COUNT, TopicWish
from controllerd.status.problems import Refused
from controllerd.status.routing import Parameter, Route
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import DeleteTopic, MorePartitions, NewTopic
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import Cluster, Watched, leader_of
from controllerd.status.verbs.desk import Desk, verb
from controllerd.views import PartitionView, TopicView
from events.admin import CreatePartitions, CreateTopics, DeleteTopics, Requester, TopicOutcome

_TOPIC: Final = Parameter(name="topic", kind=str, description="Name of the topic.", required=True)


class TopicsApi:
    """Creating, enlarging and deleting topics."""

    def __init__(self, desk: Desk, cluster: Cluster) -> None:
        self._desk = desk
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """All three."""
        return [
            verb("/v1/topics", self.create, "Create a topic", NewTopic),
            verb("/v1/topics/{topic}/partitions", self.grow, "Add partitions to a topic", MorePartitions, _TOPIC),
            verb("/v1/topics/{topic}/delete", self.delete, "Delete a topic and all that is in it", DeleteTopic, _TOPIC),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """Create a topic; the task ends when all of its partitions are led."""
        asked = await self._desk.body(request, NewTopic)
        operation = Creation(asked, self._desk.who(request), self._cluster)
        return await self._desk.answer(await self._desk.admit(request, operation, asked.reason))

    async def grow(self, request: web.Request) -> web.Response:
        """Add partitions; the task ends when all of them are led."""
        asked, topic = await self._desk.body(request, MorePartitions), request.match_info["topic"]
        operation = Growth(topic, asked, self._desk.who(request), self._cluster)
        return await self._desk.answer(await self._desk.admit(request, operation, asked.reason))

    async def delete(self, request: web.Request) -> web.Response:
        """Delete a topic; the task ends when it is gone. :raises Refused: its name is not repeated."""
        asked, topic = await self._desk.body(request, DeleteTopic), request.match_info["topic"]
        if asked.confirm != topic:
            detail = f"deleting topic {topic} needs its name once more in the field confirm, which is {asked.confirm!r}"
            hint = "nobody can bring the records back; with dryRun=true nothing is changed"
            raise Refused(HTTPStatus.BAD_REQUEST, "not_confirmed", detail, hint)
        operation = Deletion(topic, asked, self._desk.who(request), self._cluster)
        task = await self._desk.admit(request, operation, asked.reason, demands_reason=True)
        return await self._desk.answer(task)


class _NewPartitions(Operation):
    """Partitions that do not exist yet: the controller itself says what it would do, and then they are waited for."""

    def __init__(self, topic: str, by: Requester, cluster: Cluster) -> None:
        self._topic = topic
        self._by = by
        self._cluster = cluster
        self._items = Items()

    @abstractmethod
    async def _ask(self, *, validate_only: bool) -> TopicOutcome:
        """The answer of the controller."""

    async def plan(self) -> list[TaskItem]:
        """What the controller would do."""
        outcome = await self._ask(validate_only=True)
        if outcome.refusal is not None:
            return [self._refused(outcome.refusal)]
        return [self._item(number, "planned") for number in sorted(outcome.partitions)]

    async def run(self, items: Items) -> str:
        """Have them made, and wait until each is led."""
        if not items.count("waiting"):
            return ""
        self._items = items
        outcome = await self._ask(validate_only=False)
        if outcome.refusal is not None:
            refused = self._refused(outcome.refusal)
            for item in items.of("waiting"):
                items.mark(item.subject, "failed", refused.detail, refused.kafka_error)
            return ""
        watched = Watched(self._cluster, self._is_led)
        for number in outcome.partitions:
            items.put(self._item(number, "running", "is made"))
        watched.add(TopicPartition(self._topic, number) for number in outcome.partitions)
        await self._cluster.shown()
        await self._cluster.follow(watched.look)
        return ""

    def _is_led(self, tp: TopicPartition, view: PartitionView | None) -> bool:
        leader = leader_of(view)
        if view is None or self._cluster.snapshot.is_being_deleted(self._topic):
            self._items.mark(str(tp), "failed", "the topic was deleted meanwhile")
            return True
        if leader >= 0:
            self._items.mark(str(tp), "done", f"leader {leader}")
            return True
        replicas = ", ".join(map(str, view.assignment.replicas))
        self._items.mark(str(tp), "running", f"waits for a leader: none of its replicas {replicas} is live")
        return False

    def _item(self, number: int, state: str, detail: str = "") -> TaskItem:
        return TaskItem(subject=str(TopicPartition(self._topic, number)), state=state, detail=detail)

    def _refused(self, refusal: Refusal) -> TaskItem:
        return refused_topic(self._topic, refusal)


class Creation(_NewPartitions):
    """A new topic."""

    verb = "topics"

    def __init__(self, asked: NewTopic, by: Requester, cluster: Cluster) -> None:
        super().__init__(asked.topic, by, cluster)
        self._asked = asked

    async def _ask(self, *, validate_only: bool) -> TopicOutcome:
        asked = self._asked
        wish = TopicWish(
            asked.topic,
            DEFAULT_COUNT if asked.partitions is None else asked.partitions,
            DEFAULT_COUNT if asked.replication_factor is None else asked.replication_factor,
            dict(enumerate(_assigned(asked.replica_assignment))),
            asked.configs,
        )
        reply = await self._cluster.call(CreateTopics(self._by, (wish,), validate_only))
        return reply.outcomes[asked.topic]

    def _refused(self, refusal: Refusal) -> TaskItem:
        exists = refusal.error is KafkaError.TOPIC_ALREADY_EXISTS
        if self._asked.if_not_exists and exists and not self._cluster.snapshot.is_being_deleted(self._topic):
            return TaskItem(subject=self._topic, state="not-needed", detail="it exists already")
        return super()._refused(refusal)


class Growth(_NewPartitions):
    """More partitions of a topic."""

    verb = "partitions"

    def __init__(self, topic: str, asked: MorePartitions, by: Requester, cluster: Cluster) -> None:
        super().__init__(topic, by, cluster)
        self._asked = asked

    async def _ask(self, *, validate_only: bool) -> TopicOutcome:
        given = self._asked.replica_assignment
        wish = GrowthWish(self._topic, self._asked.total, None if given is None else _assigned(given))
        reply = await self._cluster.call(CreatePartitions(self._by, (wish,), validate_only))
        return reply.outcomes[self._topic]


class Deletion(Operation):
    """The end of a topic."""

    verb = "topics:delete"

    def __init__(self, topic: str, asked: DeleteTopic, by: Requester, cluster: Cluster) -> None:
        self._topic = topic
        self._asked = asked
        self._by = by
        self._cluster = cluster
        self._items = Items()
        self._id: str | None = None

    async def plan(self) -> list[TaskItem]:
        """What is there to be deleted, and what would hold it up."""
        view, settings = self._view, self._cluster.sources.settings
        if view is not None and settings is not None and not settings.policy.delete_topic_enable:
            return [refused_topic(self._topic, Refusal(KafkaError.TOPIC_DELETION_DISABLED))]
        if view is not None:
            self._id = view.topic_id
            return [TaskItem(subject=self._topic, state="planned", detail=self._foresee(view))]
        if self._asked.if_exists:
            return [TaskItem(subject=self._topic, state="not-needed", detail="there is no such topic")]
        return [refused_topic(self._topic, Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION))]

    async def run(self, items: Items) -> str:
        """Ask for the deletion, unless somebody has, and wait until the topic is gone."""
        view = self._view
        if view is None or not items.count("waiting"):
            return ""
        self._items = items
        if view.deletion is None:
            reply = await self._cluster.call(DeleteTopics(self._by, (self._topic,)))
            refusal = reply.outcomes[self._topic].refusal
            if refusal is not None:
                items.put(refused_topic(self._topic, refusal))
                return ""
        items.mark(self._topic, "running", "is being deleted")
        await self._cluster.shown()
        await self._cluster.follow(self._look)
        items.mark(self._topic, "done", "it is gone")
        return ""

    async def _look(self) -> bool:
        """Whether it is still there; what it waits for is marked."""
        view = self._view
        if view is None:
            return False
        self._items.mark(self._topic, "running", _standing(view))
        return True

    @property
    def _view(self) -> TopicView | None:
        """The topic, unless another one has its name by now."""
        view = self._cluster.snapshot.topics.get(self._topic)
        is_another = view is not None and self._id is not None and view.topic_id != self._id
        return None if is_another else view

    def _foresee(self, view: TopicView) -> str:
        brokers = {broker for partition in view.partitions for broker in partition.assignment.replicas}
        absent = sorted(brokers - self._cluster.snapshot.brokers.keys())
        moving = any(partition.assignment.is_being_reassigned for partition in view.partitions)
        replicas = sum(len(partition.assignment.replicas) for partition in view.partitions)
        waits = f"; it waits for brokers {absent}, which are not live" if absent else ""
        waits += "; it waits for the end of a reassignment" if moving else ""
        partitions = counted(len(view.partitions), "partition")
        return f"{partitions} with {counted(replicas, 'replica')} to be deleted for ever{waits}"


def refused_topic(topic: str, refusal: Refusal) -> TaskItem:
    """A topic for which nothing is done; where Kafka has no words for the reason, there are ours."""
    detail = refusal.text or _WORDS.get(refusal.error, "see the log of the daemon")
    return TaskItem(subject=topic, state="failed", detail=detail, kafka_error=refusal.error.name)


_WORDS: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic",
    KafkaError.TOPIC_DELETION_DISABLED: "delete.topic.enable is false",
    KafkaError.THROTTLING_QUOTA_EXCEEDED: "the quota of partitions to create and delete is used up: repeat later",
}


def _standing(view: TopicView) -> str:
    if view.deletion is None:
        return "its deletion has not begun"
    if view.deletion.held_up_by is not None:
        return f"held up: {view.deletion.held_up_by}"
    brokers = ", ".join(map(str, view.deletion.deleting))
    return f"waits for brokers {brokers} to delete their replicas" if brokers else "is being deleted"


def _assigned(given: list[list[int]] | None) -> tuple[tuple[BrokerId, ...], ...]:
    return tuple(tuple(map(BrokerId, replicas)) for replicas in given or ())
