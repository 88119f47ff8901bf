"""``POST /v1/topics``, ``/v1/topics/{topic}/partitions`` and ``/v1/topics/{topic}/delete``."""

from abc import abstractmethod
from http import HTTPStatus
from typing import Final

import msgspec

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.text import counted
from controllerd.core.topic_creation import DEFAULT_COUNT, TopicRequest
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import TOPIC
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import DeleteTopic, MorePartitions, NewTopic
from controllerd.status.verbs.admission import Verb
from controllerd.status.verbs.cluster import WatchedPartitions, leader_of
from controllerd.status.verbs.tasks import Body, Operation, TaskItems, VerbCall, item
from controllerd.views import PartitionView, TopicView
from events.admin import CreatePartitions, CreateTopics, DeleteTopics, TopicOutcome

_REASONS: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic",
    KafkaError.TOPIC_DELETION_DISABLED: "delete.topic.enable is false",
    KafkaError.THROTTLING_QUOTA_EXCEEDED: "the quota of partitions to create and delete is used up: repeat later",
}


class _MakePartitions(Operation[Body]):
    """Creates partitions. The controller validates the request for the plan; the operation waits for the leaders."""

    def __init__(self, request: Body, call: VerbCall) -> None:
        super().__init__(request, call)
        self._topic = call.target
        self._items = TaskItems()

    @abstractmethod
    async def _request_change(self, *, validate_only: bool) -> TopicOutcome:
        """Send the request to the controller, and return its answer."""

    async def plan(self) -> list[TaskItem]:
        """Return the partitions that the controller would create."""
        outcome = await self._request_change(validate_only=True)
        if outcome.refusal is not None:
            return [self._refused(outcome.refusal)]
        return [item(TopicPartition(self._topic, number), "planned") for number in sorted(outcome.partitions)]

    async def run(self, items: TaskItems) -> str:
        """Create the partitions, and wait until each has a leader."""
        if not items.count("waiting"):
            return ""
        self._items = items
        outcome = await self._request_change(validate_only=False)
        if outcome.refusal is not None:
            refused = self._refused(outcome.refusal)
            for each in items.of("waiting"):
                items.put(msgspec.structs.replace(refused, subject=each.subject, state="failed"))
            return ""
        watched = WatchedPartitions(self._cluster, self._is_led)
        partitions = [TopicPartition(self._topic, number) for number in outcome.partitions]
        for tp in partitions:
            items.mark(tp, "running", "is being created")
        watched.add(partitions)
        await self._cluster.published()
        await self._cluster.follow(watched.look)
        return ""

    def _is_led(self, tp: TopicPartition, view: PartitionView | None) -> bool:
        leader = leader_of(view)
        if view is None or self._cluster.snapshot.is_being_deleted(self._topic):
            self._items.mark(tp, "failed", "the topic was deleted meanwhile")
            return True
        if leader >= 0:
            self._items.mark(tp, "done", f"leader {leader}")
            return True
        replicas = ", ".join(map(str, view.assignment.replicas))
        self._items.mark(tp, "running", f"waits for a leader: none of its replicas {replicas} is live")
        return False

    def _refused(self, refusal: Refusal) -> TaskItem:
        return refused_topic(self._topic, refusal)


class CreateTopic(_MakePartitions[NewTopic]):
    """Creates a topic."""

    verb = "topics"
    summary = "Create a topic"

    def __init__(self, request: NewTopic, call: VerbCall) -> None:
        super().__init__(request, call._replace(target=request.topic))

    async def _request_change(self, *, validate_only: bool) -> TopicOutcome:
        request = self.request
        topic = TopicRequest(
            request.topic,
            DEFAULT_COUNT if request.partitions is None else request.partitions,
            DEFAULT_COUNT if request.replication_factor is None else request.replication_factor,
            dict(enumerate(_assigned(request.replica_assignment))),
            request.configs,
        )
        reply = await self._cluster.call(CreateTopics(self._by, (topic,), validate_only))
        return reply.outcomes[request.topic]

    def _refused(self, refusal: Refusal) -> TaskItem:
        exists = refusal.error is KafkaError.TOPIC_ALREADY_EXISTS
        if self.request.if_not_exists and exists and not self._cluster.snapshot.is_being_deleted(self._topic):
            return item(self._topic, "not-needed", "it exists already")
        return super()._refused(refusal)


