"""Rules of calls for topics: each wrong step trips its rule alone, correct histories trip none."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from controllerd.core.protocol_versions import parse_broker_version
from tests.sim.oracle import Operation
from tests.sim.oracle_calls import RULES, CallRow, TopicOperation
from tests.sim.oracle_samples import (
    CONFIG,
    LONG,
    TOOL_SESSION,
    TOPIC,
    WINDOW,
    SampleHistory,
    create,
    delete,
    document,
    set_,
    topic,
)

Step = Callable[[SampleHistory], object]

NEW: Final = "/brokers/topics/n"
NEW_CONFIG: Final = "/config/topics/n"
MARKER: Final = "/admin/delete_topics/t"
USER: Final = "/config/users/alice"
CHANGE: Final = "/config/changes/config_change_0000000000"
EMPTY: Final = document(version=1, config={})
ID: Final = "id-n"


def in_order(*steps: Step) -> Step:
    def all_of_them(sample: SampleHistory) -> None:
        for step in steps:
            step(sample)

    return all_of_them


class SentCall:
    """A row of a call that a story sends and ends; another one in each story."""

    def __init__(self, wanted: TopicOperation = TopicOperation.CREATE, name: str = "n", **fields: Any) -> None:
        self._fields = wanted, name, fields
        self.row: CallRow

    def __call__(self, sample: SampleHistory) -> None:
        """Send the call."""
        wanted, name, fields = self._fields
        self.row = CallRow(wanted, name, sample.time, **fields)
        sample.zookeeper.calls.ask([self.row])

    def answered(self, error: int = 0, topic_id: str | None = None) -> Step:
        """End the call with an answer."""
        return lambda sample: sample.zookeeper.calls.answer(self.row, sample.time, error, topic_id)

    def lost(self, sample: SampleHistory) -> None:
        """End the call without an answer."""
        sample.zookeeper.calls.lose([self.row], sample.time)


def made(partitions: dict[int, list[int]], config: bytes | None = EMPTY, **fields: Any) -> Step:
    """Let an instance create a topic, with its configuration first."""
    before: list[Operation] = [] if config is None else [create(NEW_CONFIG, config)]
    znode = create(NEW, topic(partitions, **{"topic_id": ID, **fields}))
    return lambda sample: sample.fenced(*before, znode)


def fenced(*operations: Operation) -> Step:
    return lambda sample: sample.fenced(*operations)


def by_tool(*operations: Operation) -> Step:
    return lambda sample: sample.write(TOOL_SESSION, *operations)


def grown(partitions: dict[int, list[int]]) -> Step:
    return fenced(set_(TOPIC, topic(partitions), 0))


def long_after(sample: SampleHistory) -> None:
    sample.time += LONG


def within_the_window(sample: SampleHistory) -> None:
    sample.time += WINDOW / 2


def of_release(*release: int) -> Step:
    """Give all brokers this release; they have been registered for long."""

    def begun(sample: SampleHistory) -> None:
        sample.time += LONG
        sample.zookeeper.history.releases.update(dict.fromkeys((1, 2, 3), (release[0], release[1])))

    return begun


def down_for_a_moment(broker: int, *release: int) -> Step:
    """Restart a broker of this release, which has replicas; the others are of 3.9."""

    def begun(sample: SampleHistory) -> None:
        sample.time += LONG
        sample.zookeeper.history.releases.update({1: (3, 9), 2: (3, 9), 3: (3, 9), broker: (release[0], release[1])})
        sample.die(broker)
        sample.time += WINDOW / 2

    return begun


def reached(sample: SampleHistory) -> None:
    """Let the controller have reached all brokers, long ago."""
    history = sample.zookeeper.history
    for number, broker in history.brokers.items():
        history.reached(number, broker.czxid, history.epoch, sample.time)
    sample.time += LONG


def raised_to_3_9(sample: SampleHistory) -> None:
    sample.zookeeper.history.protocol_version = parse_broker_version("3.9-IV0")


def user(**config: str) -> bytes:
    return document(version=1, config=config)


ONE: Final = {0: [1]}
LEVEL: Final = {"compression.zstd.level": "7"}
MORE: Final = {0: [1, 2, 3], 1: [3, 1, 2]}
MOST: Final = {**MORE, 2: [2, 3, 1]}


def _wrong() -> list[tuple[str, Step]]:
    asked, lost, two, given = SentCall(), SentCall(), SentCall(partitions=2), SentCall(assignments={0: (3, 1)})
    configured, refused, validated, quiet = (
        SentCall(configs={"a": "b"}),
        SentCall(),
        SentCall(validates_only=True),
        SentCall(),
    )
    ids, default = SentCall(), SentCall(takes_default=True)
    grows, shrinks = SentCall(TopicOperation.GROW, "t", partitions=2), SentCall(TopicOperation.GROW, "t", partitions=2)
    by_hand = SentCall(TopicOperation.GROW, "t", partitions=2, assignments={1: (2, 3, 1)})
    undone = SentCall(TopicOperation.GROW, "t", partitions=2)
    dooms, unknown, exists, ours = (
        SentCall(TopicOperation.DELETE, "t"),
        SentCall(TopicOperation.DELETE, "t"),
        SentCall(),
        SentCall(),
    )
    newer, restarts, understood = SentCall(configs=LEVEL), SentCall(configs=LEVEL), document(version=1, config=LEVEL)
    newest = SentCall(configs=LEVEL)
    throttled, elsewhere = SentCall(), SentCall(TopicOperation.DELETE, "t")
    return [
        # No such call, not any more, not for this topic, or one that was answered with a refusal.
        ("Z-36", made(ONE)),
        ("Z-36", in_order(lost, lost.lost, long_after, made(ONE))),
        ("Z-36", in_order(validated, made(ONE))),
        ("Z-36", in_order(refused, made(ONE), refused.answered(38))),
        ("Z-36", in_order(ours, made(ONE), ours.answered(36))),
        ("Z-36", in_order(ours, by_tool(create(NEW, topic(ONE)), delete(NEW)), made(ONE), ours.answered(36))),
        ("Z-36", in_order(ours, made(ONE), by_tool(set_(NEW, topic(ONE), 0)), ours.answered(37))),
        ("Z-36", grown(MORE)),
        ("Z-36", in_order(shrinks, grown(MORE), shrinks.answered(37))),
        ("Z-36", in_order(undone, grown(MORE), by_tool(set_(TOPIC, topic({0: [1, 2, 3]}), 1)), undone.answered(37))),
        ("Z-36", fenced(create(MARKER))),
        ("Z-36", in_order(elsewhere, fenced(create(MARKER)), elsewhere.answered(73))),
        # Another result than requested.
        ("Z-37", in_order(two, made(ONE))),
        ("Z-37", in_order(default, made({0: [1], 1: [1]}))),
        ("Z-37", in_order(asked, made({0: [1, 2]}))),
        ("Z-37", in_order(asked, made({0: [7]}))),
        ("Z-37", in_order(given, made({0: [1, 3]}))),
        ("Z-37", in_order(configured, made(ONE))),
        ("Z-37", in_order(grows, grown({0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 3]}))),
        ("Z-37", in_order(by_hand, grown(MORE))),
        # A configuration without topic.
        ("Z-38", fenced(create(NEW_CONFIG, EMPTY))),
        ("Z-38", fenced(create(CONFIG, EMPTY))),
        # The id of another topic, or none.
        ("Z-39", in_order(ids, made(ONE, topic_id="id-t"))),
        ("Z-39", in_order(ids, made(ONE, topic_id=None))),
        # Wrong answers.
        ("Z-40", in_order(quiet, quiet.answered(0, ID))),
        ("Z-40", in_order(quiet, made(ONE), quiet.answered(0, "another"))),
        ("Z-40", in_order(grows, grows.answered())),
        ("Z-40", in_order(dooms, dooms.answered())),
        ("Z-40", in_order(unknown, unknown.answered(3))),
        ("Z-40", in_order(exists, exists.answered(36))),
        ("Z-40", in_order(throttled, throttled.answered(89))),
        # A configuration of 3.8 for a broker of 3.7.
        ("Z-46", in_order(of_release(3, 7), newer, made(ONE, understood))),
        ("Z-46", in_order(of_release(3, 7), reached, raised_to_3_9, newest, made(ONE, understood))),
        # The same while that broker restarts.
        ("Z-46", in_order(down_for_a_moment(3, 3, 7), restarts, made(ONE, understood))),
        # More changes than that of a credential.
        ("Z-41", in_order(by_tool(create(USER, user(rate="1"))), fenced(set_(USER, user(), 0), create(CHANGE)))),
        ("Z-41", fenced(create(USER, user(**{"SCRAM-SHA-256": "salt"})))),
    ]


WRONG: Final = _wrong()


@pytest.mark.parametrize(("rule", "wrong"), WRONG)
def test_a_wrong_step_trips_its_rule_and_no_other(rule: str, wrong: Step) -> None:
    sample = SampleHistory()
    wrong(sample)
    assert {found.id for found in sample.oracle.violations} == {rule}, sample.oracle.violations


def test_a_topic_without_a_configuration_breaks_two_rules() -> None:
    sample = SampleHistory()
    in_order(asked := SentCall(), made(ONE, config=None))(sample)
    assert {found.id for found in sample.oracle.violations} == {"Z-37", "Z-38"}, asked


def _true() -> list[Step]:
    asked, lost, other, late = SentCall(), SentCall(), SentCall(), SentCall(partitions=3)
    given, validated = SentCall(assignments={0: (1, 7)}), SentCall(validates_only=True)
    grows, dooms, again = (
        SentCall(TopicOperation.GROW, "t", partitions=2),
        SentCall(TopicOperation.DELETE, "t"),
        SentCall(TopicOperation.DELETE, "t"),
    )
    unknown, exists = SentCall(TopicOperation.DELETE, "nowhere"), SentCall(name="t")
    young, hidden, default = SentCall(TopicOperation.DELETE, "n"), SentCall(), SentCall(takes_default=True)
    raised = SentCall(configs=LEVEL)
    by_hand = SentCall(TopicOperation.GROW, "t", partitions=3, assignments={1: (2, 3, 1), 2: (1, 2, 3)})
    by_count, outgrown = (
        SentCall(TopicOperation.GROW, "t", partitions=3),
        SentCall(TopicOperation.GROW, "t", partitions=2),
    )
    newest, newer = SentCall(configs=LEVEL), SentCall(configs=LEVEL)
    understood = document(version=1, config=LEVEL)
    return [
        in_order(asked, made(ONE), asked.answered(0, ID)),
        # Most brokers have num.partitions=7, and the caller left the number to them.
        in_order(default, made({number: [1] for number in range(7)}), default.answered(0, ID)),
        in_order(asked, by_tool(create(NEW_CONFIG)), _over_a_stray, asked.answered(0, ID)),
        # The answer was lost, and the repeated call is answered with TOPIC_ALREADY_EXISTS.
        in_order(lost, lost.lost, within_the_window, other, made(ONE), other.answered(36)),
        # Of two calls only one is answered without error.
        in_order(other, late, made(ONE), other.answered(0, ID), late.answered(36)),
        # The topic does not show any more which call created it.
        in_order(hidden, made(ONE), by_tool(set_(NEW, topic({0: [1], 1: [2]}), 0)), hidden.answered(36)),
        # The same for partitions that another program has extended once more.
        in_order(outgrown, grown(MORE), by_tool(set_(TOPIC, topic(MOST), 1)), outgrown.answered(37)),
        # A call may assign an unknown broker by hand.
        in_order(given, made({0: [1, 7]}), given.answered(0, ID)),
        in_order(validated, validated.answered()),
        in_order(grows, grown(MORE), grows.answered()),
        # The assignments of the call no longer fit a topic that another program extended since.
        in_order(by_hand, by_hand.lost, _extended, by_count, fenced(set_(TOPIC, topic(MOST), 1)), by_count.answered()),
        in_order(dooms, fenced(create(MARKER)), dooms.answered()),
        # The marker of another program is enough.
        in_order(again, by_tool(create(MARKER)), again.answered()),
        in_order(unknown, unknown.answered(3)),
        in_order(exists, exists.answered(36)),
        # Every broker understands the configuration, or may not have been known yet.
        in_order(of_release(3, 8), newest, made(ONE, understood)),
        in_order(of_release(3, 7), _all_new, newer, made(ONE, understood)),
        # The protocol version was raised while some brokers were down that the controller has not reached since.
        in_order(of_release(3, 7), raised_to_3_9, raised, made(ONE, understood)),
        # A new znode need not be known yet.
        in_order(by_tool(create(NEW, topic(ONE))), young, young.answered(3)),
        in_order(
            by_tool(create(USER, user(rate="1"))),
            fenced(set_(USER, user(rate="1", **{"SCRAM-SHA-256": "salt"}), 0), create(CHANGE)),
        ),
    ]


def _extended(sample: SampleHistory) -> None:
    """Add a partition as another program."""
    by_tool(set_(TOPIC, topic(MORE), 0))(sample)


def _all_new(sample: SampleHistory) -> None:
    """Register the brokers and give them their replicas just now."""
    history = sample.zookeeper.history
    for broker in history.brokers.values():
        broker.changed_at = sample.time
    for partition in history.partitions.values():
        partition.moved_at = sample.time


def _over_a_stray(sample: SampleHistory) -> None:
    """Overwrite the configuration of an earlier topic."""
    sample.fenced(set_(NEW_CONFIG, EMPTY, 0), create(NEW, topic(ONE, topic_id=ID)))


@pytest.mark.parametrize("true", _true())
def test_a_true_history_trips_nothing(true: Step) -> None:
    sample = SampleHistory()
    true(sample)
    assert sample.oracle.violations == []


def outlived(sample: SampleHistory) -> None:
    """Delete a topic that an instance created, but not its configuration."""
    in_order(SentCall(), made(ONE), by_tool(delete(NEW)))(sample)


def test_a_configuration_that_outlives_its_topic_is_reported_until_it_goes() -> None:
    sample = SampleHistory()
    outlived(sample)
    assert sample.zookeeper.calls.stray_configs() == ["n"]
    sample.write(TOOL_SESSION, delete(NEW_CONFIG))
    assert sample.zookeeper.calls.stray_configs() == []


def test_every_rule_is_tripped() -> None:
    assert {rule for rule, _ in WRONG} == RULES.keys()
