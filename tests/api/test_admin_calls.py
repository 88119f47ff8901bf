"""Requests of operators: the event that each request becomes, and the answer that each reply becomes."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.static.primitive import i32Timedelta

from controllerd.api.server_settings import ServerLimits
from controllerd.api.sessions import AclOperation, Principal
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, ReplicaAssignment, TopicPartition
from controllerd.errors import CallFailed, NotController
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import Role
from events.admin import FeatureUpdate, Requester, UpdateFeatures
from events.base import Event
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment, ListPartitionReassignments
from tests.api.cluster import NO_ANSWER, NODE_ID, new_snapshot, partition, put_topic, replicas, running, until

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
GONE = TopicPartition("gone", 0)
ONE, TWO = BrokerId(1), BrokerId(2)
TWICE = "Duplicate replica ids in partition reassignment replica list"
DEAD = "Replica assignment has brokers that are not alive"
NOT_NEEDED = "Leader election not needed for topic partition."
NOT_REASSIGNED = "No partition reassignment is in progress."


def named(*partitions: TopicPartition) -> list[dict[str, object]]:
    return [{"topic": tp.topic, "partitions": (tp.partition,)} for tp in partitions]


def moves(*rows: tuple[TopicPartition, Sequence[int] | None]) -> list[dict[str, object]]:
    return [{"name": tp.topic, "partitions": [{"partition_index": tp.partition, "replicas": ids}]} for tp, ids in rows]


def ms(milliseconds: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=milliseconds))


def elected(entity: Any) -> dict[TopicPartition, tuple[KafkaError, str | None]]:
    return {
        TopicPartition(topic.topic, row.partition_id): (KafkaError(row.error_code), row.error_message)
        for topic in entity.replica_election_results
        for row in topic.partition_result
    }


def moved(entity: Any) -> dict[TopicPartition, tuple[KafkaError, str | None]]:
    return {
        TopicPartition(topic.name, row.partition_index): (KafkaError(row.error_code), row.error_message)
        for topic in entity.responses
        for row in topic.partitions
    }


def expected_requester(event: Event, version: int) -> Requester:
    """The expected requester: an anonymous principal, this version, and the address of the connection."""
    assert isinstance(event, ReplicaLeaderElection | ApiPartitionReassignment | UpdateFeatures)
    assert event.by is not None
    assert event.by.peer.startswith("127.0.0.1")
    return Requester("User:ANONYMOUS", "ANONYMOUS", "test", version, event.by.peer)


def show_leader(snapshot: ClusterSnapshot, leader: int) -> None:
    """The controller publishes another leader of orders-0, as it does after each event."""
    put_topic(snapshot, "orders", None, partition(0, leader, 1, 2), partition(1, 2, 2))
    snapshot.announce()


class MayOnly:
    """An authorizer that allows these operations alone."""

    def __init__(self, *allowed: AclOperation) -> None:
        self.allowed = allowed

    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return operation in self.allowed


# -- ElectLeaders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "asked", "meant"),
    [
        (0, 1, ElectionType.PREFERRED),
        (1, 0, ElectionType.PREFERRED),
        (1, 1, ElectionType.UNCLEAN),
        (2, 0, ElectionType.PREFERRED),
        (2, 1, ElectionType.UNCLEAN),
    ],
)
async def test_an_elect_leaders_request_becomes_an_event(version: int, asked: int, meant: ElectionType) -> None:
    async with running(handler=lambda _: {ORDERS_0: ONE}) as cluster:
        client = await cluster.connect()
        await client.ask(43, version, election_type=asked, topic_partitions=named(ORDERS_0))
        by = expected_requester(cluster.events[0], version)
        assert cluster.events == [ReplicaLeaderElection(frozenset({ORDERS_0}), meant, ElectionTrigger.ADMIN_CLIENT, by)]


async def test_a_null_list_of_partitions_means_all_partitions() -> None:
    async with running(handler=lambda _: {}) as cluster:
        client = await cluster.connect()
        await client.ask(43, 2, election_type=0, topic_partitions=None)
        by = expected_requester(cluster.events[0], 2)
        assert cluster.events == [ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, by)]


async def test_l1_an_empty_list_does_not_mean_all_partitions() -> None:
    async with running(handler=lambda _: {}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(43, 2, election_type=0, topic_partitions=())
        assert cluster.events[0] == ReplicaLeaderElection(
            frozenset(), ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, expected_requester(cluster.events[0], 2)
        )
        assert elected(entity) == {}


async def test_each_partition_gets_success_or_its_error_with_kafkas_text() -> None:
    outcomes = {
        ORDERS_0: ONE,
        ORDERS_1: KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        GONE: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        TopicPartition("gone", 1): KafkaError.INVALID_TOPIC_EXCEPTION,
        TopicPartition("gone", 2): KafkaError.ELECTION_NOT_NEEDED,
    }
    async with running(handler=lambda _: outcomes) as cluster:
        client = await cluster.connect()

        entity = await client.ask(43, 2, election_type=0, topic_partitions=named(*outcomes))

        failed = "Failed to elect leader for partition orders-1 under strategy"
        assert entity.error_code == KafkaError.NONE
        assert elected(entity) == {
            ORDERS_0: (KafkaError.NONE, None),
            ORDERS_1: (
                KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
                f"{failed} PreferredReplicaPartitionLeaderElectionStrategy",
            ),
            GONE: (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
            TopicPartition("gone", 1): (KafkaError.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"),
            TopicPartition("gone", 2): (KafkaError.ELECTION_NOT_NEEDED, NOT_NEEDED),
        }


async def test_an_election_of_all_partitions_leaves_out_partitions_that_need_none() -> None:
    outcomes = {ORDERS_0: KafkaError.ELECTION_NOT_NEEDED, ORDERS_1: TWO, GONE: KafkaError.INVALID_TOPIC_EXCEPTION}
    async with running(handler=lambda _: outcomes) as cluster:
        client = await cluster.connect()
        entity = await client.ask(43, 2, election_type=0, topic_partitions=None)
        assert elected(entity).keys() == {ORDERS_1, GONE}


async def test_the_answer_waits_until_the_snapshot_has_the_new_leader() -> None:
    async with running(handler=lambda _: {ORDERS_0: TWO}) as cluster:
        client = await cluster.connect()
        answer = asyncio.create_task(client.ask(43, 2, election_type=0, topic_partitions=named(ORDERS_0)))
        await until(lambda: cluster.events)
        show_leader(cluster.snapshot, 3)
        await asyncio.sleep(0)
        assert not answer.done()

        show_leader(cluster.snapshot, 2)

        assert elected(await answer) == {ORDERS_0: (KafkaError.NONE, None)}


async def test_a_leader_that_the_snapshot_lacks_in_time_is_a_timeout_beside_the_others() -> None:
    async with running(handler=lambda _: {ORDERS_0: TWO, ORDERS_1: TWO}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(43, 2, election_type=0, topic_partitions=named(ORDERS_0, ORDERS_1), timeout=ms(50))
        assert elected(entity) == {ORDERS_0: (KafkaError.REQUEST_TIMED_OUT, None), ORDERS_1: (KafkaError.NONE, None)}


async def test_the_wait_for_a_leader_ends_when_the_instance_loses_the_role() -> None:
    async with running(handler=lambda _: {ORDERS_0: TWO}) as cluster:
        client = await cluster.connect()
        answer = asyncio.create_task(client.ask(43, 2, election_type=0, topic_partitions=named(ORDERS_0)))
        await until(lambda: cluster.events)

        cluster.snapshot.role = Role.STANDBY
        cluster.snapshot.announce()

        assert elected(await answer) == {ORDERS_0: (KafkaError.REQUEST_TIMED_OUT, None)}


@pytest.mark.parametrize("version", [1, 2])
async def test_an_unknown_election_type_is_refused(version: int) -> None:
    async with running() as cluster:
        client = await cluster.connect()
        entity = await client.ask(43, version, election_type=2, topic_partitions=named(ORDERS_0))
        assert entity.error_code == KafkaError.INVALID_REQUEST
        assert (elected(entity)[ORDERS_0][0], cluster.events) == (KafkaError.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_standby_refuses_each_partition_that_was_named(version: int) -> None:
    async with running(new_snapshot(Role.STANDBY)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(43, version, election_type=0, topic_partitions=named(ORDERS_0))
        assert elected(entity) == {ORDERS_0: (KafkaError.NOT_CONTROLLER, None)}
        assert getattr(entity, "error_code", KafkaError.NONE) == KafkaError.NONE


async def test_a_standby_refuses_an_election_of_all_partitions_with_an_error() -> None:
    async with running(new_snapshot(Role.STANDBY)) as cluster:
        client = await cluster.connect()
        oldest = await client.ask(43, 0, topic_partitions=None)
        newest = await client.ask(43, 2, election_type=0, topic_partitions=None)
        assert elected(oldest).keys() == {ORDERS_0, ORDERS_1}
        assert newest.error_code == KafkaError.NOT_CONTROLLER


async def test_a_standby_that_never_led_closes_the_connection_where_the_version_has_no_top_level_error() -> None:
    async with running(ClusterSnapshot(NODE_ID, cluster_id="the-cluster", role=Role.STANDBY)) as cluster:
        client = await cluster.connect()
        newest = await client.ask(43, 1, election_type=0, topic_partitions=None)
        assert newest.error_code == KafkaError.NOT_CONTROLLER
        with pytest.raises(AssertionError, match="hung up"):
            await client.ask(43, 0, topic_partitions=None)


# -- reassignments -----------------------------------------------------------------------------------------------------


async def test_targets_and_cancellations_become_one_event() -> None:
    async with running(handler=lambda _: {ORDERS_0: KafkaError.NONE, ORDERS_1: KafkaError.NONE}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(45, 0, topics=moves((ORDERS_0, (2, 3)), (ORDERS_1, None)))
        by = expected_requester(cluster.events[0], 0)
        assert cluster.events == [ApiPartitionReassignment(by, {ORDERS_0: replicas(2, 3), ORDERS_1: None})]
        assert (entity.error_code, entity.error_message) == (KafkaError.NONE, "")
        assert moved(entity) == {ORDERS_0: (KafkaError.NONE, None), ORDERS_1: (KafkaError.NONE, None)}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ((), "Empty replica list specified in partition reassignment."),
        ((1, 2, 1), f"{TWICE}: ArrayBuffer(1, 2, 1)"),
        ((1, -1), "Invalid broker id in replica list: ArrayBuffer(1, -1)"),
        ((1, 8, 9), f"{DEAD}. Replica list: ArrayBuffer(8, 9), live broker list: Set(1, 2)"),
        ((1, 2_000_000_000), "controllerd itself has no replicas: ArrayBuffer(1, 2000000000)"),
        ((1, 2), "the replicas that would remain could not lead the partition"),
        (None, "the replicas that would remain could not lead the partition"),
    ],
)
async def test_a_refused_list_of_replicas_is_explained(wanted: tuple[int, ...] | None, says: str) -> None:
    snapshot = new_snapshot()
    snapshot.brokers = {ONE: Broker(ONE, 101, ()), TWO: Broker(TWO, 102, ())}
    async with running(snapshot, lambda _: {ORDERS_0: KafkaError.INVALID_REPLICA_ASSIGNMENT}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(45, 0, topics=moves((ORDERS_0, wanted)))
        assert moved(entity) == {ORDERS_0: (KafkaError.INVALID_REPLICA_ASSIGNMENT, says)}


async def test_l8_errors_are_returned_beside_reassignments_that_begin() -> None:
    outcomes = {
        ORDERS_0: KafkaError.NONE,
        ORDERS_1: KafkaError.NO_REASSIGNMENT_IN_PROGRESS,
        GONE: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    }
    async with running(handler=lambda _: outcomes) as cluster:
        client = await cluster.connect()
        entity = await client.ask(45, 0, topics=moves((ORDERS_0, (2,)), (ORDERS_1, None), (GONE, (2,))))
        assert moved(entity) == {
            ORDERS_0: (KafkaError.NONE, None),
            ORDERS_1: (KafkaError.NO_REASSIGNMENT_IN_PROGRESS, NOT_REASSIGNED),
            GONE: (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        }


async def test_two_targets_for_one_partition_are_refused_and_the_others_begin() -> None:
    async with running(handler=lambda event: dict.fromkeys(event_targets(event), KafkaError.NONE)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(45, 0, topics=moves((ORDERS_0, (1,)), (ORDERS_0, (2,)), (ORDERS_1, (1,))))
        assert cluster.events == [
            ApiPartitionReassignment(expected_requester(cluster.events[0], 0), {ORDERS_1: replicas(1)})
        ]
        assert moved(entity) == {
            ORDERS_0: (KafkaError.INVALID_REQUEST, "named twice"),
            ORDERS_1: (KafkaError.NONE, None),
        }


def event_targets(event: Event) -> Mapping[TopicPartition, object]:
    assert isinstance(event, ApiPartitionReassignment)
    return event.targets


async def test_the_same_target_twice_counts_once() -> None:
    async with running(handler=lambda _: {ORDERS_0: KafkaError.NONE}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(45, 0, topics=moves((ORDERS_0, (1,)), (ORDERS_0, (1,))))
        assert moved(entity) == {ORDERS_0: (KafkaError.NONE, None)}


async def test_a_partition_that_the_reply_lacks_has_a_row_all_the_same() -> None:
    async with running(handler=lambda _: {}) as cluster:
        client = await cluster.connect()
        elections = await client.ask(43, 2, election_type=0, topic_partitions=named(ORDERS_0))
        reassignments = await client.ask(45, 0, topics=moves((ORDERS_0, (1,))))
        assert elected(elections) == {ORDERS_0: (KafkaError.UNKNOWN_SERVER_ERROR, None)}
        assert moved(reassignments) == {ORDERS_0: (KafkaError.UNKNOWN_SERVER_ERROR, None)}


async def test_reassignments_under_way_are_listed_with_adding_and_removing_replicas() -> None:
    under_way = ReplicaAssignment(replicas(3, 1, 2), replicas(3), replicas(1, 2))
    async with running(handler=lambda _: {ORDERS_0: under_way, ORDERS_1: ReplicaAssignment(replicas(1))}) as cluster:
        client = await cluster.connect()

        entity = await client.ask(46, 0, topics=None)

        assert cluster.events == [ListPartitionReassignments(None)]
        assert [topic.name for topic in entity.topics] == ["orders"]
        (row,) = entity.topics[0].partitions
        assert (row.replicas, row.adding_replicas, row.removing_replicas) == ((3, 1, 2), (3,), (1, 2))


async def test_l9_without_a_reassignment_the_list_is_empty_without_error() -> None:
    async with running(handler=lambda _: {}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(46, 0, topics=[{"name": "gone", "partition_indexes": (0, 1)}])
        assert cluster.events == [ListPartitionReassignments(frozenset({GONE, TopicPartition("gone", 1)}))]
        assert (entity.error_code, entity.topics) == (KafkaError.NONE, ())


# -- features ----------------------------------------------------------------------------------------------------------


def feature(name: str, level: int = 1, kind: int = 1) -> dict[str, object]:
    return {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != 1}


@pytest.mark.parametrize("version", [0, 1])
async def test_features_become_an_event_and_a_result_for_each(version: int) -> None:
    async with running(handler=lambda _: {"a": KafkaError.NONE, "b": KafkaError.INVALID_REQUEST}) as cluster:
        client = await cluster.connect()

        entity = await client.ask(57, version, feature_updates=[feature("a"), feature("b", 0, 2)], validate_only=True)

        updates = {"a": FeatureUpdate(1, False), "b": FeatureUpdate(0, True)}
        by = expected_requester(cluster.events[0], version)
        assert cluster.events == [UpdateFeatures(by, updates, validate_only=version == 1)]
        assert [(r.feature, r.error_code, r.error_message) for r in entity.results] == [
            ("a", KafkaError.NONE, None),
            ("b", KafkaError.INVALID_REQUEST, "Can not delete non-existing finalized feature."),
        ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (feature("x"), "because the provided feature is not supported."),
        (feature("x", 0), "Can not provide versionLevel: 0 less than 1 without"),
        (feature("x", 0, 3), "Can not delete non-existing finalized feature."),
        (feature("x", 1, 9), "Received unknown upgrade type."),
        (feature("", 1), "Feature name can not be empty."),
    ],
)
async def test_l14_a_refused_feature_is_explained(row: dict[str, object], says: str) -> None:
    async with running(handler=lambda _: {str(row["feature"]): KafkaError.INVALID_REQUEST}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(57, 1, feature_updates=[row])
        assert entity.results[0].error_code == KafkaError.INVALID_REQUEST
        assert says in entity.results[0].error_message


async def test_a_feature_that_is_named_twice_is_refused() -> None:
    async with running(handler=lambda _: {}) as cluster:
        client = await cluster.connect()
        entity = await client.ask(57, 1, feature_updates=[feature("x"), feature("x", 2)])
        assert cluster.events == [UpdateFeatures(expected_requester(cluster.events[0], 1), {})]
        assert [(r.feature, r.error_code) for r in entity.results] == [("x", KafkaError.INVALID_REQUEST)]


async def test_an_error_of_the_whole_request_is_at_the_top_level() -> None:
    async with running(handler=lambda _: KafkaError.INVALID_REQUEST) as cluster:
        client = await cluster.connect()
        entity = await client.ask(57, 1, feature_updates=[feature("x")])
        assert (entity.error_code, entity.results) == (KafkaError.INVALID_REQUEST, ())
        assert entity.error_message == "Feature versioning system is disabled."


# -- rights, and calls without a reply ---------------------------------------------------------------------------------

ASKED: dict[int, dict[str, object]] = {
    43: {"election_type": 0, "topic_partitions": named(ORDERS_0)},
    45: {"topics": moves((ORDERS_0, (1,)))},
    46: {"topics": None},
    57: {"feature_updates": [feature("x")]},
}
NEWEST = [(43, 2), (45, 0), (46, 0), (57, 1)]


def errors_of(api_key: int, entity: Any) -> set[KafkaError]:
    rows = elected(entity) if api_key == 43 else moved(entity) if api_key == 45 else {}
    return {KafkaError(entity.error_code), *(error for error, _ in rows.values())} - {KafkaError.NONE}


@pytest.mark.parametrize(("api_key", "version"), NEWEST)
@pytest.mark.parametrize("role", [Role.STARTING, Role.STANDBY, Role.STOPPING])
async def test_an_instance_that_is_not_active_answers_not_controller_without_an_event(
    role: Role, api_key: int, version: int
) -> None:
    async with running(new_snapshot(role)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(api_key, version, **ASKED[api_key])
        assert (errors_of(api_key, entity), cluster.events) == ({KafkaError.NOT_CONTROLLER}, [])


@pytest.mark.parametrize(("api_key", "version"), NEWEST)
@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (NotController("preempted"), KafkaError.NOT_CONTROLLER),
        (CallFailed("a defect"), KafkaError.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_call_that_ends_without_reply_is_answered_with_its_error(
    raised: Exception, error: KafkaError, api_key: int, version: int
) -> None:
    async with running(handler=lambda _: raised) as cluster:
        client = await cluster.connect()
        assert errors_of(api_key, await client.ask(api_key, version, **ASKED[api_key])) == {error}


@pytest.mark.parametrize(("api_key", "version"), NEWEST)
@pytest.mark.parametrize("right", [AclOperation.CLUSTER_ACTION, AclOperation.ALTER, AclOperation.DESCRIBE])
async def test_changes_need_the_right_to_alter_and_lists_the_right_to_describe(
    right: AclOperation, api_key: int, version: int
) -> None:
    needed = AclOperation.DESCRIBE if api_key == 46 else AclOperation.ALTER
    async with running(handler=lambda _: CallFailed("asked"), authorizer=MayOnly(right)) as cluster:
        client = await cluster.connect()
        errors = errors_of(api_key, await client.ask(api_key, version, **ASKED[api_key]))
        assert errors == {
            KafkaError.UNKNOWN_SERVER_ERROR if right is needed else KafkaError.CLUSTER_AUTHORIZATION_FAILED
        }
        assert len(cluster.events) == (right is needed)


async def test_the_answer_has_a_row_for_each_partition_beside_a_top_level_error() -> None:
    async with running(authorizer=MayOnly()) as cluster:
        client = await cluster.connect()
        entity = await client.ask(45, 0, topics=moves((ORDERS_0, (1,)), (GONE, None)))
        assert moved(entity).keys() == {ORDERS_0, GONE}


async def test_a_call_that_takes_too_long_closes_the_connection() -> None:
    async with running(handler=lambda _: NO_ANSWER, limits=ServerLimits(call_s=0.05)) as cluster:
        client = await cluster.connect()
        await client.send(bytes.fromhex("002e000000000001ffff00" + "0000ea60" + "00" + "00"))
        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {"controller busy": 1}
