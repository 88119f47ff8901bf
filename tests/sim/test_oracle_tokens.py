"""Wrong steps trip the rules about delegation tokens, and correct histories do not."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.oracle_samples import LONG, TOOL_SESSION, SampleHistory, broken_by, create, delete, document, set_
from tests.sim.oracle_seen import WALL_MS, Operation
from tests.sim.oracle_tokens import RULES, TOKENS

TOKEN: Final = f"{TOKENS}a"
CHANGE: Final = create("/delegation_token/token_changes/token_change_0", b"a")
Step = Callable[[SampleHistory], object]


def token(expires_at: float, longest: float = 1e9) -> bytes:
    """The content of a token that expires at this virtual time."""
    times = {"expiryTimestamp": WALL_MS + int(expires_at * 1000), "maxTimestamp": WALL_MS + int(longest * 1000)}
    return document(version=3, tokenId="a", **times)


def issued(lives_s: float, then: Step) -> Step:
    """Issue a token to a client, and take the next step long afterwards."""

    def steps(sample: SampleHistory) -> None:
        sample.write(TOOL_SESSION, create(TOKEN, token(sample.time + lives_s)))
        sample.time += LONG
        then(sample)

    return steps


def goes(*operations: Operation) -> Step:
    return lambda sample: sample.fenced(*operations)


def renewed_before(expected: int) -> Step:
    def steps(sample: SampleHistory) -> None:
        sample.write(TOOL_SESSION, set_(TOKEN, token(sample.time + LONG), 0))
        sample.fenced(delete(TOKEN, expected), CHANGE)

    return steps


def past_its_longest_life(sample: SampleHistory) -> None:
    sample.write(TOOL_SESSION, create(TOKEN, token(1e6, longest=sample.time + 1.0)))
    sample.time += LONG
    sample.fenced(delete(TOKEN, 0), CHANGE)


WRONG: Final[dict[str, Step]] = {
    "a valid token": issued(1e6, goes(delete(TOKEN, 0), CHANGE)),
    "at whatever version": issued(1.0, goes(delete(TOKEN), CHANGE)),
    "without a notification": issued(1.0, goes(delete(TOKEN, 0))),
    "with the notification of another": issued(1.0, goes(delete(TOKEN, 0), create(CHANGE.path, b"b"))),
    "a token that was just renewed": issued(1.0, renewed_before(1)),
}
RIGHT: Final[dict[str, Step]] = {
    "an expired token": issued(1.0, goes(delete(TOKEN, 0), CHANGE)),
    "past its longest life": past_its_longest_life,
    "a tool deletes a valid one": issued(1e6, lambda sample: sample.write(TOOL_SESSION, delete(TOKEN))),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_step_trips_the_rule(wrong: str) -> None:
    assert broken_by(WRONG[wrong]) == RULES.keys()


@pytest.mark.parametrize("right", RIGHT)
def test_a_true_history_does_not(right: str) -> None:
    assert broken_by(RIGHT[right]) == set()


@pytest.mark.parametrize(
    ("lives_s", "then", "left"),
    [
        (1.0, lambda _: None, {"Q-26"}),
        (1e6, lambda _: None, set()),
        (LONG - 1.0, lambda _: None, set()),
        (1.0, goes(delete(TOKEN, 0), CHANGE), set()),
    ],
)
def test_no_token_that_expired_long_ago_is_left_at_rest(lives_s: float, then: Step, left: set[str]) -> None:
    sample = SampleHistory()
    issued(lives_s, then)(sample)
    assert {rule for rule, _ in sample.zookeeper.tokens.at_rest(sample.time)} == left
