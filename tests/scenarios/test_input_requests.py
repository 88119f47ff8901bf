"""Bad requests, by znode and on the wire (``scenarios.md`` section 7): each ends, and the others are served."""

import json
from typing import Final

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderRecoveryState
from controllerd.zk.codecs import (
    encode_isr_change,
    encode_log_dir_event,
    encode_preferred_election,
    encode_reassignments,
)
from events.replicas import AlterPartitionReceived, AlterPartitionReply, ProposedIsr
from events.topics import PartitionModifications
from tests.fakes.world import World, ids, topic_id_of, tp
from tests.scenarios.inputs import alarms, cluster, data, fed, fed_before_the_term, goes_on, reasons
from tests.turns import Turns

REASSIGN: Final = "/admin/reassign_partitions"
ELECT: Final = "/admin/preferred_replica_election"
GARBAGE: Final = [b"", b"{", b"not json", b"[]", b'{"version":1}', b'{"version":1,"partitions":{}}', b"\xff\xfe"]


def moves(*entries: dict[str, object]) -> bytes:
    """The content of the reassignment znode."""
    return json.dumps({"version": 1, "partitions": list(entries)}).encode()


def move(topic: str, partition: int, *replicas: int) -> dict[str, object]:
    """One entry of the reassignment znode."""
    return {"topic": topic, "partition": partition, "replicas": list(replicas)}


# -- reassignments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", GARBAGE)
async def test_input_21_an_unreadable_reassignment_stays_and_stops_no_later_one(content: bytes) -> None:
    world = await fed(REASSIGN, content)
    assert data(world, REASSIGN) == content
    assert REASSIGN in alarms(world)
    world.tree.remove(REASSIGN)
    await world.settle()
    world.tree.put(REASSIGN, encode_reassignments({tp("t"): ids(2, 1)}))
    await world.settle()
    assert world.context.assignment(tp("t")).replicas == ids(2, 1)
    assert REASSIGN not in world.tree.nodes
    await goes_on(world)


@pytest.mark.parametrize("content", GARBAGE)
async def test_input_21_an_unreadable_reassignment_stops_no_new_controller(content: bytes) -> None:
    world = await fed_before_the_term(REASSIGN, content)
    assert data(world, REASSIGN) == content
    await goes_on(world)


BAD_MOVES: Final = {
    "a topic that does not exist": move("gone", 0, 1, 2),
    "a partition that does not exist": move("t", 7, 1, 2),
    "nothing that changes": move("t", 0, 1, 2),
    "a negative broker": move("t", 0, 2, -1),
    "a broker twice": move("t", 0, 2, 2),
    "no brokers": move("t", 0),
    "controllerd": move("t", 0, 2, 2_000_000_000),
    "a negative partition": move("t", -1, 1, 2),
}


@pytest.mark.parametrize("flaw", BAD_MOVES)
async def test_input_22_a_bad_entry_is_refused_and_removed_and_the_others_proceed_kafka_9478(flaw: str) -> None:
    world = await fed(REASSIGN, moves(BAD_MOVES[flaw], move("other", 0, 2, 1)))
    assert REASSIGN not in world.tree.nodes
    assert world.context.assignment(tp("other")).replicas == ids(2, 1)
    assert world.context.assignment(tp("t")).replicas == ids(1, 2)
    assert reasons(world)
    await goes_on(world)


async def test_input_22_a_broker_that_is_not_there_yet_may_come() -> None:
    """Kafka does the same: the entry waits, and its writer may remove it."""
    world = await fed(REASSIGN, moves(move("t", 0, 1, 77), move("other", 0, 2, 1)))
    assert world.context.assignment(tp("t")).adding == ids(77)
    assert json.loads(data(world, REASSIGN) or b"")["partitions"] == [move("t", 0, 1, 77)]
    await goes_on(world)


async def test_input_22_a_topic_that_is_being_deleted_is_not_reassigned() -> None:
    world = await cluster()
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    world.tree.put(REASSIGN, moves(move("t", 0, 2, 3), move("other", 0, 2, 1)))
    await world.settle()
    assert REASSIGN not in world.tree.nodes
    assert "the topic is being deleted" in reasons(world)
    await goes_on(world)


