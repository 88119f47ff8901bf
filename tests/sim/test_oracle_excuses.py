"""Violations that a rule excuses because a stock cluster has them, and similar ones that it does not excuse."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from controllerd.core.model import TopicPartition
from tests.sim.loop import VirtualLoop, run
from tests.sim.oracle import AtRest, CachedPartition, InstanceAtRest, Row, judge_quiescence
from tests.sim.oracle_samples import (
    A_NODE,
    A_SESSION,
    B_NODE,
    B_SESSION,
    PENDING_FIELD,
    STATE,
    TOPIC,
    WINDOW,
    SampleHistory,
    create,
    delete,
    document,
    election,
    fence,
    set_,
    state,
    topic,
)
from tests.sim.scripted_controller import ScriptedController
from tests.sim.test_oracle_admin import GONE, MARKED, MARKER, Step, called, fenced, holding, in_order, long_after
from tests.sim.test_oracle_quiescence import at_rest

ONE_REPLICA: Final = document(version=1, **{PENDING_FIELD: [{"topic": "t", "topic_id": None, "partitions": [0]}]})
WENT: Final = in_order(fenced(delete(STATE)), fenced(delete(TOPIC)), fenced(delete(MARKER)))
BACK_IN_ISR: Final = Row("t", 0, 1, 1, (1,), 1, (1, 2, 3))


def broken(sample: SampleHistory, end: AtRest) -> set[str]:
    return {found.id for found in judge_quiescence(sample.zookeeper, end)}


# -- state that no request could correct any more ----------------------------------------------------------------


def only_the_first_shows_it(sample: SampleHistory) -> AtRest:
    end = at_rest(sample)
    first, *rest = (replace(broker, replicas={}) for broker in end.brokers)
    return replace(end, brokers=[first, *(replace(broker, metadata={}) for broker in rest)])


def led_by_the_other(end: AtRest) -> AtRest:
    brokers = [replace(each, controller_id=B_NODE, live_brokers=[1, 2, 3, B_NODE]) for each in end.brokers]
    instances = [InstanceAtRest("a", A_NODE, False, 1), InstanceAtRest("b", B_NODE, True, 2)]
    return replace(end, brokers=brokers, instances=instances)


def test_a_broker_that_was_slow_when_a_topic_went_may_show_it_after_a_failover() -> None:
    sample = SampleHistory()
    in_order(MARKED, WENT)(sample)
    sample.depose()
    assert broken(sample, led_by_the_other(only_the_first_shows_it(sample))) == set()


def test_a_broker_that_received_the_end_of_a_topic_must_not_show_it_though_there_was_a_failover() -> None:
    sample = SampleHistory()
    in_order(MARKED, GONE, WENT)(sample)
    sample.depose()
    assert broken(sample, led_by_the_other(only_the_first_shows_it(sample))) == {"Q-04"}


def test_requests_about_an_earlier_topic_of_that_name_do_not_count() -> None:
    sample = SampleHistory()
    in_order(MARKED, GONE, WENT)(sample)
    sample.write(0, create(TOPIC, topic({0: [1, 2, 3]}, topic_id="id-u")))
    sample.fenced(create(STATE, state(1, 0, [1, 2, 3])))
    in_order(MARKED, WENT)(sample)
    sample.depose()
    assert broken(sample, led_by_the_other(only_the_first_shows_it(sample))) == set()


@pytest.mark.parametrize(("received", "rules"), [((), set()), ((GONE,), {"Q-04"})])
def test_a_partition_that_the_next_topic_of_that_name_lacks_ended_with_the_earlier_topic(
    received: tuple[Step, ...], rules: set[str]
) -> None:
    """The next controller is elected between the ends of the two topics, and does not know that partition."""
    sample = SampleHistory()
    in_order(MARKED, *received, WENT)(sample)
    sample.write(0, create(TOPIC, topic({1: [1, 2, 3]}, topic_id="id-u")))
    sample.depose()
    MARKED(sample)
    sample.write(B_SESSION, fence(2), delete(TOPIC))
    sample.write(B_SESSION, fence(2), delete(MARKER))
    assert broken(sample, led_by_the_other(only_the_first_shows_it(sample))) == rules


@pytest.mark.parametrize(("received", "rules"), [((), set()), ((GONE,), {"Q-04"})])
def test_a_broker_that_registered_after_a_topic_went_may_show_it_unless_it_had_received_its_end(
    received: tuple[Step, ...], rules: set[str]
) -> None:
    sample = SampleHistory()
    in_order(MARKED, *received)(sample)
    sample.die(1)
    WENT(sample)
    sample.register(1)
    assert broken(sample, only_the_first_shows_it(sample)) == rules


def test_a_broker_that_was_live_when_a_topic_went_must_not_show_it_even_without_a_request() -> None:
    sample = SampleHistory()
    in_order(MARKED, WENT)(sample)
    assert broken(sample, only_the_first_shows_it(sample)) == {"Q-04"}


# -- a state that was written once more without a change ---------------------------------------------------------

CHANGED: Final = [
    state(1, 0, [1, 2]),
    state(1, 1, [1, 2, 3]),
    state(1, 0, [1, 2, 3], recovery=1),
]


def with_an_answered_leader(end: AtRest, version: int) -> AtRest:
    """Let the leader have read the newest version in the answer to its request."""
    key, in_order = ("t", 0), CachedPartition(1, 0, (1, 2, 3), version)
    leader, *followers = end.brokers
    return replace(end, brokers=[replace(leader, replicas={key: in_order}), *followers])


def test_brokers_may_show_an_older_version_of_a_state_that_was_written_once_more() -> None:
    sample = SampleHistory()
    sample.fenced(set_(STATE, state(1, 0, [1, 2, 3]), 0))
    assert broken(sample, with_an_answered_leader(at_rest(sample), 1)) == set()


@pytest.mark.parametrize("between", CHANGED)
def test_brokers_must_not_show_an_older_version_if_something_was_changed_and_changed_back(between: bytes) -> None:
    sample = SampleHistory()
    sample.fenced(set_(STATE, between, 0))
    sample.fenced(set_(STATE, state(1, 0, [1, 2, 3]), 1))
    assert "Q-04" in broken(sample, with_an_answered_leader(at_rest(sample), 2))


# -- a former leader without a new leader to follow --------------------------------------------------------------


def without_leader(sample: SampleHistory) -> None:
    """Depose broker 1; its successor, the last in the ISR, never comes back, and 1 registers with its old life."""
    sample.die(1)
    sample.fenced(set_(STATE, state(2, 1, [2, 3]), 0))
    sample.die(3)
    sample.fenced(set_(STATE, state(2, 2, [2]), 1))
    sample.die(2)
    sample.fenced(set_(STATE, state(-1, 3, [2]), 2))
    sample.register(1)


def only_the_former_leader(shown: CachedPartition, *, leader_epoch: int) -> Callable[[AtRest], AtRest]:
    """Leave broker 1 alone; it believes to lead in this leader epoch, and its ISR change was refused for good."""
    key, held = ("t", 0), CachedPartition(1, leader_epoch, (1, 2, 3), 0)

    def change(end: AtRest) -> AtRest:
        first = replace(end.brokers[0], metadata={key: shown}, replicas={key: held}, stuck=[key])
        return replace(end, brokers=[replace(first, live_brokers=[1, A_NODE])])

    return change


@pytest.mark.parametrize(("leader_epoch", "rules"), [(0, set()), (3, {"Q-15"})])
def test_a_former_leader_may_want_another_isr_while_no_replica_can_lead(leader_epoch: int, rules: set[str]) -> None:
    sample = SampleHistory()
    without_leader(sample)
    end = only_the_former_leader(CachedPartition(-1, 3, (2,), 3), leader_epoch=leader_epoch)(at_rest(sample))
    assert broken(sample, end) == rules


def test_a_former_leader_must_not_want_another_isr_when_there_is_a_leader_again() -> None:
    sample = SampleHistory()
    without_leader(sample)
    sample.fenced(set_(STATE, state(1, 4, [1], recovery=1), 3))
    end = only_the_former_leader(CachedPartition(1, 4, (1,), 4), leader_epoch=0)(at_rest(sample))
    assert "Q-15" in broken(sample, end)


# -- Q-07 and others: a broker with a replica of an earlier topic of that name -----------------------------------------


def third_has_another(end: AtRest, *, refused: bool = False) -> AtRest:
    key = ("t", 0)
    third = replace(end.brokers[2], replicas={}, conflicting=[key], refused=[key] if refused else [])
    return replace(end, brokers=[*end.brokers[:2], third])


def test_a_broker_that_came_back_after_it_was_given_up_may_have_a_replica_of_an_earlier_topic() -> None:
    sample = SampleHistory()
    sample.zookeeper.history.asked.forget(3, sample.time)
    assert broken(sample, third_has_another(at_rest(sample))) == set()


def test_a_broker_that_could_not_delete_a_replica_may_have_it_of_an_earlier_topic() -> None:
    sample = SampleHistory()
    assert broken(sample, third_has_another(at_rest(sample), refused=True)) == set()


def test_a_broker_that_was_not_given_up_has_no_replica_of_an_earlier_topic() -> None:
    sample = SampleHistory()
    assert broken(sample, third_has_another(at_rest(sample))) == {"Q-07"}


@pytest.mark.parametrize(("isr", "is_broken"), [([1, 2], True), ([1, 2, 3], False)])
def test_a_pending_deletion_is_not_done_though_the_broker_has_a_replica_of_an_earlier_topic_unless_it_is_in_sync(
    isr: list[int], is_broken: bool
) -> None:
    """The in-sync replica is left to operators (ADR 0020)."""
    sample = SampleHistory()
    sample.zookeeper.history.asked.forget(3, sample.time)
    sample.fenced(set_(STATE, state(1, 0, isr), 0))
    sample.fenced(create("/controllerd/owed_deletions/3", ONE_REPLICA))
    sample.die(3)
    sample.register(3)
    assert ("Q-22" in broken(sample, third_has_another(at_rest(sample)))) is is_broken


def test_a_broker_with_a_pending_deletion_that_counts_as_in_sync_may_lead_without_effect() -> None:
    """Only an operator may delete its log (ADR 0020, simulated seed 808)."""
    sample = SampleHistory()
    sample.fenced(set_(STATE, state(3, 1, [1, 2, 3]), 0))
    sample.fenced(create("/controllerd/owed_deletions/3", ONE_REPLICA))
    assert "Q-22" in broken(sample, third_has_another(at_rest(sample)))  # it has been live since before the topic
    sample.die(3)
    sample.register(3)
    end = third_has_another(at_rest(sample))
    assert not broken(sample, end) & {"Q-02", "Q-15", "Q-22"}
    assert "Q-02" in broken(
        sample, replace(end, brokers=[*end.brokers[:2], replace(end.brokers[2], conflicting=[], offline=[("t", 0)])])
    )


# -- Z-31: brokers that a deletion does not wait for -------------------------------------------------------------------


def has_pending_deletion(sample: SampleHistory) -> None:
    """Leave only the third broker with a replica, whose deletion is pending."""
    sample.zookeeper.admin.holds = lambda broker, _key: broker == 3
    in_order(MARKED, fenced(create("/controllerd/owed_deletions/3", ONE_REPLICA)))(sample)


def test_a_topic_may_go_while_the_deletion_at_a_dead_broker_is_pending() -> None:
    sample = SampleHistory()
    sample.die(3)
    in_order(has_pending_deletion, fenced(delete(STATE)), fenced(delete(TOPIC)))(sample)
    assert sample.oracle.violations == []


def test_a_topic_does_not_go_while_a_live_broker_has_its_replica_though_the_deletion_is_pending() -> None:
    sample = SampleHistory()
    in_order(has_pending_deletion, fenced(delete(STATE)), fenced(delete(TOPIC)))(sample)
    assert {found.id for found in sample.oracle.violations} == {"Z-31"}


def test_a_topic_does_not_go_while_a_broker_that_came_back_has_its_replica_though_it_was_given_up() -> None:
    sample = SampleHistory()
    sample.zookeeper.history.asked.forget(3, sample.time)
    in_order(holding, MARKED, fenced(delete(STATE)), fenced(delete(TOPIC)))(sample)
    assert {found.id for found in sample.oracle.violations} == {"Z-31"}


# -- replicas that an unclean election need not elect ------------------------------------------------------------


def grows_while_its_leader_is_dead(sample: SampleHistory) -> None:
    sample.fenced(set_(STATE, state(2, 1, [2]), 0))
    sample.die(2)
    called([2])(sample)
    sample.fenced(set_(TOPIC, topic({0: [2]}), 0))
    called([3, 2])(sample)
    sample.fenced(set_(TOPIC, topic({0: [3, 2]}, adding_replicas={"0": [3]}), 1))
    sample.fenced(set_(STATE, state(-1, 2, [2]), 1))


def test_a_replica_that_was_added_for_good_is_elected_where_every_replica_may_lead() -> None:
    sample = SampleHistory(unclean=True)
    grows_while_its_leader_is_dead(sample)
    assert "Q-23" not in broken(sample, at_rest(sample))
    sample.fenced(set_(TOPIC, topic({0: [3, 2]}), 2))
    assert "Q-23" in broken(sample, at_rest(sample))


# -- Z-34 and others: a broker that registered anew, and a controller that is busy -------------------------------------


def only_the_first_in_sync(sample: SampleHistory) -> None:
    sample.send_live_brokers()
    sample.die(2)
    sample.die(3)
    sample.fenced(set_(STATE, state(1, 1, [1]), 0))


def bounced_long_ago(sample: SampleHistory) -> None:
    sample.die(1)
    sample.register(1)
    long_after(sample)


def reached_long_ago(sample: SampleHistory) -> None:
    sample.send_live_brokers()
    long_after(sample)


@pytest.mark.parametrize(
    ("received", "rules"),
    [((), set()), ((lambda sample: sample.send_live_brokers(),), set()), ((reached_long_ago,), {"Z-34"})],
    ids=["nothing yet", "right now", "long ago"],
)
def test_a_leader_that_bounced_may_be_replaced_late_unless_the_controller_has_long_reached_its_new_life(
    received: tuple[Step, ...], rules: set[str]
) -> None:
    sample = SampleHistory()
    in_order(only_the_first_in_sync, bounced_long_ago, *received)(sample)
    sample.fenced(set_(STATE, state(-1, 2, [1]), 1))
    assert {found.id for found in sample.oracle.violations} == rules


@pytest.mark.parametrize(("reached", "rules"), [(False, set()), (True, {"Z-25"})])
def test_a_follower_that_bounced_may_leave_the_isr_late_unless_the_controller_has_long_reached_its_new_life(
    *, reached: bool, rules: set[str]
) -> None:
    sample = SampleHistory()
    sample.die(2)
    sample.register(2)
    if reached:
        sample.send_live_brokers(2)
    long_after(sample)
    sample.fenced(set_(STATE, state(1, 1, [1, 3]), 0))
    assert {found.id for found in sample.oracle.violations} == rules


def test_a_leader_that_never_bounced_is_not_replaced_even_without_requests() -> None:
    sample = SampleHistory()
    in_order(long_after)(sample)
    sample.fenced(set_(STATE, state(-1, 1, [1, 2, 3]), 0))
    assert {found.id for found in sample.oracle.violations} == {"Z-34"}


def test_a_leader_that_bounced_before_the_term_is_not_replaced_even_without_requests() -> None:
    sample = SampleHistory()
    in_order(only_the_first_in_sync, bounced_long_ago)(sample)
    sample.depose()
    sample.write(B_SESSION, fence(2), set_(STATE, state(-1, 2, [1], written_by=2), 1))
    assert {found.id for found in sample.oracle.violations} == {"Z-34"}


def test_a_leader_that_bounced_is_succeeded_by_a_replica_that_did_not() -> None:
    sample = SampleHistory()
    in_order(bounced_long_ago)(sample)
    sample.fenced(set_(STATE, state(-1, 1, [1, 2, 3]), 0))
    assert [found.id for found in sample.oracle.violations] == ["Z-34"]
    assert "[2, 3] could have followed" in sample.oracle.violations[0].evidence


# -- a request for an earlier life, and a controller that is busy ------------------------------------------------


def late_to_an_earlier_life(sample: SampleHistory, works_on_s: float | None) -> set[str]:
    """Bounce broker 1 long ago; the sender handles an event of so long after that, with None no event."""
    before = sample.epoch_of(1)
    bounced_long_ago(sample)
    sample.requests.on_event("a", sample.zookeeper.history.brokers[1].changed_at + (works_on_s or 0.0))
    if works_on_s is None:
        sample.requests.on_idle("a")
    sample.send("UpdateMetadata", broker_epoch=before, error=77)
    return {found.id for found in sample.oracle.violations}


@pytest.mark.parametrize(
    ("works_on_s", "rules"),
    [(-1.0, set()), (WINDOW / 2, set()), (WINDOW + 1.0, {"R-13"}), (None, {"R-13"})],
    ids=["what came before", "what came before the news may have", "what came long after", "nothing"],
)
def test_only_a_controller_with_the_news_in_its_queue_may_address_an_earlier_life_late(
    works_on_s: float | None, rules: set[str]
) -> None:
    assert late_to_an_earlier_life(SampleHistory(), works_on_s) == rules


def test_a_controller_elected_since_must_not_address_an_earlier_life_however_busy_it_is() -> None:
    sample = SampleHistory()
    before = sample.epoch_of(1)
    bounced_long_ago(sample)
    sample.write(A_SESSION, *election(A_NODE, "uuid-a", 2, 1, replaces=True))
    sample.requests.on_event("a", 0.0)
    sample.send("UpdateMetadata", broker_epoch=before, controller_epoch=2, error=77)
    assert {found.id for found in sample.oracle.violations} == {"R-13"}


# -- the broker that must have the acknowledged records ----------------------------------------------------------


async def moved_to_a_broker_that_never_led(loop: VirtualLoop) -> tuple[ScriptedController, TopicPartition]:
    """Let the second broker die, be elected before that is noticed, and get the partition for itself.

    No controller can know that this reassignment is a mistake: the broker was in sync, and registered. The broker that
    led last, as far as brokers know, has deleted its replica.
    """
    controller = await ScriptedController(loop).started()
    tp = controller.create("t", [1, 2, 3])
    await controller.send_to_all()
    controller.cluster.produce("t", 0)
    await asyncio.sleep(1.0)
    controller.broker(2).crash()
    for broker in (1, 3):
        del controller.broker(broker).disk["t", 0]
    return controller, tp


def test_the_leader_in_zookeeper_must_have_the_acknowledged_records_and_not_the_last_known_one() -> None:
    async def story(loop: VirtualLoop) -> None:
        controller, _ = await moved_to_a_broker_that_never_led(loop)
        assert len(controller.cluster.lost_records()) == 1
        controller.zookeeper.put(STATE, state(2, 1, [2]))
        assert controller.cluster.lost_records() == []
        controller.zookeeper.put(STATE, state(-1, 2, [2]))
        assert controller.cluster.lost_records() == []

    run(story, 1)


def test_a_record_that_the_last_one_in_sync_has_not_got_is_lost_though_it_never_led() -> None:
    async def story(loop: VirtualLoop) -> None:
        controller, tp = await moved_to_a_broker_that_never_led(loop)
        controller.zookeeper.put(STATE, state(-1, 2, [2]))
        controller.broker(2).disk[tp].truncate_to(0)
        assert len(controller.cluster.lost_records()) == 1

    run(story, 1)


def test_a_log_without_topic_id_keeps_the_records_that_a_leader_with_the_id_acknowledged() -> None:
    """LeaderAndIsr has no ids where one topic of the request has none (seed 3063)."""

    async def story(loop: VirtualLoop) -> None:
        controller, tp = await moved_to_a_broker_that_never_led(loop)
        controller.zookeeper.put(STATE, state(2, 1, [2]))
        log = controller.broker(2).disk[tp]
        log.topic_id = None
        assert controller.cluster.lost_records() == []
        log.topic_id = "of another topic"
        assert len(controller.cluster.lost_records()) == 1

    run(story, 1)


def test_a_loss_names_the_broker_whose_log_lacks_the_record() -> None:
    async def story(loop: VirtualLoop) -> None:
        controller, tp = await moved_to_a_broker_that_never_led(loop)
        controller.zookeeper.put(STATE, state(2, 1, [2]))
        controller.broker(2).disk[tp].truncate_to(0)
        (loss,) = controller.cluster.lost_records()
        assert loss.endswith("acknowledged by 1 in epoch 0, is not in the log of 2, which must have it at the end")

    run(story, 1)
