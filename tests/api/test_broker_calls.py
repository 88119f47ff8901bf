"""Requests of brokers: the event that each request becomes, and the answer that each reply becomes."""

import asyncio

import pytest

from controllerd.api.server_settings import ServerLimits
from controllerd.api.sessions import AclOperation, Principal
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controllerd.errors import CallFailed, NotController
from controllerd.views import Role
from events.admin import AllocateProducerIds, ControlledShutdown, ControlledShutdownReply, ProducerIdBlock
from events.replicas import AlterPartitionReceived, AlterPartitionReply, ProposedIsr
from tests.api.cluster import NO_ANSWER, TOPIC_ID, TOPIC_UUID, new_snapshot, running, until

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
STATE = LeaderAndIsr(BrokerId(1), 5, (BrokerId(1), BrokerId(2)), 3, 10, LeaderRecoveryState.RECOVERED)


def proposal(index: int = 0, **more: object) -> dict[str, object]:
    row: dict[str, object] = {"partition_index": index, "leader_epoch": 5, "partition_epoch": 9}
    return {**row, "new_isr": (1, 2), "new_isr_with_epochs": [{"broker_id": 1}, {"broker_id": 2}], **more}


def topics(*rows: dict[str, object]) -> list[dict[str, object]]:
    return [{"topic_name": "orders", "topic_id": TOPIC_UUID, "partitions": rows or (proposal(),)}]


class DenyAll:
    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return False


@pytest.mark.parametrize("version", [0, 1])
async def test_alter_partition_by_name_becomes_an_event_by_name(version: int) -> None:
    async with running(handler=lambda _: AlterPartitionReply(KafkaError.NONE, {ORDERS_0: STATE}, {})) as cluster:
        client = await cluster.connect()
        await client.ask(56, version, broker_id=1, broker_epoch=101, topics=topics())
        proposed = ProposedIsr(5, 9, (BrokerId(1), BrokerId(2)))
        assert cluster.events == [AlterPartitionReceived(BrokerId(1), 101, version, {ORDERS_0: proposed}, {})]


@pytest.mark.parametrize("version", [2, 3])
async def test_alter_partition_by_id_becomes_an_event_by_id(version: int) -> None:
    async with running(handler=lambda _: AlterPartitionReply(KafkaError.NONE, {ORDERS_0: STATE}, {})) as cluster:
        client = await cluster.connect()
        await client.ask(56, version, broker_id=1, broker_epoch=101, topics=topics())
        proposed = ProposedIsr(5, 9, (BrokerId(1), BrokerId(2)))
        assert cluster.events == [AlterPartitionReceived(BrokerId(1), 101, version, {}, {(TOPIC_ID, 0): proposed})]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_each_partition_gets_its_state_or_its_error(version: int) -> None:
    outcomes: dict[TopicPartition, LeaderAndIsr | KafkaError] = {
        ORDERS_0: STATE,
        ORDERS_1: KafkaError.FENCED_LEADER_EPOCH,
    }
    async with running(handler=lambda _: AlterPartitionReply(KafkaError.NONE, outcomes, {})) as cluster:
        client = await cluster.connect()

        entity = await client.ask(56, version, topics=topics(proposal(0), proposal(1)))

        changed, refused = entity.topics[0].partitions
        assert (changed.leader_id, changed.leader_epoch, changed.isr, changed.partition_epoch) == (1, 5, (1, 2), 10)
        assert (refused.partition_index, refused.error_code) == (1, KafkaError.FENCED_LEADER_EPOCH)


@pytest.mark.parametrize("error", [KafkaError.UNKNOWN_TOPIC_ID, KafkaError.UNKNOWN_SERVER_ERROR])
async def test_an_unknown_topic_id_is_echoed_with_its_error(error: KafkaError) -> None:
    snapshot = new_snapshot()
    snapshot.names_by_id.clear()
    reply = AlterPartitionReply(KafkaError.NONE, {}, {TOPIC_ID: (0,)}, error)
    async with running(snapshot, lambda _: reply) as cluster:
        client = await cluster.connect()
        entity = await client.ask(56, 3, topics=topics())
        assert entity.topics[0].topic_id == TOPIC_UUID
        assert entity.topics[0].partitions[0].error_code == error


async def test_a_partition_that_is_named_twice_is_refused_before_the_queue() -> None:
    async with running() as cluster:
        client = await cluster.connect()
        entity = await client.ask(56, 3, topics=topics(proposal(0), proposal(0)))
        assert (entity.error_code, cluster.events) == (KafkaError.INVALID_REQUEST, [])


@pytest.mark.parametrize("role", [Role.STARTING, Role.STANDBY, Role.STOPPING])
async def test_an_instance_that_is_not_active_answers_not_controller_without_an_event(role: Role) -> None:
    async with running(new_snapshot(role)) as cluster:
        client = await cluster.connect()
        altered = await client.ask(56, 3, topics=topics())
        ids = await client.ask(67, 0)
        stopped = await client.ask(7, 3)

        assert (altered.error_code, ids.error_code) == (KafkaError.NOT_CONTROLLER, KafkaError.NOT_CONTROLLER)
        assert stopped.error_code == KafkaError.STALE_CONTROLLER_EPOCH
        assert cluster.events == []


async def test_a_preempted_call_is_answered_as_by_a_deposed_controller() -> None:
    async with running(handler=lambda _: NotController("deposed")) as cluster:
        client = await cluster.connect()
        assert (await client.ask(56, 2, topics=topics())).error_code == KafkaError.NOT_CONTROLLER
        assert (await client.ask(67, 0)).error_code == KafkaError.NOT_CONTROLLER
        assert (await client.ask(7, 1)).error_code == KafkaError.STALE_CONTROLLER_EPOCH


