"""Group F: leaders change their ISR by AlterPartition, over a real socket, in every version of it."""

import base64
import struct
from typing import Any
from uuid import UUID

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderRecoveryState
from controllerd.core.protocol_versions import features_of
from tests.api.cluster import Client, new_request
from tests.fakes.world import World, ids, topic_id_of, tp
from tests.scenarios.worlds import served, world_of
from wire.framing import encode_frame
from wire.kio_codec import encode_request

ALTER_PARTITION = 56
RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING
VERSIONS = [0, 1, 2, 3]


def uuid_of(topic: str) -> UUID:
    """The id of a topic as kio has it."""
    return UUID(bytes=base64.urlsafe_b64decode(topic_id_of(topic) + "=="))


def request(
    world: World,
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    broker: int = 1,
    topic: str = "t",
    partition: int = 0,
    leader_epoch: int = 0,
    partition_epoch: int = 1,
    recovery: int = RECOVERED,
    broker_epoch: int | None = None,
) -> dict[str, object]:
    """The proposal of the leader of t-0, as brokers of every version write it."""
    row = {
        "partition_index": partition,
        "leader_epoch": leader_epoch,
        "new_isr": isr,
        "new_isr_with_epochs": [{"broker_id": member} for member in isr],
        "leader_recovery_state": int(recovery),
        "partition_epoch": partition_epoch,
    }
    epoch = world.context.epochs().get(ids(broker)[0], 7) if broker_epoch is None else broker_epoch
    return {
        "broker_id": broker,
        "broker_epoch": epoch,
        "topics": [{"topic_name": topic, "topic_id": uuid_of(topic), "partitions": [row]}],
    }


async def ask(client: Client, version: int, values: dict[str, object]) -> Any:
    """Send AlterPartition and return the answer."""
    return await client.ask(ALTER_PARTITION, version, **values)


async def outcome(client: Client, world: World, version: int = 3, **fields: Any) -> KafkaError:
    """The error of the one partition, if the request as a whole had none."""
    entity = await ask(client, version, request(world, **fields))
    assert entity.error_code == KafkaError.NONE
    return KafkaError(entity.topics[0].partitions[0].error_code)


async def with_small_isr(version: str = "3.9") -> World:
    """t-0 on 1, 2, 3, led by 1 at leader epoch 0, ISR [1, 2], partition epoch 1; all three brokers are live."""
    world = await world_of(1, 2, 3, features=features_of(version))
    # The topic has an id even where the protocol version gives none, as after a downgrade.
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    world.tree.put("/brokers/topics/t/partitions/0/state", state)
    note = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    world.tree.put("/isr_change_notification/isr_change_0000000000", note)
    await world.settle()
    world.forget()
    return world


