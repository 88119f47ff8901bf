"""Topic deletion: the request, answers of brokers, brokers that are down, reassignments, and the next controller."""

import json

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.errors import CallRefused, NotController
from controllerd.record.records import DeletionRecord
from controllerd.services.deletions import FIRST_RETRY_S, LAST_RETRY_S
from events.admin import ForgetBroker
from events.cluster import BrokerChange, BrokerRefresh
from events.topics import TopicDeletion, TopicDeletionRetry, TopicDeletionStopReplicaResponseReceived
from tests.fakes.disks import Disks, successor
from tests.fakes.world import World, tp


def ask_for_deletion(world: World, *topics: str) -> None:
    for topic in topics:
        world.tree.put(f"/admin/delete_topics/{topic}")


def is_gone(world: World, topic: str) -> bool:
    """Whether neither ZooKeeper nor the context has anything of the topic."""
    names = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    return topic not in world.context.topics and not any(path.startswith(names) for path in world.tree.nodes)


def reassign(world: World, topic: str, replicas: list[int], adding: list[int], removing: list[int]) -> None:
    """A topic whose partition 0 is being reassigned."""
    body = {
        "version": 3,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAg",
        "partitions": {"0": replicas},
        "adding_replicas": {"0": adding},
        "removing_replicas": {"0": removing},
    }
    world.tree.put(f"/brokers/topics/{topic}", json.dumps(body).encode())


@pytest.fixture
async def disks() -> Disks:
    """Three brokers, a controller, and the topic t on all of them."""
    disks = Disks(World())
    for broker in (1, 2, 3):
        disks.world.register(broker)
    await disks.start()
    disks.world.put_topic("t", {0: [1, 2, 3]})
    await disks.settle()
    disks.forget()
    return disks


# -- the request -------------------------------------------------------------------------------------------------------


async def test_a_topic_is_deleted_on_every_broker_and_then_in_zookeeper(disks: Disks) -> None:
    world = disks.world
    world.tree.put("/config/topics/t", b'{"version":1,"config":{}}')
    ask_for_deletion(world, "t")

    await disks.settle()

    assert is_gone(world, "t")
    assert disks.logs == {1: set(), 2: set(), 3: set()}
    assert disks.metadata == {1: {}, 2: {}, 3: {}}
    for broker in (1, 2, 3):
        assert world.brief(broker) == [
            "UpdateMetadata(t-0 -2/0 [1, 2, 3])",
            "StopReplica(t-0 -2)",
            "StopReplica(t-0 -2 delete)",
        ]


async def test_a_topic_stays_in_zookeeper_until_the_last_broker_has_answered(disks: Disks) -> None:
    disks.silent = {3}
    ask_for_deletion(disks.world, "t")

    await disks.settle()

    assert "t" in disks.world.context.topics
    assert "/admin/delete_topics/t" in disks.world.tree.nodes


async def test_the_steps_of_a_deletion_are_recorded(disks: Disks) -> None:
    disks.world.die(3)
    ask_for_deletion(disks.world, "t")

    await disks.settle()

    rows = [
        row
        for record in disks.world.audit.records
        if isinstance(record, DeletionRecord)
        for row in zip(record.topics, record.changes, record.reasons, strict=True)
    ]
    assert rows == [
        ("t", "queued", None),
        ("t", "started", None),
        ("t", "halted", "replicas on broker 3 cannot be deleted: not online"),
    ]


async def test_a_request_for_an_unknown_topic_is_dropped_input_25(disks: Disks) -> None:
    ask_for_deletion(disks.world, "nobody")

    await disks.settle()

    assert disks.world.tree.children("/admin/delete_topics") == []
    assert disks.world.channels.sent == []


async def test_a_topic_that_was_created_together_with_its_request_is_created_and_then_deleted(disks: Disks) -> None:
    world = disks.world
    world.queue.put(TopicDeletion())  # before TopicChange, as no watch promises an order
    world.put_topic("x", {0: [1]})
    ask_for_deletion(world, "x")

    await disks.settle()

    assert is_gone(world, "x")
    assert world.brief(1)[:2] == ["LeaderAndIsr(x-0 1/0 [1] new)", "UpdateMetadata(x-0 1/0 [1])"]


async def test_a_topic_without_partitions_is_deleted_at_once(disks: Disks) -> None:
    disks.world.put_topic("empty", {})
    await disks.settle()
    ask_for_deletion(disks.world, "empty")

    await disks.settle()

    assert is_gone(disks.world, "empty")


