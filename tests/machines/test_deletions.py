"""The topic deletion manager of a whole controller: many topics at once, and a failover after any transaction."""

import json

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import OUR_IDS, BrokerId, ReplicaState
from controllerd.core.requests import StopReplicaRequest, UpdateMetadataRequest
from controllerd.record.invariants import check
from controllerd.record.records import RefusedRecord
from controllerd.zk.access import Aborted, Create, SetData, Transaction, TransactionOutcome
from controllerd.zk.packing import MAX_OPERATIONS
from events.admin import ForgetBroker
from events.topics import TopicDeletion, TopicDeletionRetry
from tests.fakes.disks import Disks, successor
from tests.fakes.reassigning import change_isr
from tests.fakes.world import World, topic_id_of, tp
from tests.record.logs import stamped_log

CONFIG = b'{"version":1,"config":{}}'


def mark(world: World, *topics: str) -> None:
    """Ask for the deletion of many topics at once."""
    world.tree.outsider(*(Create(f"/admin/delete_topics/{topic}", None) for topic in topics))


def left_over(world: World, topic: str) -> list[str]:
    """The znodes of a topic."""
    roots = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    return [path for path in world.tree.nodes if path.startswith(roots)]


def broken_rules(world: World) -> list[str]:
    """The invariants that the whole audit log breaks."""
    return [f"{found.id}: {found.evidence}" for found in check(stamped_log(world.audit.records))]


async def cluster(topics: int = 1, partitions: int = 1, replicas: tuple[int, ...] = (1, 2, 3)) -> Disks:
    """Three brokers, and topics t0, t1 ... on them."""
    disks = Disks(World())
    for broker in (1, 2, 3):
        disks.world.register(broker)
    for number in range(topics):
        disks.world.put_topic(f"t{number}", dict.fromkeys(range(partitions), replicas))
        disks.world.tree.put(f"/config/topics/t{number}", CONFIG)
    await disks.start()
    disks.forget()
    return disks


# -- many topics -------------------------------------------------------------------------------------------------------


async def test_a_hundred_topics_of_a_hundred_partitions_cost_few_requests_and_few_transactions() -> None:
    disks = await cluster(topics=100, partitions=100)
    mark(disks.world, *(f"t{number}" for number in range(100)))

    await disks.settle()

    world = disks.world
    assert world.context.topics == {}
    assert not any(map(left_over, [world] * 100, [f"t{number}" for number in range(100)]))
    for broker in (1, 2, 3):
        kinds = [type(request) for request in world.channels.to(broker)]
        assert kinds == [UpdateMetadataRequest, StopReplicaRequest, StopReplicaRequest]
    isr_writes, znodes = 3 * 10_000, 100 * (2 * 100 + 2)
    full = (isr_writes + znodes) / MAX_OPERATIONS
    assert len(world.zk.transactions) <= 1.1 * full + 10


async def test_the_deletion_of_one_topic_after_the_other_does_not_check_all_others_each_time() -> None:
    disks = await cluster(topics=30, partitions=1)
    disks.silent = {3}
    checked = 0

    def count(*_: object) -> None:
        nonlocal checked
        checked += 1

    mark(disks.world, *(f"t{number}" for number in range(30)))
    await disks.settle()
    advance = disks.world.c.deletions._sort

    async def sort(topics: object) -> object:
        names = list(topics)  # type: ignore[call-overload]
        for _ in names:
            count()
        return await advance(names)

    disks.world.c.deletions._sort = sort  # type: ignore[method-assign,assignment]
    disks.silent = set()
    for number in range(30):
        await disks.world.c.deletions.complete(BrokerId(3), [tp(f"t{number}")])

    assert checked == 30
    assert disks.world.context.topics == {}


async def test_one_topic_that_zookeeper_refuses_to_delete_leaves_the_others_alone() -> None:
    disks = await cluster(topics=3)
    apply, code = disks.world.tree.apply, -102  # NOAUTH

    def refuse(operations: Transaction, session_id: int) -> TransactionOutcome:
        for index, operation in enumerate(operations):
            if operation.path == "/brokers/topics/t1" and not isinstance(operation, Create | SetData):
                return Aborted(disks.world.tree.zxid, index, code)
        return apply(operations, session_id)

    disks.world.tree.apply = refuse  # type: ignore[method-assign]
    mark(disks.world, "t0", "t1", "t2")

    await disks.settle()

    assert disks.world.context.topics.keys() == {"t1"}
    assert "/admin/delete_topics/t1" in disks.world.tree.nodes
    assert disks.world.context.deletions.halted["t1"].startswith("ZooKeeper did not delete it")


