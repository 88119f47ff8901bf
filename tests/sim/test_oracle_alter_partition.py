"""Wrong steps trip the rule about AlterPartition without a change, and correct histories do not."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.oracle_alter_partition import RULES
from tests.sim.oracle_samples import STATE, SampleHistory, broken_by, set_, state

Step = Callable[[SampleHistory], object]


def begins(sample: SampleHistory, name: str = "AlterPartitionReceived", owner: str = "a") -> None:
    """Let an instance begin to handle an event."""
    sample.zookeeper.questions.begins(owner, name)


def sends(sample: SampleHistory) -> None:
    """Let ``a`` send metadata."""
    sample.zookeeper.questions.sends("a", "UpdateMetadata", sample.time)


def shrinks(sample: SampleHistory) -> None:
    """Let ``a`` write a smaller ISR that broker 1 proposed."""
    sample.ask([1, 2])
    sample.fenced(set_(STATE, state(1, 0, [1, 2]), 0))


def writes_once_more(sample: SampleHistory) -> None:
    """Let ``a`` write the same state again, for a newer partition epoch."""
    sample.ask([1, 2, 3])
    sample.fenced(set_(STATE, state(1, 0, [1, 2, 3]), 0))


def refused_and_sent(sample: SampleHistory) -> None:
    begins(sample)
    sends(sample)


def newer_epoch_sent(sample: SampleHistory) -> None:
    begins(sample)
    writes_once_more(sample)
    sends(sample)


def sent_for_the_change_before(sample: SampleHistory) -> None:
    begins(sample)
    shrinks(sample)
    begins(sample)
    sends(sample)


def granted_and_sent(sample: SampleHistory) -> None:
    begins(sample)
    shrinks(sample)
    sends(sample)


def refused(sample: SampleHistory) -> None:
    begins(sample)
    begins(sample, "BrokerChange")
    sends(sample)


def sent_by_another(sample: SampleHistory) -> None:
    begins(sample, owner="b")
    sends(sample)


def newer_epoch(sample: SampleHistory) -> None:
    begins(sample)
    writes_once_more(sample)


WRONG: Final[dict[str, Step]] = {
    "a refusal is told": refused_and_sent,
    "a newer partition epoch is told": newer_epoch_sent,
    "a refusal after a change is told": sent_for_the_change_before,
}
RIGHT: Final[dict[str, Step]] = {
    "a change is told": granted_and_sent,
    "a refusal, then another event": refused,
    "another instance has a refusal": sent_by_another,
    "a newer partition epoch is told to nobody": newer_epoch,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_step_trips_the_rule(wrong: str) -> None:
    assert broken_by(WRONG[wrong]) == RULES.keys()


@pytest.mark.parametrize("right", RIGHT)
def test_a_true_history_does_not(right: str) -> None:
    assert broken_by(RIGHT[right]) == set()