async def test_the_request_is_removed_when_an_operator_removes_the_topic_znode(disks: Disks) -> None:
    world = disks.world
    world.die(3)
    ask_for_deletion(world, "t")
    await disks.settle()

    world.tree.remove("/brokers/topics/t")
    await disks.settle()

    assert is_gone(world, "t")


# -- topics that cannot be understood ----------------------------------------------------------------------------------


async def test_a_topic_in_quarantine_is_not_deleted_before_it_can_be_understood(disks: Disks) -> None:
    world = disks.world
    world.tree.put("/brokers/topics/bad", b"not JSON")
    await disks.settle()
    ask_for_deletion(world, "bad")
    await disks.settle()
    assert {"/brokers/topics/bad", "/admin/delete_topics/bad"} <= world.tree.nodes.keys()

    world.put_topic("bad", {0: [1]})
    await disks.settle()

    assert is_gone(world, "bad")


async def test_a_repaired_topic_of_a_dead_broker_is_removed_from_metadata_when_it_is_deleted(disks: Disks) -> None:
    """Brokers forget a partition only on an UpdateMetadata with leader -2, and may know it from an earlier term."""
    world = disks.world
    world.tree.put("/brokers/topics/bad", b"not JSON")
    state = b'{"controller_epoch":1,"leader":7,"version":1,"leader_epoch":0,"isr":[7]}'
    world.tree.put("/brokers/topics/bad/partitions/0/state", state)
    await disks.settle()
    ask_for_deletion(world, "bad")

    world.put_topic("bad", {0: [7]})
    await disks.settle()

    assert world.brief(1)[-1] == "UpdateMetadata(bad-0 -2/0 [7] offline [7])"


async def test_the_deletion_of_a_topic_that_becomes_unreadable_waits(disks: Disks) -> None:
    world = disks.world
    disks.silent = {3}
    ask_for_deletion(world, "t")
    await disks.settle()
    world.tree.put("/brokers/topics/t", b"not JSON")
    await disks.settle()

    await _answer(disks, 3)
    assert "its znode cannot be understood" in world.context.deletions.halted["t"]
    world.put_topic("t", {0: [1, 2, 3]})
    await disks.settle()

    assert is_gone(world, "t")


async def _answer(disks: Disks, broker: int, error: KafkaError = KafkaError.NONE) -> None:
    """A broker that was silent answers the deletion of t-0."""
    disks.world.queue.put(answer_of(disks, broker, error))
    await disks.settle()


def answer_of(
    disks: Disks, broker: int, error: KafkaError = KafkaError.NONE, *, top_level: KafkaError = KafkaError.NONE
) -> TopicDeletionStopReplicaResponseReceived:
    context = disks.world.context
    epoch = context.brokers[BrokerId(broker)].epoch
    return TopicDeletionStopReplicaResponseReceived(BrokerId(broker), epoch, context.epoch, top_level, {tp("t"): error})


async def test_a_topic_with_an_unreadable_state_is_deleted(disks: Disks) -> None:
    world = disks.world
    world.tree.put("/brokers/topics/t/partitions/0/state", b"not JSON")
    after = successor(disks, 2)
    world.zk.expire()
    await after.start()
    ask_for_deletion(after.world, "t")

    await after.settle()

    assert is_gone(after.world, "t")
    assert after.logs == {1: set(), 2: set(), 3: set()}
    assert after.metadata == {1: {}, 2: {}, 3: {}}


# -- delete.topic.enable -----------------------------------------------------------------------------------------------


async def test_requests_are_dropped_where_deletion_is_disabled() -> None:
    disks = Disks(World(policy=Policy(delete_topic_enable=False)))
    disks.world.register(1)
    disks.world.put_topic("t", {0: [1]})
    ask_for_deletion(disks.world, "t")
    await disks.start()
    assert disks.world.tree.children("/admin/delete_topics") == []

    ask_for_deletion(disks.world, "t", "nobody")
    await disks.settle()

    assert disks.world.tree.children("/admin/delete_topics") == []
    assert disks.world.state("t") == (1, 0, [1], 0)
    assert disks.world.context.queued_for_deletion == set()


# -- answers of brokers ------------------------------------------------------------------------------------------------


async def test_an_answer_of_an_earlier_broker_epoch_is_ignored(disks: Disks) -> None:
    world = disks.world
    disks.silent = {3}
    ask_for_deletion(world, "t")
    await disks.settle()
    late = answer_of(disks, 3)
    world.bounce(3)
    await disks.settle()

    world.queue.put(late)
    await disks.settle()

    assert "t" in world.context.topics


