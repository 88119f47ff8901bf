"""Pending replica deletions: a broker that returns is sent them, and never deletes a replica that is assigned to it."""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import (
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controllerd.services.deletions import FIRST_RETRY_S, LAST_RETRY_S
from controllerd.zk import codecs, paths
from events.cluster import BrokerRefresh, QuarantineCheck
from events.responses import LeaderAndIsrResponseReceived
from events.topics import TopicDeletionRetry, TopicDeletionStopReplicaResponseReceived
from tests.fakes.disks import Disks, successor
from tests.fakes.reassigning import reassign
from tests.fakes.world import World, topic_id_of, tp

THREE = BrokerId(3)
DeletionsByPartition = Mapping[TopicPartition, str | None]


@pytest.fixture
async def disks() -> Disks:
    """Brokers 1 and 2, a controller, and topics; broker 3 is down and once had replicas of all of them."""
    disks = Disks(World())
    for broker in (1, 2):
        disks.world.register(broker)
    await disks.start()
    disks.world.put_topic("moved", {0: [1, 2]})
    disks.world.put_topic("back", {0: [1, 3]})
    await disks.settle()
    disks.logs[3] = {tp("gone"), tp("moved"), tp("back")}
    disks.forget()
    return disks


async def add_pending(disks: Disks, *topics: str) -> None:
    await disks.world.c.pending_deletions.add({THREE: [tp(topic) for topic in topics]})
    disks.forget()


def stopped(world: World, broker: int) -> list[str]:
    return [request for request in world.brief(broker) if request.startswith("StopReplica")]


def written(world: World) -> DeletionsByPartition:
    """The pending deletions of broker 3 that ZooKeeper has."""
    node = world.tree.nodes.get(paths.pending_deletions(THREE))
    return {} if node is None else codecs.decode_pending_deletions(THREE, node.data)


async def test_a_broker_that_returns_deletes_the_replicas_it_missed_history_58c(disks: Disks) -> None:
    await add_pending(disks, "gone", "moved")

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == ["StopReplica(gone-0 -1 delete; moved-0 0 delete)"]
    assert disks.logs[3] == {tp("back")}
    assert written(disks.world) == {}


async def test_a_pending_deletion_stays_until_the_broker_has_answered(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.silent = {3}

    disks.world.register(3)
    await disks.settle()

    assert written(disks.world).keys() == {tp("gone")}


async def test_a_replica_that_is_assigned_to_the_broker_again_is_never_deleted(disks: Disks) -> None:
    await add_pending(disks, "back")

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert tp("back") in disks.logs[3]
    assert written(disks.world) == {}


async def test_a_replica_of_a_topic_that_was_created_anew_is_never_deleted(disks: Disks) -> None:
    await disks.world.c.store.pending_deletions.write_pending_deletions(
        {THREE: {tp("back"): topic_id_of("an older one")}}
    )
    disks.world.context.pending_deletions.set(THREE, {tp("back"): topic_id_of("an older one")})

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert written(disks.world) == {}


# -- of an earlier topic of that name ----------------------------------------------------------------------------------


async def add_pending_of_earlier_topic(disks: Disks, topic_id: str | None = None) -> None:
    """Broker 3 has returned with a replica of an earlier topic "back", and has not answered yet."""
    pending = {tp("back"): topic_id or topic_id_of("an older one")}
    await disks.world.c.store.pending_deletions.write_pending_deletions({THREE: pending})
    disks.world.context.pending_deletions.set(THREE, pending)
    disks.silent = {3}
    disks.world.register(3)
    await disks.settle()
    disks.forget()


def answer(world: World, error: KafkaError, epoch: int = 0) -> LeaderAndIsrResponseReceived:
    """The response of broker 3 to the LeaderAndIsr of "back"."""
    errors = {} if error is KafkaError.NONE else {tp("back"): error}
    at = epoch or world.context.epochs()[THREE]
    return LeaderAndIsrResponseReceived(THREE, at, world.context.epoch, KafkaError.NONE, errors, {tp("back")})


REFUSED = KafkaError.INCONSISTENT_TOPIC_ID


async def test_a_replica_of_an_earlier_topic_is_deleted_and_begins_anew_with_a_newer_leader_epoch(
    disks: Disks,
) -> None:
    await add_pending_of_earlier_topic(disks)
    before = disks.world.context.leadership(tp("back"))
    assert before is not None
    disks.silent = set()

    disks.world.queue.put(answer(disks.world, REFUSED))
    await disks.settle()

    after = disks.world.context.leadership(tp("back"))
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (before.leader, before.isr, before.leader_epoch + 1)
    orders = [request for request in disks.world.channels.to(3) if not isinstance(request, UpdateMetadataRequest)]
    assert isinstance(orders[0], StopReplicaRequest)
    assert orders[0].partitions == {tp("back"): StopReplicaPartition(before.leader_epoch, delete=True)}
    assert isinstance(orders[1], LeaderAndIsrRequest)
    assert orders[1].partitions[tp("back")].state.leader_epoch == after.leader_epoch
    assert orders[1].partitions[tp("back")].is_new
    assert len(orders) == 2
    assert any(isinstance(request, LeaderAndIsrRequest) for request in disks.world.channels.to(1))
    assert written(disks.world) == {}


async def test_the_deletion_is_sent_once_per_broker_epoch(disks: Disks) -> None:
    """A second refusal may be older than the first StopReplica: by now the broker may have the present topic."""
    await add_pending_of_earlier_topic(disks)
    for _ in range(2):
        disks.world.queue.put(answer(disks.world, REFUSED))
    await disks.settle()
    assert stopped(disks.world, 3) == ["StopReplica(back-0 0 delete)"]
    disks.forget()

    disks.world.bounce(3)
    await disks.settle()
    disks.world.queue.put(answer(disks.world, REFUSED))
    await disks.settle()

    assert len(stopped(disks.world, 3)) == 1


async def test_no_replica_is_deleted_unless_the_broker_answers_that_it_has_another_topic(disks: Disks) -> None:
    await add_pending_of_earlier_topic(disks)

    disks.world.queue.put(answer(disks.world, KafkaError.KAFKA_STORAGE_ERROR))
    await disks.settle()

    assert not any("delete" in request for request in stopped(disks.world, 3))


async def test_a_broker_that_accepts_the_present_topic_has_no_replica_of_the_earlier_one(disks: Disks) -> None:
    await add_pending_of_earlier_topic(disks)

    disks.world.queue.put(answer(disks.world, KafkaError.NONE))
    await disks.settle()

    assert written(disks.world) == {}
    assert stopped(disks.world, 3) == []


@pytest.mark.parametrize(
    "why", ["deletion of the present one pending", "in the ISR", "an earlier broker epoch", "not led", "in quarantine"]
)
async def test_an_assigned_replica_is_not_deleted_in_doubt(disks: Disks, why: str) -> None:
    world = disks.world
    await add_pending_of_earlier_topic(
        disks, topic_id_of("back") if why == "deletion of the present one pending" else None
    )
    state = world.context.leadership(tp("back"))
    assert state is not None
    match why:
        case "in the ISR":
            world.context.set_leadership(tp("back"), state._replace(isr=(*state.isr, THREE)))
        case "not led":
            world.context.set_leadership(tp("back"), state._replace(leader=BrokerId(-1)))
        case "in quarantine":
            world.context.put_in_quarantine(tp("back").state_path, "not JSON")
        case _:
            pass
    epoch = world.context.epochs()[THREE] - 1 if why == "an earlier broker epoch" else 0

    world.queue.put(answer(world, REFUSED, epoch))
    await disks.settle()

    assert stopped(world, 3) == []


# -- in doubt ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"not JSON", b'{"version":3,"partitions":{"0":[1,1]}}'])
async def test_a_replica_of_an_unreadable_topic_may_be_assigned_to_the_broker(disks: Disks, data: bytes) -> None:
    await add_pending(disks, "odd")
    disks.world.tree.put("/brokers/topics/odd", data)
    await disks.settle()

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert written(disks.world).keys() == {tp("odd")}


async def test_an_isr_member_is_never_deleted_though_no_assignment_names_it(disks: Disks) -> None:
    await add_pending(disks, "moved")
    state = disks.world.context.leadership(tp("moved"))
    assert state is not None
    disks.world.context.set_leadership(tp("moved"), state._replace(isr=(*state.isr, THREE)))

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert written(disks.world).keys() == {tp("moved")}


async def test_a_replica_is_never_deleted_while_its_isr_cannot_be_read(disks: Disks) -> None:
    """An override may have failed between the assignment and the ISR: the broker may be the last ISR member."""
    await add_pending(disks, "moved")
    disks.world.tree.put(tp("moved").state_path, b"not JSON")

    after = successor(disks, 2)
    disks.world.zk.expire()
    after.world.register(3)

    await after.start()

    assert tp("moved").state_path in after.world.context.quarantine
    assert stopped(after.world, 3) == []
    assert written(after.world).keys() == {tp("moved")}


@pytest.mark.parametrize(("isr", "is_sent"), [((1, 2), True), ((3,), False)])
async def test_a_pending_deletion_is_judged_again_when_the_isr_can_be_read_again(
    disks: Disks, isr: tuple[int, ...], is_sent: bool
) -> None:
    await add_pending(disks, "moved")
    sound = json.loads(disks.world.tree.nodes[tp("moved").state_path].data or b"")
    disks.world.tree.put(tp("moved").state_path, b"not JSON")
    after = successor(disks, 2)
    disks.world.zk.expire()
    after.world.register(3)
    await after.start()

    after.world.tree.put(tp("moved").state_path, json.dumps({**sound, "leader": isr[0], "isr": isr}).encode())
    after.world.queue.put(QuarantineCheck())
    await after.settle()

    assert bool(stopped(after.world, 3)) is is_sent


async def back_in_doubt(disks: Disks, *topics: str) -> Disks:
    """Broker 3 has a pending deletion of "moved" and returns. The next controller cannot read these topics' states."""
    await add_pending(disks, "moved")
    for topic in topics:
        disks.world.tree.put(tp(topic).state_path, b"not JSON")
    after = successor(disks, 2)
    disks.world.zk.expire()
    after.world.register(3)
    await after.start()
    after.forget()
    return after


async def test_a_pending_deletion_with_an_unreadable_state_is_sent_when_its_topic_is_gone(
    disks: Disks,
) -> None:
    after = await back_in_doubt(disks, "moved")

    after.world.tree.remove("/brokers/topics/moved")
    await after.settle()

    assert stopped(after.world, 3) == ["StopReplica(moved-0 -1 delete)"]
    assert written(after.world) == {}


async def test_a_pending_deletion_waits_for_its_own_state_when_another_topic_is_deleted(disks: Disks) -> None:
    after = await back_in_doubt(disks, "moved", "back")

    after.world.tree.remove("/brokers/topics/back")
    await after.settle()

    assert tp("back").state_path not in after.world.context.quarantine
    assert stopped(after.world, 3) == []
    assert written(after.world).keys() == {tp("moved")}


async def test_a_pending_deletion_is_judged_when_the_topic_znode_can_be_understood_again(disks: Disks) -> None:
    await add_pending(disks, "odd")
    disks.world.tree.put("/brokers/topics/odd", b"not JSON")
    await disks.settle()
    disks.world.register(3)
    await disks.settle()
    assert stopped(disks.world, 3) == []

    disks.world.put_topic("odd", {0: [1, 2]})
    await disks.settle()

    assert stopped(disks.world, 3) == ["StopReplica(odd-0 0 delete)"]
    assert written(disks.world) == {}


@pytest.mark.parametrize(
    ("assignment", "epoch"), [([1, 1], 0), ([4], -1)], ids=["a broker twice", "an unassigned broker is being added"]
)
async def test_a_pending_deletion_is_judged_when_the_assignment_can_be_understood_again(
    disks: Disks, assignment: list[int], epoch: int
) -> None:
    await add_pending(disks, "odd")
    node = {"version": 2, "partitions": {"0": assignment}, "adding_replicas": {"0": [5]}, "removing_replicas": {}}
    disks.world.tree.put("/brokers/topics/odd", json.dumps(node).encode())
    disks.world.register(3)
    await disks.settle()
    assert "/brokers/topics/odd/partitions/0" in disks.world.context.quarantine
    assert stopped(disks.world, 3) == []

    disks.world.put_topic("odd", {0: [1, 2]})
    await disks.settle()

    assert stopped(disks.world, 3) == [f"StopReplica(odd-0 {epoch} delete)"]


async def test_a_pending_deletion_of_an_earlier_topic_does_not_wait_for_the_quarantine_of_that_topic(
    disks: Disks,
) -> None:
    disks.world.put_topic("moved", {0: [1, 2], 1: [1, 2]})
    await disks.settle()
    await disks.world.c.pending_deletions.add({THREE: [tp("moved", 1)]})
    disks.world.tree.put(tp("moved", 1).state_path, b"not JSON")
    disks.world.bounce(2)  # so that the controller reads the state
    await disks.settle()
    assert tp("moved", 1).state_path in disks.world.context.quarantine

    disks.world.tree.remove("/brokers/topics/moved")
    disks.world.put_topic("moved", {0: [1, 2]}, topic_id_of("another"))
    await disks.settle()
    disks.world.register(3)
    await disks.settle()

    assert disks.world.context.quarantine == {}
    assert stopped(disks.world, 3) == ["StopReplica(moved-1 -1 delete)"]


async def test_a_repaired_topic_sends_no_pending_deletion_of_other_topics(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.silent = {3}
    disks.world.register(3)
    disks.world.tree.put("/brokers/topics/odd", b"not JSON")
    await disks.settle()
    disks.forget()

    disks.world.put_topic("odd", {0: [1, 2]})
    await disks.settle()

    assert stopped(disks.world, 3) == []


async def test_a_new_topic_does_not_release_a_topic_with_the_id_of_another(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.silent = {3}
    disks.world.register(3)
    disks.world.put_topic("twin", {0: [1, 2]}, topic_id_of("moved"))
    await disks.settle()
    disks.forget()

    disks.world.put_topic("new", {0: [1, 2]})
    await disks.settle()

    assert stopped(disks.world, 3) == []


@pytest.mark.parametrize("is_broken_between", [False, True], ids=["at once", "after an unreadable znode"])
async def test_a_replica_that_an_operator_assigns_again_is_being_deleted_until_the_broker_has_answered(
    disks: Disks, is_broken_between: bool
) -> None:
    """The StopReplica is still in flight: an election of this replica would elect an empty one."""
    world = disks.world
    world.register(3)
    world.put_topic("away", {0: [3, 1, 2]})
    await disks.settle()
    disks.silent = {3}
    await reassign(world, {tp("away"): [1, 2]})
    await disks.settle()
    assert world.context.pending_deletions.is_going(THREE, tp("away"))

    if is_broken_between:
        world.tree.put("/brokers/topics/away", b"not JSON")
        await disks.settle()
    world.put_topic("away", {0: [3, 1, 2]})
    await disks.settle()
    world.queue.put(TopicDeletionRetry())
    await disks.settle()

    assert written(world) == {}
    assert world.context.pending_deletions.is_going(THREE, tp("away"))


@pytest.mark.parametrize("is_away", [True, False], ids=["away", "silent"])
async def test_a_pending_deletion_survives_an_edit_of_the_assignment_that_is_reverted(
    disks: Disks, is_away: bool
) -> None:
    world = disks.world
    world.register(3)
    world.put_topic("away", {0: [3, 1, 2]})
    await disks.settle()
    disks.silent = {3}
    if is_away:
        world.die(3)
        await disks.settle()
    await reassign(world, {tp("away"): [1, 2]})
    await disks.settle()

    for replicas in ([3, 1, 2], [1, 2]):
        world.put_topic("away", {0: replicas})
        await disks.settle()
    disks.silent = set()
    if is_away:
        world.register(3)
    else:
        world.bounce(3)
    await disks.settle()

    assert tp("away") not in disks.logs[3]
    assert written(world) == {}


async def test_a_replica_that_was_stopped_and_assigned_again_may_lead_once_the_broker_has_answered(
    disks: Disks,
) -> None:
    world = disks.world
    world.register(3)
    world.put_topic("away", {0: [3, 1, 2]})
    await disks.settle()
    disks.silent = {3}
    await reassign(world, {tp("away"): [1, 2]})
    await disks.settle()
    for replicas in ([3, 1, 2], [1, 2]):
        world.put_topic("away", {0: replicas})
        await disks.settle()

    disks.silent = set()
    world.queue.put(BrokerRefresh(THREE, reopen=True))
    await disks.settle()
    world.put_topic("away", {0: [3, 1, 2]})
    await disks.settle()

    assert not world.context.pending_deletions.is_going(THREE, tp("away"))


async def test_a_pending_deletion_of_a_broker_that_is_still_down_waits(disks: Disks) -> None:
    await add_pending(disks, "gone")

    disks.world.register(4)
    await disks.settle()

    assert stopped(disks.world, 4) == []
    assert written(disks.world).keys() == {tp("gone")}


async def test_the_next_controller_sends_pending_deletions(disks: Disks) -> None:
    await add_pending(disks, "gone")
    after = successor(disks, 2)
    disks.world.zk.expire()
    after.world.register(3)

    await after.start()

    assert stopped(after.world, 3) == ["StopReplica(gone-0 -1 delete)"]
    assert written(after.world) == {}


async def test_a_pending_deletion_that_fails_is_sent_again(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.refusing[3] = KafkaError.KAFKA_STORAGE_ERROR
    disks.world.register(3)
    await disks.settle()
    assert TopicDeletionRetry() in disks.world.timers.fire()

    disks.refusing.clear()
    disks.world.queue.put(TopicDeletionRetry())
    await disks.settle()

    assert written(disks.world) == {}


async def test_a_pending_deletion_without_an_answer_is_sent_again_after_a_bounce(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.silent = {3}
    disks.world.register(3)
    await disks.settle()
    disks.silent = set()

    disks.world.bounce(3)
    await disks.settle()

    assert written(disks.world) == {}


async def test_an_answer_of_an_earlier_broker_epoch_clears_no_pending_deletion(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.silent = {3}
    epoch = disks.world.register(3)
    await disks.settle()

    late = TopicDeletionStopReplicaResponseReceived(
        THREE, epoch - 1, disks.world.context.epoch, KafkaError.NONE, {tp("gone"): KafkaError.NONE}
    )
    disks.world.queue.put(late)
    await disks.settle()

    assert written(disks.world).keys() == {tp("gone")}


async def test_many_pending_deletions_are_one_request(disks: Disks) -> None:
    await disks.world.c.pending_deletions.add({THREE: [tp("gone", partition) for partition in range(2500)]})
    disks.forget()

    disks.world.register(3)
    await disks.settle()

    requests = [request for request in disks.world.channels.to(3) if isinstance(request, StopReplicaRequest)]
    assert [len(request.partitions) for request in requests] == [2500]
    assert written(disks.world) == {}


async def test_pending_deletions_that_cannot_be_understood_keep_no_controller_from_leading(disks: Disks) -> None:
    disks.world.tree.put(paths.pending_deletions(THREE), json.dumps({"version": "?"}).encode())
    after = successor(disks, 2)
    disks.world.zk.expire()

    await after.start()

    assert after.world.c.is_active
    assert after.world.context.pending_deletions.brokers() == []


async def test_a_topic_deletion_is_retried_as_soon_as_without_pending_deletions(disks: Disks) -> None:
    await add_pending(disks, "gone")
    disks.refusing[3] = KafkaError.KAFKA_STORAGE_ERROR
    disks.world.register(3)
    await disks.settle()
    assert (LAST_RETRY_S, TopicDeletionRetry()) in disks.world.timers.later

    disks.refusing[2] = KafkaError.KAFKA_STORAGE_ERROR
    disks.world.tree.put(paths.delete_topic("moved"))
    await disks.settle()

    retries = [delay_s for delay_s, event in disks.world.timers.later if event == TopicDeletionRetry()]
    assert retries == [FIRST_RETRY_S]
