"""Bad topic znodes and bad assignments (``scenarios.md`` section 7): one topic is left alone, the others are served."""

import json
from typing import Final

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import PartitionState
from events.reassignments import ApiPartitionReassignment
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, topic_id_of, tp
from tests.scenarios.inputs import (
    STATE,
    TOPIC,
    alarms,
    cluster,
    data,
    fed,
    fed_before_the_term,
    fields,
    goes_on,
    reasons,
    successor,
)

BROKEN: Final = [b"", b"{", b'{"version":3,"part', b"not json", b"null", b"[]", b"7"]
SHAPELESS: Final = [b"{}", b'{"version":3}', b'{"partitions":[]}', b'{"partitions":{"0":"x"}}', b'{"partitions":null}']


def znode(partitions: str, more: str = "", *, version: int = 3) -> bytes:
    """A topic znode with these partitions."""
    return f'{{"version":{version},"partitions":{partitions}{more}}}'.encode()


@pytest.mark.parametrize("content", BROKEN)
async def test_input_1_a_topic_that_is_no_json_is_left_alone(content: bytes) -> None:
    world = await fed("/brokers/topics/bad", content)
    assert data(world, "/brokers/topics/bad") == content
    assert "/brokers/topics/bad" in world.snapshot.quarantine
    await goes_on(world)


@pytest.mark.parametrize("content", BROKEN)
async def test_input_1_a_known_topic_that_turns_bad_keeps_its_last_known_state_history_58(content: bytes) -> None:
    world = await fed(TOPIC, content)
    world.die(1)
    await world.settle()
    assert data(world, TOPIC) == content
    assert world.state("t")[0] == 2
    await goes_on(world)


@pytest.mark.parametrize("content", BROKEN)
async def test_input_1_a_bad_topic_that_a_new_controller_finds_is_not_overwritten_history_58(content: bytes) -> None:
    world = await fed_before_the_term(TOPIC, content)
    assert data(world, TOPIC) == content
    assert TOPIC in world.snapshot.quarantine
    await goes_on(world)


async def test_input_1_a_topic_that_is_mended_is_served_again() -> None:
    world = await fed_before_the_term(TOPIC, b"{")
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    assert world.snapshot.quarantine == {}
    assert world.context.leadership(tp("t")) is not None
    await goes_on(world)


@pytest.mark.parametrize("content", SHAPELESS)
async def test_input_2_a_topic_without_partitions_is_left_alone(content: bytes) -> None:
    world = await fed("/brokers/topics/bad", content)
    assert data(world, "/brokers/topics/bad") == content
    assert "/brokers/topics/bad" in world.snapshot.quarantine
    await goes_on(world)


@pytest.mark.parametrize("content", SHAPELESS)
async def test_input_2_a_known_topic_that_loses_its_partitions_keeps_them_for_us(content: bytes) -> None:
    world = await fed(TOPIC, content)
    assert data(world, TOPIC) == content
    assert world.context.assignment(tp("t")).replicas == ids(1, 2)
    await goes_on(world)


async def test_input_3_a_topic_of_a_newer_format_is_served_and_never_written() -> None:
    content = znode('{"0":[1,2]}', version=99)
    world = await fed("/brokers/topics/new", content)
    assert world.state("new")[0] == 1
    assert data(world, "/brokers/topics/new") == content
    assert "newer" in alarms(world)
    await goes_on(world)


async def test_input_3_a_topic_of_a_newer_format_is_not_reassigned() -> None:
    content = znode('{"0":[1,2]}', f',"topic_id":"{topic_id_of("new")}"', version=99)
    world = await fed("/brokers/topics/new", content)
    answer = await world.call(ApiPartitionReassignment(ALICE, {tp("new"): ids(2, 3), tp("other"): ids(2, 3)}))
    assert answer == {tp("new"): KafkaError.UNKNOWN_SERVER_ERROR, tp("other"): KafkaError.NONE}
    assert data(world, "/brokers/topics/new") == content
    world.tree.put("/admin/reassign_partitions", b'{"version":1,"partitions":[]}')
    await world.settle()
    assert world.c.is_active


async def test_input_4_unknown_fields_survive_every_rewrite() -> None:
    world = await cluster()
    extra = {"colour": "red", "nested": {"a": [1, None]}}
    world.tree.put(TOPIC, json.dumps(fields(world, TOPIC) | extra).encode())
    world.tree.put(STATE, json.dumps(fields(world, STATE) | extra).encode())
    await world.settle()
    await world.call(ApiPartitionReassignment(ALICE, {tp("t"): ids(2, 3)}))
    world.die(1)
    await world.settle()
    assert world.state("t")[1] > 0
    for path in (TOPIC, STATE):
        assert fields(world, path).items() >= extra.items(), path


@pytest.mark.parametrize("key", ["x", "-1", "2147483648", "01", "1.0", "", " 1"])
async def test_input_5_a_topic_with_a_partition_that_is_no_number_is_left_alone(key: str) -> None:
    content = znode(f'{{"0":[1,2],"{key}":[1,2]}}')
    world = await fed("/brokers/topics/bad", content)
    assert data(world, "/brokers/topics/bad") == content
    assert "/brokers/topics/bad" in world.snapshot.quarantine
    await goes_on(world)


async def test_input_5_a_gap_between_partitions_is_allowed() -> None:
    world = await fed("/brokers/topics/gap", znode('{"0":[1,2],"2":[2,1]}'))
    assert (world.state("gap", 0)[0], world.state("gap", 2)[0]) == (1, 2)
    await goes_on(world)


async def test_input_6_a_broker_twice_costs_that_partition_alone() -> None:
    world = await fed("/brokers/topics/twice", znode('{"0":[1,2],"1":[1,1]}'))
    assert world.state("twice", 0)[0] == 1
    assert tp("twice", 1) not in world.context
    assert "/brokers/topics/twice/partitions/1" in world.snapshot.quarantine
    await goes_on(world)


