"""Creates topics, and adds partitions to topics, for admin clients: checked, written and started in one event.

A client may ask to wait until the new partitions have leaders. Its connection does the waiting, not the event.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.cluster_settings import PARTITIONS, REPLICATION_FACTOR
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import OUR_IDS, BrokerId, ReplicaAssignment, TopicImage
from controllerd.core.mutation_quota import Mutation, MutationQuota
from controllerd.core.partition_growth import GrowthRequest, PlannedGrowth, plan_growth
from controllerd.core.placement import MAX_AT_ONCE, TOO_MANY_AT_ONCE
from controllerd.core.releases import Release
from controllerd.core.soundness import is_in_quarantine
from controllerd.core.topic_creation import CreationFacts, PlannedTopic, plan_topic
from controllerd.core.topic_names import TakenNames, name_problem
from controllerd.ports.results import Conflict, NewTopicZnodes, TopicsRead, WriteResult, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.quotas import THROTTLED, quota_of
from controllerd.services.topic_preparation import keep_id
from controllerd.services.topics import reread_topics
from events.admin import CreatePartitions, CreateTopics, MutationReply, TopicOutcome

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 5
"""Attempts to add partitions to a topic that another writer changes each time; then the client has to ask again."""
_FORMAT_WITH_ID: Final = 3
_FORMAT_WITHOUT_ID: Final = 2


async def on_create_topics(event: CreateTopics, c: Controller) -> MutationReply:
    """Create the topics that are allowed, in few writes, then start them.

    A topic is created together with its configuration or not at all.

    :raises NotController: this instance is not the active controller.
    """
    quota = quota_of(event.by, Mutation.CREATE_TOPICS, c)
    planned = await _plan_topics(event, quota, c)
    allowed = {name: plan for name, plan in planned.items() if isinstance(plan, PlannedTopic)}
    made = {} if event.validate_only else await _create(allowed, c)
    outcomes = {name: _outcome(plan, made.get(name)) for name, plan in planned.items()}
    created = [name for name in made if outcomes[name].refusal is None]
    if created:
        log.info("topics created", topics=len(created), principal=event.by.principal, client_id=event.by.client_id)
        # If a topic replaces a deleted one, it is loaded as a new topic, even before TopicChange is handled.
        await reread_topics(c, created)
    return MutationReply(outcomes, quota.throttle)


async def _plan_topics(event: CreateTopics, quota: MutationQuota, c: Controller) -> dict[str, PlannedTopic | Refusal]:
    """Plan each topic, in the order of the request: earlier topics use up the quota, and their names are taken."""
    facts, placed = await _facts(c), 0
    planned: dict[str, PlannedTopic | Refusal] = {}
    for wanted in event.topics:
        plan = plan_topic(wanted, facts, c.runtime.draw) if placed < MAX_AT_ONCE else TOO_MANY_AT_ONCE
        if isinstance(plan, PlannedTopic):
            placed += plan.partitions
            if not event.validate_only and not quota.take(plan.partitions, c.clock.monotonic()):
                plan = THROTTLED
            else:
                facts.taken.add(wanted.name)
        planned[wanted.name] = plan
        await c.outbox.slicer.yield_to_loop()
    return planned


async def _facts(c: Controller) -> CreationFacts:
    """The facts for the rules of creation. Names come from ZooKeeper, so that topics in quarantine count as well."""
    return CreationFacts(
        taken=TakenNames(await c.store.topics.read_topic_names()),
        racks=_racks(c),
        deleting=await c.store.admin.read_topic_deletions(),
        default_partitions=_default(PARTITIONS, c.policy.num_partitions, c),
        default_replication_factor=_default(REPLICATION_FACTOR, c.policy.default_replication_factor, c),
        tiered_storage=c.policy.tiered_storage,
        releases=c.context.releases,
        absent=_absent(c),
        protocol_release=c.policy.protocol_release,
    )


def _absent(c: Controller) -> dict[BrokerId, Release | None]:
    """Return the brokers that hold replicas and are not live, with their last known releases."""
    absent = c.context.replica_holders() - c.context.brokers.keys()
    return {broker: c.context.releases.last_known.get(broker) for broker in absent if broker not in OUR_IDS}


def _default(setting: str, value: int, c: Controller) -> int | None:
    """None while the setting is unknown: a topic must not get fewer replicas, or partitions, than is configured."""
    return None if setting in c.policy.unknown else value


async def _create(allowed: Mapping[str, PlannedTopic], c: Controller) -> dict[str, tuple[NewTopicZnodes, WriteResult]]:
    """Write the planned topics; returns, by topic, the znodes to write and the result of the write."""
    if not allowed:
        return {}
    new: dict[str, NewTopicZnodes] = {}
    for name, plan in allowed.items():
        new[name] = NewTopicZnodes(_image(plan, c), plan.configs)
        await c.outbox.slicer.yield_to_loop()
    results = await c.store.topics.create_topics(new)
    for name, result in results.items():
        if not isinstance(result, Written | Conflict):
            _alarm(c, "topic was not created", name, result.reason)
    return {name: (new[name], results[name]) for name in new}


def _image(plan: PlannedTopic, c: Controller) -> TopicImage:
    with_id = c.context.features.topic_ids
    return TopicImage(
        name=plan.name,
        assignments=_assigned(plan.assignment),
        topic_id=c.runtime.new_topic_id() if with_id else None,
        znode_version=0,
        format_version=_FORMAT_WITH_ID if with_id else _FORMAT_WITHOUT_ID,
    )


def _assigned(placement: Mapping[int, tuple[BrokerId, ...]]) -> dict[int, ReplicaAssignment]:
    return {partition: ReplicaAssignment(replicas) for partition, replicas in placement.items()}


def _outcome(plan: PlannedTopic | Refusal, made: tuple[NewTopicZnodes, WriteResult] | None) -> TopicOutcome:
    """The outcome of one topic. ``made`` is None if nothing was written: it was refused, or only to be validated."""
    if isinstance(plan, Refusal):
        return TopicOutcome(plan)
    topic_id = None
    if made is not None:
        new, result = made
        if isinstance(result, Conflict):
            return TopicOutcome(Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{plan.name}' already exists."))
        if not isinstance(result, Written):
            return TopicOutcome(Refusal(KafkaError.UNKNOWN_SERVER_ERROR))
        topic_id = new.image.topic_id
    return TopicOutcome(None, topic_id, frozenset(plan.assignment), plan.replication_factor, plan.configs, plan.release)


# -- more partitions ---------------------------------------------------------------------------------------------------


async def on_create_partitions(event: CreatePartitions, c: Controller) -> MutationReply:
    """Add partitions to topics, then start them.

    Each topic znode is written on the condition of its version, and keeps its other partitions and fields.

    :raises NotController: this instance is not the active controller.
    """
    growth = _Growth(event, quota_of(event.by, Mutation.CREATE_PARTITIONS, c), c)
    outcomes = dict.fromkeys((request.topic for request in event.topics), _CONTENDED)  # keeps the order of the request
    pending = event.topics
    for _ in range(ATTEMPTS):
        done = await growth.attempt(pending)
        outcomes |= done
        pending = tuple(request for request in pending if request.topic not in done)
        if not pending:
            break
    grown = [] if event.validate_only else [topic for topic, done in outcomes.items() if done.refusal is None]
    if grown:
        log.info("partitions added", topics=len(grown), principal=event.by.principal, client_id=event.by.client_id)
        await reread_topics(c, grown)
    return MutationReply(outcomes, growth.quota.throttle)


class _Growth:
    """One CreatePartitions request. A topic that another writer changes is planned anew, but charged only once."""

    def __init__(self, event: CreatePartitions, quota: MutationQuota, c: Controller) -> None:
        self.quota = quota
        self._validate_only = event.validate_only
        self._charged: set[str] = set()
        self._c = c

    async def attempt(self, requests: Collection[GrowthRequest]) -> dict[str, TopicOutcome]:
        """Plan and write once; returns the outcomes, without topics that another writer changed meanwhile."""
        # No topic has an illegal name, so nothing is read for one.
        legal = [request.topic for request in requests if name_problem(request.topic) is None]
        read = await self._c.store.topics.read_topics(legal)
        plans = await self._plan_each(requests, read, broken={*legal} - read.topics.keys() - read.missing)
        outcomes = {topic: TopicOutcome(plan) for topic, plan in plans.items() if isinstance(plan, Refusal)}
        allowed = {topic: plan for topic, plan in plans.items() if isinstance(plan, PlannedGrowth)}
        if self._validate_only:
            return outcomes | {topic: _grown(plan) for topic, plan in allowed.items()}
        images: dict[str, TopicImage] = {}
        for topic, plan in allowed.items():
            images[topic] = self._image(read.topics[topic], plan)
            await self._c.outbox.slicer.yield_to_loop()
        results = await self._c.store.topics.write_topics(images, growing=images.keys()) if images else {}
        for topic, result in results.items():
            if isinstance(result, Written):
                outcomes[topic] = _grown(allowed[topic])
            elif not isinstance(result, Conflict):
                _alarm(self._c, "partitions were not added", topic, result.reason)
                outcomes[topic] = TopicOutcome(Refusal(KafkaError.UNKNOWN_SERVER_ERROR))
        return outcomes

    async def _plan_each(
        self, requests: Iterable[GrowthRequest], read: TopicsRead, broken: Container[str]
    ) -> dict[str, PlannedGrowth | Refusal]:
        plans: dict[str, PlannedGrowth | Refusal] = {}
        placed = 0
        for request in requests:
            plan: PlannedGrowth | Refusal = TOO_MANY_AT_ONCE
            if request.topic in broken:
                text = f"The znode of the topic '{request.topic}' cannot be understood."
                plan = Refusal(KafkaError.UNKNOWN_SERVER_ERROR, text)
            elif is_in_quarantine(self._c.context, request.topic):
                plan = Refusal(KafkaError.UNKNOWN_SERVER_ERROR, f"The topic '{request.topic}' is in quarantine.")
            elif placed < MAX_AT_ONCE:
                plan = self._plan(request, read.topics.get(request.topic))
            placed += len(plan.added) if isinstance(plan, PlannedGrowth) else 0
            plans[request.topic] = plan
            await self._c.outbox.slicer.yield_to_loop()
        return plans

    def _plan(self, request: GrowthRequest, image: TopicImage | None) -> PlannedGrowth | Refusal:
        topic, c = request.topic, self._c
        current = image.assignments if image is not None else {}
        queued = topic in c.context.queued_for_deletion
        plan = plan_growth(request, current, _racks(c), queued_for_deletion=queued)
        if isinstance(plan, Refusal) or self._validate_only or topic in self._charged:
            return plan
        if not self.quota.take(len(plan.added), c.clock.monotonic()):
            return THROTTLED
        self._charged.add(topic)
        return plan

    def _image(self, image: TopicImage, plan: PlannedGrowth) -> TopicImage:
        return replace(keep_id(self._c, image), assignments={**image.assignments, **_assigned(plan.added)})


_CONTENDED: Final = TopicOutcome(Refusal(KafkaError.UNKNOWN_SERVER_ERROR, "Somebody else keeps changing the topic."))


def _grown(plan: PlannedGrowth) -> TopicOutcome:
    return TopicOutcome(partitions=frozenset(plan.added))


def _racks(c: Controller) -> dict[BrokerId, str | None]:
    """Every registered broker with its rack, including brokers in controlled shutdown, as in Kafka."""
    return {broker.id: broker.rack for broker in c.context.brokers.values()}


def _alarm(c: Controller, what: str, topic: str, reason: str) -> None:
    log.error("topic znode was not written", topic=topic, reason=reason)
    c.audit.record(AlarmRecord(what, f"{topic}: {reason}"))