async def test_a_failed_call_is_an_unknown_server_error() -> None:
    async with running(handler=lambda _: CallFailed("a defect")) as cluster:
        client = await cluster.connect()
        for api_key, version in ((56, 3), (67, 0), (7, 3)):
            assert (await client.ask(api_key, version)).error_code == KafkaError.UNKNOWN_SERVER_ERROR


async def test_an_unexpected_failure_closes_the_connection() -> None:
    async with running(handler=lambda _: RuntimeError("a defect of ours")) as cluster:
        client = await cluster.connect()
        other = await cluster.connect()
        await client.send(bytes.fromhex("0043000000000001ffff0000000001000000000000000100"))

        assert await client.receive() is None
        await until(lambda: cluster.server.stats().hang_ups == {"internal error": 1})
        assert (await other.ask(18, 3)).error_code == KafkaError.NONE


async def test_a_call_that_takes_too_long_closes_the_connection() -> None:
    async with running(handler=lambda _: NO_ANSWER, limits=ServerLimits(call_s=0.05)) as cluster:
        client = await cluster.connect()
        await client.send(bytes.fromhex("0043000000000001ffff0000000001000000000000000100"))
        assert await client.receive() is None
        assert cluster.server.stats().hang_ups == {"controller busy": 1}


async def test_a_block_of_producer_ids_is_handed_to_the_broker() -> None:
    async with running(handler=lambda _: ProducerIdBlock(KafkaError.NONE, 7000, 1000)) as cluster:
        client = await cluster.connect()
        entity = await client.ask(67, 0, broker_id=2, broker_epoch=102)
        assert (entity.producer_id_start, entity.producer_id_len) == (7000, 1000)
        assert cluster.events == [AllocateProducerIds(BrokerId(2), 102)]


@pytest.mark.parametrize(("version", "epoch"), [(0, -1), (1, -1), (2, 102), (3, 102)])
async def test_a_controlled_shutdown_answers_with_the_remaining_leaderships(version: int, epoch: int) -> None:
    reply = ControlledShutdownReply(KafkaError.NONE, frozenset({ORDERS_1}))
    async with running(handler=lambda _: reply) as cluster:
        client = await cluster.connect()

        entity = await client.ask(7, version, broker_id=2, broker_epoch=102)

        assert [(r.topic_name, r.partition_index) for r in entity.remaining_partitions] == [("orders", 1)]
        assert cluster.events == [ControlledShutdown(BrokerId(2), epoch)]


async def test_an_unauthorized_request_is_refused_without_an_event() -> None:
    async with running(authorizer=DenyAll()) as cluster:
        client = await cluster.connect()
        for api_key, version in ((56, 3), (67, 0), (7, 3)):
            entity = await client.ask(api_key, version)
            assert entity.error_code == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        assert cluster.events == []


async def test_tagged_fields_of_an_isr_member_are_skipped() -> None:
    member, other = "00000001ffffffffffffffff", "00000002ffffffffffffffff"
    row = "000000000000000503" + member + "010502abcd" + other + "00000000000900"
    body = "00000001000000000000006502" + TOPIC_UUID.hex + "02" + row + "0000"
    async with running(handler=lambda _: AlterPartitionReply(KafkaError.NONE, {ORDERS_0: STATE}, {})) as cluster:
        client = await cluster.connect()

        await client.send(bytes.fromhex("0038000300000001ffff00" + body))

        assert await client.receive() is not None
        proposed = ProposedIsr(5, 9, (BrokerId(1), BrokerId(2)))
        assert cluster.events == [AlterPartitionReceived(BrokerId(1), 101, 3, {}, {(TOPIC_ID, 0): proposed})]


async def test_a_partition_without_outcome_is_left_out_so_that_the_broker_retries() -> None:
    async with running(handler=lambda _: AlterPartitionReply(KafkaError.NONE, {ORDERS_1: STATE}, {})) as cluster:
        client = await cluster.connect()
        entity = await client.ask(56, 3, topics=topics(proposal(0), proposal(1)))
        assert [row.partition_index for row in entity.topics[0].partitions] == [1]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_partition_that_the_leader_must_retry_is_left_out_of_the_answer(version: int) -> None:
    async with running(handler=lambda _: AlterPartitionReply(KafkaError.NONE, {ORDERS_1: STATE}, {})) as cluster:
        client = await cluster.connect()

        entity = await client.ask(56, version, topics=topics(proposal(0), proposal(1)))

        assert entity.error_code == KafkaError.NONE
        assert [row.partition_index for topic in entity.topics for row in topic.partitions] == [1]


@pytest.mark.parametrize("outcomes", [{}, {ORDERS_0: KafkaError.UNKNOWN_SERVER_ERROR}])
async def test_an_answer_that_makes_the_leader_retry_at_once_is_delayed(
    outcomes: dict[TopicPartition, LeaderAndIsr | KafkaError],
) -> None:
    assert await seconds_until_answered(AlterPartitionReply(KafkaError.NONE, outcomes, {})) >= 0.1


async def test_an_answer_that_refuses_by_a_write_is_delayed() -> None:
    """The leader returns to the committed ISR and repeats its proposal with the next fetch, which costs a write."""
    reply = AlterPartitionReply(KafkaError.NONE, {ORDERS_0: STATE}, {}, costs_writes=True)

    assert await seconds_until_answered(reply) >= 0.1


async def seconds_until_answered(reply: AlterPartitionReply) -> float:
    async with running(handler=lambda _: reply) as cluster:
        client = await cluster.connect()
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        await client.ask(56, 3, topics=topics(proposal(0)))
        return loop.time() - asked_at