async def test_input_6_a_request_that_names_a_broker_twice_is_refused() -> None:
    world = await cluster()
    answer = await world.call(ApiPartitionReassignment(ALICE, {tp("t"): ids(2, 2), tp("other"): ids(2, 1)}))
    assert answer == {tp("t"): KafkaError.INVALID_REPLICA_ASSIGNMENT, tp("other"): KafkaError.NONE}
    await goes_on(world)


async def test_input_7_a_partition_without_replicas_stays_new() -> None:
    world = await fed("/brokers/topics/none", znode('{"0":[],"1":[1,2]}'))
    assert world.context.partition_state(tp("none")) is PartitionState.NEW
    assert world.state("none", 1)[0] == 1
    assert "no assigned replica is live" in reasons(world)
    await goes_on(world)


async def test_input_8_unknown_brokers_are_offline_replicas() -> None:
    world = await fed("/brokers/topics/far", znode('{"0":[77,1,2]}'))
    assert world.state("far")[:3] == (1, 0, [1, 2])
    assert world.brief(3)[-1] == "UpdateMetadata(far-0 1/0 [1, 2] offline [77])"
    await goes_on(world)


async def test_input_9_a_reassignment_that_names_unassigned_brokers_is_left_alone_and_its_partition_served() -> None:
    content = znode('{"0":[1,2]}', f',"adding_replicas":{{"0":[3]}},"topic_id":"{topic_id_of("odd")}"')
    world = await fed("/brokers/topics/odd", content)
    assert world.state("odd")[0] == 1
    assert data(world, "/brokers/topics/odd") == content
    assert "/brokers/topics/odd/partitions/0" in world.snapshot.quarantine
    await goes_on(world)
    assert world.state("odd")[0] == 2


@pytest.mark.parametrize("topic_id", ["short", "AAAAAAAAAAAAAAAAAAAAAA", "!" * 22, ""])
async def test_input_10_a_topic_whose_id_is_none_is_left_alone(topic_id: str) -> None:
    content = znode('{"0":[1,2]}', f',"topic_id":"{topic_id}"')
    world = await fed("/brokers/topics/bad", content)
    assert data(world, "/brokers/topics/bad") == content
    assert "/brokers/topics/bad" in world.snapshot.quarantine
    await goes_on(world)


async def test_input_10_of_two_topics_with_one_id_the_younger_is_left_alone() -> None:
    content = znode('{"0":[1,2]}', f',"topic_id":"{topic_id_of("t")}"')
    world = await fed("/brokers/topics/twin", content)
    assert data(world, "/brokers/topics/twin") == content
    assert "/brokers/topics/twin" in world.snapshot.quarantine
    assert world.context.topic_names[topic_id_of("t")] == "t"
    await goes_on(world)


@pytest.mark.parametrize("name", ["a b", "ü", "a" * 250, "x:y", "a,b"])
async def test_input_27_a_topic_whose_name_is_illegal_is_left_alone(name: str) -> None:
    path = f"/brokers/topics/{name}"
    world = await fed(path, znode('{"0":[1,2]}'))
    assert path in world.snapshot.quarantine
    assert f"{path}/partitions" not in world.tree.nodes
    await goes_on(world)


async def test_input_27_kafkas_own_topics_are_served_as_any_other() -> None:
    world = await fed("/brokers/topics/__consumer_offsets", znode('{"0":[1,2]}'))
    assert world.state("__consumer_offsets")[0] == 1
    await goes_on(world)


@pytest.mark.parametrize("path", [TOPIC, STATE, "/config/topics/t", "/admin/reassign_partitions", "/brokers/ids/3"])
async def test_input_27_bytes_that_are_no_utf8_are_left_as_they_are(path: str) -> None:
    content = b'{"version":1,"\xff\xfe":"\xe9"}'
    world = await fed(path, content)
    other = await successor(world)
    assert data(other, path) == content
    await goes_on(other)


async def test_input_28_a_write_too_large_for_one_request_fails_alone() -> None:
    world = await fed("/brokers/topics/huge", znode('{"0":[1,2]}', f',"note":"{"x" * 1_000_000}"'))
    assert "topic_id" not in fields(world, "/brokers/topics/huge")
    assert "more than ZooKeeper accepts" in alarms(world)
    assert world.state("huge")[0] == 1
    await goes_on(world)


async def test_input_28_many_states_are_written_in_transactions_that_fit() -> None:
    world = await cluster()
    world.put_topic("wide", {p: [1, 2] for p in range(3_000)})
    await world.settle()
    assert max(len(transaction) for transaction in world.zk.transactions) <= 501
    assert world.state("wide", 2_999)[0] == 1
    await goes_on(world)


@pytest.mark.parametrize("path", [TOPIC, STATE, "/config/topics/t"])
async def test_input_29_a_znode_that_we_may_not_read_is_left_alone(path: str) -> None:
    world = await cluster()
    world.tree.put("/config/topics/t", b"")
    world.zk.expire()
    other = World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1)
    other.zk.forbidden.add(path)
    await other.start()
    assert other.c.is_active
    await goes_on(other)


@pytest.mark.parametrize("path", [TOPIC, STATE])
async def test_input_29_a_znode_that_we_may_not_write_fails_alone(path: str) -> None:
    world = await cluster()
    world.zk.read_only.add(path)
    before = data(world, path)
    await world.call(ApiPartitionReassignment(ALICE, {tp("t"): ids(2, 3)}))
    world.die(1)
    await world.settle()
    assert data(world, path) == before
    world.register(1)
    await world.settle()
    await goes_on(world)
