"""Wrong steps trip the rule about AlterPartition that changes nothing, and true histories do not."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.oracle_questions import RULES
from tests.sim.oracle_samples import STATE, Tale, broken_by, set_, state

Step = Callable[[Tale], object]


def begins(tale: Tale, name: str = "AlterPartitionReceived", owner: str = "a") -> None:
    """Let an instance begin to handle an event."""
    tale.zookeeper.questions.begins(owner, name)


def sends(tale: Tale) -> None:
    """Let ``a`` send metadata."""
    tale.zookeeper.questions.sends("a", "UpdateMetadata", tale.time)


def shrinks(tale: Tale) -> None:
    """Let ``a`` write a smaller ISR that broker 1 asked for."""
    tale.ask([1, 2])
    tale.fenced(set_(STATE, state(1, 0, [1, 2]), 0))


def writes_once_more(tale: Tale) -> None:
    """Let ``a`` write the state as it is, for a newer partition epoch."""
    tale.ask([1, 2, 3])
    tale.fenced(set_(STATE, state(1, 0, [1, 2, 3]), 0))


def refused_and_told(tale: Tale) -> None:
    begins(tale)
    sends(tale)


def newer_epoch_told(tale: Tale) -> None:
    begins(tale)
    writes_once_more(tale)
    sends(tale)


def told_for_the_change_before(tale: Tale) -> None:
    begins(tale)
    shrinks(tale)
    begins(tale)
    sends(tale)


def granted_and_told(tale: Tale) -> None:
    begins(tale)
    shrinks(tale)
    sends(tale)


def refused(tale: Tale) -> None:
    begins(tale)
    begins(tale, "BrokerChange")
    sends(tale)


def told_by_another(tale: Tale) -> None:
    begins(tale, owner="b")
    sends(tale)


def newer_epoch(tale: Tale) -> None:
    begins(tale)
    writes_once_more(tale)


WRONG: Final[dict[str, Step]] = {
    "a refusal is told": refused_and_told,
    "a newer partition epoch is told": newer_epoch_told,
    "a refusal after a change is told": told_for_the_change_before,
}
RIGHT: Final[dict[str, Step]] = {
    "a change is told": granted_and_told,
    "a refusal, then another event": refused,
    "another instance has a refusal": told_by_another,
    "a newer partition epoch is told to nobody": newer_epoch,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_step_trips_the_rule(wrong: str) -> None:
    assert broken_by(WRONG[wrong]) == RULES.keys()


@pytest.mark.parametrize("right", RIGHT)
def test_a_true_history_does_not(right: str) -> None:
    assert broken_by(RIGHT[right]) == set()