async def test_input_22_an_entry_with_a_field_too_many_costs_the_file() -> None:
    """Kafka does the same: the whole file is refused, so that a misspelt field is not ignored."""
    world = await fed(REASSIGN, moves(move("t", 0, 2, 1) | {"colour": "red"}))
    assert REASSIGN in world.tree.nodes
    assert world.context.assignment(tp("t")).replicas == ids(1, 2)
    await goes_on(world)


async def test_input_23_very_many_entries_leave_turns_to_other_tasks() -> None:
    world = await cluster()
    world.put_topic("wide", {p: [1, 2] for p in range(5_000)})
    await world.settle()
    everything = {tp("gone", p): ids(1, 2) for p in range(95_000)}
    everything |= {tp("wide", p): ids(2, 1) for p in range(5_000)}
    world.tree.put(REASSIGN, encode_reassignments(everything))
    with Turns() as turns:
        await world.settle()
    assert turns.count > 20
    assert REASSIGN not in world.tree.nodes
    assert world.context.assignment(tp("wide", 4_999)).replicas == ids(2, 1)
    await goes_on(world)


# -- elections and deletions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", GARBAGE)
async def test_input_24_an_unreadable_election_is_removed(content: bytes) -> None:
    world = await fed(ELECT, content)
    assert ELECT not in world.tree.nodes
    assert ELECT in alarms(world)
    await goes_on(world)


async def test_input_24_an_election_of_unknown_partitions_ends_and_the_others_are_held() -> None:
    world = await cluster()
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    await grow(world, 2, 1)
    world.tree.put(ELECT, encode_preferred_election([tp("gone"), tp("t", 9), tp("t")]))
    await world.settle()
    assert ELECT not in world.tree.nodes
    assert world.state("t")[0] == 1
    await goes_on(world)


async def test_input_25_a_deletion_of_an_unknown_topic_is_removed() -> None:
    world = await fed("/admin/delete_topics/unknown", b"")
    assert world.tree.children("/admin/delete_topics") == []
    await goes_on(world)


async def test_input_25_a_deletion_that_a_new_controller_finds_without_its_topic_is_removed() -> None:
    world = await fed_before_the_term("/admin/delete_topics/unknown", b"whatever")
    assert world.tree.children("/admin/delete_topics") == []
    await goes_on(world)


NOTES: Final = {
    "/isr_change_notification/isr_change_": encode_isr_change([tp("t")]),
    "/log_dir_event_notification/log_dir_event_": encode_log_dir_event(ids(3)[0]),
}


@pytest.mark.parametrize("folder", NOTES)
async def test_input_26_an_unreadable_notification_is_removed_and_the_others_are_read(folder: str) -> None:
    world = await cluster()
    world.tree.put(f"{folder}0000000001", b"not json")
    world.tree.put(f"{folder}0000000002", b'{"version":99}')
    world.tree.put(f"{folder}0000000003", NOTES[folder])
    await world.settle()
    parent, _, name = folder.rpartition("/")
    assert world.tree.children(parent) == [f"{name}0000000002"]
    assert "0000000001" in alarms(world)
    assert "0000000002" in alarms(world)
    await goes_on(world)


async def test_input_26_an_unreadable_configuration_change_hides_no_other() -> None:
    world = await cluster()
    world.tree.put("/config/changes/config_change_0000000001", b"not json")
    world.tree.put("/config/changes/config_change_0000000002", b'{"version":2,"entity_path":"topics/t"}')
    await world.settle()
    await goes_on(world)


# -- AlterPartition ----------------------------------------------------------------------------------------------------


async def ask(
    world: World, leader: int, *, by_id: bool = False, topic: str = "t", **fields: object
) -> AlterPartitionReply:
    """Let a broker propose an ISR of the partition, by default a valid one."""
    values: dict[str, object] = {"leader_epoch": 0, "partition_epoch": 0, "isr": ids(1), **fields}
    proposed = ProposedIsr(**values)  # type: ignore[arg-type]  # the fields by their names
    names = {} if by_id else {tp(topic): proposed}
    known = {(topic_id_of(topic), 0): proposed} if by_id else {}
    epoch = world.context.epochs()[ids(leader)[0]]
    return await world.call(AlterPartitionReceived(ids(leader)[0], epoch, 3, names, known))


