"""Rules of reassignments and deletions: a wrong step trips its rule alone, correct histories trip none."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.sim.oracle import RULES, Row
from tests.sim.oracle_samples import (
    B_NODE,
    B_SESSION,
    CONFIG,
    LONG,
    PENDING_FIELD,
    ROW,
    STATE,
    TOOL_SESSION,
    TOPIC,
    SampleHistory,
    create,
    delete,
    document,
    fence,
    set_,
    state,
    topic,
)

Step = Callable[[SampleHistory], object]

FOURTH: Final = 14
"""The session of a fourth broker."""
ENTRIES: Final = "/admin/reassign_partitions"
MARKER: Final = "/admin/delete_topics/t"
PENDING_DELETION: Final = "/controllerd/owed_deletions/3"


def in_order(*steps: Step) -> Step:
    """Take one step after another."""

    def all_of_them(sample: SampleHistory) -> None:
        for step in steps:
            step(sample)

    return all_of_them


def fenced(*operations: Any) -> Step:
    return lambda sample: sample.fenced(*operations)


def by_tool(*operations: Any) -> Step:
    return lambda sample: sample.write(TOOL_SESSION, *operations)


def fourth_broker(sample: SampleHistory) -> None:
    sample.write(FOURTH, create("/brokers/ids/4", document(version=5), ephemeral=True))
    sample.time += LONG


def wants(target: list[int], name: str = "t") -> Step:
    row = {"topic": name, "partition": 0, "replicas": target}
    return by_tool(create(ENTRIES, document(version=1, partitions=[row])))


def calling(target: list[int] | None) -> Step:
    """Begin a call without an answer."""
    wanted = None if target is None else tuple(target)
    return lambda sample: sample.zookeeper.history.asked.reassignment(("t", 0), wanted)


def answered(sample: SampleHistory) -> None:
    sample.zookeeper.history.asked.answered(("t", 0), sample.time)


def called(target: list[int] | None) -> Step:
    return in_order(calling(target), answered)


def assigns(replicas: list[int], adding: list[int], removing: list[int], version: int = 0) -> Step:
    rows = {"adding_replicas": adding, "removing_replicas": removing}
    lists = {name: {"0": row} if row else {} for name, row in rows.items()}
    return fenced(set_(TOPIC, topic({0: replicas}, **lists), version))


def moves(version: int = 0) -> Step:
    """Begin a move from [1, 2, 3] to [4, 1]."""
    return in_order(fourth_broker, wants([4, 1]), assigns([4, 1, 2, 3], [4], [2, 3], version))


def grows(sample: SampleHistory) -> None:
    """Put all replicas into the ISR."""
    sample.fenced(set_(STATE, state(1, 1, [1, 2, 3]), 0))
    sample.ask([1, 2, 3, 4], leader_epoch=1, partition_epoch=1)
    sample.fenced(set_(STATE, state(1, 1, [1, 2, 3, 4]), 1))


def stops(broker: int, **fields: Any) -> Step:
    """Send a broker the deletion of its replica."""

    def step(sample: SampleHistory) -> None:
        sample.send_live_brokers(broker)
        sample.send("StopReplica", Row("t", 0, leader_epoch=fields.get("leader_epoch", 0), delete=True), broker=broker)

    return step


def long_after(sample: SampleHistory) -> None:
    sample.time += LONG


def leaderless(sample: SampleHistory) -> None:
    sample.fenced(set_(STATE, state(-1, 1, [2, 3]), 0))


def given_up(sample: SampleHistory) -> None:
    for broker in (1, 2, 3):
        sample.die(broker)
        sample.zookeeper.history.asked.forget(broker, sample.time)


def of_an_earlier_topic(sample: SampleHistory) -> None:
    sample.oracle.requests.deleted_earlier = lambda _broker, _key: True


def begins_and_deletes(sample: SampleHistory) -> None:
    """Send a follower that came back LeaderAndIsr, and then the deletion of its replica."""
    sample.die(1)
    sample.fenced(set_(STATE, state(2, 1, [2, 3]), 0))
    sample.register(1)
    long_after(sample)
    sample.send_live_brokers()
    sample.send("LeaderAndIsr", Row("t", 0, 2, 1, (2, 3), 1, (1, 2, 3)))
    sample.send("StopReplica", Row("t", 0, leader_epoch=1, delete=True))


def waits_and_is_left_without_leader(sample: SampleHistory) -> None:
    """Move a partition from 2 and 3 to 4, mark its topic for deletion, and let the leader of another partition die."""
    in_order(fourth_broker, by_tool(create("/brokers/topics/u", topic({0: [1, 2], 1: [2, 3]}, topic_id="id-u"))))(
        sample
    )
    states = {number: f"/brokers/topics/u/partitions/{number}/state" for number in (0, 1)}
    sample.fenced(create(states[0], state(1, 0, [1, 2])), create(states[1], state(2, 0, [2, 3])))
    in_order(after_first_metadata, long_after)(sample)
    row = {"topic": "u", "partition": 1, "replicas": [4]}
    moving = topic(
        {0: [1, 2], 1: [4, 2, 3]}, topic_id="id-u", adding_replicas={"1": [4]}, removing_replicas={"1": [2, 3]}
    )
    in_order(
        by_tool(create(ENTRIES, document(version=1, partitions=[row]))), fenced(set_("/brokers/topics/u", moving, 0))
    )(sample)
    in_order(by_tool(create("/admin/delete_topics/u")), lambda each: each.die(1))(sample)
    sample.fenced(set_(states[0], state(-1, 1, [2]), 0))


def after_first_metadata(sample: SampleHistory) -> None:
    sample.send_live_brokers(2)
    sample.send("LeaderAndIsr", Row("u", 1, 2, 0, (2, 3), 0, (2, 3)), broker=2)


def holding(sample: SampleHistory) -> None:
    sample.zookeeper.admin.holds = lambda _broker, _key: True


def deletion_is_swallowed(sample: SampleHistory) -> None:
    """Send the third broker the topic, and then the one that was created anew, without the deletion in between."""
    in_order(updates_third(), updates_third(ROW), created_anew, long_after, updates_third(ROW))(sample)


def registers_anew(sample: SampleHistory) -> None:
    """End the session of the third broker for a moment."""
    in_order(lambda each: each.die(3), lambda each: each.register(3), long_after, updates_third())(sample)


def deletion_is_lost_with_a_registration(sample: SampleHistory) -> None:
    """Send the first broker the deletion; the third registers anew before that, and never receives it."""
    in_order(updates_third(), updates_third(ROW), created_anew, registers_anew, updates_third(ROW))(sample)


ONE_REPLICA: Final = document(version=1, **{PENDING_FIELD: [{"topic": "u", "topic_id": None, "partitions": [0]}]})
MARKED: Final = by_tool(create(MARKER))
LATE: Final = Row("t", 0, -2)
GONE: Final = in_order(
    lambda sample: sample.send_live_brokers(),
    lambda sample: sample.send("UpdateMetadata", Row("t", 0, -2), live_brokers=[1, 2, 3]),
)

WRONG: Final[list[tuple[str, Step]]] = [
    ("Z-27", in_order(fourth_broker, wants([4, 1]), assigns([1, 4, 2, 3], [4], [2, 3]))),
    ("Z-27", in_order(fourth_broker, wants([4, 1]), assigns([4, 1], [], []))),
    ("Z-27", in_order(moves(), assigns([1, 2, 3], [], [], 1))),
    ("Z-28", in_order(moves(), assigns([4, 1], [], [], 1))),
    ("Z-28", in_order(moves(), long_after, fenced(set_(STATE, state(1, 1, [1]), 0)))),
    ("Z-28", in_order(moves(), grows, by_tool(delete(STATE)), assigns([4, 1], [], [], 1))),
    ("Z-29", in_order(moves(), fenced(delete(ENTRIES)))),
    ("Z-29", in_order(fourth_broker, wants([4, 1]), fenced(delete(ENTRIES)))),
    ("Z-29", in_order(fourth_broker, called([1, 2]), long_after, wants([4, 1]), fenced(delete(ENTRIES)))),
    ("Z-30", fenced(delete(TOPIC))),
    ("Z-30", fenced(delete(STATE))),
    ("Z-31", in_order(holding, MARKED, fenced(delete(TOPIC)))),
    ("Z-32", in_order(MARKED, fenced(delete(MARKER)))),
    ("Z-32", in_order(by_tool(create(CONFIG)), MARKED, fenced(delete(CONFIG)))),
    ("Z-33", in_order(holding, fenced(create(PENDING_DELETION, ONE_REPLICA)), fenced(delete(PENDING_DELETION)))),
    ("R-12", in_order(moves(), grows, stops(2))),
    ("R-12", in_order(of_an_earlier_topic, moves(), grows, stops(2))),
    ("R-12", begins_and_deletes),
    ("Z-34", in_order(wants([2, 3]), assigns([2, 3, 1], [], [1]), long_after, leaderless)),
    ("R-14", GONE),
    ("R-15", deletion_is_swallowed),
    ("R-15", deletion_is_lost_with_a_registration),
    ("Z-42", waits_and_is_left_without_leader),
    ("Z-35", in_order(moves(), lambda sample: sample.send_live_brokers(4), MARKED, long_after, leaderless)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "wrong"), WRONG)
def test_a_wrong_step_trips_its_rule_and_only_it(rule: str, wrong: Step) -> None:
    sample = SampleHistory()
    wrong(sample)
    assert {found.id for found in sample.oracle.violations} == {rule}, sample.oracle.violations


def whole_move(sample: SampleHistory) -> None:
    """Move as Kafka's controller does: assignment, epoch, ISR, epoch, smaller ISR, assignment, entry."""
    in_order(moves(), grows)(sample)
    sample.fenced(set_(STATE, state(1, 2, [1, 2, 3, 4]), 2))
    sample.fenced(set_(STATE, state(1, 3, [1, 4]), 3))
    in_order(stops(2), stops(3), assigns([4, 1], [], [], 1), fenced(delete(ENTRIES)))(sample)