async def test_an_answer_to_an_earlier_controller_epoch_is_ignored(disks: Disks) -> None:
    world = disks.world
    disks.silent = {3}
    ask_for_deletion(world, "t")
    await disks.settle()
    context = world.context
    late = TopicDeletionStopReplicaResponseReceived(
        BrokerId(3), context.brokers[BrokerId(3)].epoch, context.epoch - 1, KafkaError.NONE, {tp("t"): KafkaError.NONE}
    )

    world.queue.put(late)
    await disks.settle()

    assert "t" in world.context.topics


async def test_a_deleted_replica_of_a_topic_that_is_not_being_deleted_deletes_no_topic_kafka_9946(disks: Disks) -> None:
    disks.world.queue.put(answer_of(disks, 3))

    await disks.settle()

    assert disks.world.state("t") == (1, 0, [1, 2, 3], 0)
    assert disks.world.context.queued_for_deletion == set()


async def test_a_broker_that_could_not_delete_is_sent_the_deletion_again_later(disks: Disks) -> None:
    world = disks.world
    disks.refusing[2] = KafkaError.KAFKA_STORAGE_ERROR
    ask_for_deletion(world, "t")
    await disks.settle()
    assert world.context.deletions.halted["t"] == "broker 2 could not delete t-0: KAFKA_STORAGE_ERROR"
    assert (FIRST_RETRY_S, TopicDeletionRetry()) in world.timers.later

    disks.refusing.clear()
    await _pass_time(disks)

    assert is_gone(world, "t")
    assert disks.logs == {1: set(), 2: set(), 3: set()}


def _pauses(disks: Disks) -> list[float]:
    """The delays in seconds after which deletions are retried."""
    return [delay_s for delay_s, event in disks.world.timers.later if event == TopicDeletionRetry()]


async def _pass_time(disks: Disks) -> None:
    """Let the timers fire, and handle the retry of deletions alone."""
    if TopicDeletionRetry() in disks.world.timers.fire():
        disks.world.queue.put(TopicDeletionRetry())
    await disks.settle()


async def test_a_broker_that_keeps_refusing_is_sent_the_deletion_less_and_less_often(disks: Disks) -> None:
    disks.refusing[2] = KafkaError.KAFKA_STORAGE_ERROR
    ask_for_deletion(disks.world, "t")
    await disks.settle()
    pauses = []
    for _ in range(7):
        pauses += _pauses(disks)
        await _pass_time(disks)

    assert pauses == [30.0, 60.0, 120.0, 240.0, 480.0, LAST_RETRY_S, LAST_RETRY_S]


