"""Each rule of the judge is tripped by a minimal wrong step, which trips no other; a correct history trips none."""

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

Step = Callable[[SampleHistory], object]


def step(data: bytes, expected: int = 0) -> Step:
    """Write the state anew."""
    return lambda sample: sample.fenced(set_(STATE, data, expected))


def after_deaths(*brokers: int, then: Step) -> Step:
    """Let brokers die, and take the next step long afterwards."""

    def steps(sample: SampleHistory) -> None:
        for broker in brokers:
            sample.die(broker)
        sample.time += LONG
        then(sample)

    return steps


def asked(isr: list[int], then: Step, **fields: int) -> Step:
    def steps(sample: SampleHistory) -> None:
        sample.ask(isr, **fields)
        then(sample)

    return steps


def both(first: Step, then: Step) -> Step:
    def steps(sample: SampleHistory) -> None:
        first(sample)
        then(sample)

    return steps


def after_first_metadata(then: Step) -> Step:
    """Send broker 1 its first UpdateMetadata, then take the next step."""
    return both(lambda sample: sample.send_live_brokers(), then)


def request(api: str, *rows: Row, **fields: Any) -> Step:
    return lambda sample: sample.send(api, *rows, **fields)


def leads_anew(sample: SampleHistory) -> None:
    """Let broker 1 lead on in a new epoch, without broker 3, which is dead."""
    sample.die(3)
    sample.fenced(set_(STATE, state(1, 1, [1, 2]), 0))


def lead_uncleanly(sample: SampleHistory, *, recovery: int = 1) -> None:
    """Let broker 1, alone in sync, die, and elect broker 2, which recovers by its own state."""
    after_deaths(2, 3, then=step(state(1, 1, [1])))(sample)
    sample.die(1)
    sample.register(2)
    sample.time += LONG
    sample.fenced(set_(STATE, state(2, 2, [2], recovery=recovery), 1))
    sample.ask([2], broker=2, leader_epoch=2, partition_epoch=2)
    sample.fenced(set_(STATE, state(2, 2, [2]), 2))


def allow_unclean(sample: SampleHistory) -> None:
    sample.zookeeper.on_unclean_default(sample.time, allowed=True)


def without_third(sample: SampleHistory) -> None:
    """Let broker 3 be absent and out of sync; the others are in sync."""
    leads_anew(sample)
    sample.register(3)
    sample.time += LONG


def zombie(sample: SampleHistory) -> None:
    """Let the server accept a write of a deposed instance, with a correct fence."""
    sample.depose()
    sample.fenced(set_(STATE, state(1, 1, [1, 2, 3]), 0))


def second_zxid(sample: SampleHistory) -> None:
    sample.zxid -= 1
    sample.write(TOOL_SESSION, create("/x"))


def foreign_takeover(sample: SampleHistory) -> None:
    sample.write(B_SESSION, *election(B_NODE, "uuid-b", 2, 1, replaces=True))


def deletes_foreign(sample: SampleHistory) -> None:
    sample.depose()
    sample.requests.on_validated("b")
    sample.write(TOOL_SESSION, delete("/controller"))
    sample.write(A_SESSION, *election(A_NODE, "uuid-a", 3, 2))
    sample.write(B_SESSION, create("/config"))
    sample.write(TOOL_SESSION, delete("/controller"))
    sample.write(B_SESSION, *election(B_NODE, "uuid-b", 4, 3))
    sample.write(B_SESSION, fence(4), set_(STATE, state(1, 1, [1, 2, 3], written_by=4), 0))


def new_epoch_to_broker(sample: SampleHistory) -> None:
    """Let ``b`` lead, so that broker 1 knows it, and then let broker 1 accept a request of ``a``."""
    sample.send_live_brokers()
    sample.depose()
    sample.send("UpdateMetadata", owner="b", controller_id=B_NODE, controller_epoch=2, live_brokers=[1, 2, 3, B_NODE])
    sample.send("StopReplica", controller_epoch=1)