def whole_deletion(sample: SampleHistory) -> None:
    """Send the deletion to all brokers, delete all replicas, then the topic, its configuration and the marker."""
    in_order(by_tool(create(CONFIG)), MARKED, GONE)(sample)
    sample.fenced(set_(STATE, state(-1, 1, [1]), 0))
    in_order(stops(1, leader_epoch=-2), stops(2, leader_epoch=-2))(sample)
    in_order(fenced(delete(STATE)), fenced(delete(TOPIC)), fenced(delete(CONFIG)), fenced(delete(MARKER)))(sample)


def created_anew(sample: SampleHistory) -> None:
    """Delete the topic and soon create another one of that name."""
    whole_deletion(sample)
    in_order(
        by_tool(create(TOPIC, topic({0: [1, 2, 3]}, topic_id="id-u"))), fenced(create(STATE, state(1, 0, [1, 2, 3])))
    )(sample)


def deleted_except(*left: str, wants_it_again: bool = False) -> Step:
    """Delete the topic.

    Before these znodes are deleted, a tool creates one of its name, and may mark it for deletion.
    """
    follow = in_order(*(by_tool(create(path)) for path in left if path != MARKER), MARKED)
    again = by_tool(*(set_(path, b"again", 0) for path in left)) if wants_it_again else lambda _tale: None
    anew = in_order(by_tool(create(TOPIC, topic({0: [1, 2, 3]}, topic_id="id-u"))), again)
    return in_order(follow, fenced(delete(STATE)), fenced(delete(TOPIC)), anew)