async def with_unclean_leader() -> World:
    """t-0 on 1, 2, led uncleanly by 2 at leader epoch 2, ISR [2], recovering, partition epoch 3; 1 is back."""
    world = await world_of(1, 2)
    world.put_topic("t", {0: [1, 2]})
    world.tree.put("/config/topics/t", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    await world.settle()
    for step in (world.die, world.register):
        step(2)
        await world.settle()
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    leadership = world.context.leadership(tp("t"))
    assert leadership is not None
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (2, 2, ids(2))
    assert leadership.recovery_state is RECOVERING
    world.forget()
    return world


@pytest.mark.parametrize("protocol", ["2.7", "3.9"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_f1_every_version_echoes_what_holds_now(version: int, protocol: str) -> None:
    world = await with_small_isr(protocol)
    async with served(world) as client:
        entity = await ask(client, version, request(world))

    (topic,) = entity.topics
    (row,) = topic.partitions
    assert (topic.topic_name if version < 2 else topic.topic_id) == ("t" if version < 2 else uuid_of("t"))
    assert (row.error_code, row.partition_index, row.leader_id, row.leader_epoch) == (KafkaError.NONE, 0, 1, 0)
    assert (row.isr, row.partition_epoch) == ((1, 2, 3), 2)
    assert getattr(row, "leader_recovery_state", RECOVERED) == RECOVERED
    assert world.state("t") == (1, 0, [1, 2, 3], 2)


async def test_f2_a_topic_is_found_by_its_id_at_protocol_2_7() -> None:
    world = await with_small_isr("2.7")
    async with served(world) as client:
        assert await outcome(client, world, version=2) is KafkaError.NONE


@pytest.mark.parametrize("partition_epoch", [1, 2])
async def test_f3_a_repeated_request_succeeds_and_moves_the_partition_epoch_once_kafka_14144(
    partition_epoch: int,
) -> None:
    """The first answer was lost: the leader repeats its request with the old partition epoch, or with the new one."""
    world = await with_small_isr()
    async with served(world) as client:
        await ask(client, 3, request(world))

        entity = await ask(client, 3, request(world, partition_epoch=partition_epoch))

    (row,) = entity.topics[0].partitions
    assert (row.error_code, row.isr, row.partition_epoch) == (KafkaError.NONE, (1, 2, 3), 2)
    assert world.state("t") == (1, 0, [1, 2, 3], 2)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrong_epoch", [{"broker_epoch": 1}, {"broker": 9}])
async def test_f4_a_wrong_broker_epoch_is_stale_at_the_top(wrong_epoch: dict[str, Any], version: int) -> None:
    world = await with_small_isr()
    async with served(world) as client:
        entity = await ask(client, version, request(world, **wrong_epoch))

    assert (entity.error_code, entity.topics) == (KafkaError.STALE_BROKER_EPOCH, ())
    assert world.zk.writes == []


@pytest.mark.parametrize(
    ("version", "where", "error"),
    [
        (3, {"topic": "nobody"}, KafkaError.UNKNOWN_TOPIC_ID),
        (2, {"topic": "nobody"}, KafkaError.UNKNOWN_TOPIC_ID),
        (1, {"topic": "nobody"}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"topic": "nobody"}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (3, {"partition": 7}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"partition": 7}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_f5_an_unknown_topic_or_broker_is_named_so(
    version: int, where: dict[str, Any], error: KafkaError
) -> None:
    world = await with_small_isr()
    async with served(world) as client:
        assert await outcome(client, world, version, **where) is error

    assert world.zk.writes == []


@pytest.mark.parametrize(
    ("epochs", "error"),
    [
        ({"partition_epoch": 0}, KafkaError.INVALID_UPDATE_VERSION),
        ({"partition_epoch": 2}, KafkaError.NOT_CONTROLLER),
        ({"leader_epoch": -1}, KafkaError.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 1}, KafkaError.NOT_CONTROLLER),
    ],
)
async def test_f6_a_wrong_epoch_shows_which_side_is_behind_kafka_14154(
    epochs: dict[str, int], error: KafkaError
) -> None:
    world = await with_small_isr()
    async with served(world) as client:
        assert await outcome(client, world, **epochs) is error

    if error is not KafkaError.INVALID_UPDATE_VERSION:  # that leader is given a newer epoch, or it would be stuck
        assert world.zk.writes == []


@pytest.mark.parametrize(
    ("epochs", "error"),
    [
        ({}, KafkaError.INVALID_REQUEST),
        ({"leader_epoch": -1}, KafkaError.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 2}, KafkaError.NOT_CONTROLLER),
        ({"partition_epoch": 0}, KafkaError.INVALID_UPDATE_VERSION),
    ],
)
async def test_f7_a_recovered_leader_does_not_recover_again_and_epochs_come_first(
    epochs: dict[str, int], error: KafkaError
) -> None:
    world = await with_small_isr()
    async with served(world) as client:
        assert await outcome(client, world, isr=(1,), recovery=RECOVERING, **epochs) is error


async def test_f7_a_recovering_leader_is_alone_in_its_isr() -> None:
    world = await with_unclean_leader()
    async with served(world) as client:
        fields = {"broker": 2, "leader_epoch": 2, "partition_epoch": world.state("t")[3]}
        assert await outcome(client, world, isr=(2, 1), recovery=RECOVERING, **fields) is KafkaError.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_f8_a_recovery_state_that_there_is_not_fails_the_request_and_nothing_else(version: int) -> None:
    world = await with_small_isr()
    async with served(world) as client:
        frame = encode_request(9, "test", new_request(ALTER_PARTITION, version, request(world, recovery=25)))
        client.writer.write(encode_frame(frame))
        answer = await client.receive()

        assert answer is not None
        assert struct.unpack(">h", answer[9:11]) == (KafkaError.UNKNOWN_SERVER_ERROR,)
        assert await outcome(client, world) is KafkaError.NONE


@pytest.mark.parametrize(
    ("version", "fields", "error"),
    [
        (3, {"topic": "nobody"}, KafkaError.UNKNOWN_TOPIC_ID),
        (1, {"topic": "nobody"}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (3, {"partition": 7}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (3, {"epoch": -1}, KafkaError.INVALID_UPDATE_VERSION),
        (3, {"epoch": 1}, KafkaError.NOT_CONTROLLER),
        (3, {"leader_epoch": 1}, KafkaError.FENCED_LEADER_EPOCH),
        (3, {"leader_epoch": 3}, KafkaError.NOT_CONTROLLER),
        (3, {"recovery": RECOVERING}, KafkaError.INVALID_REQUEST),
        (3, {"recovery": RECOVERING, "leader_epoch": 1}, KafkaError.FENCED_LEADER_EPOCH),
        (3, {"recovery": RECOVERING, "epoch": 1}, KafkaError.NOT_CONTROLLER),
        (3, {"recovery": RECOVERING, "epoch": -1}, KafkaError.INVALID_UPDATE_VERSION),
        (3, {"isr": (2, 9)}, KafkaError.INELIGIBLE_REPLICA),
        (1, {"isr": (2, 9)}, KafkaError.OPERATION_NOT_ATTEMPTED),
    ],
)
async def test_f9_errors_are_the_same_while_the_leader_recovers(
    version: int, fields: dict[str, Any], error: KafkaError
) -> None:
    world = await with_unclean_leader()
    epoch = world.state("t")[3] + fields.pop("epoch", 0)
    usual: dict[str, Any] = {"broker": 2, "leader_epoch": 2, "partition_epoch": epoch, "isr": (2, 1)}
    async with served(world) as client:
        assert await outcome(client, world, version, **usual | fields) is error


async def test_f9_a_recovered_leader_takes_its_followers_in_again() -> None:
    world = await with_unclean_leader()
    async with served(world) as client:
        epoch = world.state("t")[3]
        fields: dict[str, Any] = {"broker": 2, "leader_epoch": 2, "partition_epoch": epoch, "isr": (2, 1)}
        assert await outcome(client, world, **fields) is KafkaError.NONE

    leadership = world.context.leadership(tp("t"))
    assert leadership is not None
    assert (leadership.isr, leadership.recovery_state) == (ids(2, 1), RECOVERED)
