"""Admin clients delete topics: the marker, the deletion that begins at once, refusals and quotas."""

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.mutation_quota import QuotaEntity
from controllerd.errors import NotController
from events.admin import DeleteTopics, MutationReply, Requester
from events.reassignments import ApiPartitionReassignment
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, topic_id_of, tp

MARKER = "/admin/delete_topics/t"
UNKNOWN = Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
THROTTLED = Refusal(KafkaError.THROTTLING_QUOTA_EXCEEDED)


def delete(*topics: str, version: int = 6) -> DeleteTopics:
    return DeleteTopics(Requester("User:alice", "alice", "app", version, "127.0.0.1"), topics)


def refusals(reply: MutationReply) -> dict[str, Refusal | None]:
    return {topic: outcome.refusal for topic, outcome in reply.outcomes.items()}


@pytest.fixture
async def full(world: World) -> World:
    """A world with two topics."""
    world.put_topic("t", {0: [1, 2], 1: [2, 3]})
    world.put_topic("u", {0: [1]})
    await world.settle()
    world.forget()
    return world


async def test_the_deletion_has_begun_when_the_reply_comes(full: World) -> None:
    reply = full.queue.call(delete("t"))

    await full.loop.handle(await full.queue.take())

    assert refusals(await reply) == {"t": None}
    assert full.context.deletions.started == {"t"}
    assert "StopReplica(t-0 -2; t-1 -2)" in full.brief(2)


async def test_the_reply_has_the_id_of_the_topic(full: World) -> None:
    reply = await full.call(delete("t"))

    assert reply.outcomes["t"].topic_id == topic_id_of("t")


async def test_the_marker_is_written_as_kafka_writes_it(full: World) -> None:
    await full.call(delete("t"))

    write = full.zk.writes[0]
    assert (write.op, write.path, write.data) == ("create", MARKER, None)
    assert full.zk.transactions[0][0].path == "/controller_epoch"


@pytest.mark.parametrize("data", [None, b""])
async def test_a_topic_that_is_already_marked_is_no_error(full: World, data: bytes | None) -> None:
    full.zk.before_transaction[1] = lambda: full.tree.put(MARKER, data)

    assert refusals(await full.call(delete("t"))) == {"t": None}


async def test_unknown_topics_are_refused_and_leave_no_marker(full: World) -> None:
    reply = await full.call(delete("none", "t"))

    assert list(reply.outcomes) == ["none", "t"]
    assert refusals(reply) == {"none": UNKNOWN, "t": None}
    assert [write.path for write in full.zk.writes if write.path.startswith("/admin")] == [MARKER]


async def test_a_topic_whose_deletion_has_begun_is_unknown(full: World) -> None:
    await full.call(delete("t"))

    assert refusals(await full.call(delete("t"))) == {"t": UNKNOWN}


async def test_a_topic_in_a_reassignment_waits_and_keeps_its_marker(full: World) -> None:
    await full.call(ApiPartitionReassignment(ALICE, {tp("t", 0): ids(3, 1)}))

    assert refusals(await full.call(delete("t"))) == {"t": None}

    assert full.context.queued_for_deletion == {"t"}
    assert full.context.deletions.started == set()
    assert MARKER in full.tree.nodes


async def test_where_deletion_is_disabled_nothing_is_marked() -> None:
    world = World(policy=Policy(delete_topic_enable=False))
    world.register(1)
    world.put_topic("t", {0: [1]})
    await world.start()

    reply = await world.call(delete("t"))

    assert refusals(reply) == {"t": Refusal(KafkaError.TOPIC_DELETION_DISABLED)}
    assert world.context.queued_for_deletion == set()


async def test_a_marker_that_zookeeper_refuses_is_an_error_of_its_topic(full: World) -> None:
    full.zk.read_only.add(MARKER)

    reply = await full.call(delete("t", "u"))

    assert refusals(reply) == {"t": Refusal(KafkaError.UNKNOWN_SERVER_ERROR), "u": None}
    assert full.context.queued_for_deletion == {"u"}


async def test_a_deposed_controller_marks_nothing(full: World) -> None:
    full.tree.put("/controller_epoch", b"7")

    with pytest.raises(NotController):
        await full.call(delete("t"))

    assert MARKER not in full.tree.nodes


async def test_a_standby_deletes_nothing() -> None:
    with pytest.raises(NotController):
        await World().call(delete("t"))


async def test_a_marker_with_a_lost_answer_counts(full: World) -> None:
    full.zk.lose_reply_of.add(1)

    assert refusals(await full.call(delete("t"))) == {"t": None}
    assert full.context.deletions.started == {"t"}


async def test_each_partition_is_charged_and_topics_beyond_the_quota_are_refused(full: World) -> None:
    full.c.configs.quotas.set_rate(QuotaEntity("alice", None), 0.1)

    reply = await full.call(delete("t", "u"))

    assert refusals(reply) == {"t": None, "u": THROTTLED}
    assert reply.throttle.wait_ms == 9_000


async def test_an_old_request_is_only_throttled(full: World) -> None:
    full.c.configs.quotas.set_rate(QuotaEntity("alice", None), 0.1)

    reply = await full.call(delete("t", "u", version=4))

    assert refusals(reply) == {"t": None, "u": None}
    assert reply.throttle.wait_ms == 19_000


async def test_a_topic_that_is_already_marked_is_charged_too(full: World) -> None:
    await full.call(ApiPartitionReassignment(ALICE, {tp("t", 0): ids(3, 1)}))
    await full.call(delete("t"))
    full.c.configs.quotas.set_rate(QuotaEntity("alice", None), 0.1)

    assert (await full.call(delete("t", "u"))).outcomes["u"].refusal == THROTTLED