def follow_under_another(sample: SampleHistory) -> None:
    in_order(deleted_except(MARKER), lambda sample: sample.depose())(sample)
    sample.write(B_SESSION, fence(2), delete(MARKER))


@pytest.mark.parametrize(
    "wrong",
    [
        in_order(deleted_except(MARKER, wants_it_again=True), fenced(delete(MARKER))),
        in_order(deleted_except(CONFIG, wants_it_again=True), fenced(delete(CONFIG))),
        follow_under_another,
    ],
    ids=["the new one is to be deleted", "it is of the new one", "of another controller"],
)
def test_leftover_znodes_must_not_go_once_they_may_belong_to_the_next_topic_of_that_name(wrong: Step) -> None:
    sample = SampleHistory()
    wrong(sample)
    assert {found.id for found in sample.oracle.violations} == {"Z-32"}, sample.oracle.violations


def updates_third(*rows: Row, **fields: Any) -> Step:
    return lambda sample: sample.send("UpdateMetadata", *rows, broker=3, **fields)


def by_another(*rows: Row) -> Step:
    fields = {"owner": "b", "controller_id": B_NODE, "controller_epoch": 2, "live_brokers": [1, B_NODE]}
    return updates_third(*rows, **fields)


def receives_it_in_its_next_registration(sample: SampleHistory) -> None:
    """Send a broker the deletion after it registered anew, before the next topic of that name."""
    in_order(updates_third(), updates_third(ROW), created_anew, registers_anew)(sample)
    in_order(updates_third(LATE), updates_third(ROW))(sample)