async def test_the_deletion_of_a_topic_refuses_no_transition() -> None:
    disks = await cluster()
    mark(disks.world, "t0")

    await disks.settle()

    assert not [record for record in disks.world.audit.records if isinstance(record, RefusedRecord)]


async def test_a_halted_deletion_continues_where_it_stopped() -> None:
    disks = await cluster()
    disks.world.die(3)
    mark(disks.world, "t0")
    await disks.settle()
    disks.forget()

    disks.world.register(3)
    await disks.settle()

    assert not [request for request in disks.world.brief(1) if request.startswith("StopReplica")]
    assert disks.world.context.topics == {}


async def test_replicas_on_a_dead_broker_are_ineligible_until_the_others_are_deleted() -> None:
    disks = await cluster()
    disks.world.die(3)
    await disks.settle()
    disks.silent = {1, 2}
    mark(disks.world, "t0")

    await disks.settle()

    states = dict(disks.world.context.record(tp("t0")).replica_states.items())
    assert states == {
        1: ReplicaState.DELETION_STARTED,
        2: ReplicaState.DELETION_STARTED,
        3: ReplicaState.DELETION_INELIGIBLE,
    }


async def test_the_failure_of_the_last_isr_member_begins_a_waiting_deletion() -> None:
    disks = await cluster(replicas=(1, 2))
    world = disks.world
    body = {
        "version": 3,
        "topic_id": topic_id_of("t0"),
        "partitions": {"0": [2, 3, 1]},
        "adding_replicas": {"0": [3]},
        "removing_replicas": {"0": [1]},
    }
    world.tree.put("/brokers/topics/t0", json.dumps(body).encode())
    after = successor(disks, 2)
    world.zk.expire()
    await after.start()
    mark(after.world, "t0")
    await after.settle()
    assert after.world.context.deletions.started == set()
    await change_isr(after.world, "t0", 1)

    after.world.die(1)  # and no ISR member can follow
    await after.settle()

    assert after.world.context.deletions.started == {"t0"}
    assert after.world.state("t0")[0] == -1


# -- replicas on controllerd -------------------------------------------------------------------------------------------


async def empty_cluster() -> Disks:
    """Three brokers, with the audit log from the beginning."""
    disks = Disks(World())
    for broker in (1, 2, 3):
        disks.world.register(broker)
    await disks.start()
    return disks


async def test_a_topic_that_waits_to_replace_controllerd_can_be_deleted() -> None:
    """No replica of it was ever started, but a broker may have one all the same: each is sent the deletion."""
    disks = await empty_cluster()
    world = disks.world
    world.put_topic("t0", {0: [3, 1, 2, OUR_IDS[0]]})
    await disks.settle()
    disks.logs = {1: {tp("t0")}, 2: set(), 3: set()}
    mark(world, "t0")

    await disks.settle()

    assert left_over(world, "t0") == []
    assert world.context.topics == {}
    assert disks.logs == {1: set(), 2: set(), 3: set()}
    assert not [record for record in world.audit.records if isinstance(record, RefusedRecord)]
    assert broken_rules(world) == []


async def test_a_topic_that_a_broker_started_with_a_replica_on_controllerd_can_be_deleted() -> None:
    disks = await empty_cluster()
    world = disks.world
    world.zk.expire()
    world.put_topic("t0", {0: [1, 2, OUR_IDS[0], 3]})
    world.tree.put(
        "/brokers/topics/t0/partitions/0/state",
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,2000000000,3]}',
    )
    after = successor(disks, 2)
    await after.start()
    mark(after.world, "t0")

    await after.settle()

    assert left_over(after.world, "t0") == []
    assert after.logs == {1: set(), 2: set(), 3: set()}
    assert broken_rules(after.world) == []


