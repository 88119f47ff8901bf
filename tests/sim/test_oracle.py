"""Each rule of the judge is tripped by a minimal wrong step, which trips no other; a true history trips none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from controllerd.core.cluster_settings import UNCLEAN
from tests.sim.oracle import RULES, Row
from tests.sim.oracle_samples import (
    A_NODE,
    A_SESSION,
    B_NODE,
    B_SESSION,
    CONFIG,
    LONG,
    ROW,
    STATE,
    TOOL_SESSION,
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

Step = Callable[[Tale], object]


def step(data: bytes, expected: int = 0) -> Step:
    """The state is written anew."""
    return lambda tale: tale.fenced(set_(STATE, data, expected))


def after_deaths(*brokers: int, then: Step) -> Step:
    """Brokers die, and long afterwards something happens."""

    def steps(tale: Tale) -> None:
        for broker in brokers:
            tale.die(broker)
        tale.time += LONG
        then(tale)

    return steps


def asked(isr: list[int], then: Step, **fields: int) -> Step:
    def steps(tale: Tale) -> None:
        tale.ask(isr, **fields)
        then(tale)

    return steps


def both(first: Step, then: Step) -> Step:
    def steps(tale: Tale) -> None:
        first(tale)
        then(tale)

    return steps


def greeted(then: Step) -> Step:
    """Broker 1 has its first UpdateMetadata."""
    return both(lambda tale: tale.greet(), then)


def request(api: str, *rows: Row, **fields: Any) -> Step:
    return lambda tale: tale.send(api, *rows, **fields)


def leads_anew(tale: Tale) -> None:
    """Broker 1 leads on with a new epoch, without broker 3, which is dead."""
    tale.die(3)
    tale.fenced(set_(STATE, state(1, 1, [1, 2]), 0))


def lead_uncleanly(tale: Tale, *, recovery: int = 1) -> None:
    """Broker 1 alone is in sync and dies; broker 2 is elected, and recovers by its own word."""
    after_deaths(2, 3, then=step(state(1, 1, [1])))(tale)
    tale.die(1)
    tale.register(2)
    tale.time += LONG
    tale.fenced(set_(STATE, state(2, 2, [2], recovery=recovery), 1))
    tale.ask([2], broker=2, leader_epoch=2, partition_epoch=2)
    tale.fenced(set_(STATE, state(2, 2, [2]), 2))


def allow_unclean(tale: Tale) -> None:
    tale.zookeeper.on_unclean_default(tale.time, allowed=True)


def without_third(tale: Tale) -> None:
    """Broker 3 was away and is not in sync; the others are."""
    leads_anew(tale)
    tale.register(3)
    tale.time += LONG


def zombie(tale: Tale) -> None:
    """The server lets a deposed instance write, though its fence is as it should be."""
    tale.depose()
    tale.fenced(set_(STATE, state(1, 1, [1, 2, 3]), 0))


def second_zxid(tale: Tale) -> None:
    tale.zxid -= 1
    tale.write(TOOL_SESSION, create("/x"))


def foreign_takeover(tale: Tale) -> None:
    tale.write(B_SESSION, *election(B_NODE, "uuid-b", 2, 1, replaces=True))


def deletes_foreign(tale: Tale) -> None:
    tale.depose()
    tale.requests.on_validated("b")
    tale.write(TOOL_SESSION, delete("/controller"))
    tale.write(A_SESSION, *election(A_NODE, "uuid-a", 3, 2))
    tale.write(B_SESSION, create("/config"))
    tale.write(TOOL_SESSION, delete("/controller"))
    tale.write(B_SESSION, *election(B_NODE, "uuid-b", 4, 3))
    tale.write(B_SESSION, fence(4), set_(STATE, state(1, 1, [1, 2, 3], written_by=4), 0))


def new_epoch_to_broker(tale: Tale) -> None:
    """``b`` leads, and broker 1 knows it; then it accepts a request of ``a``."""
    tale.greet()
    tale.depose()
    tale.send("UpdateMetadata", owner="b", controller_id=B_NODE, controller_epoch=2, live_brokers=[1, 2, 3, B_NODE])
    tale.send("StopReplica", controller_epoch=1)


def to_earlier_life(tale: Tale, later: float) -> None:
    """Broker 1 bounces; after so many seconds a request for its life before arrives."""
    before = tale.epoch_of(1)
    tale.die(1)
    tale.register(1)
    tale.time += later
    tale.send("UpdateMetadata", broker_epoch=before, error=77)


def goes_back(api: str) -> Step:
    def steps(tale: Tale) -> None:
        tale.greet()
        leads_anew(tale)
        tale.send(api, Row("t", 0, 1, 1, (1, 2), 1, (1, 2, 3)))
        tale.send(api, ROW)

    return steps


def sent(*, paused: bool = False, ended: bool = False) -> Step:
    def steps(tale: Tale) -> None:
        if paused:
            tale.requests.on_pause("a")
        if ended:
            tale.requests.on_term_end("a", 1)
        tale.requests.on_sent("a", 1, 1, tale.time)

    return steps


def with_topic(partitions: dict[int, list[int]], then: Step, name: str = "u") -> Step:
    def steps(tale: Tale) -> None:
        tale.write(TOOL_SESSION, create(f"/brokers/topics/{name}", topic(partitions)))
        tale.time += LONG
        then(tale)

    return steps


def new_state(data: bytes) -> Step:
    return lambda tale: tale.fenced(create("/brokers/topics/u/partitions/0/state", data))


def block(first: int, last: int) -> bytes:
    return document(version=1, broker=1, block_start=str(first), block_end=str(last))


BLOCK: Final = "/latest_producer_id_block"
CLEAN_TOPIC: Final = document(version=1, config={"unclean.leader.election.enable": "false"})


def released(broker: int, then: Step) -> Step:
    """The controller tells a broker to go ahead with its shutdown, then this."""

    def wrong(tale: Tale) -> None:
        tale.zookeeper.on_controlled_shutdown(broker)
        tale.zookeeper.on_released(broker, tale.epoch_of(broker), 1)
        then(tale)

    return wrong


def of_release(release: tuple[int, int], then: Step) -> Step:
    """The leader is of this release. Up to 3.1 all send the same version of AlterPartition."""

    def steps(tale: Tale) -> None:
        tale.zookeeper.history.releases[1] = release
        then(tale)

    return steps


def reached(tale: Tale) -> None:
    """The controller of epoch 1 has reached broker 1 long ago."""
    tale.zookeeper.history.hears(1, tale.epoch_of(1), 1, tale.time)
    tale.time += 100


WRONG: Final[list[tuple[str, Step]]] = [
    ("Z-01", lambda tale: tale.write(A_SESSION, set_(STATE, state(1, 1, [1, 2, 3]), 0))),
    ("Z-01", lambda tale: tale.write(A_SESSION, fence(0), set_(STATE, state(1, 1, [1, 2, 3]), 0))),
    ("Z-01", lambda tale: tale.write(A_SESSION, create("/feature"))),
    ("Z-01", lambda tale: tale.write(B_SESSION, create("/feature"))),
    ("Z-01", lambda tale: tale.write(A_SESSION, *election(A_NODE, "uuid-a", 2, 1, replaces=True), create("/feature"))),
    ("Z-02", lambda tale: tale.write(A_SESSION, *election(A_NODE, "uuid-a", 3, 1, replaces=True))),
    ("Z-02", lambda tale: tale.write(TOOL_SESSION, set_("/controller_epoch", b"2", 1))),
    ("Z-02", lambda tale: tale.write(A_SESSION, *election(A_NODE, "uuid-a", 2, -1, replaces=True))),
    ("Z-03", zombie),
    ("Z-04", lambda tale: tale.fenced(set_("/controller", b"{}", 0))),
    ("Z-05", foreign_takeover),
    ("Z-06", after_deaths(1, 2, 3, then=step(state(-1, 1, [])))),
    ("Z-06", step(state(1, 1, [1, 2, 3, 3]))),
    ("Z-07", after_deaths(1, then=step(state(1, 1, [2, 3])))),
    ("Z-08", with_topic({0: [1, 2]}, new_state(state(1, 0, [1, 2, 3])))),
    ("Z-09", step(state(1, 2, [1, 2, 3]))),
    ("Z-09", step(state(2, 0, [1, 2, 3]))),
    ("Z-09", with_topic({0: [1, 2]}, new_state(state(1, 1, [1, 2])))),
    ("Z-10", step(state(1, 1, [1, 2, 3], written_by=0))),
    ("Z-11", step(state(1, 1, [1, 2, 3]), -1)),
    ("Z-11", lambda tale: tale.fenced(set_(TOPIC, topic({0: [1, 2, 3]}), -1))),
    ("Z-12", step(state(1, 0, [1, 2]))),
    ("Z-12", asked([1, 2], step(state(1, 0, [1, 2])), broker=2)),
    ("Z-12", asked([1, 2], step(state(1, 0, [1, 2])), partition_epoch=1)),
    ("Z-12", asked([1, 2], step(state(1, 0, [1, 2, 3])))),
    ("Z-12", of_release((2, 8), step(state(1, 0, [1, 2, 3])))),
    ("Z-12", of_release((2, 8), asked([1, 2], step(state(1, 0, [1, 2, 3]))))),
    (
        "Z-12",
        both(
            leads_anew,
            both(
                reached,
                of_release((3, 1), asked([1, 2, 3], step(state(1, 1, [1, 2]), 1), leader_epoch=1, partition_epoch=1)),
            ),
        ),
    ),
    ("Z-12", after_deaths(1, 2, 3, then=both(step(state(-1, 1, [1, 2, 3])), step(state(-1, 1, [1, 2, 3]), 1)))),
    ("Z-12", after_deaths(3, then=both(step(state(1, 1, [1, 2])), step(state(1, 2, [1, 2, 3]), 1)))),
    (
        "Z-13",
        after_deaths(
            3,
            then=both(
                step(state(1, 1, [1, 2])),
                asked([1, 2, 3], step(state(1, 1, [1, 2, 3]), 1), leader_epoch=1, partition_epoch=1),
            ),
        ),
    ),
    ("Z-14", after_deaths(1, then=step(state(3, 1, [2, 3])))),
    ("Z-14", with_topic({0: [1, 2]}, new_state(state(2, 0, [1, 2])))),
    ("Z-15", after_deaths(1, 2, then=step(state(2, 1, [2, 3])))),
    ("Z-15", after_deaths(3, then=with_topic({0: [1, 3]}, new_state(state(1, 0, [1, 3]))))),
    ("Z-16", lead_uncleanly),
    ("Z-16", both(allow_unclean, both(without_third, step(state(3, 2, [3], recovery=1), 1)))),
    ("Z-17", both(allow_unclean, lambda tale: lead_uncleanly(tale, recovery=0))),
    ("Z-17", step(state(1, 1, [1, 2, 3], recovery=1))),
    ("Z-18", lambda tale: tale.fenced(set_(TOPIC, topic({0: [1, 2, 3]}, topic_id="other"), 0))),
    ("Z-19", lambda tale: tale.fenced(set_(TOPIC, topic({}), 0))),
    ("Z-19", lambda tale: tale.fenced(set_(TOPIC, topic({0: [1, 2, 3]}, kept=2), 0))),
    ("Z-20", lambda tale: tale.fenced(set_(TOPIC, topic({0: [1, 2]}), 0))),
    ("Z-20", lambda tale: tale.fenced(set_(TOPIC, topic({0: [2, 1, 3]}), 0))),
    ("Z-21", step(b"no state")),
    (
        "Z-21",
        both(lambda tale: tale.write(TOOL_SESSION, set_(STATE, b"junk", 0)), step(state(1, 1, [1, 2, 3]), 1)),
    ),
    (
        "Z-22",
        both(
            lambda tale: tale.fenced(create(BLOCK, block(0, 999))),
            lambda tale: tale.fenced(set_(BLOCK, block(999, 1998), 0)),
        ),
    ),
    ("Z-23", lambda tale: tale.fenced(delete("/config/users/u"))),
    ("Z-24", lambda tale: tale.fenced(set_(STATE, state(1, 1, [1, 2, 3]), 5))),
    ("Z-24", second_zxid),
    ("Z-25", step(state(1, 1, [1, 2]))),
    ("Z-25", with_topic({0: [1, 2]}, new_state(state(1, 0, [1])))),
    ("Z-26", after_deaths(1, then=released(2, step(state(2, 1, [2, 3]))))),
    (
        "Z-26",
        released(
            3,
            both(
                step(state(1, 1, [1, 2])),
                asked([1, 2, 3], step(state(1, 1, [1, 2, 3]), 1), leader_epoch=1, partition_epoch=1),
            ),
        ),
    ),
    ("R-01", request("LeaderAndIsr", ROW)),
    ("R-01", request("UpdateMetadata", live_brokers=[])),
    ("R-02", new_epoch_to_broker),
    ("R-03", goes_back("LeaderAndIsr")),
    ("R-04", greeted(request("LeaderAndIsr", replace(ROW, partition_epoch=1)))),
    ("R-04", greeted(request("UpdateMetadata", replace(ROW, isr=(1, 2))))),
    ("R-04", greeted(request("StopReplica", replace(ROW, leader_epoch=1)))),
    ("R-05", greeted(request("LeaderAndIsr", replace(ROW, replicas=(1, 2))))),
    ("R-06", request("UpdateMetadata", broker_epoch=1)),
    ("R-07", request("UpdateMetadata", controller_epoch=2)),
    ("R-07", request("UpdateMetadata", owner="b")),
    ("R-08", sent(ended=True)),
    ("R-09", sent(paused=True)),
    ("R-10", goes_back("UpdateMetadata")),
    ("R-11", request("UpdateMetadata", live_brokers=[1, 2, 3, B_NODE])),
    ("R-11", request("UpdateMetadata", live_brokers=[1, 4])),
    ("R-13", lambda tale: to_earlier_life(tale, LONG)),
    ("R-12", greeted(request("StopReplica", replace(ROW, delete=True)))),
]


@pytest.mark.parametrize(("rule", "wrong"), WRONG)
def test_a_wrong_step_trips_its_rule_and_only_it(rule: str, wrong: Step) -> None:
    tale = Tale()
    wrong(tale)
    assert {found.id for found in tale.oracle.violations} == {rule}, tale.oracle.violations
    assert not tale.oracle.is_content


# -- true histories ----------------------------------------------------------------------------------------------------

TRUE: Final[list[Step]] = [
    lambda _tale: None,
    leads_anew,
    both(lambda tale: tale.zookeeper.on_takeover_asked("uuid-b"), foreign_takeover),
    lambda tale: tale.depose(),
    deletes_foreign,
    lambda tale: tale.fenced(delete("/controller", 0)),
    lambda tale: tale.write(A_SESSION, *election(A_NODE, "uuid-a", 2, 1, replaces=True)),
    asked([1, 2], step(state(1, 0, [1, 2]))),
    # The leader, before 3.0, wants a dead broker beside it, and gets the ISR of ZooKeeper with a newer partition epoch.
    both(
        leads_anew,
        of_release((2, 8), asked([1, 2, 3], step(state(1, 1, [1, 2]), 1), leader_epoch=1, partition_epoch=1)),
    ),
    # So may a leader of 3.1, as long as the controller has not reached it: it speaks as one of 2.7 does.
    both(
        leads_anew,
        of_release((3, 1), asked([1, 2, 3], step(state(1, 1, [1, 2]), 1), leader_epoch=1, partition_epoch=1)),
    ),
    # Who has just died may still be elected, and who has just come may be passed over.
    both(lambda tale: tale.die(2), both(lambda tale: tale.die(1), step(state(2, 1, [2, 3])))),
    both(after_deaths(1, 2, then=lambda tale: tale.register(2)), step(state(3, 1, [3]))),
    both(lambda tale: tale.zookeeper.on_controlled_shutdown(1), step(state(2, 1, [2, 3]))),
    both(lambda tale: tale.zookeeper.on_bad_log_dir(1), step(state(2, 1, [2, 3]))),
    # Who has come back since it was told to go may be elected.
    after_deaths(1, then=released(2, both(lambda tale: tale.register(2), step(state(2, 1, [2, 3]))))),
    after_deaths(1, 2, 3, then=step(state(-1, 1, [1, 2, 3]))),
    with_topic({0: [1, A_NODE]}, lambda tale: tale.fenced(set_("/brokers/topics/u", topic({0: [1, 2]}), 0))),
    lambda tale: tale.fenced(create(BLOCK, block(0, 999))),
    both(
        lambda tale: tale.write(TOOL_SESSION, delete(STATE), delete(TOPIC), create(TOPIC, topic({0: [3, 2]}))),
        lambda tale: tale.fenced(create(STATE, state(1, 0, [1, 2]))),
    ),
    lambda tale: to_earlier_life(tale, WINDOW / 2),
    both(goes_back("StopReplica"), lambda tale: tale.send("StopReplica", replace(ROW, leader_epoch=0))),
]  # fmt: skip


@pytest.mark.parametrize("true", TRUE)
def test_a_true_history_trips_nothing(true: Step) -> None:
    tale = Tale()
    true(tale)
    assert tale.oracle.violations == []
    assert tale.oracle.is_content


def test_an_operator_who_was_answered_allows_no_further_takeover() -> None:
    tale = Tale()
    tale.zookeeper.on_takeover_asked("uuid-b")
    tale.zookeeper.on_takeover_answered("uuid-b")
    foreign_takeover(tale)
    assert [found.id for found in tale.oracle.violations] == ["Z-05"]


@pytest.mark.parametrize(("takes", "rules"), [(True, []), (False, ["Z-05"])])
def test_a_broker_loses_the_role_only_to_an_instance_that_may_take_it(takes: bool, rules: list[str]) -> None:
    tale = Tale(takes=takes)
    tale.write(TOOL_SESSION, *election(1, None, 2, 1, replaces=True))
    tale.write(B_SESSION, *election(B_NODE, "uuid-b", 3, 2, replaces=True))
    assert [found.id for found in tale.oracle.violations] == rules


def test_an_unclean_election_is_fine_where_it_is_allowed() -> None:
    tale = Tale(unclean=True)
    lead_uncleanly(tale)
    assert tale.oracle.violations == []


@pytest.mark.parametrize(("isr", "rules"), [([A_NODE], set()), ([3], {"Z-16"})])
def test_an_unclean_election_is_fine_where_only_an_instance_was_in_sync(isr: list[int], rules: set[str]) -> None:
    """Broker 1 leads in place of the instance, which holds no record; in place of another broker it may not."""
    tale = Tale()
    path = "/brokers/topics/u"
    tale.write(TOOL_SESSION, create(path, topic({0: isr})))
    tale.write(TOOL_SESSION, create(f"{path}/partitions/0/state", state(isr[0], 0, isr)))
    tale.die(3)
    tale.time += LONG
    tale.write(TOOL_SESSION, set_(path, topic({0: [1]}), 0))
    tale.fenced(set_(f"{path}/partitions/0/state", state(1, 1, [1], recovery=1), 0))
    assert {found.id for found in tale.oracle.violations} == rules


def test_a_topic_may_forbid_what_the_cluster_allows() -> None:
    tale = Tale(unclean=True)
    tale.write(TOOL_SESSION, create(CONFIG, CLEAN_TOPIC))
    lead_uncleanly(tale)
    assert {found.id for found in tale.oracle.violations} == {"Z-16"}


def test_a_permission_that_was_just_taken_back_may_still_be_used() -> None:
    tale = Tale(unclean=True)
    after_deaths(2, 3, then=step(state(1, 1, [1])))(tale)
    tale.die(1)
    tale.register(2)
    tale.time += LONG
    tale.zookeeper.on_unclean_default(tale.time, allowed=False)
    tale.time += WINDOW / 2
    tale.fenced(set_(STATE, state(2, 2, [2], recovery=1), 1))
    assert tale.oracle.violations == []


@pytest.mark.parametrize(
    ("by_files", "is_clean", "reads", "configured", "rules"),
    [
        (True, True, True, None, {"Z-16"}),
        (False, True, True, None, set()),
        (True, False, True, None, set()),
        (True, True, False, None, set()),
        (True, True, True, "true", set()),
    ],
    ids=["known to be against it", "by the default", "for it", "not read yet", "by the topic"],
)
def test_a_leader_whose_file_forbids_it_is_not_elected_uncleanly_by_a_controller_that_knows_this_life(
    by_files: bool, is_clean: bool, reads: bool, configured: str | None, rules: set[str]
) -> None:
    tale = Tale(unclean=True)
    tale.zookeeper.on_unclean_default(tale.time, allowed=True, by_files=by_files)
    if configured is not None:
        tale.write(TOOL_SESSION, create(CONFIG, document(version=1, config={UNCLEAN: configured})))
    after_deaths(2, 3, then=step(state(1, 1, [1])))(tale)
    tale.die(1)
    zxid = tale.register(2)
    tale.zookeeper.history.starts(2, is_clean=is_clean)
    tale.zookeeper.history.reads(2, zxid if reads else zxid - 1, 1)
    tale.time += LONG
    tale.fenced(set_(STATE, state(2, 2, [2], recovery=1), 1))
    assert {found.id for found in tale.oracle.violations} == rules


def test_who_is_elected_after_a_broker_registered_knows_this_life() -> None:
    tale = Tale(unclean=True)
    tale.zookeeper.on_unclean_default(tale.time, allowed=True, by_files=True)
    after_deaths(2, 3, then=step(state(1, 1, [1])))(tale)
    tale.die(1)
    tale.register(2)
    tale.zookeeper.history.starts(2, is_clean=True)
    tale.depose()
    tale.time += LONG
    tale.write(B_SESSION, fence(2), set_(STATE, state(2, 2, [2], recovery=1, written_by=2), 1))
    assert {found.id for found in tale.oracle.violations} == {"Z-16"}


@pytest.mark.parametrize(
    ("is_clean", "reads", "rules"), [(True, True, {"Z-16"}), (False, True, set()), (True, False, set())]
)
def test_nobody_is_elected_uncleanly_for_a_dead_broker_of_the_isr_whose_file_forbids_it(
    is_clean: bool, reads: bool, rules: set[str]
) -> None:
    tale = Tale(unclean=True)
    tale.zookeeper.on_unclean_default(tale.time, allowed=True, by_files=True)
    after_deaths(2, 3, then=step(state(1, 1, [1])))(tale)
    tale.die(1)
    zxid = tale.register(1)
    tale.zookeeper.history.starts(1, is_clean=is_clean)
    tale.zookeeper.history.reads(1, zxid if reads else zxid - 1, 1)
    tale.die(1)
    tale.register(2)
    tale.time += LONG
    tale.fenced(set_(STATE, state(2, 2, [2], recovery=1), 1))
    assert {found.id for found in tale.oracle.violations} == rules


def test_a_request_that_the_network_delivers_again_is_no_step_back() -> None:
    tale = Tale()
    tale.greet()
    tale.send("LeaderAndIsr", ROW)
    leads_anew(tale)
    tale.send("LeaderAndIsr", Row("t", 0, 1, 1, (1, 2), 1, (1, 2, 3)))
    tale.send("LeaderAndIsr", ROW)
    assert tale.oracle.violations == []


def test_a_refused_request_of_an_older_epoch_is_no_violation() -> None:
    tale = Tale()
    tale.greet()
    tale.depose()
    tale.send("UpdateMetadata", owner="b", controller_id=B_NODE, controller_epoch=2, live_brokers=[1, 2, 3, B_NODE])
    tale.send("LeaderAndIsr", ROW, error=11)
    assert tale.oracle.violations == []


def test_a_violation_says_when_and_what() -> None:
    tale = Tale()
    step(state(1, 2, [1, 2, 3]))(tale)
    (found,) = tale.oracle.violations
    assert found.time == tale.time
    assert found.evidence == "t-0 from 1/0 [1, 2, 3] v0 to 1/2 [1, 2, 3] v1: the leader epoch moved by 2"


def test_rules_have_sentences() -> None:
    assert all(sentence for sentence in RULES.values())
