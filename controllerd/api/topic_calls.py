"""Create, delete and expand topics: refuse invalid rows, put the event, and wait until the metadata shows the effect.

Rows that are refused here never reach the queue: an event holds only topics that the requester may change.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog

from controllerd.api.broker_settings import LiveBrokerSettings, Settings
from controllerd.api.event_calls import EffectWaiter, EventCaller
from controllerd.api.large_messages import SMALL, rows_in, run_in_thread_if_large
from controllerd.api.native import NativeRequest, serves
from controllerd.api.sessions import AclOperation, Answered, Session
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.partition_growth import GrowthRequest, refused_repeats
from controllerd.core.settings_book import SettingsBook
from controllerd.core.topic_creation import TopicRequest
from controllerd.core.topic_defaults import effective_configs, given_configs
from controllerd.core.topic_names import refused_names
from controllerd.snapshot import ClusterSnapshot
from events.admin import CreatePartitions, CreateTopics, DeleteTopics, MutationReply, TopicOutcome
from events.base import Call
from wire.api_topics import (
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsQuery,
    CreateTopicsQuery,
    DeletedTopic,
    DeleteTopicsQuery,
    ExpandedTopic,
    TopicConfig,
    WantedDeletion,
    decode_create_partitions,
    decode_create_topics,
    decode_delete_topics,
    encode_create_partitions,
    encode_create_topics,
    encode_delete_topics,
)
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey, VersionRange

_FIRST_WITH_CONFIGS: Final = 5
"""The first version of CreateTopics that is answered with counts and configs (KIP-525)."""
_FIRST_WITH_DISABLED: Final = 3
"""The first version of DeleteTopics whose clients know TOPIC_DELETION_DISABLED."""
_STANDBY: Final = Refusal(KafkaError.NOT_CONTROLLER)
_STANDBY_CREATES_NOTHING: Final = Refusal(KafkaError.NOT_CONTROLLER, "")
"""The standby's error for CreateTopics. Brokers send it with an empty text."""
_NOT_CREATED: Final = Refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
_NOT_EXPANDED: Final = Refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
_LATE: Final = Refusal(KafkaError.REQUEST_TIMED_OUT)
_LOG = structlog.get_logger(__name__)

_Refusals = Mapping[str, Refusal]
_Outcomes = Mapping[str, TopicOutcome]


