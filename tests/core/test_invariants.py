"""Each invariant is tripped by the smallest wrong decision, and by nothing that the controller rightly does."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.invariants import Invariants
from controllerd.core.model import (
    OUR_IDS,
    Broker,
    BrokerId,
    Features,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
    TopicPartition,
)
from controllerd.core.requests import ControlRequest, StopReplicaPartition, StopReplicaRequest, UpdateMetadataRequest
from controllerd.errors import InvariantBroken
from tests.fakes.world import ids

EPOCH = 3
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
OURS = BrokerId(2_000_000_000)
NOW = LeaderAndIsr(BrokerId(1), 4, ids(1, 2), 2, 7)
"""Led by 1; 2 is in sync, 3 is not, 4 is being added."""
NEXT = LeaderAndIsr(BrokerId(2), 5, ids(2), EPOCH, 7)
MOVING = ReplicaAssignment(ids(4, 1, 2, 3), adding=ids(4), removing=ids(3))
SETTLED = ReplicaAssignment(ids(1, 2, 3))
IMAGE = TopicImage("t", {0: MOVING, 1: SETTLED}, "Zm9vYmFyYmF6cXV4MTIzNA", 5, extra={"colour": "red"})


@pytest.fixture
def context() -> ControllerContext:
    """Brokers 1 to 4 are live, 5 is not; topic t has two partitions, of which the first is being reassigned."""
    context = ControllerContext()
    context.begin_term(EPOCH, 1)
    for broker in ids(1, 2, 3, 4):
        context.add_broker(Broker(broker, 100 + broker, ()))
    context.put_topic(IMAGE)
    context.set_leadership(T0, NOW)
    context.set_leadership(T1, NOW)
    return context


@pytest.fixture
def invariants(context: ControllerContext) -> Invariants:
    """The checks of writes and requests."""
    return Invariants(context)


def broken(rule: str, check: Callable[[], None]) -> str:
    """The evidence of a breach of this rule."""
    with pytest.raises(InvariantBroken) as caught:
        check()
    assert caught.value.rule == rule
    return caught.value.evidence


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        NEXT,
        NEXT._replace(leader=BrokerId(-1)),
        NEXT._replace(leader=BrokerId(1), isr=ids(1, 2)),
        NEXT._replace(leader=BrokerId(-1), isr=ids(1)),
        NEXT._replace(leader_epoch=9),
    ],
)
def test_right_decisions_pass(invariants: Invariants, state: LeaderAndIsr) -> None:
    invariants.check_states([(T0, state), (T1, state)])


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ("I-03", NEXT._replace(controller_epoch=EPOCH - 1)),
        ("I-03", NEXT._replace(controller_epoch=EPOCH + 1)),
        ("I-06", NEXT._replace(leader=BrokerId(-1), isr=())),
        ("I-08", NEXT._replace(isr=ids(2, 5))),
        ("I-09", NEXT._replace(leader=BrokerId(1))),
        ("I-12", NEXT._replace(leader_epoch=4)),
        ("I-12", NOW._replace(controller_epoch=EPOCH, isr=ids(1))),
        ("I-14", NEXT._replace(leader=BrokerId(3), isr=ids(3))),
        ("I-14", NEXT._replace(leader=BrokerId(3), isr=ids(3, 2))),
    ],
)
def test_a_wrong_state_is_stopped(invariants: Invariants, rule: str, state: LeaderAndIsr) -> None:
    broken(rule, lambda: invariants.check_states([(T1, NEXT), (T0, state)]))


RECOVERING = NEXT._replace(leader=BrokerId(3), isr=ids(3), recovery_state=LeaderRecoveryState.RECOVERING)


def test_an_unclean_leader_needs_a_permission_for_its_partition(invariants: Invariants) -> None:
    invariants.check_states([(T0, RECOVERING)], unclean={T0})
    broken("I-14", lambda: invariants.check_states([(T0, RECOVERING), (T1, RECOVERING)], unclean={T0}))


@pytest.mark.parametrize("state", [RECOVERING._replace(isr=ids(3, 1)), RECOVERING._replace(recovery_state=NOW[5])])
def test_an_unclean_leader_is_alone_in_the_isr_and_recovering(invariants: Invariants, state: LeaderAndIsr) -> None:
    broken("I-14", lambda: invariants.check_states([(T0, state)], unclean={T0}))


def test_where_brokers_know_no_recovery_an_unclean_leader_does_not_recover() -> None:
    context = ControllerContext(Features(leader_recovery=False))
    context.begin_term(EPOCH, 1)
    context.add_broker(Broker(BrokerId(3), 103, ()))
    context.put_topic(IMAGE)
    context.set_leadership(T0, NOW)
    Invariants(context).check_states([(T0, RECOVERING._replace(recovery_state=NOW[5]))], unclean={T0})


GROWN = NOW._replace(isr=ids(1, 2, 3), controller_epoch=EPOCH)


def test_a_leader_may_change_its_isr_at_its_leader_epoch(invariants: Invariants) -> None:
    invariants.check_states([(T0, GROWN), (T1, GROWN._replace(isr=ids(1)))], by_leaders=True)


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ("I-06", GROWN._replace(isr=())),
        ("I-08", GROWN._replace(isr=ids(1, 2, 5))),
        ("I-09", GROWN._replace(isr=ids(2))),
        ("I-12", GROWN._replace(leader_epoch=5)),
        ("I-12", GROWN._replace(leader=BrokerId(2))),
    ],
)
def test_a_leader_may_not_change_anything_else(invariants: Invariants, rule: str, state: LeaderAndIsr) -> None:
    broken(rule, lambda: invariants.check_states([(T0, state)], by_leaders=True))


def test_a_broker_that_is_shutting_down_gets_into_no_isr_kafka_14140(
    context: ControllerContext, invariants: Invariants
) -> None:
    context.mark_shutting_down(BrokerId(3))
    broken("I-08", lambda: invariants.check_states([(T0, GROWN)], by_leaders=True))


def test_unsound_states_of_other_writers_are_no_breach(context: ControllerContext, invariants: Invariants) -> None:
    context.set_leadership(T0, NOW._replace(leader=BrokerId(3)))
    context.set_leadership(T1, NOW._replace(leader=BrokerId(3), isr=()))
    for tp in (T0, T1):
        now = context.leadership(tp)
        assert now is not None
        invariants.check_states([(tp, now._replace(leader_epoch=5, controller_epoch=EPOCH))])


@pytest.mark.parametrize(("rule", "epoch"), [(None, 5), ("I-12", 4)])
def test_a_state_that_was_just_read_is_checked_for_soundness_only(
    invariants: Invariants, rule: str | None, epoch: int
) -> None:
    state = NEXT._replace(leader=BrokerId(3), isr=ids(3, 2), partition_epoch=8, leader_epoch=epoch)
    if rule is None:
        invariants.check_states([(T0, state)])
        broken("I-09", lambda: invariants.check_states([(T0, state._replace(leader=BrokerId(1)))]))
    else:
        broken(rule, lambda: invariants.check_states([(T0, state)]))


def test_a_write_that_will_lose_its_race_is_let_through(invariants: Invariants) -> None:
    invariants.check_states([(T0, NEXT._replace(partition_epoch=6, leader_epoch=4))])


def test_a_state_of_an_unknown_partition_can_still_be_unsound(invariants: Invariants) -> None:
    invariants.check_states([(U0, NEXT)])
    broken("I-06", lambda: invariants.check_states([(U0, NEXT._replace(isr=()))]))


FRESH = LeaderAndIsr(BrokerId(1), 0, ids(1, 2), EPOCH, 0)


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ("I-03", FRESH._replace(controller_epoch=2)),
        ("I-06", FRESH._replace(isr=())),
        ("I-07", FRESH._replace(isr=ids(1, 4))),
        ("I-09", FRESH._replace(leader=BrokerId(3))),
        ("I-12", FRESH._replace(leader_epoch=1)),
    ],
)
def test_a_new_state_that_begins_wrongly_is_stopped(invariants: Invariants, rule: str, state: LeaderAndIsr) -> None:
    invariants.check_new_states([(T1, FRESH)])
    broken(rule, lambda: invariants.check_new_states([(T1, FRESH), (T1, state)]))


def test_a_new_state_with_a_dead_broker_in_its_isr_is_stopped(
    context: ControllerContext, invariants: Invariants
) -> None:
    context.remove_broker(BrokerId(2))
    broken("I-08", lambda: invariants.check_new_states([(T1, FRESH)]))


def test_znodes_in_quarantine_are_never_written(context: ControllerContext, invariants: Invariants) -> None:
    context.put_in_quarantine(T0.state_path, "not JSON")
    context.put_in_quarantine("/brokers/topics/t", "not JSON")
    invariants.check_states([(T1, NEXT)])
    for check in (
        lambda: invariants.check_states([(T1, NEXT), (T0, NEXT)]),
        lambda: invariants.check_new_states([(T0, FRESH)]),
        lambda: invariants.check_topics([(IMAGE, IMAGE)]),
        lambda: invariants.check_deletions(["t"]),
    ):
        broken("I-37", check)


# -- topics ------------------------------------------------------------------------------------------------------------


def with_first(assignment: ReplicaAssignment) -> TopicImage:
    """The topic with another assignment of its first partition."""
    return replace(IMAGE, assignments={**IMAGE.assignments, 0: assignment})


@pytest.mark.parametrize(
    "after",
    [
        ReplicaAssignment(ids(4, 1, 2)),
        ReplicaAssignment(ids(1, 2, 3)),
        ReplicaAssignment(ids(5, 2, 3, 1), adding=ids(5), removing=ids(1)),
        ReplicaAssignment(ids(3, 4, 1, 2), adding=ids(4), removing=ids(1)),
    ],
)
def test_reassignments_may_end_be_cancelled_and_be_overridden(invariants: Invariants, after: ReplicaAssignment) -> None:
    invariants.check_topics([(with_first(after), IMAGE)])


@pytest.mark.parametrize(
    ("rule", "image"),
    [
        ("I-16", with_first(ReplicaAssignment(ids(4, 1, 3), adding=ids(4)))),
        ("I-16", with_first(ReplicaAssignment(ids(4, 1, 2, 3, 5), adding=ids(4)))),
        ("I-17", replace(IMAGE, assignments={0: MOVING})),
        ("I-17", replace(IMAGE, assignments={**IMAGE.assignments, 2: SETTLED})),
        ("I-17", replace(IMAGE, extra={})),
        ("I-26", replace(IMAGE, topic_id=None)),
        ("I-26", replace(IMAGE, topic_id="Zm9vYmFyYmF6cXV4MTIzNQ")),
    ],
)
def test_a_topic_that_would_lose_or_change_what_it_must_keep_is_stopped(
    invariants: Invariants, rule: str, image: TopicImage
) -> None:
    broken(rule, lambda: invariants.check_topics([(image, IMAGE)]))


def test_a_replica_that_is_still_in_the_isr_is_not_dropped_at_the_end(
    context: ControllerContext, invariants: Invariants
) -> None:
    context.set_leadership(T0, NOW._replace(isr=ids(1, 2, 3)))
    broken("I-16", lambda: invariants.check_topics([(with_first(ReplicaAssignment(ids(4, 1, 2))), IMAGE)]))


def test_a_topic_without_an_id_may_get_one_and_our_own_id_may_be_replaced(invariants: Invariants) -> None:
    now = replace(IMAGE, topic_id=None, assignments={0: ReplicaAssignment((OURS, BrokerId(1))), 1: SETTLED})
    after = replace(IMAGE, assignments={0: ReplicaAssignment(ids(3, 1)), 1: SETTLED})
    invariants.check_topics([(after, now)])


def test_partitions_added_to_a_topic_that_is_being_deleted_may_be_dropped_kafka_6612(
    context: ControllerContext, invariants: Invariants
) -> None:
    grown = replace(IMAGE, assignments={**IMAGE.assignments, 2: SETTLED})
    broken("I-17", lambda: invariants.check_topics([(IMAGE, grown)]))

    context.deletions.queue("t")

    invariants.check_topics([(IMAGE, grown)])
    broken("I-17", lambda: invariants.check_topics([(replace(IMAGE, assignments={0: MOVING}), grown)]))


def test_a_topic_is_deleted_when_that_was_requested_and_every_replica_is_deleted(
    context: ControllerContext, invariants: Invariants
) -> None:
    invariants.check_deletions(["unknown"])
    broken("I-22", lambda: invariants.check_deletions(["t"]))
    context.deletions.queue("t")
    for tp in (T0, T1):
        for broker in context.assignment(tp).replicas:
            context.move_replicas(broker, [context.record(tp)], ReplicaState.DELETION_SUCCESSFUL)
    invariants.check_deletions(["t"])

    context.move_replicas(BrokerId(3), [context.record(T1)], ReplicaState.DELETION_STARTED)

    assert "replica 3" in broken("I-22", lambda: invariants.check_deletions(["t"]))


def test_a_replica_on_an_id_of_controllerd_never_existed(context: ControllerContext, invariants: Invariants) -> None:
    ours = BrokerId(OUR_IDS[0])
    context.deletions.queue("t")
    for tp in (T0, T1):
        context.set_assignment(tp, ReplicaAssignment((ours,)))
        context.move_replicas(ours, [context.record(tp)], ReplicaState.DELETION_INELIGIBLE)

    invariants.check_deletions(["t"])


def test_a_replica_of_an_absent_broker_counts_as_deleted_when_its_deletion_is_pending_kafka_10548(
    context: ControllerContext, invariants: Invariants
) -> None:
    context.deletions.queue("t")
    for tp in (T0, T1):
        for broker in ids(1, 2, 4):
            context.move_replicas(broker, [context.record(tp)], ReplicaState.DELETION_SUCCESSFUL)
        context.move_replicas(BrokerId(3), [context.record(tp)], ReplicaState.DELETION_INELIGIBLE)
    context.remove_broker(BrokerId(3))
    context.pending_deletions.set(BrokerId(3), {T0: None})
    broken("I-22", lambda: invariants.check_deletions(["t"]))
    context.pending_deletions.set(BrokerId(3), {T0: None, T1: None})
    invariants.check_deletions(["t"])


# -- requests ----------------------------------------------------------------------------------------------------------


def stop(broker: int, tp: TopicPartition, *, delete: bool = True) -> list[tuple[BrokerId, ControlRequest]]:
    """A StopReplica to a broker."""
    request = StopReplicaRequest(OURS, EPOCH, 100 + broker, {tp: StopReplicaPartition(4, delete)})
    return [(BrokerId(broker), request)]


def test_replicas_that_are_not_assigned_any_more_may_be_deleted(
    context: ControllerContext, invariants: Invariants
) -> None:
    context.add_broker(Broker(BrokerId(5), 105, ()))
    for requests in (stop(3, T0), stop(5, T0), stop(4, T1), stop(2, U0), stop(1, T0, delete=False)):
        invariants.check_requests(requests)


@pytest.mark.parametrize(("broker", "tp"), [(1, T0), (4, T0), (3, T1)])
def test_a_replica_that_is_assigned_is_never_deleted(invariants: Invariants, broker: int, tp: TopicPartition) -> None:
    broken("I-21", lambda: invariants.check_requests(stop(broker, tp)))


def test_a_replica_of_an_earlier_topic_is_deleted_once_though_the_present_one_is_assigned_to_its_broker(
    context: ControllerContext, invariants: Invariants
) -> None:
    present, three = context.topic_id("t"), BrokerId(3)
    assert present is not None
    for pending_id in (None, present):
        context.pending_deletions.set(three, {T1: pending_id})
        broken("I-21", lambda: invariants.check_requests(stop(3, T1)))
    context.pending_deletions.set(three, {T1: "an older one"})
    invariants.check_requests(stop(3, T1))
    context.set_leadership(T1, NOW._replace(isr=ids(1, 3)))
    broken("I-20", lambda: invariants.check_requests(stop(3, T1)))
    context.set_leadership(T1, NOW)

    context.pending_deletions.note_sent(three, [T1])

    broken("I-21", lambda: invariants.check_requests(stop(3, T1)))


def test_a_replica_that_is_in_the_isr_is_never_deleted(context: ControllerContext, invariants: Invariants) -> None:
    context.set_leadership(T0, NOW._replace(isr=ids(1, 2, 3)))
    broken("I-20", lambda: invariants.check_requests(stop(3, T0)))


def test_replicas_of_a_topic_are_deleted_when_its_deletion_has_begun_and_not_when_it_was_requested(
    context: ControllerContext, invariants: Invariants
) -> None:
    context.deletions.queue("t")
    broken("I-21", lambda: invariants.check_requests(stop(1, T0)))
    context.deletions.begin("t")
    invariants.check_requests(stop(1, T0))


@pytest.mark.parametrize("path", ["/brokers/topics/u", "/brokers/topics/u/partitions/0"])
def test_nothing_is_deleted_of_a_topic_whose_assignment_cannot_be_decoded(
    context: ControllerContext, invariants: Invariants, path: str
) -> None:
    context.put_in_quarantine(path, "not JSON")
    broken("I-37", lambda: invariants.check_requests(stop(1, U0)))


@pytest.mark.parametrize(
    ("rule", "broker", "controller_epoch", "broker_epoch"),
    [("I-03", 1, EPOCH - 1, 101), ("I-27", 1, EPOCH, 100), ("I-27", 5, EPOCH, 105)],
)
def test_a_request_of_another_term_or_to_another_life_of_a_broker_is_stopped(
    context: ControllerContext,
    invariants: Invariants,
    rule: str,
    broker: int,
    controller_epoch: int,
    broker_epoch: int,
) -> None:
    batch = RequestBatch(OURS, context, inter_broker_listener="PLAINTEXT")
    batch.add_update_metadata(ids(1), [T0])
    ((_, right),) = batch.take()
    assert isinstance(right, UpdateMetadataRequest)
    invariants.check_requests([(BrokerId(1), right)])

    wrong = replace(right, controller_epoch=controller_epoch, broker_epoch=broker_epoch)

    broken(rule, lambda: invariants.check_requests([(BrokerId(broker), wrong)]))


def test_brokers_are_never_sent_an_older_leadership_than_before_kafka_1188(context: ControllerContext) -> None:
    RequestBatch(OURS, context, inter_broker_listener="X").add_leader_and_isr(ids(1), T0, is_new=False)
    again = RequestBatch(OURS, context, inter_broker_listener="X")
    again.add_leader_and_isr(ids(1, 2), T0, is_new=False)
    context.set_leadership(T0, NOW._replace(leader_epoch=3))
    broken("I-10", lambda: again.add_leader_and_isr(ids(2), T0, is_new=False))


def test_only_a_growing_topic_may_get_more_partitions(invariants: Invariants) -> None:
    grown = replace(IMAGE, assignments={**IMAGE.assignments, 2: SETTLED})

    invariants.check_topics([(grown, IMAGE)], growing={"t"})

    broken("I-17", lambda: invariants.check_topics([(grown, IMAGE)], growing={"u"}))


def test_a_topic_grows_without_a_gap_and_keeps_what_it_has(invariants: Invariants) -> None:
    gap = replace(IMAGE, assignments={**IMAGE.assignments, 3: SETTLED})
    less = replace(IMAGE, assignments={0: IMAGE.assignments[0]})

    broken("I-17", lambda: invariants.check_topics([(gap, IMAGE)], growing={"t"}))
    broken("I-17", lambda: invariants.check_topics([(less, IMAGE)], growing={"t"}))
