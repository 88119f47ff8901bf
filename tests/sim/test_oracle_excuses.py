"""What a rule excuses because a stock cluster does so, too, and that it still bites right beside it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from controllerd.core.model import TopicPartition
from tests.sim.broker_scribe import Scribe
from tests.sim.loop import VirtualLoop, run
from tests.sim.oracle import AtRest, CachedPartition, InstanceAtRest, Row, judge_quiescence
from tests.sim.oracle_samples import (
    A_NODE,
    A_SESSION,
    B_NODE,
    B_SESSION,
    STATE,
    TOPIC,
    WINDOW,
    Tale,
    create,
    delete,
    document,
    election,
    fence,
    set_,
    state,
    topic,
)
from tests.sim.test_oracle_admin import GONE, MARKED, MARKER, Step, called, fenced, holding, long_after, told
from tests.sim.test_oracle_quiescence import at_rest

DEBT: Final = document(version=1, owed=[{"topic": "t", "topic_id": None, "partitions": [0]}])
WENT: Final = told(fenced(delete(STATE)), fenced(delete(TOPIC)), fenced(delete(MARKER)))
BACK_IN_ISR: Final = Row("t", 0, 1, 1, (1,), 1, (1, 2, 3))


def broken(tale: Tale, end: AtRest) -> set[str]:
    return {found.id for found in judge_quiescence(tale.zookeeper, end)}


# -- what nobody could tell a broker any more --------------------------------------------------------------------


def only_the_first_shows_it(tale: Tale) -> AtRest:
    end = at_rest(tale)
    first, *rest = (replace(broker, replicas={}) for broker in end.brokers)
    return replace(end, brokers=[first, *(replace(broker, metadata={}) for broker in rest)])


def led_by_the_other(end: AtRest) -> AtRest:
    brokers = [replace(each, controller_id=B_NODE, live_brokers=[1, 2, 3, B_NODE]) for each in end.brokers]
    instances = [InstanceAtRest("a", A_NODE, False, 1), InstanceAtRest("b", B_NODE, True, 2)]
    return replace(end, brokers=brokers, instances=instances)


def test_a_broker_that_was_slow_when_a_topic_went_may_show_it_after_a_failover() -> None:
    tale = Tale()
    told(MARKED, WENT)(tale)
    tale.depose()
    assert broken(tale, led_by_the_other(only_the_first_shows_it(tale))) == set()


def test_a_broker_that_heard_of_the_end_of_a_topic_must_not_show_it_though_there_was_a_failover() -> None:
    tale = Tale()
    told(MARKED, GONE, WENT)(tale)
    tale.depose()
    assert broken(tale, led_by_the_other(only_the_first_shows_it(tale))) == {"Q-04"}


def test_what_a_broker_heard_of_an_earlier_topic_of_that_name_counts_for_nothing() -> None:
    tale = Tale()
    told(MARKED, GONE, WENT)(tale)
    tale.write(0, create(TOPIC, topic({0: [1, 2, 3]}, topic_id="id-u")))
    tale.fenced(create(STATE, state(1, 0, [1, 2, 3])))
    told(MARKED, WENT)(tale)
    tale.depose()
    assert broken(tale, led_by_the_other(only_the_first_shows_it(tale))) == set()


@pytest.mark.parametrize(("heard", "rules"), [((), set()), ((GONE,), {"Q-04"})])
def test_a_partition_that_the_next_topic_of_that_name_lacks_ended_with_the_earlier_topic(
    heard: tuple[Step, ...], rules: set[str]
) -> None:
    """The next controller is elected between the ends of the two, and knows nothing of that partition."""
    tale = Tale()
    told(MARKED, *heard, WENT)(tale)
    tale.write(0, create(TOPIC, topic({1: [1, 2, 3]}, topic_id="id-u")))
    tale.depose()
    MARKED(tale)
    tale.write(B_SESSION, fence(2), delete(TOPIC))
    tale.write(B_SESSION, fence(2), delete(MARKER))
    assert broken(tale, led_by_the_other(only_the_first_shows_it(tale))) == rules


@pytest.mark.parametrize(("heard", "rules"), [((), set()), ((GONE,), {"Q-04"})])
def test_a_broker_that_registered_after_a_topic_went_may_show_it_unless_it_had_heard(
    heard: tuple[Step, ...], rules: set[str]
) -> None:
    tale = Tale()
    told(MARKED, *heard)(tale)
    tale.die(1)
    WENT(tale)
    tale.register(1)
    assert broken(tale, only_the_first_shows_it(tale)) == rules


def test_a_broker_that_was_there_when_a_topic_went_must_not_show_it_though_nobody_told_it() -> None:
    tale = Tale()
    told(MARKED, WENT)(tale)
    assert broken(tale, only_the_first_shows_it(tale)) == {"Q-04"}


# -- a state that was written once more and changed nothing ------------------------------------------------------

CHANGED: Final = [
    state(1, 0, [1, 2]),
    state(1, 1, [1, 2, 3]),
    state(1, 0, [1, 2, 3], recovery=1),
]


def with_an_answered_leader(end: AtRest, version: int) -> AtRest:
    """The leader has read the newest version in the answer to its request."""
    key, told = ("t", 0), CachedPartition(1, 0, (1, 2, 3), version)
    leader, *followers = end.brokers
    return replace(end, brokers=[replace(leader, replicas={key: told}), *followers])


def test_brokers_may_show_an_older_version_of_a_state_that_was_written_once_more() -> None:
    tale = Tale()
    tale.fenced(set_(STATE, state(1, 0, [1, 2, 3]), 0))
    assert broken(tale, with_an_answered_leader(at_rest(tale), 1)) == set()


@pytest.mark.parametrize("between", CHANGED)
def test_brokers_must_not_show_an_older_version_if_something_was_changed_and_changed_back(between: bytes) -> None:
    tale = Tale()
    tale.fenced(set_(STATE, between, 0))
    tale.fenced(set_(STATE, state(1, 0, [1, 2, 3]), 1))
    assert "Q-04" in broken(tale, with_an_answered_leader(at_rest(tale), 2))


# -- a former leader that nobody can tell of another -------------------------------------------------------------


def without_leader(tale: Tale) -> None:
    """Broker 1 is deposed, and its successor, the last in the ISR, never comes back; 1 registers with its old life."""
    tale.die(1)
    tale.fenced(set_(STATE, state(2, 1, [2, 3]), 0))
    tale.die(3)
    tale.fenced(set_(STATE, state(2, 2, [2]), 1))
    tale.die(2)
    tale.fenced(set_(STATE, state(-1, 3, [2]), 2))
    tale.register(1)


def only_the_former_leader(shown: CachedPartition, *, leader_epoch: int) -> Callable[[AtRest], AtRest]:
    """Broker 1 alone is there, believes to lead in this leader epoch, and was refused another ISR for good."""
    key, held = ("t", 0), CachedPartition(1, leader_epoch, (1, 2, 3), 0)

    def change(end: AtRest) -> AtRest:
        first = replace(end.brokers[0], metadata={key: shown}, replicas={key: held}, stuck=[key])
        return replace(end, brokers=[replace(first, live_brokers=[1, A_NODE])])

    return change


@pytest.mark.parametrize(("leader_epoch", "rules"), [(0, set()), (3, {"Q-15"})])
def test_a_former_leader_may_want_another_isr_while_nobody_can_lead(leader_epoch: int, rules: set[str]) -> None:
    tale = Tale()
    without_leader(tale)
    end = only_the_former_leader(CachedPartition(-1, 3, (2,), 3), leader_epoch=leader_epoch)(at_rest(tale))
    assert broken(tale, end) == rules


def test_a_former_leader_must_not_want_another_isr_when_somebody_leads_again() -> None:
    tale = Tale()
    without_leader(tale)
    tale.fenced(set_(STATE, state(1, 4, [1], recovery=1), 3))
    end = only_the_former_leader(CachedPartition(1, 4, (1,), 4), leader_epoch=0)(at_rest(tale))
    assert "Q-15" in broken(tale, end)


# -- Q-07 and others: a broker with a replica of an earlier topic of that name -----------------------------------------


def third_has_another(end: AtRest, *, refused: bool = False) -> AtRest:
    key = ("t", 0)
    third = replace(end.brokers[2], replicas={}, strange=[key], refused=[key] if refused else [])
    return replace(end, brokers=[*end.brokers[:2], third])


def test_a_broker_that_came_back_after_it_was_given_up_may_have_a_replica_of_an_earlier_topic() -> None:
    tale = Tale()
    tale.zookeeper.history.asked.forget(3, tale.time)
    assert broken(tale, third_has_another(at_rest(tale))) == set()


def test_a_broker_that_could_not_delete_a_replica_may_have_it_of_an_earlier_topic() -> None:
    tale = Tale()
    assert broken(tale, third_has_another(at_rest(tale), refused=True)) == set()


def test_a_broker_that_nobody_gave_up_has_no_replica_of_an_earlier_topic() -> None:
    tale = Tale()
    assert broken(tale, third_has_another(at_rest(tale))) == {"Q-07"}


@pytest.mark.parametrize(("isr", "is_broken"), [([1, 2], True), ([1, 2, 3], False)])
def test_a_debt_is_not_done_with_because_the_broker_has_a_replica_of_an_earlier_topic_unless_it_is_in_sync(
    isr: list[int], is_broken: bool
) -> None:
    """What counts as in sync is left to people (ADR 0020)."""
    tale = Tale()
    tale.zookeeper.history.asked.forget(3, tale.time)
    tale.fenced(set_(STATE, state(1, 0, isr), 0))
    tale.fenced(create("/controllerd/owed_deletions/3", DEBT))
    tale.die(3)
    tale.register(3)
    assert ("Q-22" in broken(tale, third_has_another(at_rest(tale)))) is is_broken


def test_a_broker_that_owes_an_earlier_topic_and_counts_as_in_sync_may_lead_without_effect() -> None:
    """Nobody but people may delete what it has (ADR 0020, simulated seed 808)."""
    tale = Tale()
    tale.fenced(set_(STATE, state(3, 1, [1, 2, 3]), 0))
    tale.fenced(create("/controllerd/owed_deletions/3", DEBT))
    assert "Q-22" in broken(tale, third_has_another(at_rest(tale)))  # it is live since before the topic
    tale.die(3)
    tale.register(3)
    end = third_has_another(at_rest(tale))
    assert not broken(tale, end) & {"Q-02", "Q-15", "Q-22"}
    assert "Q-02" in broken(
        tale, replace(end, brokers=[*end.brokers[:2], replace(end.brokers[2], strange=[], offline=[("t", 0)])])
    )


# -- Z-31: whom a deletion does not wait for ---------------------------------------------------------------------------


def owes(tale: Tale) -> None:
    """All that is left is with the third broker, which owes it."""
    tale.zookeeper.admin.holds = lambda broker, _key: broker == 3
    told(MARKED, fenced(create("/controllerd/owed_deletions/3", DEBT)))(tale)


def test_a_topic_may_go_while_a_broker_that_is_away_owes_its_replica() -> None:
    tale = Tale()
    tale.die(3)
    told(owes, fenced(delete(STATE)), fenced(delete(TOPIC)))(tale)
    assert tale.oracle.violations == []


def test_a_topic_does_not_go_while_a_broker_that_is_there_has_its_replica_though_it_owes_it() -> None:
    tale = Tale()
    told(owes, fenced(delete(STATE)), fenced(delete(TOPIC)))(tale)
    assert {found.id for found in tale.oracle.violations} == {"Z-31"}


def test_a_topic_does_not_go_while_a_broker_that_came_back_has_its_replica_though_it_was_given_up() -> None:
    tale = Tale()
    tale.zookeeper.history.asked.forget(3, tale.time)
    told(holding, MARKED, fenced(delete(STATE)), fenced(delete(TOPIC)))(tale)
    assert {found.id for found in tale.oracle.violations} == {"Z-31"}


# -- whom an unclean election need not elect ---------------------------------------------------------------------


def grows_while_its_leader_is_dead(tale: Tale) -> None:
    tale.fenced(set_(STATE, state(2, 1, [2]), 0))
    tale.die(2)
    called([2])(tale)
    tale.fenced(set_(TOPIC, topic({0: [2]}), 0))
    called([3, 2])(tale)
    tale.fenced(set_(TOPIC, topic({0: [3, 2]}, adding_replicas={"0": [3]}), 1))
    tale.fenced(set_(STATE, state(-1, 2, [2]), 1))


def test_a_replica_that_was_added_for_good_is_elected_where_anybody_may_lead() -> None:
    tale = Tale(unclean=True)
    grows_while_its_leader_is_dead(tale)
    assert "Q-23" not in broken(tale, at_rest(tale))
    tale.fenced(set_(TOPIC, topic({0: [3, 2]}), 2))
    assert "Q-23" in broken(tale, at_rest(tale))


# -- Z-34 and others: a broker that registered anew, and a controller that is busy -------------------------------------


def only_the_first_in_sync(tale: Tale) -> None:
    tale.greet()
    tale.die(2)
    tale.die(3)
    tale.fenced(set_(STATE, state(1, 1, [1]), 0))


def bounced_long_ago(tale: Tale) -> None:
    tale.die(1)
    tale.register(1)
    long_after(tale)


def heard_long_ago(tale: Tale) -> None:
    tale.greet()
    long_after(tale)


@pytest.mark.parametrize(
    ("heard", "rules"),
    [((), set()), ((lambda tale: tale.greet(),), set()), ((heard_long_ago,), {"Z-34"})],
    ids=["nothing yet", "right now", "long ago"],
)
def test_a_leader_that_bounced_is_buried_late_unless_its_new_life_has_long_heard_of_that_term(
    heard: tuple[Step, ...], rules: set[str]
) -> None:
    tale = Tale()
    told(only_the_first_in_sync, bounced_long_ago, *heard)(tale)
    tale.fenced(set_(STATE, state(-1, 2, [1]), 1))
    assert {found.id for found in tale.oracle.violations} == rules


@pytest.mark.parametrize(("hears", "rules"), [(False, set()), (True, {"Z-25"})])
def test_a_follower_that_bounced_leaves_the_isr_late_unless_its_new_life_has_long_heard_of_that_term(
    *, hears: bool, rules: set[str]
) -> None:
    tale = Tale()
    tale.die(2)
    tale.register(2)
    if hears:
        tale.greet(2)
    long_after(tale)
    tale.fenced(set_(STATE, state(1, 1, [1, 3]), 0))
    assert {found.id for found in tale.oracle.violations} == rules


def test_a_leader_that_never_bounced_is_not_taken_away_though_it_heard_nothing() -> None:
    tale = Tale()
    told(long_after)(tale)
    tale.fenced(set_(STATE, state(-1, 1, [1, 2, 3]), 0))
    assert {found.id for found in tale.oracle.violations} == {"Z-34"}


def test_a_leader_that_bounced_before_the_term_is_not_taken_away_though_it_heard_nothing() -> None:
    tale = Tale()
    told(only_the_first_in_sync, bounced_long_ago)(tale)
    tale.depose()
    tale.write(B_SESSION, fence(2), set_(STATE, state(-1, 2, [1], written_by=2), 1))
    assert {found.id for found in tale.oracle.violations} == {"Z-34"}


def test_a_leader_that_bounced_is_followed_by_who_did_not() -> None:
    tale = Tale()
    told(bounced_long_ago)(tale)
    tale.fenced(set_(STATE, state(-1, 1, [1, 2, 3]), 0))
    assert [found.id for found in tale.oracle.violations] == ["Z-34"]
    assert "[2, 3] could have followed" in tale.oracle.violations[0].evidence


# -- a request for an earlier life, and a controller that is busy ------------------------------------------------


def late_to_an_earlier_life(tale: Tale, works_on_s: float | None) -> set[str]:
    """Broker 1 bounced long ago; the sender works on what came so long after that, with None on nothing."""
    before = tale.epoch_of(1)
    bounced_long_ago(tale)
    tale.requests.on_event("a", tale.zookeeper.history.brokers[1].changed_at + (works_on_s or 0.0))
    if works_on_s is None:
        tale.requests.on_idle("a")
    tale.send("UpdateMetadata", broker_epoch=before, error=77)
    return {found.id for found in tale.oracle.violations}


@pytest.mark.parametrize(
    ("works_on_s", "rules"),
    [(-1.0, set()), (WINDOW / 2, set()), (WINDOW + 1.0, {"R-13"}), (None, {"R-13"})],
    ids=["what came before", "what came before the news may have", "what came long after", "nothing"],
)
def test_an_earlier_life_is_meant_late_only_by_a_controller_that_has_not_come_to_the_news(
    works_on_s: float | None, rules: set[str]
) -> None:
    assert late_to_an_earlier_life(Tale(), works_on_s) == rules


def test_an_earlier_life_is_not_meant_late_by_who_was_elected_since_however_busy_it_is() -> None:
    tale = Tale()
    before = tale.epoch_of(1)
    bounced_long_ago(tale)
    tale.write(A_SESSION, *election(A_NODE, "uuid-a", 2, 1, replaces=True))
    tale.requests.on_event("a", 0.0)
    tale.send("UpdateMetadata", broker_epoch=before, controller_epoch=2, error=77)
    assert {found.id for found in tale.oracle.violations} == {"R-13"}


# -- who must have what was acknowledged -------------------------------------------------------------------------


async def moved_to_a_broker_that_never_led(loop: VirtualLoop) -> tuple[Scribe, TopicPartition]:
    """The second broker dies, is elected before anybody notices, and gets the partition for itself.

    So it is with a reassignment that nobody can know to be a mistake: it was in sync, and registered. Who led last as
    far as brokers know has deleted its replica.
    """
    scribe = await Scribe(loop).started()
    tp = scribe.create("t", [1, 2, 3])
    await scribe.tell_all()
    scribe.cluster.produce("t", 0)
    await asyncio.sleep(1.0)
    scribe.broker(2).crash()
    for broker in (1, 3):
        del scribe.broker(broker).disk["t", 0]
    return scribe, tp


def test_who_must_have_what_was_acknowledged_is_whom_zookeeper_names_not_who_was_told_to_lead_last() -> None:
    async def story(loop: VirtualLoop) -> None:
        scribe, _ = await moved_to_a_broker_that_never_led(loop)
        assert len(scribe.cluster.lost_records()) == 1
        scribe.zookeeper.put(STATE, state(2, 1, [2]))
        assert scribe.cluster.lost_records() == []
        scribe.zookeeper.put(STATE, state(-1, 2, [2]))
        assert scribe.cluster.lost_records() == []

    run(story, 1)


def test_a_record_that_the_last_one_in_sync_has_not_got_is_lost_though_it_never_led() -> None:
    async def story(loop: VirtualLoop) -> None:
        scribe, tp = await moved_to_a_broker_that_never_led(loop)
        scribe.zookeeper.put(STATE, state(-1, 2, [2]))
        scribe.broker(2).disk[tp].truncate_to(0)
        assert len(scribe.cluster.lost_records()) == 1

    run(story, 1)


def test_a_log_that_was_told_no_topic_id_keeps_what_a_leader_with_the_id_acknowledged() -> None:
    """LeaderAndIsr goes without ids where one topic of the request has none (seed 3063)."""

    async def story(loop: VirtualLoop) -> None:
        scribe, tp = await moved_to_a_broker_that_never_led(loop)
        scribe.zookeeper.put(STATE, state(2, 1, [2]))
        log = scribe.broker(2).disk[tp]
        log.topic_id = None
        assert scribe.cluster.lost_records() == []
        log.topic_id = "of another topic"
        assert len(scribe.cluster.lost_records()) == 1

    run(story, 1)


def test_a_loss_names_the_broker_whose_log_lacks_the_record() -> None:
    async def story(loop: VirtualLoop) -> None:
        scribe, tp = await moved_to_a_broker_that_never_led(loop)
        scribe.zookeeper.put(STATE, state(2, 1, [2]))
        scribe.broker(2).disk[tp].truncate_to(0)
        (loss,) = scribe.cluster.lost_records()
        assert loss.endswith("acknowledged by 1 in epoch 0, is not in the log of 2, which must have it at the end")

    run(story, 1)