class TopicCalls:
    """CreateTopics (KIP-4), DeleteTopics (KIP-4, KIP-516) and CreatePartitions (KIP-195).

    Every method raises MalformedMessage for bytes that are no such request, and HangUp if there is no reply in time.
    """

    def __init__(
        self,
        asker: EventCaller,
        snapshot: ClusterSnapshot,
        awaiter: EffectWaiter,
        settings: SettingsBook,
        now: Callable[[], float],
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``now`` is the clock, in seconds, by which the controller counts quotas."""
        self._settings = LiveBrokerSettings(snapshot, transport=transport)
        self._asker = asker
        self._snapshot = snapshot
        self._awaiter = awaiter
        self._cluster = settings
        self._now = now

    @serves(ApiKey.CREATE_TOPICS, VersionRange(0, 7), needs=None, is_forwarded=True)
    async def create_topics(self, request: NativeRequest) -> Answered:
        """Answer CreateTopics (key 19) when every partition has a leader in the metadata, or after the timeout."""
        query = await run_in_thread_if_large(rows_in(request), decode_create_topics, request)
        until = self._awaiter.deadline(query.timeout_ms)
        refused = await self._refused_creations([topic.name for topic in query.topics], request.session)
        requests = await run_in_thread_if_large(len(query.topics), _topic_requests, query, refused)
        event = CreateTopics(request.by, requests, query.validate_only)
        reply = await self._ask(event, [one.name for one in requests], refused)
        outcomes = await self._led_in_time(reply.outcomes, query, until)
        secret = await _denied(request.session, AclOperation.DESCRIBE_TOPIC_CONFIGS, _succeeded(outcomes))
        settings = await self._settings_for(outcomes, secret, request)
        throttle_ms = reply.throttle.left_ms(self._now())
        rows = (_created(topic.name, outcomes[topic.name], secret, settings) for topic in query.topics)
        size = len(query.topics) * (len(settings) + 1)
        answer = await run_in_thread_if_large(size, encode_create_topics, request.head, rows, throttle_ms)
        return Answered([answer], throttle_ms)

    @serves(ApiKey.CREATE_PARTITIONS, VersionRange(0, 3), needs=None, is_forwarded=True)
    async def create_partitions(self, request: NativeRequest) -> Answered:
        """Answer CreatePartitions (key 37) when every new partition has a leader in the metadata, or at the timeout."""
        query = await run_in_thread_if_large(rows_in(request), decode_create_partitions, request)
        until = self._awaiter.deadline(query.timeout_ms)
        names = [topic.name for topic in query.topics]
        refused = await self._refused_expansions(names, request.session)
        requests = tuple(GrowthRequest(*topic) for topic in query.topics if topic.name not in refused)
        event = CreatePartitions(request.by, requests, query.validate_only)
        reply = await self._ask(event, [one.topic for one in requests], refused)
        outcomes = await self._led_in_time(reply.outcomes, query, until)
        throttle_ms = reply.throttle.left_ms(self._now())
        rows = (ExpandedTopic(name, *_result(outcomes[name])) for name in dict.fromkeys(names))
        answer = await run_in_thread_if_large(len(names), encode_create_partitions, request.head, rows, throttle_ms)
        return Answered([answer], throttle_ms)

    @serves(ApiKey.DELETE_TOPICS, VersionRange(0, 6), needs=None, is_forwarded=True)
    async def delete_topics(self, request: NativeRequest) -> Answered:
        """Answer DeleteTopics (key 20) when no topic is in the metadata any more, or after the timeout."""
        query = await run_in_thread_if_large(rows_in(request), decode_delete_topics, request)
        until = self._awaiter.deadline(query.timeout_ms)
        rows = await self._deletions(query, request)
        names = tuple(dict.fromkeys(row.name for row in rows if row.name is not None and row.error is KafkaError.NONE))
        reply = await self._ask(DeleteTopics(request.by, names), names, {})
        outcomes = await self._gone_in_time(reply.outcomes, query.timeout_ms, until)
        throttle_ms = reply.throttle.left_ms(self._now())
        results = (_deleted(row, outcomes) for row in rows)
        answer = await run_in_thread_if_large(len(rows), encode_delete_topics, request.head, results, throttle_ms)
        return Answered([answer], throttle_ms)

    async def _settings_for(self, outcomes: _Outcomes, secret: Collection[str], request: NativeRequest) -> Settings:
        """Return the brokers' settings; none if the answer shows no configs.

        ``secret`` are the topics whose configs the requester may not see (KIP-525).
        """
        are_needed = request.head.version >= _FIRST_WITH_CONFIGS and _succeeded(outcomes).keys() - secret
        return await self._settings.of_any(request.session.own.listener) if are_needed else {}

    # -- refusals without an event -------------------------------------------------------------------------------------

    async def _refused_creations(self, names: Sequence[str], session: Session) -> dict[str, Refusal]:
        """Return the refusals by name; as in Kafka, names are validated before permissions are checked."""
        if not self._snapshot.is_active:
            return dict.fromkeys(names, _STANDBY_CREATES_NOTHING)
        refused = refused_names(names)
        if not session.allows(AclOperation.CREATE):
            denied = await _denied(session, AclOperation.CREATE, names)
            refused = dict.fromkeys(denied, _NOT_CREATED) | refused
        return refused

    async def _refused_expansions(self, names: Sequence[str], session: Session) -> dict[str, Refusal]:
        if not self._snapshot.is_active:
            return dict.fromkeys(names, _STANDBY)
        denied = await _denied(session, AclOperation.ALTER_TOPIC, names)
        return dict.fromkeys(denied, _NOT_EXPANDED) | refused_repeats(names)

    async def _deletions(self, query: DeleteTopicsQuery, request: NativeRequest) -> list[DeletedTopic]:
        """Return a row for each topic of the request; topics without an error are to be deleted."""
        error = self._request_error(query.topics, request.head.version)
        if error is not None:
            return [DeletedTopic(row.name, row.topic_id, error) for row in query.topics]
        resolved = [self._resolved(row) for row in query.topics]
        names = {row.name for row in resolved if row.name is not None}
        delete_denied = await _denied(request.session, AclOperation.DELETE_TOPIC, names)
        named_by_id = {row.name for row in resolved if row.name is not None and row.topic_id is not None}
        describe_denied = await _denied(request.session, AclOperation.DESCRIBE_TOPIC, named_by_id)
        return [_permitted(row, delete_denied, describe_denied) for row in resolved]

    def _request_error(self, rows: Iterable[WantedDeletion], version: int) -> KafkaError | None:
        """Return the error that refuses every topic of the request; None if there is none."""
        if not self._snapshot.is_active:
            return KafkaError.NOT_CONTROLLER
        if not self._cluster.policy.delete_topic_enable:
            knows = version >= _FIRST_WITH_DISABLED
            return KafkaError.TOPIC_DELETION_DISABLED if knows else KafkaError.INVALID_REQUEST
        if any(row.name is not None and row.topic_id is not None for row in rows):
            return KafkaError.INVALID_REQUEST
        return None

    def _resolved(self, row: WantedDeletion) -> DeletedTopic:
        if row.topic_id is None:
            error = KafkaError.INVALID_REQUEST if row.name is None else KafkaError.NONE
            return DeletedTopic(row.name, None, error)
        name = self._snapshot.names_by_id.get(row.topic_id)
        return DeletedTopic(name, row.topic_id, KafkaError.UNKNOWN_TOPIC_ID if name is None else KafkaError.NONE)

    # -- the event, and the wait after it ------------------------------------------------------------------------------

    async def _ask(self, event: Call[MutationReply], asked: Collection[str], refused: _Refusals) -> MutationReply:
        """Return the outcome of every topic, refused ones included.

        If all are refused, there is no event.
        """
        before = {topic: TopicOutcome(refusal) for topic, refusal in refused.items()}
        if not asked:
            return MutationReply(before)
        reply = await self._asker.ask(event, None)
        if isinstance(reply, KafkaError):
            return MutationReply(before | dict.fromkeys(asked, TopicOutcome(Refusal(reply))))
        unanswered = [topic for topic in asked if topic not in reply.outcomes]
        if unanswered:
            _LOG.warning("left topics of a call unanswered", call=type(event).__name__, topics=len(unanswered))
        unknown = dict.fromkeys(unanswered, TopicOutcome(Refusal(KafkaError.UNKNOWN_SERVER_ERROR)))
        return MutationReply({**before, **unknown, **reply.outcomes}, reply.throttle)

    async def _led_in_time(
        self, outcomes: _Outcomes, query: CreateTopicsQuery | CreatePartitionsQuery, until: float
    ) -> _Outcomes:
        """Wait for the leaders of new partitions, and return the outcomes.

        A topic gets REQUEST_TIMED_OUT if the metadata does not have all these leaders in time.
        """
        made = {} if query.validate_only else _succeeded(outcomes)
        if query.timeout_ms <= 0:  # as in Kafka, such a request does not wait, and counts as timed out
            return _with_late(outcomes, made)
        waited = {topic: outcome.partitions for topic, outcome in made.items()}
        return _with_late(outcomes, await self._awaiter.wait_until_led(waited, until))

    async def _gone_in_time(self, outcomes: _Outcomes, timeout_ms: int, until: float) -> _Outcomes:
        """Wait until the topics are not in the metadata; a topic that still is gets REQUEST_TIMED_OUT."""
        marked = frozenset(_succeeded(outcomes))
        return _with_late(outcomes, marked if timeout_ms <= 0 else await self._awaiter.wait_until_gone(marked, until))


async def _denied(session: Session, operation: AclOperation, topics: Collection[str]) -> set[str]:
    """Return the topics for which the principal has no permission."""
    denied = set()
    for number, topic in enumerate(topics, 1):
        if not session.allows(operation, topic):
            denied.add(topic)
        if number % SMALL == 0:
            await asyncio.sleep(0)
    return denied


def _succeeded(outcomes: _Outcomes) -> dict[str, TopicOutcome]:
    return {topic: outcome for topic, outcome in outcomes.items() if outcome.refusal is None}


def _with_late(outcomes: _Outcomes, late: Iterable[str]) -> _Outcomes:
    """Return the outcomes with a timeout for late topics. The topic exists, so its id is kept."""
    return {**outcomes, **{topic: TopicOutcome(_LATE, outcomes[topic].topic_id) for topic in late}}


# -- rows --------------------------------------------------------------------------------------------------------------


def _topic_requests(query: CreateTopicsQuery, refused: _Refusals) -> tuple[TopicRequest, ...]:
    return tuple(_topic_request(topic) for topic in query.topics if topic.name not in refused)


def _topic_request(topic: CreatableTopic) -> TopicRequest:
    """Return the request for one topic. Of a repeated config key the last value counts, as in Kafka.

    A null value refuses the topic, so nulls come last: no other value of the key replaces them.
    """
    nulls_last = sorted(topic.configs, key=lambda config: config[1] is None)
    return TopicRequest(
        topic.name, topic.partitions, topic.replication_factor, dict(topic.assignments), dict(nulls_last)
    )


def _result(outcome: TopicOutcome) -> Refusal:
    return outcome.refusal or Refusal(KafkaError.NONE)


def _created(topic: str, outcome: TopicOutcome, secret: Collection[str], settings: Settings) -> CreatedTopic:
    """Return the row of a created topic. ``secret`` are topics whose configs the requester may not see (KIP-525).

    Without the settings of a broker only the topic's own configs are known.
    """
    error, text = _result(outcome)
    if error is not KafkaError.NONE:
        return CreatedTopic(topic, error, text, outcome.topic_id)
    if topic in secret:
        hidden = KafkaError.TOPIC_AUTHORIZATION_FAILED
        return CreatedTopic(topic, error, text, outcome.topic_id, config_error=hidden)
    given, release = outcome.configs, outcome.release
    known = effective_configs(given, settings, release) if settings else given_configs(given, release)
    configs = [TopicConfig(*config) for config in known]
    return CreatedTopic(
        topic, error, text, outcome.topic_id, len(outcome.partitions), outcome.replication_factor, configs
    )


def _permitted(row: DeletedTopic, delete_denied: Collection[str], describe_denied: Collection[str]) -> DeletedTopic:
    """Return the row as the requester may see it: a topic id is not secret, but the name of its topic is (KIP-516)."""
    if row.error is not KafkaError.NONE:
        return row
    if row.topic_id is not None and row.name in describe_denied:
        return row._replace(name=None, error=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return row._replace(error=KafkaError.TOPIC_AUTHORIZATION_FAILED) if row.name in delete_denied else row


def _deleted(row: DeletedTopic, outcomes: _Outcomes) -> DeletedTopic:
    """Return the row of a deleted topic. Controllers in ZooKeeper mode send the error code without a text."""
    if row.name is None or row.error is not KafkaError.NONE:
        return row
    return row._replace(error=_result(outcomes[row.name]).error)