async def test_a_replica_on_controllerd_is_not_moved_while_its_topic_is_being_deleted() -> None:
    disks = await empty_cluster()
    world = disks.world
    world.die(3)
    world.put_topic("t0", {0: [3, 1, 2, OUR_IDS[0]]})
    await disks.settle()
    mark(world, "t0")
    await disks.settle()
    before = world.tree.nodes["/brokers/topics/t0"].data

    world.register(4)
    await disks.settle()

    assert world.tree.nodes["/brokers/topics/t0"].data == before
    world.register(3)
    await disks.settle()
    assert left_over(world, "t0") == []
    assert not any(disks.logs.values())
    assert broken_rules(world) == []


# -- a failover during a deletion --------------------------------------------------------------------------------------

WRITES = 6
"""Transactions of a deletion: three ISR changes, then the topic, its configuration and its marker are deleted."""


async def test_a_deletion_takes_as_many_transactions_as_are_interrupted_below() -> None:
    disks = await cluster(partitions=2)
    mark(disks.world, "t0")

    await disks.settle()

    assert len(disks.world.zk.transactions) == WRITES


@pytest.mark.parametrize("number", range(1, WRITES + 1))
@pytest.mark.parametrize("end", ["deposed before", "session lost after", "answer lost and deposed"])
async def test_the_next_controller_completes_a_deletion_after_any_transaction_of_the_last_one(
    number: int, end: str
) -> None:
    disks = await cluster(partitions=2)
    world = disks.world

    def depose() -> None:
        world.tree.outsider(SetData("/controller_epoch", b"7", -1))

    if end == "deposed before":
        world.zk.before_transaction[number] = depose
    elif end == "session lost after":
        world.zk.after_transaction[number] = world.zk.expire
    else:
        world.zk.lose_reply_of.add(number)
        world.zk.after_transaction[number] = depose
    mark(world, "t0")
    await disks.settle()
    after = successor(disks, 2)
    if not world.zk.is_lost:
        world.zk.expire()

    await after.start()

    assert left_over(after.world, "t0") == []
    assert after.world.context.topics == {}
    assert after.logs == {1: set(), 2: set(), 3: set()}
    assert not any(after.metadata.values())


@pytest.mark.parametrize("answers", range(4))
async def test_the_next_controller_completes_a_deletion_after_any_number_of_answers(answers: int) -> None:
    disks = await cluster()
    disks.silent = {1, 2, 3} - set(range(1, 1 + answers))
    mark(disks.world, "t0")
    await disks.settle()
    after = successor(disks, 2)
    after.silent.clear()
    disks.world.zk.expire()

    await after.start()

    assert left_over(after.world, "t0") == []
    assert after.logs == {1: set(), 2: set(), 3: set()}


async def test_a_repeated_topic_deletion_event_sends_no_request() -> None:
    disks = await cluster()
    disks.silent = {3}
    mark(disks.world, "t0")
    await disks.settle()
    disks.forget()

    disks.world.queue.put(TopicDeletion())
    await disks.settle()

    assert disks.world.channels.sent == []


# -- the audit log -----------------------------------------------------------------------------------------------------


async def test_the_log_of_deletions_of_every_kind_breaks_no_invariant() -> None:
    disks = Disks(World())
    world = disks.world
    for broker in (1, 2, 3):
        world.register(broker)
    await disks.start()
    for name in ("plain", "away", "refused", "forgotten", "again"):
        world.put_topic(name, dict.fromkeys(range(2), (1, 2, 3)))
    await disks.settle()
    mark(world, "plain", "again")
    await disks.settle()
    world.put_topic("again", {0: [2, 1]}, topic_id=topic_id_of("the second"))
    await disks.settle()
    disks.refusing[2] = KafkaError.KAFKA_STORAGE_ERROR
    mark(world, "refused")
    await disks.settle()
    disks.refusing.clear()
    world.queue.put(TopicDeletionRetry())
    await disks.settle()
    world.die(3)
    mark(world, "away")
    await disks.settle()
    world.register(3)
    await disks.settle()
    world.die(3)
    mark(world, "forgotten")
    await disks.settle()
    await world.call(ForgetBroker(BrokerId(3), "burnt down"))
    world.register(3)
    await disks.settle()

    assert world.context.topics.keys() == {"again"}
    assert not any(logs - {tp("again")} for logs in disks.logs.values())
    assert broken_rules(world) == []