def to_earlier_life(sample: SampleHistory, later: float) -> None:
    """Let broker 1 bounce; after so many seconds a request for its earlier life arrives."""
    before = sample.epoch_of(1)
    sample.die(1)
    sample.register(1)
    sample.time += later
    sample.send("UpdateMetadata", broker_epoch=before, error=77)


def goes_back(api: str) -> Step:
    def steps(sample: SampleHistory) -> None:
        sample.send_live_brokers()
        leads_anew(sample)
        sample.send(api, Row("t", 0, 1, 1, (1, 2), 1, (1, 2, 3)))
        sample.send(api, ROW)

    return steps


def sent(*, paused: bool = False, ended: bool = False) -> Step:
    def steps(sample: SampleHistory) -> None:
        if paused:
            sample.requests.on_pause("a")
        if ended:
            sample.requests.on_term_end("a", 1)
        sample.requests.on_sent("a", 1, 1, sample.time)

    return steps


def with_topic(partitions: dict[int, list[int]], then: Step, name: str = "u") -> Step:
    def steps(sample: SampleHistory) -> None:
        sample.write(TOOL_SESSION, create(f"/brokers/topics/{name}", topic(partitions)))
        sample.time += LONG
        then(sample)

    return steps


def new_state(data: bytes) -> Step:
    return lambda sample: sample.fenced(create("/brokers/topics/u/partitions/0/state", data))


def block(first: int, last: int) -> bytes:
    return document(version=1, broker=1, block_start=str(first), block_end=str(last))


BLOCK: Final = "/latest_producer_id_block"
CLEAN_TOPIC: Final = document(version=1, config={"unclean.leader.election.enable": "false"})


def released(broker: int, then: Step) -> Step:
    """Let the controller allow a broker to go ahead with its shutdown, then take the next step."""

    def wrong(sample: SampleHistory) -> None:
        sample.zookeeper.on_controlled_shutdown(broker)
        sample.zookeeper.on_released(broker, sample.epoch_of(broker), 1)
        then(sample)

    return wrong


def of_release(release: tuple[int, int], then: Step) -> Step:
    """Give the leader this release. Up to 3.1 all send the same version of AlterPartition."""

    def steps(sample: SampleHistory) -> None:
        sample.zookeeper.history.releases[1] = release
        then(sample)

    return steps


def reached(sample: SampleHistory) -> None:
    """Let the controller of epoch 1 have reached broker 1 long ago."""
    sample.zookeeper.history.reached(1, sample.epoch_of(1), 1, sample.time)
    sample.time += 100


