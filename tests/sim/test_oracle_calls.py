"""Rules of calls for topics: each wrong step trips its rule alone, true histories trip none."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from controllerd.core.protocol_versions import parse_broker_version
from tests.sim.oracle import Operation
from tests.sim.oracle_calls import RULES, RequestedReplicas, Wanted
from tests.sim.oracle_samples import (
    CONFIG,
    LONG,
    TOOL_SESSION,
    TOPIC,
    WINDOW,
    Tale,
    create,
    delete,
    document,
    set_,
    topic,
)

Step = Callable[[Tale], object]

NEW: Final = "/brokers/topics/n"
NEW_CONFIG: Final = "/config/topics/n"
MARKER: Final = "/admin/delete_topics/t"
USER: Final = "/config/users/alice"
CHANGE: Final = "/config/changes/config_change_0000000000"
EMPTY: Final = document(version=1, config={})
ID: Final = "id-n"


def told(*steps: Step) -> Step:
    def all_of_them(tale: Tale) -> None:
        for step in steps:
            step(tale)

    return all_of_them


class Asked:
    """A wish that a story makes and ends; another one in each story."""

    def __init__(self, wanted: Wanted = Wanted.CREATE, name: str = "n", **fields: Any) -> None:
        self._fields = wanted, name, fields
        self.wish: RequestedReplicas

    def __call__(self, tale: Tale) -> None:
        """It is made."""
        wanted, name, fields = self._fields
        self.wish = RequestedReplicas(wanted, name, tale.time, **fields)
        tale.zookeeper.calls.ask([self.wish])

    def answered(self, error: int = 0, topic_id: str | None = None) -> Step:
        """It ends with an answer."""
        return lambda tale: tale.zookeeper.calls.answer(self.wish, tale.time, error, topic_id)

    def lost(self, tale: Tale) -> None:
        """It ends without one."""
        tale.zookeeper.calls.lose([self.wish], tale.time)


def made(partitions: dict[int, list[int]], config: bytes | None = EMPTY, **fields: Any) -> Step:
    """An instance creates a topic, with its configuration first."""
    before: list[Operation] = [] if config is None else [create(NEW_CONFIG, config)]
    znode = create(NEW, topic(partitions, **{"topic_id": ID, **fields}))
    return lambda tale: tale.fenced(*before, znode)


def fenced(*operations: Operation) -> Step:
    return lambda tale: tale.fenced(*operations)


def by_tool(*operations: Operation) -> Step:
    return lambda tale: tale.write(TOOL_SESSION, *operations)


def grown(partitions: dict[int, list[int]]) -> Step:
    return fenced(set_(TOPIC, topic(partitions), 0))


def long_after(tale: Tale) -> None:
    tale.time += LONG


def within_the_window(tale: Tale) -> None:
    tale.time += WINDOW / 2


def of_release(*release: int) -> Step:
    """All brokers are of this release, and have been registered for long."""

    def begun(tale: Tale) -> None:
        tale.time += LONG
        tale.zookeeper.history.releases.update(dict.fromkeys((1, 2, 3), (release[0], release[1])))

    return begun


def down_for_a_moment(broker: int, *release: int) -> Step:
    """A broker of this release, which has replicas, restarts; the others are of 3.9."""

    def begun(tale: Tale) -> None:
        tale.time += LONG
        tale.zookeeper.history.releases.update({1: (3, 9), 2: (3, 9), 3: (3, 9), broker: (release[0], release[1])})
        tale.die(broker)
        tale.time += WINDOW / 2

    return begun


def reached(tale: Tale) -> None:
    """The controller has reached all brokers, long ago."""
    history = tale.zookeeper.history
    for number, broker in history.brokers.items():
        history.hears(number, broker.czxid, history.epoch, tale.time)
    tale.time += LONG


def raised_to_3_9(tale: Tale) -> None:
    tale.zookeeper.history.protocol_version = parse_broker_version("3.9-IV0")


def user(**config: str) -> bytes:
    return document(version=1, config=config)


ONE: Final = {0: [1]}
LEVEL: Final = {"compression.zstd.level": "7"}
MORE: Final = {0: [1, 2, 3], 1: [3, 1, 2]}
MOST: Final = {**MORE, 2: [2, 3, 1]}


def _wrong() -> list[tuple[str, Step]]:
    asked, lost, two, given = Asked(), Asked(), Asked(partitions=2), Asked(assignments={0: (3, 1)})
    configured, refused, validated, quiet = Asked(configs={"a": "b"}), Asked(), Asked(validates_only=True), Asked()
    ids, default = Asked(), Asked(takes_default=True)
    grows, shrinks = Asked(Wanted.GROW, "t", partitions=2), Asked(Wanted.GROW, "t", partitions=2)
    by_hand = Asked(Wanted.GROW, "t", partitions=2, assignments={1: (2, 3, 1)})
    undone = Asked(Wanted.GROW, "t", partitions=2)
    dooms, unknown, exists, ours = Asked(Wanted.DELETE, "t"), Asked(Wanted.DELETE, "t"), Asked(), Asked()
    newer, restarts, understood = Asked(configs=LEVEL), Asked(configs=LEVEL), document(version=1, config=LEVEL)
    newest = Asked(configs=LEVEL)
    throttled, elsewhere = Asked(), Asked(Wanted.DELETE, "t")
    return [
        # Nobody asked, not any more, not for this, or was told that it was refused.
        ("Z-36", made(ONE)),
        ("Z-36", told(lost, lost.lost, long_after, made(ONE))),
        ("Z-36", told(validated, made(ONE))),
        ("Z-36", told(refused, made(ONE), refused.answered(38))),
        ("Z-36", told(ours, made(ONE), ours.answered(36))),
        ("Z-36", told(ours, by_tool(create(NEW, topic(ONE)), delete(NEW)), made(ONE), ours.answered(36))),
        ("Z-36", told(ours, made(ONE), by_tool(set_(NEW, topic(ONE), 0)), ours.answered(37))),
        ("Z-36", grown(MORE)),
        ("Z-36", told(shrinks, grown(MORE), shrinks.answered(37))),
        ("Z-36", told(undone, grown(MORE), by_tool(set_(TOPIC, topic({0: [1, 2, 3]}), 1)), undone.answered(37))),
        ("Z-36", fenced(create(MARKER))),
        ("Z-36", told(elsewhere, fenced(create(MARKER)), elsewhere.answered(73))),
        # Not what was asked for.
        ("Z-37", told(two, made(ONE))),
        ("Z-37", told(default, made({0: [1], 1: [1]}))),
        ("Z-37", told(asked, made({0: [1, 2]}))),
        ("Z-37", told(asked, made({0: [7]}))),
        ("Z-37", told(given, made({0: [1, 3]}))),
        ("Z-37", told(configured, made(ONE))),
        ("Z-37", told(grows, grown({0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 3]}))),
        ("Z-37", told(by_hand, grown(MORE))),
        # A configuration alone.
        ("Z-38", fenced(create(NEW_CONFIG, EMPTY))),
        ("Z-38", fenced(create(CONFIG, EMPTY))),
        # The id of another topic, or none.
        ("Z-39", told(ids, made(ONE, topic_id="id-t"))),
        ("Z-39", told(ids, made(ONE, topic_id=None))),
        # Answers that are not true.
        ("Z-40", told(quiet, quiet.answered(0, ID))),
        ("Z-40", told(quiet, made(ONE), quiet.answered(0, "another"))),
        ("Z-40", told(grows, grows.answered())),
        ("Z-40", told(dooms, dooms.answered())),
        ("Z-40", told(unknown, unknown.answered(3))),
        ("Z-40", told(exists, exists.answered(36))),
        ("Z-40", told(throttled, throttled.answered(89))),
        # A configuration of 3.8 for a broker of 3.7.
        ("Z-46", told(of_release(3, 7), newer, made(ONE, understood))),
        ("Z-46", told(of_release(3, 7), reached, raised_to_3_9, newest, made(ONE, understood))),
        # The same while that broker restarts.
        ("Z-46", told(down_for_a_moment(3, 3, 7), restarts, made(ONE, understood))),
        # More than a credential.
        ("Z-41", told(by_tool(create(USER, user(rate="1"))), fenced(set_(USER, user(), 0), create(CHANGE)))),
        ("Z-41", fenced(create(USER, user(**{"SCRAM-SHA-256": "salt"})))),
    ]


WRONG: Final = _wrong()


@pytest.mark.parametrize(("rule", "wrong"), WRONG)
def test_a_wrong_step_trips_its_rule_and_no_other(rule: str, wrong: Step) -> None:
    tale = Tale()
    wrong(tale)
    assert {found.id for found in tale.oracle.violations} == {rule}, tale.oracle.violations


def test_a_topic_without_a_configuration_breaks_two_rules() -> None:
    tale = Tale()
    told(asked := Asked(), made(ONE, config=None))(tale)
    assert {found.id for found in tale.oracle.violations} == {"Z-37", "Z-38"}, asked


def _true() -> list[Step]:
    asked, lost, other, late = Asked(), Asked(), Asked(), Asked(partitions=3)
    given, validated = Asked(assignments={0: (1, 7)}), Asked(validates_only=True)
    grows, dooms, again = Asked(Wanted.GROW, "t", partitions=2), Asked(Wanted.DELETE, "t"), Asked(Wanted.DELETE, "t")
    unknown, exists = Asked(Wanted.DELETE, "nowhere"), Asked(name="t")
    young, hidden, default = Asked(Wanted.DELETE, "n"), Asked(), Asked(takes_default=True)
    raised = Asked(configs=LEVEL)
    by_hand = Asked(Wanted.GROW, "t", partitions=3, assignments={1: (2, 3, 1), 2: (1, 2, 3)})
    by_count, outgrown = Asked(Wanted.GROW, "t", partitions=3), Asked(Wanted.GROW, "t", partitions=2)
    newest, newer = Asked(configs=LEVEL), Asked(configs=LEVEL)
    understood = document(version=1, config=LEVEL)
    return [
        told(asked, made(ONE), asked.answered(0, ID)),
        # Most brokers say num.partitions=7, and the caller left the number to them.
        told(default, made({number: [1] for number in range(7)}), default.answered(0, ID)),
        told(asked, by_tool(create(NEW_CONFIG)), _over_a_stray, asked.answered(0, ID)),
        # Nobody heard of it, and whoever asks again is told that it exists.
        told(lost, lost.lost, within_the_window, other, made(ONE), other.answered(36)),
        # Of two only one is answered without error.
        told(other, late, made(ONE), other.answered(0, ID), late.answered(36)),
        # Whether it was this one that created it cannot be read any more.
        told(hidden, made(ONE), by_tool(set_(NEW, topic({0: [1], 1: [2]}), 0)), hidden.answered(36)),
        # The same of partitions that others have extended once more.
        told(outgrown, grown(MORE), by_tool(set_(TOPIC, topic(MOST), 1)), outgrown.answered(37)),
        # A broker that nobody knows may be named by hand.
        told(given, made({0: [1, 7]}), given.answered(0, ID)),
        told(validated, validated.answered()),
        told(grows, grown(MORE), grows.answered()),
        # What was asked for by hand fits a topic no more that somebody else extended since.
        told(by_hand, by_hand.lost, _extended, by_count, fenced(set_(TOPIC, topic(MOST), 1)), by_count.answered()),
        told(dooms, fenced(create(MARKER)), dooms.answered()),
        # Somebody else's marker will do.
        told(again, by_tool(create(MARKER)), again.answered()),
        told(unknown, unknown.answered(3)),
        told(exists, exists.answered(36)),
        # Every broker understands the configuration, or may not have been known yet.
        told(of_release(3, 8), newest, made(ONE, understood)),
        told(of_release(3, 7), _all_new, newer, made(ONE, understood)),
        # The protocol version was raised while brokers were away that the controller has not reached since.
        told(of_release(3, 7), raised_to_3_9, raised, made(ONE, understood)),
        # What was created a moment ago need not be known yet.
        told(by_tool(create(NEW, topic(ONE))), young, young.answered(3)),
        told(
            by_tool(create(USER, user(rate="1"))),
            fenced(set_(USER, user(rate="1", **{"SCRAM-SHA-256": "salt"}), 0), create(CHANGE)),
        ),
    ]


def _extended(tale: Tale) -> None:
    """Somebody else adds a partition."""
    by_tool(set_(TOPIC, topic(MORE), 0))(tale)


def _all_new(tale: Tale) -> None:
    """The brokers have just registered, and have just got their replicas."""
    history = tale.zookeeper.history
    for broker in history.brokers.values():
        broker.changed_at = tale.time
    for partition in history.partitions.values():
        partition.moved_at = tale.time


def _over_a_stray(tale: Tale) -> None:
    """The configuration of an earlier topic is there, and is written over."""
    tale.fenced(set_(NEW_CONFIG, EMPTY, 0), create(NEW, topic(ONE, topic_id=ID)))


@pytest.mark.parametrize("true", _true())
def test_a_true_history_trips_nothing(true: Step) -> None:
    tale = Tale()
    true(tale)
    assert tale.oracle.violations == []


def outlived(tale: Tale) -> None:
    """A topic that an instance created goes, its configuration stays."""
    told(Asked(), made(ONE), by_tool(delete(NEW)))(tale)


def test_a_configuration_that_outlives_its_topic_is_told_until_it_goes() -> None:
    tale = Tale()
    outlived(tale)
    assert tale.zookeeper.calls.stray_configs() == ["n"]
    tale.write(TOOL_SESSION, delete(NEW_CONFIG))
    assert tale.zookeeper.calls.stray_configs() == []


def test_every_rule_is_tripped() -> None:
    assert {rule for rule, _ in WRONG} == RULES.keys()