def is_away_while_the_topic_goes(sample: SampleHistory) -> None:
    """Send no deletion to a broker that is not registered."""
    in_order(updates_third(), updates_third(ROW), lambda each: each.die(3), created_anew)(sample)
    in_order(lambda each: each.register(3), long_after, updates_third(), updates_third(ROW))(sample)


def receives_it_late(sample: SampleHistory) -> None:
    """Let a broker that was silent read the request that waited for it: the end of the topic."""
    in_order(created_anew, long_after, updates_third(), updates_third(LATE))(sample)


@pytest.mark.parametrize(
    "wrong",
    [
        in_order(receives_it_late, updates_third(ROW), updates_third(LATE)),
        in_order(
            updates_third(),
            updates_third(ROW),
            receives_it_late,
            updates_third(LATE),
            updates_third(ROW),
            updates_third(LATE),
        ),
        in_order(
            created_anew,
            lambda sample: sample.depose(),
            long_after,
            by_another(LATE),
        ),
    ],
    ids=["after it heard of the new one", "after it heard of both", "of another controller"],
)
def test_a_topic_created_anew_must_not_be_reported_as_gone(wrong: Step) -> None:
    sample = SampleHistory()
    wrong(sample)
    assert {found.id for found in sample.oracle.violations} == {"R-14"}, sample.oracle.violations


def test_a_replica_must_not_be_deleted_once_the_broker_received_the_topic_created_anew() -> None:
    sample = SampleHistory()
    in_order(receives_it_late, updates_third(ROW), stops(3))(sample)
    assert {found.id for found in sample.oracle.violations} == {"R-12"}, sample.oracle.violations