WRONG: Final[list[tuple[str, Step]]] = [
    ("Z-01", lambda sample: sample.write(A_SESSION, set_(STATE, state(1, 1, [1, 2, 3]), 0))),
    ("Z-01", lambda sample: sample.write(A_SESSION, fence(0), set_(STATE, state(1, 1, [1, 2, 3]), 0))),
    ("Z-01", lambda sample: sample.write(A_SESSION, create("/feature"))),
    ("Z-01", lambda sample: sample.write(B_SESSION, create("/feature"))),
    (
        "Z-01",
        lambda sample: sample.write(A_SESSION, *election(A_NODE, "uuid-a", 2, 1, replaces=True), create("/feature")),
    ),
    ("Z-02", lambda sample: sample.write(A_SESSION, *election(A_NODE, "uuid-a", 3, 1, replaces=True))),
    ("Z-02", lambda sample: sample.write(TOOL_SESSION, set_("/controller_epoch", b"2", 1))),
    ("Z-02", lambda sample: sample.write(A_SESSION, *election(A_NODE, "uuid-a", 2, -1, replaces=True))),
    ("Z-03", zombie),
    ("Z-04", lambda sample: sample.fenced(set_("/controller", b"{}", 0))),
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
    ("Z-11", lambda sample: sample.fenced(set_(TOPIC, topic({0: [1, 2, 3]}), -1))),
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
    ("Z-17", both(allow_unclean, lambda sample: lead_uncleanly(sample, recovery=0))),
    ("Z-17", step(state(1, 1, [1, 2, 3], recovery=1))),
    ("Z-18", lambda sample: sample.fenced(set_(TOPIC, topic({0: [1, 2, 3]}, topic_id="other"), 0))),
    ("Z-19", lambda sample: sample.fenced(set_(TOPIC, topic({}), 0))),
    ("Z-19", lambda sample: sample.fenced(set_(TOPIC, topic({0: [1, 2, 3]}, kept=2), 0))),
    ("Z-20", lambda sample: sample.fenced(set_(TOPIC, topic({0: [1, 2]}), 0))),
    ("Z-20", lambda sample: sample.fenced(set_(TOPIC, topic({0: [2, 1, 3]}), 0))),
    ("Z-21", step(b"no state")),
    (
        "Z-21",
        both(lambda sample: sample.write(TOOL_SESSION, set_(STATE, b"junk", 0)), step(state(1, 1, [1, 2, 3]), 1)),
    ),
    (
        "Z-22",
        both(
            lambda sample: sample.fenced(create(BLOCK, block(0, 999))),
            lambda sample: sample.fenced(set_(BLOCK, block(999, 1998), 0)),
        ),
    ),
    ("Z-23", lambda sample: sample.fenced(delete("/config/users/u"))),
    ("Z-24", lambda sample: sample.fenced(set_(STATE, state(1, 1, [1, 2, 3]), 5))),
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
    ("R-04", after_first_metadata(request("LeaderAndIsr", replace(ROW, partition_epoch=1)))),
    ("R-04", after_first_metadata(request("UpdateMetadata", replace(ROW, isr=(1, 2))))),
    ("R-04", after_first_metadata(request("StopReplica", replace(ROW, leader_epoch=1)))),
    ("R-05", after_first_metadata(request("LeaderAndIsr", replace(ROW, replicas=(1, 2))))),
    ("R-06", request("UpdateMetadata", broker_epoch=1)),
    ("R-07", request("UpdateMetadata", controller_epoch=2)),
    ("R-07", request("UpdateMetadata", owner="b")),
    ("R-08", sent(ended=True)),
    ("R-09", sent(paused=True)),
    ("R-10", goes_back("UpdateMetadata")),
    ("R-11", request("UpdateMetadata", live_brokers=[1, 2, 3, B_NODE])),
    ("R-11", request("UpdateMetadata", live_brokers=[1, 4])),
    ("R-13", lambda sample: to_earlier_life(sample, LONG)),
    ("R-12", after_first_metadata(request("StopReplica", replace(ROW, delete=True)))),
]


@pytest.mark.parametrize(("rule", "wrong"), WRONG)
def test_a_wrong_step_trips_its_rule_and_only_it(rule: str, wrong: Step) -> None:
    sample = SampleHistory()
    wrong(sample)
    assert {found.id for found in sample.oracle.violations} == {rule}, sample.oracle.violations
    assert not sample.oracle.is_unbroken


# -- correct histories -------------------------------------------------------------------------------------------------

