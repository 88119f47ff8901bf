"""The progress of the deletion of a topic and the reasons why it waits, computed from the context."""

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_progress import deletion_progress, waiting_reason
from controllerd.core.deletion_waits import reassignments_to_wait_for
from controllerd.core.model import (
    OUR_IDS,
    Broker,
    BrokerId,
    LeaderAndIsr,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
MOVING = ReplicaAssignment((TWO, THREE, ONE), adding=(THREE,), removing=(ONE,))


@pytest.fixture
def context() -> ControllerContext:
    """The topic t is to be deleted: two partitions on brokers 1, 2 and 3, which are live and run them."""
    context = ControllerContext()
    for broker in (ONE, TWO, THREE):
        context.add_broker(Broker(broker, 100 + broker, ()))
    context.put_topic(TopicImage("t", dict.fromkeys((0, 1), ReplicaAssignment((ONE, TWO, THREE))), None, 0))
    put_states(context, ReplicaState.ONLINE, ONE, TWO, THREE)
    context.deletions.queue("t")
    return context


def put_states(context: ControllerContext, state: ReplicaState, *brokers: BrokerId) -> None:
    for tp in (T0, T1):
        for broker in brokers:
            context.move_replicas(broker, [context.record(tp)], state)


def reason_of(context: ControllerContext) -> str | None:
    return waiting_reason(context, "t", deletion_progress(context, "t"))


def test_brokers_are_ready_until_they_are_sent_the_deletion_and_done_when_they_have_answered(
    context: ControllerContext,
) -> None:
    put_states(context, ReplicaState.DELETION_STARTED, TWO)
    put_states(context, ReplicaState.DELETION_SUCCESSFUL, THREE)

    progress = deletion_progress(context, "t")

    assert [set(each) for each in progress[:3]] == [{TWO}, {ONE}, set()]
    assert not progress.is_done


def test_a_topic_without_partitions_is_done(context: ControllerContext) -> None:
    context.put_topic(TopicImage("empty", {}, None, 0))

    assert deletion_progress(context, "empty").is_done


def test_a_dead_broker_and_a_failed_log_directory_are_offline(context: ControllerContext) -> None:
    context.remove_broker(TWO)
    context.set_offline_dirs(THREE, frozenset({T1}))

    progress = deletion_progress(context, "t")

    assert progress.offline == {TWO, THREE}
    assert progress.ready == {ONE, THREE}
    assert reason_of(context) == "replicas on brokers 2, 3 cannot be deleted: not online"


def test_a_broker_that_is_shutting_down_can_be_sent_a_deletion(context: ControllerContext) -> None:
    context.mark_shutting_down(THREE)

    assert deletion_progress(context, "t").ready == {ONE, TWO, THREE}


def test_pending_deletions_of_an_absent_broker_count_as_deleted(context: ControllerContext) -> None:
    put_states(context, ReplicaState.DELETION_SUCCESSFUL, ONE, TWO)
    context.remove_broker(THREE)
    context.pending_deletions.set(THREE, {T0: None, T1: None})

    assert deletion_progress(context, "t").is_done


def test_pending_deletions_of_a_live_broker_do_not_count_as_deleted(context: ControllerContext) -> None:
    context.pending_deletions.set(THREE, {T0: None, T1: None})

    assert THREE in deletion_progress(context, "t").ready


def test_one_pending_deletion_of_an_absent_broker_does_not_count_for_its_other_replicas(
    context: ControllerContext,
) -> None:
    context.remove_broker(THREE)
    context.pending_deletions.set(THREE, {T0: None})

    assert deletion_progress(context, "t").offline == {THREE}


def test_a_replica_on_controllerd_has_no_data_to_wait_for(context: ControllerContext) -> None:
    for tp in (T0, T1):
        context.set_assignment(tp, ReplicaAssignment((ONE, BrokerId(OUR_IDS[0]))))
    put_states(context, ReplicaState.DELETION_INELIGIBLE, BrokerId(OUR_IDS[0]))
    put_states(context, ReplicaState.DELETION_SUCCESSFUL, ONE)

    progress = deletion_progress(context, "t")

    assert progress.is_done
    assert not progress.has_ineligible


def test_a_deletion_under_way_is_held_up_by_nothing(context: ControllerContext) -> None:
    put_states(context, ReplicaState.DELETION_STARTED, ONE, TWO, THREE)

    assert reason_of(context) is None


def test_every_reason_is_named(context: ControllerContext) -> None:
    context.set_assignment(T0, MOVING)
    context.set_leadership(T0, LeaderAndIsr(ONE, 0, (ONE, TWO), 1, 0))
    context.remove_broker(BrokerId(9))
    context.deletions.refuse("t", "broker 2 could not delete t-1: KAFKA_STORAGE_ERROR")
    context.put_in_quarantine("/brokers/topics/t", "not JSON")

    assert reason_of(context) == (
        "its znode cannot be understood; waits for the reassignment of t-0; "
        "broker 2 could not delete t-1: KAFKA_STORAGE_ERROR"
    )


def test_a_deletion_that_has_begun_waits_for_no_reassignment(context: ControllerContext) -> None:
    context.set_assignment(T0, MOVING)
    context.set_leadership(T0, LeaderAndIsr(ONE, 0, (ONE, TWO), 1, 0))
    context.deletions.begin("t")

    assert reason_of(context) is None


@pytest.mark.parametrize(
    ("dead", "leader", "isr", "waits"),
    [
        (None, ONE, (ONE, TWO), True),
        (THREE, ONE, (ONE, TWO), False),
        (ONE, ONE, (ONE, TWO), True),
        (ONE, ONE, (ONE,), False),
        (TWO, ONE, (ONE, TWO), True),
        (THREE, ONE, (ONE, TWO, THREE), True),
        (None, BrokerId(-1), (ONE,), False),
    ],
    ids=[
        "all are there",
        "who must catch up is dead",
        "the leader is dead, and another can follow",
        "the leader is dead, and nobody can follow",
        "one in sync is dead",
        "the new one is in sync, and dead",
        "nobody leads",
    ],
)
def test_a_reassignment_is_waited_for_as_long_as_it_can_end(
    context: ControllerContext, dead: BrokerId | None, leader: BrokerId, isr: tuple[BrokerId, ...], waits: bool
) -> None:
    context.set_assignment(T0, MOVING)
    context.set_leadership(T0, LeaderAndIsr(leader, 0, isr, 1, 0))
    if dead is not None:
        context.remove_broker(dead)

    assert reassignments_to_wait_for(context, "t") == ([T0] if waits else [])


def test_a_reassignment_whose_whole_target_is_dead_is_not_waited_for(context: ControllerContext) -> None:
    context.set_assignment(T0, MOVING)
    context.set_leadership(T0, LeaderAndIsr(ONE, 0, (ONE, TWO, THREE), 1, 0))
    context.remove_broker(TWO)
    context.remove_broker(THREE)

    assert reassignments_to_wait_for(context, "t") == []


def test_a_reason_names_three_partitions_and_counts_the_others() -> None:
    context = ControllerContext()
    for broker in (ONE, TWO, THREE):
        context.add_broker(Broker(broker, 100 + broker, ()))
    context.put_topic(TopicImage("t", dict.fromkeys(range(5), MOVING), None, 0))
    for number in range(5):
        context.set_leadership(TopicPartition("t", number), LeaderAndIsr(ONE, 0, (ONE, TWO), 1, 0))
    context.deletions.queue("t")

    assert reason_of(context) == "waits for the reassignment of t-0, t-1, t-2 and 2 more"