async def grow(world: World, *isr: int) -> None:
    """Let the leader of t propose this ISR, correctly."""
    state = world.context.leadership(tp("t"))
    assert state is not None
    reply = await ask(
        world,
        state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=ids(*isr),
    )
    assert not isinstance(reply.partitions[tp("t")], KafkaError)


@pytest.mark.parametrize(
    ("leader", "fields", "error"),
    [
        (1, {"isr": ()}, KafkaError.INVALID_REQUEST),
        (1, {"isr": ids(2)}, KafkaError.INVALID_REQUEST),
        (1, {"isr": ids(1, 3)}, KafkaError.INVALID_REQUEST),
        (1, {"isr": ids(1, 1)}, KafkaError.INVALID_REQUEST),
        (1, {"isr": ids(1, 77)}, KafkaError.INELIGIBLE_REPLICA),
        (2, {"isr": ids(2)}, KafkaError.INVALID_REQUEST),
        (2, {"isr": ids(1)}, KafkaError.INVALID_REQUEST),
        (3, {"isr": ids(3)}, KafkaError.INVALID_REQUEST),
        (1, {"recovery_state": LeaderRecoveryState.RECOVERING}, KafkaError.INVALID_REQUEST),
        (1, {"leader_epoch": -1}, KafkaError.FENCED_LEADER_EPOCH),
        (1, {"partition_epoch": -1}, KafkaError.INVALID_UPDATE_VERSION),
        (1, {"topic": "gone"}, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_input_30_a_bad_isr_is_refused_and_nothing_is_written_history_61(
    leader: int, fields: dict[str, object], error: KafkaError
) -> None:
    world = await cluster()
    reply = await ask(world, leader, **fields)  # type: ignore[arg-type]  # the fields by their names
    assert list(reply.partitions.values()) == [error]
    assert world.zk.transactions == []
    await goes_on(world)


async def test_input_30_an_unknown_id_is_answered_as_unknown() -> None:
    world = await cluster()
    reply = await ask(world, 1, by_id=True, topic="gone")
    assert reply.unknown_ids == {topic_id_of("gone"): (0,)}
    assert world.zk.transactions == []
    await goes_on(world)


async def test_input_30_a_bad_partition_beside_a_good_one_does_it_no_harm() -> None:
    world = await cluster()
    good, bad = ProposedIsr(0, 0, ids(1)), ProposedIsr(0, 0, ())
    epoch = world.context.epochs()[ids(1)[0]]
    reply = await world.call(AlterPartitionReceived(ids(1)[0], epoch, 1, {tp("t"): bad, tp("other"): good}, {}))
    assert reply.partitions[tp("t")] is KafkaError.INVALID_REQUEST
    assert world.state("other")[2] == [1]
    assert world.state("t")[2] == [1, 2]


# -- very many events at once ------------------------------------------------------------------------------------------


async def test_input_45_watches_that_fire_again_and_again_wait_in_the_queue_once() -> None:
    world = await cluster()
    for _ in range(50_000):
        world.queue.put(PartitionModifications("t"))
    assert len(world.queue) == 1
    await goes_on(world)


async def test_input_45_the_age_of_what_waits_longest_can_be_seen() -> None:
    world = await cluster()
    world.queue.put(PartitionModifications("t"))
    world.clock.now += 7
    world.queue.put(PartitionModifications("other"))
    assert (len(world.queue), world.queue.oldest_age_s()) == (2, 7)
    await goes_on(world)


async def test_input_45_many_topics_at_once_are_all_looked_at() -> None:
    world = await cluster()
    for number in range(300):
        world.put_topic(f"n{number}", {0: [1, 2]})
    await world.settle()
    for number in range(300):
        world.put_topic(f"n{number}", {0: [1, 2], 1: [2, 1]})
    assert len(world.queue) <= 301
    await world.settle()
    assert all(world.state(f"n{number}", 1)[0] == 2 for number in range(300))
    await goes_on(world)