TRUE: Final[list[Step]] = [
    lambda _tale: None,
    leads_anew,
    both(lambda sample: sample.zookeeper.on_takeover_asked("uuid-b"), foreign_takeover),
    lambda sample: sample.depose(),
    deletes_foreign,
    lambda sample: sample.fenced(delete("/controller", 0)),
    lambda sample: sample.write(A_SESSION, *election(A_NODE, "uuid-a", 2, 1, replaces=True)),
    asked([1, 2], step(state(1, 0, [1, 2]))),
    # The leader, before 3.0, proposes a dead broker, and gets the ISR of ZooKeeper with a newer partition epoch.
    both(
        leads_anew,
        of_release((2, 8), asked([1, 2, 3], step(state(1, 1, [1, 2]), 1), leader_epoch=1, partition_epoch=1)),
    ),
    # A leader of 3.1 may get it too, as long as the controller has not reached it: it sends the same version as 2.7
    # does.
    both(
        leads_anew,
        of_release((3, 1), asked([1, 2, 3], step(state(1, 1, [1, 2]), 1), leader_epoch=1, partition_epoch=1)),
    ),
    # A broker that has just died may still be elected, and a broker that has just come may be passed over.
    both(lambda sample: sample.die(2), both(lambda sample: sample.die(1), step(state(2, 1, [2, 3])))),
    both(after_deaths(1, 2, then=lambda sample: sample.register(2)), step(state(3, 1, [3]))),
    both(lambda sample: sample.zookeeper.on_controlled_shutdown(1), step(state(2, 1, [2, 3]))),
    both(lambda sample: sample.zookeeper.on_bad_log_dir(1), step(state(2, 1, [2, 3]))),
    # A broker that has come back since it was allowed to shut down may be elected.
    after_deaths(1, then=released(2, both(lambda sample: sample.register(2), step(state(2, 1, [2, 3]))))),
    after_deaths(1, 2, 3, then=step(state(-1, 1, [1, 2, 3]))),
    with_topic({0: [1, A_NODE]}, lambda sample: sample.fenced(set_("/brokers/topics/u", topic({0: [1, 2]}), 0))),
    lambda sample: sample.fenced(create(BLOCK, block(0, 999))),
    both(
        lambda sample: sample.write(TOOL_SESSION, delete(STATE), delete(TOPIC), create(TOPIC, topic({0: [3, 2]}))),
        lambda sample: sample.fenced(create(STATE, state(1, 0, [1, 2]))),
    ),
    lambda sample: to_earlier_life(sample, WINDOW / 2),
    both(goes_back("StopReplica"), lambda sample: sample.send("StopReplica", replace(ROW, leader_epoch=0))),
]  # fmt: skip


@pytest.mark.parametrize("true", TRUE)
def test_a_true_history_trips_nothing(true: Step) -> None:
    sample = SampleHistory()
    true(sample)
    assert sample.oracle.violations == []
    assert sample.oracle.is_unbroken


def test_an_operator_who_was_answered_allows_no_further_takeover() -> None:
    sample = SampleHistory()
    sample.zookeeper.on_takeover_asked("uuid-b")
    sample.zookeeper.on_takeover_answered("uuid-b")
    foreign_takeover(sample)
    assert [found.id for found in sample.oracle.violations] == ["Z-05"]


@pytest.mark.parametrize(("takes", "rules"), [(True, []), (False, ["Z-05"])])
def test_a_broker_loses_the_role_only_to_an_instance_that_may_take_it(takes: bool, rules: list[str]) -> None:
    sample = SampleHistory(takes=takes)
    sample.write(TOOL_SESSION, *election(1, None, 2, 1, replaces=True))
    sample.write(B_SESSION, *election(B_NODE, "uuid-b", 3, 2, replaces=True))
    assert [found.id for found in sample.oracle.violations] == rules


def test_an_unclean_election_is_fine_where_it_is_allowed() -> None:
    sample = SampleHistory(unclean=True)
    lead_uncleanly(sample)
    assert sample.oracle.violations == []


@pytest.mark.parametrize(("isr", "rules"), [([A_NODE], set()), ([3], {"Z-16"})])
def test_an_unclean_election_is_fine_where_only_an_instance_was_in_sync(isr: list[int], rules: set[str]) -> None:
    """Broker 1 leads in place of the instance, which has no records; in place of another broker it must not."""
    sample = SampleHistory()
    path = "/brokers/topics/u"
    sample.write(TOOL_SESSION, create(path, topic({0: isr})))
    sample.write(TOOL_SESSION, create(f"{path}/partitions/0/state", state(isr[0], 0, isr)))
    sample.die(3)
    sample.time += LONG
    sample.write(TOOL_SESSION, set_(path, topic({0: [1]}), 0))
    sample.fenced(set_(f"{path}/partitions/0/state", state(1, 1, [1], recovery=1), 0))
    assert {found.id for found in sample.oracle.violations} == rules


def test_a_topic_may_forbid_what_the_cluster_allows() -> None:
    sample = SampleHistory(unclean=True)
    sample.write(TOOL_SESSION, create(CONFIG, CLEAN_TOPIC))
    lead_uncleanly(sample)
    assert {found.id for found in sample.oracle.violations} == {"Z-16"}