TRUE: Final[list[Step]] = [
    whole_move,
    whole_deletion,
    # A moved replica of the earlier topic is deleted late; the LeaderAndIsr of the new topic waits behind that.
    in_order(created_anew, long_after, stops(3)),
    in_order(receives_it_late, updates_third(ROW)),
    # The states before the end look the same as the state of the topic that came later.
    in_order(created_anew, long_after, updates_third(), updates_third(ROW), updates_third(LATE)),
    # A group coordinator gets each end; it need not get the end from another controller.
    in_order(updates_third(), updates_third(ROW), receives_it_late, updates_third(ROW)),
    receives_it_in_its_next_registration,
    is_away_while_the_topic_goes,
    in_order(updates_third(), updates_third(ROW), created_anew, lambda sample: sample.depose(), by_another(ROW)),
    # The leftovers of the topic are deleted, though there is another one of that name by now.
    in_order(deleted_except(MARKER), fenced(delete(MARKER))),
    in_order(deleted_except(CONFIG), fenced(delete(CONFIG)), fenced(delete(MARKER))),
    in_order(of_an_earlier_topic, begins_and_deletes),
    # The leader registered anew, and the controller notices so late that it must know by then that the leader is back.
    in_order(
        moves(),
        MARKED,
        lambda sample: sample.die(1),
        lambda sample: sample.register(1),
        long_after,
        fenced(set_(STATE, state(-1, 1, [3]), 0)),
    ),
    # Another program makes the state unreadable right before the old replicas go.
    in_order(
        moves(),
        grows,
        fenced(set_(STATE, state(1, 2, [1, 4]), 2)),
        stops(2),
        stops(3),
        by_tool(set_(STATE, b"", 3)),
        assigns([4, 1], [], [], 1),
    ),
    # Cancelled, and retargeted on the way.
    in_order(moves(), called(None), assigns([1, 2, 3], [], [], 1), fenced(delete(ENTRIES))),
    in_order(moves(), called([1, 2, 4]), assigns([1, 2, 4, 3], [4], [3], 1), fenced(delete(ENTRIES))),
    # A call that is repeated, and carried out only after the entry was written, overrides it all the same.
    in_order(fourth_broker, calling([1, 2]), long_after, wants([4, 1]), long_after, fenced(delete(ENTRIES))),
    # The same replicas in another order.
    in_order(wants([3, 2, 1]), assigns([3, 2, 1], [], [])),
    # An invalid entry may be refused.
    in_order(wants([1, 1]), fenced(delete(ENTRIES))),
    in_order(wants([]), fenced(delete(ENTRIES))),
    in_order(wants([1, 7]), fenced(delete(ENTRIES))),
    in_order(wants([1], "nowhere"), fenced(delete(ENTRIES))),
    # A marker without topic, and partitions that were added too late.
    in_order(by_tool(create("/admin/delete_topics/nothing")), fenced(delete("/admin/delete_topics/nothing"))),
    in_order(
        MARKED,
        by_tool(set_(TOPIC, topic({0: [1, 2, 3], 1: [1]}), 0)),
        fenced(set_(TOPIC, topic({0: [1, 2, 3]}), 1)),
    ),
    # A broker that was given up does not count, and no deletion is pending for a replica that is wanted again.
    in_order(holding, MARKED, given_up, fenced(delete(TOPIC))),
    in_order(
        by_tool(create("/brokers/topics/u", topic({0: [3]})), create("/admin/delete_topics/u")),
        holding,
        lambda sample: sample.die(3),
        fenced(create(PENDING_DELETION, ONE_REPLICA)),
        fenced(delete("/brokers/topics/u")),
    ),
    in_order(
        holding,
        by_tool(create("/brokers/topics/u", topic({0: [3]}))),
        fenced(create(PENDING_DELETION, ONE_REPLICA)),
        fenced(delete(PENDING_DELETION)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("true", TRUE)
def test_a_true_history_trips_nothing(true: Step) -> None:
    sample = SampleHistory()
    true(sample)
    assert sample.oracle.violations == []


def test_a_topic_whose_target_is_away_may_be_deleted_while_it_moves() -> None:
    sample = SampleHistory()
    in_order(moves(), lambda sample: sample.write(FOURTH, delete("/brokers/ids/4"), closes=True))(sample)
    sample.time += LONG
    in_order(MARKED, fenced(set_(STATE, state(-1, 1, [3]), 0)), stops(1, leader_epoch=-2))(sample)
    assert sample.oracle.violations == []


def test_where_topics_are_not_deleted_markers_may_go_and_topics_may_not() -> None:
    sample = SampleHistory()
    sample.zookeeper.admin.deletes = False
    in_order(MARKED, fenced(delete(MARKER)))(sample)
    assert sample.oracle.violations == []
    in_order(MARKED, fenced(delete(TOPIC)))(sample)
    assert {found.id for found in sample.oracle.violations} == {"Z-30"}


def test_the_rules_belong_to_the_judge() -> None:
    assert {rule for rule, _ in WRONG} <= RULES.keys()
