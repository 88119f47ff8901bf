"""CreateTopics, DeleteTopics and CreatePartitions: the event of each request, the wait, and the rows of the answer."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.static.primitive import i32Timedelta

from controllerd.api.server_settings import ServerLimits
from controllerd.api.sessions import AclOperation, Principal
from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.mutation_quota import ThrottleTime
from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.topic_creation import TopicRequest
from controllerd.errors import CallFailed, NotController
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import DeletionView, Role
from events.admin import CreatePartitions, CreateTopics, DeleteTopics, MutationReply, Requester, TopicOutcome
from events.base import Event
from tests.api.cluster import (
    NO_ANSWER,
    TOPIC_ID,
    TOPIC_UUID,
    Client,
    Cluster,
    new_snapshot,
    partition,
    put_topic,
    replicas,
    running,
    until,
)

OTHER_UUID = UUID("abcdefab-cdef-abcd-efab-cdefabcdefab")
Row = tuple[KafkaError, str | None]
DONE: Row = (KafkaError.NONE, None)
LATE: Row = (KafkaError.REQUEST_TIMED_OUT, None)
MADE = TopicOutcome(None, TOPIC_ID, frozenset({0, 1}), 3, {"cleanup.policy": "compact"})
EXISTS = TopicOutcome(Refusal(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."))


def ms(milliseconds: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=milliseconds))


def wanted(name: str, **values: object) -> dict[str, object]:
    return {"name": name, "num_partitions": 2, "replication_factor": 3, "assignments": (), "configs": (), **values}


def more(name: str, total: int = 4, assignments: object = None) -> dict[str, object]:
    return {"name": name, "count": total, "assignments": assignments}


def by_name(*names: str) -> dict[str, object]:
    """The topics of DeleteTopics, in the fields of old and new versions."""
    return {"topic_names": names, "topics": [{"name": name, "topic_id": None} for name in names]}


def by_id(*ids: UUID) -> dict[str, object]:
    return {"topics": [{"name": None, "topic_id": topic_id} for topic_id in ids]}


def rows(entity: Any) -> list[tuple[str | None, Row]]:
    """Name, error and text of each row, in order; versions that carry no text have None."""
    field = next(name for name in ("topics", "responses", "results") if hasattr(entity, name))
    return [
        (row.name, (KafkaError(row.error_code), getattr(row, "error_message", None))) for row in getattr(entity, field)
    ]


def outcomes(**topics: TopicOutcome) -> MutationReply:
    return MutationReply(topics)


def show(snapshot: ClusterSnapshot, name: str, leader: int = 1) -> None:
    """Publish two partitions of a topic in the snapshot, as the controller does after each event."""
    put_topic(snapshot, name, None, partition(0, leader, 1), partition(1, leader, 1))
    snapshot.announce()


def hide(snapshot: ClusterSnapshot, name: str) -> None:
    snapshot.topics[name] = replace(snapshot.topics[name], deletion=DeletionView(True, None, ()))
    snapshot.announce()


def with_topics(*names: str) -> ClusterSnapshot:
    snapshot = new_snapshot()
    for name in names:
        show(snapshot, name)
    return snapshot


class Rights:
    """An authorizer that allows these operations; ``None`` stands for the cluster as a whole."""

    def __init__(self, *allowed: tuple[AclOperation, str | None]) -> None:
        self.allowed = allowed

    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return (operation, topic) in self.allowed


def succeed(event: Event) -> object:
    """Reply as a controller that accepts every request."""
    match event:
        case CreateTopics():
            return MutationReply({request.name: MADE for request in event.topics})
        case CreatePartitions():
            return MutationReply({request.topic: TopicOutcome(partitions=frozenset({1})) for request in event.topics})
        case DeleteTopics():
            return MutationReply({topic: TopicOutcome() for topic in event.topics})
        case _:
            raise AssertionError(event)


# -- CreateTopics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
async def test_a_create_topics_request_becomes_an_event_with_its_requester(version: int) -> None:
    assignments = [{"partition_index": index, "broker_ids": (1, 2)} for index in (0, 1)]
    configs = [{"name": "retention.ms", "value": "5"}, {"name": "segment.ms", "value": None}]
    row = wanted("new", num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs)
    async with running(with_topics("new"), succeed) as cluster:
        client = await cluster.connect()
        await client.ask(19, version, topics=[row], validate_only=True)
        (event,) = cluster.events
        assert isinstance(event, CreateTopics)
        request = TopicRequest(
            "new", -1, -1, {0: replicas(1, 2), 1: replicas(1, 2)}, {"retention.ms": "5", "segment.ms": None}
        )
        assert (event.topics, event.validate_only) == ((request,), version >= 1)
        assert event.by == Requester("User:ANONYMOUS", "ANONYMOUS", "test", version, event.by.peer)
        assert event.by.peer.startswith("127.0.0.1:")


async def test_a_config_that_is_null_and_has_a_value_is_null() -> None:
    configs = [{"name": "segment.ms", "value": None}, {"name": "segment.ms", "value": "1"}]
    async with running(with_topics("new"), succeed) as cluster:
        client = await cluster.connect()
        await client.ask(19, 7, topics=[wanted("new", configs=configs)])
        (event,) = cluster.events
        assert isinstance(event, CreateTopics)
        assert event.topics[0].configs == {"segment.ms": None}


async def test_each_topic_gets_its_row_in_the_order_of_the_request() -> None:
    async with running(with_topics("new"), lambda _: outcomes(new=MADE, old=EXISTS)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(19, 7, topics=[wanted("old"), wanted("new")])
        assert rows(entity) == [("old", EXISTS.refusal), ("new", DONE)]


async def test_a_created_topic_is_described_by_its_counts_its_id_and_its_configs() -> None:
    async with running(with_topics("new"), succeed) as cluster:
        client = await cluster.connect()
        (row,) = (await client.ask(19, 7, topics=[wanted("new")])).topics
        assert (row.num_partitions, row.replication_factor, row.topic_id) == (2, 3, TOPIC_UUID)
        assert [(config.name, config.value, config.config_source) for config in row.configs] == [
            ("cleanup.policy", "compact", 1)
        ]


async def described(cluster: Cluster, **values: Any) -> dict[str, tuple[str, int]]:
    """The configs in the answer to a creation, each with its source."""
    client = await cluster.connect()
    (row,) = (await client.ask(19, 7, topics=[wanted("new")], **values)).topics
    return {config.name: (config.value, config.config_source) for config in row.configs}


@pytest.mark.parametrize("validate_only", [False, True])
async def test_the_other_configs_of_a_new_topic_are_the_defaults_of_a_broker(validate_only: bool) -> None:
    async with running(with_topics("new"), succeed) as cluster:
        broker = await cluster.add_broker(1)
        broker.settings = {
            "log.retention.hours": ("1", 4),
            "log.retention.ms": (None, 5),
            "log.segment.bytes": ("7", 3),
        }
        configs = await described(cluster, validate_only=validate_only)
        assert configs["cleanup.policy"] == ("compact", 1)
        assert configs["retention.ms"] == ("3600000", 5)
        assert configs["segment.bytes"] == ("7", 3)
        assert configs["remote.storage.enable"] == ("false", 5)


async def test_the_next_broker_is_asked_when_one_does_not_answer_with_its_settings() -> None:
    async with running(with_topics("new"), succeed) as cluster:
        await cluster.add_broker(1)
        odd, good = await cluster.add_broker(2), await cluster.add_broker(3)
        odd.settings = {"log.retention.ms": ("soon", 5)}
        good.settings = {"log.retention.ms": ("9", 5)}
        assert (await described(cluster))["retention.ms"] == ("9", 5)


async def test_silent_brokers_do_not_keep_a_creation_from_its_answer() -> None:
    async with running(with_topics("new"), succeed) as cluster:
        (await cluster.add_broker(1)).is_silent = True
        (await cluster.add_broker(2)).is_silent = True
        assert await described(cluster) == {"cleanup.policy": ("compact", 1)}


@pytest.mark.parametrize(("version", "outcome"), [(4, MADE), (7, EXISTS)], ids=["old version", "refused"])
async def test_brokers_are_asked_for_their_settings_only_if_the_answer_has_configs(
    version: int, outcome: TopicOutcome
) -> None:
    async with running(with_topics("new"), lambda _: outcomes(new=outcome), brokers=1) as cluster:
        client = await cluster.connect()
        await client.ask(19, version, topics=[wanted("new")])
        assert cluster.brokers[1].frames == []


async def test_a_topic_without_configs_has_an_empty_list_of_them_because_javas_client_reads_it() -> None:
    plain = replace(MADE, configs={})
    async with running(with_topics("new"), lambda _: outcomes(new=plain)) as cluster:
        client = await cluster.connect()
        (row,) = (await client.ask(19, 7, topics=[wanted("new")])).topics
        assert (row.configs, row.topic_config_error_code) == ((), KafkaError.NONE)


async def test_without_the_right_to_describe_configs_the_answer_has_no_counts_either() -> None:
    rights = Rights((AclOperation.CREATE, None))
    async with running(with_topics("new"), succeed, authorizer=rights) as cluster:
        client = await cluster.connect()
        entity = await client.ask(19, 7, topics=[wanted("new")])
        (row,) = entity.topics
        assert rows(entity) == [("new", DONE)]
        assert row.topic_config_error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert (row.num_partitions, row.replication_factor, row.configs) == (-1, -1, ())


@pytest.mark.parametrize("outcome", [EXISTS, MADE], ids=["refused", "late"])
async def test_a_row_with_an_error_has_no_counts_and_no_error_about_configs(outcome: TopicOutcome) -> None:
    rights = Rights((AclOperation.CREATE, None))
    async with running(handler=lambda _: outcomes(new=outcome), authorizer=rights) as cluster:
        client = await cluster.connect()
        (row,) = (await client.ask(19, 7, topics=[wanted("new")], timeout=ms(30))).topics
        assert (row.num_partitions, row.replication_factor, row.configs) == (-1, -1, ())
        assert row.topic_config_error_code == KafkaError.NONE


async def test_the_answer_waits_until_every_partition_has_a_leader_in_the_snapshot() -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        answer = asyncio.create_task(client.ask(19, 7, topics=[wanted("new")]))
        await until(lambda: cluster.events)
        show(cluster.snapshot, "new", leader=-1)
        await asyncio.sleep(0)
        assert not answer.done()

        show(cluster.snapshot, "new")

        assert rows(await answer) == [("new", DONE)]


async def test_a_topic_that_the_snapshot_lacks_in_time_is_a_timeout_with_its_id() -> None:
    async with running(with_topics("shown"), succeed) as cluster:
        client = await cluster.connect()
        entity = await client.ask(19, 7, topics=[wanted("new"), wanted("shown")], timeout=ms(30))
        assert rows(entity) == [("new", LATE), ("shown", DONE)]
        assert entity.topics[0].topic_id == TOPIC_UUID


async def test_a_wait_is_not_longer_than_the_server_allows() -> None:
    async with running(handler=succeed, limits=ServerLimits(wait_s=0.03)) as cluster:
        client = await cluster.connect()
        assert rows(await client.ask(19, 7, topics=[wanted("new")])) == [("new", LATE)]


async def test_a_wait_does_not_keep_the_controller_from_other_events() -> None:
    async with running(handler=succeed) as cluster:
        slow, other = await cluster.connect(), await cluster.connect()
        waiting = asyncio.create_task(slow.ask(19, 7, topics=[wanted("new")]))
        await until(lambda: cluster.events)

        entity = await other.ask(20, 5, **by_name("unknown"))

        assert rows(entity) == [("unknown", DONE)]
        assert not waiting.done()
        show(cluster.snapshot, "new")
        await waiting


async def test_a_controller_that_loses_the_role_meanwhile_answers_timeout_because_the_topic_exists() -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        answer = asyncio.create_task(client.ask(19, 7, topics=[wanted("new")]))
        await until(lambda: cluster.events)

        cluster.snapshot.role = Role.STANDBY
        cluster.snapshot.announce()

        assert rows(await answer) == [("new", LATE)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_timeout_of_zero_turns_a_success_into_a_timeout_and_keeps_a_refusal(timeout_ms: int) -> None:
    async with running(with_topics("new"), lambda _: outcomes(new=MADE, old=EXISTS)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(19, 7, topics=[wanted("new"), wanted("old")], timeout=ms(timeout_ms))
        assert rows(entity) == [("new", LATE), ("old", EXISTS.refusal)]


@pytest.mark.parametrize("timeout_ms", [0, 60_000])
async def test_a_validation_does_not_wait(timeout_ms: int) -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        entity = await client.ask(19, 7, topics=[wanted("new")], validate_only=True, timeout=ms(timeout_ms))
        assert rows(entity) == [("new", DONE)]
        assert entity.topics[0].num_partitions == 2


async def test_invalid_names_are_refused_without_an_event() -> None:
    async with running(with_topics("new"), succeed) as cluster:
        client = await cluster.connect()
        names = ("twice", "__cluster_metadata", "new", "twice")
        entity = await client.ask(19, 7, topics=[wanted(name) for name in names])
        twice = ("twice", (KafkaError.INVALID_REQUEST, "Found multiple entries for this topic."))
        internal = (KafkaError.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited.")
        assert rows(entity) == [twice, ("__cluster_metadata", internal), ("new", DONE), twice]
        (event,) = cluster.events
        assert isinstance(event, CreateTopics)
        assert [request.name for request in event.topics] == ["new"]


async def test_when_every_row_is_refused_there_is_no_event() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        await client.ask(19, 7, topics=[wanted("__cluster_metadata")])
        assert rows(await client.ask(19, 7, topics=())) == []
        assert cluster.events == []


async def test_a_right_on_one_topic_creates_that_one_only() -> None:
    rights = Rights((AclOperation.CREATE, "new"), (AclOperation.CREATE, "twice"))
    async with running(with_topics("new"), succeed, authorizer=rights) as cluster:
        client = await cluster.connect()
        names = ("new", "secret", "twice", "twice")
        entity = await client.ask(19, 7, topics=[wanted(name) for name in names])
        assert rows(entity)[:2] == [
            ("new", DONE),
            ("secret", (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")),
        ]
        assert [row[1][0] for row in rows(entity)[2:]] == [KafkaError.INVALID_REQUEST] * 2


async def test_a_right_on_the_cluster_creates_every_topic() -> None:
    async with running(with_topics("new"), succeed, authorizer=Rights((AclOperation.CREATE, None))) as cluster:
        client = await cluster.connect()
        assert rows(await client.ask(19, 7, topics=[wanted("new")])) == [("new", DONE)]


# -- CreatePartitions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
async def test_a_create_partitions_request_becomes_an_event(version: int) -> None:
    given = [{"broker_ids": (1, 2)}, {"broker_ids": (2, 3)}]
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        await client.ask(37, version, topics=[more("orders", 4, given), more("x", 9)], validate_only=True)
        (event,) = cluster.events
        assert isinstance(event, CreatePartitions)
        assert event.topics == (
            GrowthRequest("orders", 4, (replicas(1, 2), replicas(2, 3))),
            GrowthRequest("x", 9, None),
        )
        assert (event.validate_only, event.by.version) == (True, version)


async def test_the_answer_waits_for_new_partitions() -> None:
    grown = outcomes(orders=TopicOutcome(partitions=frozenset({2})))
    async with running(handler=lambda _: grown) as cluster:
        client = await cluster.connect()
        answer = asyncio.create_task(client.ask(37, 3, topics=[more("orders", 3)]))
        await until(lambda: cluster.events)
        await asyncio.sleep(0)
        assert not answer.done()

        put_topic(cluster.snapshot, "orders", TOPIC_ID, partition(0, -1, 1), partition(1, 2, 2), partition(2, 1, 1))
        cluster.snapshot.announce()

        assert rows(await answer) == [("orders", DONE)]


async def test_new_partitions_that_the_snapshot_lacks_in_time_are_a_timeout() -> None:
    grown = outcomes(orders=TopicOutcome(partitions=frozenset({2})))
    async with running(handler=lambda _: grown) as cluster:
        client = await cluster.connect()
        assert rows(await client.ask(37, 3, topics=[more("orders", 3)], timeout=ms(30))) == [("orders", LATE)]


async def test_a_topic_that_is_named_twice_is_refused_once_and_the_others_grow() -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        entity = await client.ask(37, 3, topics=[more("twice"), more("orders"), more("twice")])
        refusal = (KafkaError.INVALID_REQUEST, "Duplicate topic in request.")
        assert rows(entity) == [("twice", refusal), ("orders", DONE)]


async def test_partitions_need_the_right_to_alter_the_topic() -> None:
    rights = Rights((AclOperation.ALTER_TOPIC, "orders"), (AclOperation.ALTER, None), (AclOperation.CREATE, None))
    async with running(handler=succeed, authorizer=rights) as cluster:
        client = await cluster.connect()
        entity = await client.ask(37, 3, topics=[more("orders"), more("secret")])
        refusal = (KafkaError.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
        assert rows(entity) == [("orders", DONE), ("secret", refusal)]


# -- DeleteTopics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_the_answer_to_a_deletion_waits_until_the_topic_is_hidden_from_clients(version: int) -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        answer = asyncio.create_task(client.ask(20, version, **by_name("orders")))
        await until(lambda: cluster.events)
        await asyncio.sleep(0)
        assert not answer.done()

        hide(cluster.snapshot, "orders")

        assert rows(await answer) == [("orders", DONE)]


async def test_a_topic_can_be_deleted_by_its_id() -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        entity = await client.ask(20, 6, **by_id(TOPIC_UUID, OTHER_UUID), timeout=ms(0))
        assert rows(entity) == [("orders", LATE), (None, (KafkaError.UNKNOWN_TOPIC_ID, None))]
        assert [row.topic_id for row in entity.responses] == [TOPIC_UUID, OTHER_UUID]
        (event,) = cluster.events
        assert isinstance(event, DeleteTopics)
        assert event.topics == ("orders",)


async def test_a_topic_that_is_named_twice_is_deleted_once_and_has_two_rows() -> None:
    twice = {"topics": [{"name": "orders", "topic_id": None}, {"name": None, "topic_id": TOPIC_UUID}]}
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        entity = await client.ask(20, 6, **twice, timeout=ms(0))
        assert rows(entity) == [("orders", LATE), ("orders", LATE)]
        (event,) = cluster.events
        assert isinstance(event, DeleteTopics)
        assert event.topics == ("orders",)


async def test_a_row_with_a_name_and_an_id_refuses_the_whole_request() -> None:
    both = {"topics": [{"name": "orders", "topic_id": TOPIC_UUID}, {"name": "other", "topic_id": None}]}
    async with running() as cluster:
        client = await cluster.connect()
        entity = await client.ask(20, 6, **both)
        refusal = (KafkaError.INVALID_REQUEST, None)
        assert rows(entity) == [("orders", refusal), ("other", refusal)]
        assert cluster.events == []


async def test_a_row_without_name_and_id_is_refused_alone() -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        neither = {"topics": [{"name": None, "topic_id": None}, {"name": "", "topic_id": None}]}
        entity = await client.ask(20, 6, **neither)
        assert rows(entity) == [(None, (KafkaError.INVALID_REQUEST, None)), ("", DONE)]


async def test_a_refused_deletion_has_an_error_code_without_text() -> None:
    refused = TopicOutcome(Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "a sentence"))
    async with running(handler=lambda _: outcomes(unknown=refused)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(20, 6, **by_name("unknown"))
        assert rows(entity) == [("unknown", (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, None))]


async def test_a_topic_that_still_exists_at_the_deadline_is_a_timeout() -> None:
    async with running(handler=succeed) as cluster:
        client = await cluster.connect()
        assert rows(await client.ask(20, 6, **by_name("orders"), timeout=ms(30))) == [("orders", LATE)]


async def test_without_the_right_to_delete_a_topic_it_is_not_marked() -> None:
    rights = Rights((AclOperation.DELETE_TOPIC, "gone"), (AclOperation.DESCRIBE_TOPIC, "orders"))
    async with running(handler=succeed, authorizer=rights) as cluster:
        client = await cluster.connect()
        entity = await client.ask(20, 5, **by_name("gone", "orders"))
        refusal = (KafkaError.TOPIC_AUTHORIZATION_FAILED, None)
        assert rows(entity) == [("gone", DONE), ("orders", refusal)]
        (event,) = cluster.events
        assert isinstance(event, DeleteTopics)
        assert event.topics == ("gone",)


@pytest.mark.parametrize(("may_describe", "shown"), [(True, "orders"), (False, None)])
async def test_the_name_of_a_topic_id_needs_the_right_to_describe_the_topic(
    may_describe: bool, shown: str | None
) -> None:
    rights = Rights((AclOperation.DESCRIBE_TOPIC, "orders" if may_describe else "other"))
    async with running(handler=succeed, authorizer=rights) as cluster:
        client = await cluster.connect()
        entity = await client.ask(20, 6, **by_id(TOPIC_UUID))
        assert rows(entity) == [(shown, (KafkaError.TOPIC_AUTHORIZATION_FAILED, None))]
        assert entity.responses[0].topic_id == TOPIC_UUID


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, KafkaError.INVALID_REQUEST),
        (1, KafkaError.INVALID_REQUEST),
        (2, KafkaError.INVALID_REQUEST),
        (3, KafkaError.TOPIC_DELETION_DISABLED),
        (6, KafkaError.TOPIC_DELETION_DISABLED),
    ],
)
async def test_disabled_deletion_is_an_error_of_the_version(version: int, error: KafkaError) -> None:
    async with running(policy=Policy(delete_topic_enable=False)) as cluster:
        client = await cluster.connect()
        assert rows(await client.ask(20, version, **by_name("orders"))) == [("orders", (error, None))]
        assert cluster.events == []


# -- all of them -------------------------------------------------------------------------------------------------------

REQUESTS: Mapping[int, dict[str, object]] = {
    19: {"topics": [wanted("a"), wanted("b"), wanted("b")]},
    20: by_name("a", "b", "b"),
    37: {"topics": [more("a"), more("b"), more("b")]},
}
NAMES = {19: ["a", "b", "b"], 20: ["a", "b", "b"], 37: ["a", "b"]}
NEWEST = {19: 7, 20: 6, 37: 3}


@pytest.mark.parametrize("api_key", REQUESTS)
async def test_a_standby_answers_not_controller_for_every_row(api_key: int) -> None:
    async with running(new_snapshot(Role.STANDBY)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(api_key, NEWEST[api_key], **REQUESTS[api_key])
        says = "" if api_key == 19 else None  # as brokers do
        assert rows(entity) == [(name, (KafkaError.NOT_CONTROLLER, says)) for name in NAMES[api_key]]


@pytest.mark.parametrize(
    ("failure", "error"),
    [(NotController("deposed"), KafkaError.NOT_CONTROLLER), (CallFailed("broken"), KafkaError.UNKNOWN_SERVER_ERROR)],
)
@pytest.mark.parametrize("api_key", REQUESTS)
async def test_the_error_of_a_failed_event_is_in_the_row_of_each_topic(
    api_key: int, failure: Exception, error: KafkaError
) -> None:
    async with running(handler=lambda _: failure) as cluster:
        client = await cluster.connect()
        entity = await client.ask(api_key, NEWEST[api_key], **REQUESTS[api_key])
        assert rows(entity)[0] == ("a", (error, None))


@pytest.mark.parametrize("api_key", REQUESTS)
async def test_a_topic_that_the_reply_lacks_has_a_row_all_the_same(api_key: int) -> None:
    async with running(handler=lambda _: MutationReply({})) as cluster:
        client = await cluster.connect()
        entity = await client.ask(api_key, NEWEST[api_key], **REQUESTS[api_key])
        assert rows(entity)[0] == ("a", (KafkaError.UNKNOWN_SERVER_ERROR, None))


@pytest.mark.parametrize("api_key", REQUESTS)
async def test_a_controller_without_an_answer_in_time_closes_the_connection(api_key: int) -> None:
    async with running(handler=lambda _: NO_ANSWER, limits=ServerLimits(call_s=0.05)) as cluster:
        client = await cluster.connect()
        with pytest.raises(AssertionError, match="hung up"):
            await client.ask(api_key, NEWEST[api_key], **REQUESTS[api_key])
        assert cluster.server.stats().hang_ups == {"controller busy": 1}


# -- quotas ------------------------------------------------------------------------------------------------------------

OVER_QUOTA = TopicOutcome(Refusal(KafkaError.THROTTLING_QUOTA_EXCEEDED))


def throttling(wait_ms: int) -> MutationReply:
    return MutationReply({"a": OVER_QUOTA}, ThrottleTime(wait_ms, 10.0))


async def ask_a(client: Client, api_key: int) -> Any:
    one: Mapping[int, dict[str, object]] = {
        19: {"topics": [wanted("a")]},
        20: by_name("a"),
        37: {"topics": [more("a")]},
    }
    return await client.ask(api_key, NEWEST[api_key], **one[api_key])


@pytest.mark.parametrize("api_key", REQUESTS)
async def test_a_client_over_its_quota_gets_the_remaining_throttle_time(api_key: int) -> None:
    async with running(handler=lambda _: throttling(5000), now=lambda: 12.0) as cluster:
        client = await cluster.connect()
        entity = await ask_a(client, api_key)
        assert entity.throttle_time == timedelta(seconds=3)
        assert rows(entity)[0][1][0] == KafkaError.THROTTLING_QUOTA_EXCEEDED


async def is_muted(cluster: Cluster, client: Client) -> bool:
    """Whether a second request on the connection stays unread while another client's is answered."""
    before = sum(cluster.server.stats().requests.values())
    answer = asyncio.create_task(client.ask(18, 3))
    other = await cluster.connect()
    for _ in range(5):
        await other.ask(18, 3)
    answered = sum(cluster.server.stats().requests.values()) - before
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    return answered == 5


async def test_a_throttled_client_is_answered_and_then_muted() -> None:
    async with running(handler=lambda _: throttling(60_000), now=lambda: 10.0) as cluster:
        client = await cluster.connect()
        await ask_a(client, 19)
        assert await is_muted(cluster, client)


async def test_a_client_is_read_again_after_its_throttle_time() -> None:
    async with running(handler=lambda _: throttling(30), now=lambda: 10.0) as cluster:
        client = await cluster.connect()
        await ask_a(client, 19)
        assert (await client.ask(18, 3)).error_code == KafkaError.NONE


async def test_no_client_is_muted_for_longer_than_the_idle_timeout() -> None:
    limits = ServerLimits(idle_s=0.1)
    async with running(handler=lambda _: throttling(2**31 - 1), now=lambda: 10.0, limits=limits) as cluster:
        client = await cluster.connect()
        await ask_a(client, 19)
        assert (await client.ask(18, 3)).error_code == KafkaError.NONE