def test_a_permission_that_was_just_taken_back_may_still_be_used() -> None:
    sample = SampleHistory(unclean=True)
    after_deaths(2, 3, then=step(state(1, 1, [1])))(sample)
    sample.die(1)
    sample.register(2)
    sample.time += LONG
    sample.zookeeper.on_unclean_default(sample.time, allowed=False)
    sample.time += WINDOW / 2
    sample.fenced(set_(STATE, state(2, 2, [2], recovery=1), 1))
    assert sample.oracle.violations == []


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
    sample = SampleHistory(unclean=True)
    sample.zookeeper.on_unclean_default(sample.time, allowed=True, by_files=by_files)
    if configured is not None:
        sample.write(TOOL_SESSION, create(CONFIG, document(version=1, config={UNCLEAN: configured})))
    after_deaths(2, 3, then=step(state(1, 1, [1])))(sample)
    sample.die(1)
    zxid = sample.register(2)
    sample.zookeeper.history.starts(2, is_clean=is_clean)
    sample.zookeeper.history.reads(2, zxid if reads else zxid - 1, 1)
    sample.time += LONG
    sample.fenced(set_(STATE, state(2, 2, [2], recovery=1), 1))
    assert {found.id for found in sample.oracle.violations} == rules


def test_a_controller_elected_after_a_broker_registered_knows_this_life() -> None:
    sample = SampleHistory(unclean=True)
    sample.zookeeper.on_unclean_default(sample.time, allowed=True, by_files=True)
    after_deaths(2, 3, then=step(state(1, 1, [1])))(sample)
    sample.die(1)
    sample.register(2)
    sample.zookeeper.history.starts(2, is_clean=True)
    sample.depose()
    sample.time += LONG
    sample.write(B_SESSION, fence(2), set_(STATE, state(2, 2, [2], recovery=1, written_by=2), 1))
    assert {found.id for found in sample.oracle.violations} == {"Z-16"}


@pytest.mark.parametrize(
    ("is_clean", "reads", "rules"), [(True, True, {"Z-16"}), (False, True, set()), (True, False, set())]
)
def test_no_unclean_leader_is_elected_for_a_dead_broker_of_the_isr_whose_file_forbids_it(
    is_clean: bool, reads: bool, rules: set[str]
) -> None:
    sample = SampleHistory(unclean=True)
    sample.zookeeper.on_unclean_default(sample.time, allowed=True, by_files=True)
    after_deaths(2, 3, then=step(state(1, 1, [1])))(sample)
    sample.die(1)
    zxid = sample.register(1)
    sample.zookeeper.history.starts(1, is_clean=is_clean)
    sample.zookeeper.history.reads(1, zxid if reads else zxid - 1, 1)
    sample.die(1)
    sample.register(2)
    sample.time += LONG
    sample.fenced(set_(STATE, state(2, 2, [2], recovery=1), 1))
    assert {found.id for found in sample.oracle.violations} == rules


def test_a_request_that_the_network_delivers_again_is_no_step_back() -> None:
    sample = SampleHistory()
    sample.send_live_brokers()
    sample.send("LeaderAndIsr", ROW)
    leads_anew(sample)
    sample.send("LeaderAndIsr", Row("t", 0, 1, 1, (1, 2), 1, (1, 2, 3)))
    sample.send("LeaderAndIsr", ROW)
    assert sample.oracle.violations == []


def test_a_refused_request_of_an_older_epoch_is_no_violation() -> None:
    sample = SampleHistory()
    sample.send_live_brokers()
    sample.depose()
    sample.send("UpdateMetadata", owner="b", controller_id=B_NODE, controller_epoch=2, live_brokers=[1, 2, 3, B_NODE])
    sample.send("LeaderAndIsr", ROW, error=11)
    assert sample.oracle.violations == []


def test_a_violation_says_when_and_what() -> None:
    sample = SampleHistory()
    step(state(1, 2, [1, 2, 3]))(sample)
    (found,) = sample.oracle.violations
    assert found.time == sample.time
    assert found.evidence == "t-0 from 1/0 [1, 2, 3] v0 to 1/2 [1, 2, 3] v1: the leader epoch moved by 2"


def test_rules_have_sentences() -> None:
    assert all(sentence for sentence in RULES.values())
