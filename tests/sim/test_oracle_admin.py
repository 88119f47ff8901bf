"""Rules of reassignments, deletions and debts: each wrong step trips its rule alone, true histories trip none."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.sim.oracle import RULES, Row
from tests.sim.oracle_samples import (
    B_NODE,
    B_SESSION,
    CONFIG,
    LONG,
    ROW,
    STATE,
    TOOL_SESSION,
    TOPIC,
    Tale,
    create,
    delete,
    document,
    fence,
    set_,
    state,
    topic,
)

Step = Callable[[Tale], object]

FOURTH: Final = 14
"""The session of a fourth broker."""
ENTRIES: Final = "/admin/reassign_partitions"
MARKER: Final = "/admin/delete_topics/t"
DEBT: Final = "/controllerd/owed_deletions/3"


def told(*steps: Step) -> Step:
    """One step after another."""

    def all_of_them(tale: Tale) -> None:
        for step in steps:
            step(tale)

    return all_of_them


def fenced(*operations: Any) -> Step:
    return lambda tale: tale.fenced(*operations)


def by_tool(*operations: Any) -> Step:
    return lambda tale: tale.write(TOOL_SESSION, *operations)


def fourth_broker(tale: Tale) -> None:
    tale.write(FOURTH, create("/brokers/ids/4", document(version=5), ephemeral=True))
    tale.time += LONG


def wants(target: list[int], name: str = "t") -> Step:
    row = {"topic": name, "partition": 0, "replicas": target}
    return by_tool(create(ENTRIES, document(version=1, partitions=[row])))


def calling(target: list[int] | None) -> Step:
    """A call that nobody has answered yet."""
    wanted = None if target is None else tuple(target)
    return lambda tale: tale.zookeeper.history.asked.reassignment(("t", 0), wanted)


def answered(tale: Tale) -> None:
    tale.zookeeper.history.asked.answered(("t", 0), tale.time)


def called(target: list[int] | None) -> Step:
    return told(calling(target), answered)


def assigns(replicas: list[int], adding: list[int], removing: list[int], version: int = 0) -> Step:
    rows = {"adding_replicas": adding, "removing_replicas": removing}
    lists = {name: {"0": row} if row else {} for name, row in rows.items()}
    return fenced(set_(TOPIC, topic({0: replicas}, **lists), version))


def moves(version: int = 0) -> Step:
    """From [1, 2, 3] to [4, 1], begun."""
    return told(fourth_broker, wants([4, 1]), assigns([4, 1, 2, 3], [4], [2, 3], version))


def grows(tale: Tale) -> None:
    """The leader has everybody in its ISR."""
    tale.fenced(set_(STATE, state(1, 1, [1, 2, 3]), 0))
    tale.ask([1, 2, 3, 4], leader_epoch=1, partition_epoch=1)
    tale.fenced(set_(STATE, state(1, 1, [1, 2, 3, 4]), 1))


def stops(broker: int, **fields: Any) -> Step:
    """A broker is told to delete its replica."""

    def step(tale: Tale) -> None:
        tale.greet(broker)
        tale.send("StopReplica", Row("t", 0, leader_epoch=fields.get("leader_epoch", 0), delete=True), broker=broker)

    return step


def long_after(tale: Tale) -> None:
    tale.time += LONG


def leaderless(tale: Tale) -> None:
    tale.fenced(set_(STATE, state(-1, 1, [2, 3]), 0))


def given_up(tale: Tale) -> None:
    for broker in (1, 2, 3):
        tale.die(broker)
        tale.zookeeper.history.asked.forget(broker, tale.time)


def of_an_earlier_topic(tale: Tale) -> None:
    tale.oracle.requests.deleted_earlier = lambda _broker, _key: True


def begins_and_deletes(tale: Tale) -> None:
    """A follower that came back was told to begin, and is told to delete what it has."""
    tale.die(1)
    tale.fenced(set_(STATE, state(2, 1, [2, 3]), 0))
    tale.register(1)
    long_after(tale)
    tale.greet()
    tale.send("LeaderAndIsr", Row("t", 0, 2, 1, (2, 3), 1, (1, 2, 3)))
    tale.send("StopReplica", Row("t", 0, leader_epoch=1, delete=True))


def waits_and_is_left_without_leader(tale: Tale) -> None:
    """A partition moves from 2 and 3 to 4, its topic is to be deleted, and the leader of another partition dies."""
    told(fourth_broker, by_tool(create("/brokers/topics/u", topic({0: [1, 2], 1: [2, 3]}, topic_id="id-u"))))(tale)
    states = {number: f"/brokers/topics/u/partitions/{number}/state" for number in (0, 1)}
    tale.fenced(create(states[0], state(1, 0, [1, 2])), create(states[1], state(2, 0, [2, 3])))
    told(greeted, long_after)(tale)
    row = {"topic": "u", "partition": 1, "replicas": [4]}
    moving = topic(
        {0: [1, 2], 1: [4, 2, 3]}, topic_id="id-u", adding_replicas={"1": [4]}, removing_replicas={"1": [2, 3]}
    )
    told(by_tool(create(ENTRIES, document(version=1, partitions=[row]))), fenced(set_("/brokers/topics/u", moving, 0)))(
        tale
    )
    told(by_tool(create("/admin/delete_topics/u")), lambda each: each.die(1))(tale)
    tale.fenced(set_(states[0], state(-1, 1, [2]), 0))


def greeted(tale: Tale) -> None:
    tale.greet(2)
    tale.send("LeaderAndIsr", Row("u", 1, 2, 0, (2, 3), 0, (2, 3)), broker=2)


def holding(tale: Tale) -> None:
    tale.zookeeper.admin.holds = lambda _broker, _key: True


def deletion_is_swallowed(tale: Tale) -> None:
    """The third broker receives the topic, and then the one that was created anew, without the deletion in between."""
    told(tells_the_third(), tells_the_third(ROW), created_anew, long_after, tells_the_third(ROW))(tale)


def registers_anew(tale: Tale) -> None:
    """The session of the third broker ended for a moment."""
    told(lambda each: each.die(3), lambda each: each.register(3), long_after, tells_the_third())(tale)


def deletion_is_lost_with_a_registration(tale: Tale) -> None:
    """The first broker receives the deletion; the third registers anew before it does, and never receives it."""
    told(tells_the_third(), tells_the_third(ROW), created_anew, registers_anew, tells_the_third(ROW))(tale)


OWES: Final = document(version=1, owed=[{"topic": "u", "topic_id": None, "partitions": [0]}])
MARKED: Final = by_tool(create(MARKER))
LATE: Final = Row("t", 0, -2)
GONE: Final = told(
    lambda tale: tale.greet(), lambda tale: tale.send("UpdateMetadata", Row("t", 0, -2), live_brokers=[1, 2, 3])
)

WRONG: Final[list[tuple[str, Step]]] = [
    ("Z-27", told(fourth_broker, wants([4, 1]), assigns([1, 4, 2, 3], [4], [2, 3]))),
    ("Z-27", told(fourth_broker, wants([4, 1]), assigns([4, 1], [], []))),
    ("Z-27", told(moves(), assigns([1, 2, 3], [], [], 1))),
    ("Z-28", told(moves(), assigns([4, 1], [], [], 1))),
    ("Z-28", told(moves(), long_after, fenced(set_(STATE, state(1, 1, [1]), 0)))),
    ("Z-28", told(moves(), grows, by_tool(delete(STATE)), assigns([4, 1], [], [], 1))),
    ("Z-29", told(moves(), fenced(delete(ENTRIES)))),
    ("Z-29", told(fourth_broker, wants([4, 1]), fenced(delete(ENTRIES)))),
    ("Z-29", told(fourth_broker, called([1, 2]), long_after, wants([4, 1]), fenced(delete(ENTRIES)))),
    ("Z-30", fenced(delete(TOPIC))),
    ("Z-30", fenced(delete(STATE))),
    ("Z-31", told(holding, MARKED, fenced(delete(TOPIC)))),
    ("Z-32", told(MARKED, fenced(delete(MARKER)))),
    ("Z-32", told(by_tool(create(CONFIG)), MARKED, fenced(delete(CONFIG)))),
    ("Z-33", told(holding, fenced(create(DEBT, OWES)), fenced(delete(DEBT)))),
    ("R-12", told(moves(), grows, stops(2))),
    ("R-12", told(of_an_earlier_topic, moves(), grows, stops(2))),
    ("R-12", begins_and_deletes),
    ("Z-34", told(wants([2, 3]), assigns([2, 3, 1], [], [1]), long_after, leaderless)),
    ("R-14", GONE),
    ("R-15", deletion_is_swallowed),
    ("R-15", deletion_is_lost_with_a_registration),
    ("Z-42", waits_and_is_left_without_leader),
    ("Z-35", told(moves(), lambda tale: tale.greet(4), MARKED, long_after, leaderless)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "wrong"), WRONG)
def test_a_wrong_step_trips_its_rule_and_only_it(rule: str, wrong: Step) -> None:
    tale = Tale()
    wrong(tale)
    assert {found.id for found in tale.oracle.violations} == {rule}, tale.oracle.violations


def whole_move(tale: Tale) -> None:
    """As the peer does it: assignment, epoch, ISR, epoch, ISR without the old ones, assignment, entry."""
    told(moves(), grows)(tale)
    tale.fenced(set_(STATE, state(1, 2, [1, 2, 3, 4]), 2))
    tale.fenced(set_(STATE, state(1, 3, [1, 4]), 3))
    told(stops(2), stops(3), assigns([4, 1], [], [], 1), fenced(delete(ENTRIES)))(tale)


def whole_deletion(tale: Tale) -> None:
    """Told to everybody, deleted everywhere, then the topic, its configuration and the marker."""
    told(by_tool(create(CONFIG)), MARKED, GONE)(tale)
    tale.fenced(set_(STATE, state(-1, 1, [1]), 0))
    told(stops(1, leader_epoch=-2), stops(2, leader_epoch=-2))(tale)
    told(fenced(delete(STATE)), fenced(delete(TOPIC)), fenced(delete(CONFIG)), fenced(delete(MARKER)))(tale)


def created_anew(tale: Tale) -> None:
    """The topic was deleted, and soon there is another one of that name."""
    whole_deletion(tale)
    told(by_tool(create(TOPIC, topic({0: [1, 2, 3]}, topic_id="id-u"))), fenced(create(STATE, state(1, 0, [1, 2, 3]))))(
        tale
    )


def gone_but_for(*left: str, wants_it_again: bool = False) -> Step:
    """The topic went; before these znodes follow it, somebody creates one of its name, and may want that deleted."""
    follow = told(*(by_tool(create(path)) for path in left if path != MARKER), MARKED)
    again = by_tool(*(set_(path, b"again", 0) for path in left)) if wants_it_again else lambda _tale: None
    anew = told(by_tool(create(TOPIC, topic({0: [1, 2, 3]}, topic_id="id-u"))), again)
    return told(follow, fenced(delete(STATE)), fenced(delete(TOPIC)), anew)


def follow_under_another(tale: Tale) -> None:
    told(gone_but_for(MARKER), lambda tale: tale.depose())(tale)
    tale.write(B_SESSION, fence(2), delete(MARKER))


@pytest.mark.parametrize(
    "wrong",
    [
        told(gone_but_for(MARKER, wants_it_again=True), fenced(delete(MARKER))),
        told(gone_but_for(CONFIG, wants_it_again=True), fenced(delete(CONFIG))),
        follow_under_another,
    ],
    ids=["the new one is to be deleted", "it is of the new one", "of another controller"],
)
def test_what_a_topic_leaves_must_not_follow_it_once_it_may_be_meant_for_the_next_of_that_name(wrong: Step) -> None:
    tale = Tale()
    wrong(tale)
    assert {found.id for found in tale.oracle.violations} == {"Z-32"}, tale.oracle.violations


def tells_the_third(*rows: Row, **fields: Any) -> Step:
    return lambda tale: tale.send("UpdateMetadata", *rows, broker=3, **fields)


def by_another(*rows: Row) -> Step:
    fields = {"owner": "b", "controller_id": B_NODE, "controller_epoch": 2, "live_brokers": [1, B_NODE]}
    return tells_the_third(*rows, **fields)


def hears_in_its_next_registration(tale: Tale) -> None:
    """A broker receives the deletion after it registered anew, before the next topic of that name."""
    told(tells_the_third(), tells_the_third(ROW), created_anew, registers_anew)(tale)
    told(tells_the_third(LATE), tells_the_third(ROW))(tale)


def is_away_while_the_topic_goes(tale: Tale) -> None:
    """Nobody sends a deletion to a broker that is not registered."""
    told(tells_the_third(), tells_the_third(ROW), lambda each: each.die(3), created_anew)(tale)
    told(lambda each: each.register(3), long_after, tells_the_third(), tells_the_third(ROW))(tale)


def hears_late(tale: Tale) -> None:
    """A broker that was silent reads what waited for it: the end of the topic."""
    told(created_anew, long_after, tells_the_third(), tells_the_third(LATE))(tale)


@pytest.mark.parametrize(
    "wrong",
    [
        told(hears_late, tells_the_third(ROW), tells_the_third(LATE)),
        told(
            tells_the_third(),
            tells_the_third(ROW),
            hears_late,
            tells_the_third(LATE),
            tells_the_third(ROW),
            tells_the_third(LATE),
        ),
        told(
            created_anew,
            lambda tale: tale.depose(),
            long_after,
            by_another(LATE),
        ),
    ],
    ids=["after it heard of the new one", "after it heard of both", "of another controller"],
)
def test_a_topic_created_anew_must_not_be_told_to_be_gone(wrong: Step) -> None:
    tale = Tale()
    wrong(tale)
    assert {found.id for found in tale.oracle.violations} == {"R-14"}, tale.oracle.violations


def test_a_replica_must_not_be_deleted_once_the_broker_heard_of_the_topic_created_anew() -> None:
    tale = Tale()
    told(hears_late, tells_the_third(ROW), stops(3))(tale)
    assert {found.id for found in tale.oracle.violations} == {"R-12"}, tale.oracle.violations


TRUE: Final[list[Step]] = [
    whole_move,
    whole_deletion,
    # What moved away of the earlier topic is deleted late; the order to begin anew waits behind that.
    told(created_anew, long_after, stops(3)),
    told(hears_late, tells_the_third(ROW)),
    # What it hears before the end looks the same as the state of the topic that came later.
    told(created_anew, long_after, tells_the_third(), tells_the_third(ROW), tells_the_third(LATE)),
    # A group coordinator is told each time; by another controller it need not be told of the end.
    told(tells_the_third(), tells_the_third(ROW), hears_late, tells_the_third(ROW)),
    hears_in_its_next_registration,
    is_away_while_the_topic_goes,
    told(tells_the_third(), tells_the_third(ROW), created_anew, lambda tale: tale.depose(), by_another(ROW)),
    # What the topic leaves follows it, though there is another one of that name by now.
    told(gone_but_for(MARKER), fenced(delete(MARKER))),
    told(gone_but_for(CONFIG), fenced(delete(CONFIG)), fenced(delete(MARKER))),
    told(of_an_earlier_topic, begins_and_deletes),
    # The leader registered anew, and the controller looks so late that all must know by then that it is back.
    told(
        moves(),
        MARKED,
        lambda tale: tale.die(1),
        lambda tale: tale.register(1),
        long_after,
        fenced(set_(STATE, state(-1, 1, [3]), 0)),
    ),
    # A stranger makes the state unreadable right before the old replicas go.
    told(
        moves(),
        grows,
        fenced(set_(STATE, state(1, 2, [1, 4]), 2)),
        stops(2),
        stops(3),
        by_tool(set_(STATE, b"", 3)),
        assigns([4, 1], [], [], 1),
    ),
    # Cancelled, and moved elsewhere on the way.
    told(moves(), called(None), assigns([1, 2, 3], [], [], 1), fenced(delete(ENTRIES))),
    told(moves(), called([1, 2, 4]), assigns([1, 2, 4, 3], [4], [3], 1), fenced(delete(ENTRIES))),
    # A call that is asked again and again, and heard only after the entry was written, overrules it all the same.
    told(fourth_broker, calling([1, 2]), long_after, wants([4, 1]), long_after, fenced(delete(ENTRIES))),
    # The same replicas in another order.
    told(wants([3, 2, 1]), assigns([3, 2, 1], [], [])),
    # Nonsense may be refused.
    told(wants([1, 1]), fenced(delete(ENTRIES))),
    told(wants([]), fenced(delete(ENTRIES))),
    told(wants([1, 7]), fenced(delete(ENTRIES))),
    told(wants([1], "nowhere"), fenced(delete(ENTRIES))),
    # A marker of nothing, and partitions that were added too late.
    told(by_tool(create("/admin/delete_topics/nothing")), fenced(delete("/admin/delete_topics/nothing"))),
    told(
        MARKED,
        by_tool(set_(TOPIC, topic({0: [1, 2, 3], 1: [1]}), 0)),
        fenced(set_(TOPIC, topic({0: [1, 2, 3]}), 1)),
    ),
    # A broker that was given up counts no more, and a debt for what is wanted again is no debt.
    told(holding, MARKED, given_up, fenced(delete(TOPIC))),
    told(
        by_tool(create("/brokers/topics/u", topic({0: [3]})), create("/admin/delete_topics/u")),
        holding,
        lambda tale: tale.die(3),
        fenced(create(DEBT, OWES)),
        fenced(delete("/brokers/topics/u")),
    ),
    told(
        holding,
        by_tool(create("/brokers/topics/u", topic({0: [3]}))),
        fenced(create(DEBT, OWES)),
        fenced(delete(DEBT)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("true", TRUE)
def test_a_true_history_trips_nothing(true: Step) -> None:
    tale = Tale()
    true(tale)
    assert tale.oracle.violations == []


def test_a_topic_whose_target_is_away_may_be_deleted_while_it_moves() -> None:
    tale = Tale()
    told(moves(), lambda tale: tale.write(FOURTH, delete("/brokers/ids/4"), closes=True))(tale)
    tale.time += LONG
    told(MARKED, fenced(set_(STATE, state(-1, 1, [3]), 0)), stops(1, leader_epoch=-2))(tale)
    assert tale.oracle.violations == []


def test_where_topics_are_not_deleted_markers_may_go_and_topics_may_not() -> None:
    tale = Tale()
    tale.zookeeper.admin.deletes = False
    told(MARKED, fenced(delete(MARKER)))(tale)
    assert tale.oracle.violations == []
    told(MARKED, fenced(delete(TOPIC)))(tale)
    assert {found.id for found in tale.oracle.violations} == {"Z-30"}


def test_the_rules_are_among_those_of_the_judge() -> None:
    assert {rule for rule, _ in WRONG} <= RULES.keys()