class AddPartitions(_MakePartitions[MorePartitions]):
    """Adds partitions to a topic."""

    verb = "partitions"
    summary = "Add partitions to a topic"

    async def _request_change(self, *, validate_only: bool) -> TopicOutcome:
        given = self.request.replica_assignment
        growth = GrowthRequest(self._topic, self.request.total, None if given is None else _assigned(given))
        reply = await self._cluster.call(CreatePartitions(self._by, (growth,), validate_only))
        return reply.outcomes[self._topic]


class RemoveTopic(Operation[DeleteTopic]):
    """Deletes a topic, and waits until it is gone."""

    verb = "topics:delete"
    summary = "Delete a topic and its records"
    requires_reason = True

    def __init__(self, request: DeleteTopic, call: VerbCall) -> None:
        super().__init__(request, call)
        self._topic = call.target
        self._items = TaskItems()
        self._id: str | None = None

    def check(self) -> None:
        """Check the confirmation. :raises Refused: the topic's name is not repeated."""
        confirm, topic = self.request.confirm, self._topic
        if confirm != topic:
            detail = f"deleting topic {topic} requires its name again in the field confirm, which is {confirm!r}"
            hint = "the records cannot be restored; dryRun=true changes nothing"
            raise Refused(HTTPStatus.BAD_REQUEST, "not_confirmed", detail, hint)

    async def plan(self) -> list[TaskItem]:
        """Return the size of the topic, and the reasons that would hold its deletion up."""
        view, settings = self._view, self._cluster.sources.settings
        if view is not None and settings is not None and not settings.policy.delete_topic_enable:
            return [refused_topic(self._topic, Refusal(KafkaError.TOPIC_DELETION_DISABLED))]
        if view is not None:
            self._id = view.topic_id
            return [item(self._topic, "planned", self._foresee(view))]
        if self.request.if_exists:
            return [item(self._topic, "not-needed", "there is no such topic")]
        return [refused_topic(self._topic, Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION))]

    async def run(self, items: TaskItems) -> str:
        """Request the deletion, unless it was requested before, and wait until the topic is gone."""
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
        await self._cluster.published()
        await self._cluster.follow(self._look)
        items.mark(self._topic, "done", "it is gone")
        return ""

    async def _look(self) -> bool:
        """Mark the progress of the deletion; return whether the topic still exists."""
        view = self._view
        if view is None:
            return False
        self._items.mark(self._topic, "running", _progress(view))
        return True

    @property
    def _view(self) -> TopicView | None:
        """The topic; None if it is gone, or if a new topic has its name by now."""
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
        return f"{partitions} with {counted(replicas, 'replica')} to be deleted permanently{waits}"


def refused_topic(topic: str, refusal: Refusal) -> TaskItem:
    """Return the item of a refused topic, with Kafka's text for the reason where there is one."""
    return item(
        topic, "failed", refusal.text or _REASONS.get(refusal.error, "see the log of the daemon"), refusal.error
    )


def _progress(view: TopicView) -> str:
    if view.deletion is None:
        return "its deletion has not begun"
    if view.deletion.held_up_by is not None:
        return f"held up: {view.deletion.held_up_by}"
    brokers = ", ".join(map(str, view.deletion.deleting))
    return f"waits for brokers {brokers} to delete their replicas" if brokers else "is being deleted"


def _assigned(given: list[list[int]] | None) -> tuple[tuple[BrokerId, ...], ...]:
    return tuple(tuple(map(BrokerId, replicas)) for replicas in given or ())


VERBS: Final = (
    Verb("/v1/topics", NewTopic, CreateTopic),
    Verb("/v1/topics/{topic}/partitions", MorePartitions, AddPartitions, TOPIC),
    Verb("/v1/topics/{topic}/delete", DeleteTopic, RemoveTopic, TOPIC),
)