async def test_a_request_with_a_top_level_error_is_retried(disks: Disks) -> None:
    disks.silent = {3}
    ask_for_deletion(disks.world, "t")
    await disks.settle()
    disks.silent = set()
    disks.world.queue.put(answer_of(disks, 3, top_level=KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    await disks.settle()

    await _pass_time(disks)

    assert is_gone(disks.world, "t")


async def test_other_replicas_are_deleted_while_one_broker_refuses(disks: Disks) -> None:
    disks.refusing[2] = KafkaError.KAFKA_STORAGE_ERROR
    ask_for_deletion(disks.world, "t")

    await disks.settle()

    assert disks.logs == {1: set(), 2: {tp("t")}, 3: set()}


async def test_a_broker_in_controlled_shutdown_still_deletes(disks: Disks) -> None:
    disks.world.context.mark_shutting_down(BrokerId(3))
    ask_for_deletion(disks.world, "t")

    await disks.settle()

    assert is_gone(disks.world, "t")


# -- brokers that are down ---------------------------------------------------------------------------------------------


async def test_a_deletion_completes_when_the_broker_returns(disks: Disks) -> None:
    world = disks.world
    world.die(3)
    ask_for_deletion(world, "t")
    await disks.settle()
    assert disks.logs == {1: set(), 2: set(), 3: {tp("t")}}

    world.register(3)
    await disks.settle()

    assert is_gone(world, "t")
    assert disks.logs[3] == set()


async def test_a_broker_that_fails_before_its_answer_is_sent_the_deletion_again(disks: Disks) -> None:
    world = disks.world
    disks.silent = {3}
    ask_for_deletion(world, "t")
    await disks.settle()
    world.die(3)
    await disks.settle()
    assert world.context.deletions.halted["t"] == "replicas on broker 3 cannot be deleted: not online"

    disks.silent = set()
    world.register(3)
    await disks.settle()

    assert is_gone(world, "t")
    assert disks.logs[3] == set()


async def test_a_deletion_without_live_replicas_is_announced_and_waits(disks: Disks) -> None:
    world = disks.world
    world.register(4)
    for broker in (1, 2, 3):
        world.die(broker)
    await disks.settle()
    disks.forget()
    ask_for_deletion(world, "t")

    await disks.settle()

    assert [request[:14] for request in world.brief(4)] == ["UpdateMetadata"]
    assert tp("t") not in disks.metadata[4]
    assert world.context.deletions.halted["t"] == "replicas on brokers 1, 2, 3 cannot be deleted: not online"


async def test_a_broker_whose_session_expired_is_sent_the_removal_of_deleted_topics(disks: Disks) -> None:
    """The process of the broker may live on with the topics in its metadata. No later request would remove them."""
    world = disks.world
    world.register(4)
    await disks.settle()
    world.die(4)
    disks.silent = {3}
    ask_for_deletion(world, "t")
    await disks.settle()
    disks.forget()

    world.register(4)
    await disks.settle()

    assert world.brief(4) == ["UpdateMetadata(t-0 -2/0 [3])"]


async def test_the_deletion_of_a_replica_on_a_failed_log_directory_waits_for_its_broker(disks: Disks) -> None:
    world = disks.world
    world.context.set_offline_dirs(BrokerId(2), frozenset({tp("t")}))
    ask_for_deletion(world, "t")
    await disks.settle()
    assert world.context.deletions.halted["t"] == "replicas on broker 2 cannot be deleted: not online"

    world.bounce(2)
    await disks.settle()

    assert is_gone(world, "t")


async def test_a_broker_whose_channel_is_reopened_is_sent_the_deletion_again(disks: Disks) -> None:
    world = disks.world
    disks.silent = {3}
    ask_for_deletion(world, "t")
    await disks.settle()
    disks.silent = set()

    world.queue.put(BrokerRefresh(BrokerId(3), reopen=True))
    await disks.settle()

    assert is_gone(world, "t")
    assert disks.logs[3] == set()


# -- brokers that never return -----------------------------------------------------------------------------------------


async def test_a_broker_that_never_returns_can_be_forgotten_kafka_10548(disks: Disks) -> None:
    world = disks.world
    world.die(3)
    ask_for_deletion(world, "t")
    await disks.settle()

    forgotten = await world.call(ForgetBroker(BrokerId(3), "burnt down"))

    assert (forgotten.topics, forgotten.replicas) == (("t",), 1)
    assert is_gone(world, "t")
    assert world.context.pending_deletions.of(BrokerId(3)).keys() == {tp("t")}


async def test_a_forgotten_broker_that_returns_deletes_its_replicas(disks: Disks) -> None:
    world = disks.world
    world.die(3)
    ask_for_deletion(world, "t")
    await disks.settle()
    await world.call(ForgetBroker(BrokerId(3), "burnt down"))

    world.register(3)
    await disks.settle()

    assert disks.logs[3] == set()
    assert world.context.pending_deletions.brokers() == []


async def test_a_deletion_waits_again_for_a_forgotten_broker_that_returns(disks: Disks) -> None:
    world = disks.world
    world.die(2)
    world.die(3)
    ask_for_deletion(world, "t")
    await disks.settle()
    await world.call(ForgetBroker(BrokerId(3), "burnt down"))
    disks.silent = {3}

    world.register(3)
    world.register(2)
    await disks.settle()

    assert "t" in world.context.topics
    disks.silent = set()
    await _answer(disks, 3)
    assert is_gone(world, "t")
    assert world.context.pending_deletions.brokers() == []


async def test_a_forgotten_broker_stays_forgotten_under_the_next_controller(disks: Disks) -> None:
    world = disks.world
    world.die(2)
    world.die(3)
    ask_for_deletion(world, "t")
    await disks.settle()
    await world.call(ForgetBroker(BrokerId(3), "burnt down"))
    after = successor(disks, 2)
    world.zk.expire()
    await after.start()

    after.world.register(2)
    await after.settle()

    assert is_gone(after.world, "t")
    assert after.world.context.pending_deletions.of(BrokerId(3)).keys() == {tp("t")}


async def test_a_registered_broker_cannot_be_forgotten(disks: Disks) -> None:
    with pytest.raises(CallRefused, match="broker 3 is registered"):
        await disks.world.call(ForgetBroker(BrokerId(3)))


async def test_a_standby_forgets_no_broker() -> None:
    with pytest.raises(NotController):
        await World().call(ForgetBroker(BrokerId(3)))


# -- reassignments -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def moving() -> Disks:
    """The topic m moves from brokers 1 and 2 to 2 and 3; broker 3 has not caught up."""
    disks = Disks(World())
    for broker in (1, 2, 3):
        disks.world.register(broker)
    disks.world.put_topic("m", {0: [1, 2]})
    await disks.start()
    reassign(disks.world, "m", [2, 3, 1], [3], [1])
    after = successor(disks, 2)
    disks.world.zk.expire()
    await after.start()
    after.forget()
    return after


async def test_a_deletion_waits_for_the_reassignment_of_its_topic(moving: Disks) -> None:
    ask_for_deletion(moving.world, "m")

    await moving.settle()

    assert moving.world.channels.sent == []
    assert moving.world.zk.writes == []
    assert moving.world.context.deletions.halted == {"m": "waits for the reassignment of m-0"}


async def test_the_next_controller_does_not_hide_a_topic_whose_deletion_waits(moving: Disks) -> None:
    """A leader without the topic in its metadata answers no fetch of it, so the reassignment would never complete."""
    ask_for_deletion(moving.world, "m")
    await moving.settle()
    after = successor(moving, 3)
    moving.world.zk.expire()

    await after.start()

    assert after.world.context.deletions.halted == {"m": "waits for the reassignment of m-0"}
    updates = [
        line for broker in (1, 2, 3) for line in after.world.brief(broker) if line.startswith("UpdateMetadata(m")
    ]
    assert updates
    assert not any("-2" in line for line in updates)


async def test_a_new_broker_is_sent_a_topic_whose_deletion_waits(moving: Disks) -> None:
    """All other live brokers still have the topic in their metadata."""
    ask_for_deletion(moving.world, "m")
    await moving.settle()

    moving.world.register(4)
    await moving.settle()

    assert [line for line in moving.world.brief(4) if "m-0 1/" in line]
    assert not [line for line in moving.world.brief(4) if "-2" in line]


async def test_a_reassignment_that_cannot_continue_delays_no_deletion(moving: Disks) -> None:
    world = moving.world
    ask_for_deletion(world, "m")
    await moving.settle()

    world.die(3)  # the replica that has to catch up
    await moving.settle()
    assert world.context.deletions.started == {"m"}
    world.register(3)
    await moving.settle()

    assert is_gone(world, "m")
    assert moving.logs == {1: set(), 2: set(), 3: set()}


# -- the next controller -----------------------------------------------------------------------------------------------


async def test_a_request_without_a_topic_is_removed_by_the_next_controller() -> None:
    disks = Disks(World())
    disks.world.register(1)
    disks.world.tree.put("/config/topics/t", b'{"version":1,"config":{}}')
    ask_for_deletion(disks.world, "t")

    await disks.start()

    assert is_gone(disks.world, "t")


async def test_a_request_in_the_middle_of_a_failover_is_served_after_it() -> None:
    disks = Disks(World())
    world = disks.world
    world.register(1)

    read, asked = world.zk.children, list[str]()

    async def children(path: str, *, watch: bool = False) -> list[str] | None:
        if path == "/admin/delete_topics" and not asked:
            asked.append("x")
            world.put_topic("x", {0: [1]})
            ask_for_deletion(world, "x")
        return await read(path, watch=watch)

    world.zk.children = children  # type: ignore[method-assign]

    await disks.start()

    assert is_gone(world, "x")


async def test_a_broker_change_sends_no_request_for_deletions_of_other_brokers(disks: Disks) -> None:
    disks.silent = {3}
    ask_for_deletion(disks.world, "t")
    await disks.settle()
    disks.forget()

    disks.world.queue.put(BrokerChange())
    await disks.settle()

    assert disks.world.channels.sent == []


# -- the snapshot ------------------------------------------------------------------------------------------------------


async def test_the_snapshot_names_brokers_whose_answer_a_deletion_waits_for(disks: Disks) -> None:
    disks.silent = {2, 3}
    ask_for_deletion(disks.world, "t")
    await disks.settle()

    view = disks.world.snapshot.deletions["t"]
    assert (view.has_begun, view.held_up_by, view.deleting) == (True, None, (2, 3))

    await _answer(disks, 2)
    assert disks.world.snapshot.deletions["t"].deleting == (3,)
    await _answer(disks, 3)
    assert disks.world.snapshot.deletions == {}


async def test_the_snapshot_keeps_the_view_of_an_unchanged_topic(disks: Disks) -> None:
    disks.world.die(3)
    ask_for_deletion(disks.world, "t")
    await disks.settle()
    before = disks.world.snapshot.topics["t"]

    disks.world.queue.put(TopicDeletion())
    await disks.settle()

    assert disks.world.snapshot.topics["t"] is before
