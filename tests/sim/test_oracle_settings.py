"""Wrong steps trip the rule about settings with which no instance must lead, and correct histories do not."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.oracle_samples import SampleHistory, broken_by
from tests.sim.oracle_settings import RULES

AUTHORIZER: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
NONE: Final = {"authorizer.class.name": "", "zookeeper.set.acl": "false"}
Step = Callable[[SampleHistory], object]


def answered(sample: SampleHistory, values: dict[str, str], *, broker: int = 1, epoch: int | None = None) -> None:
    """Give ``a`` the settings of a broker."""
    epoch = sample.epoch_of(broker) if epoch is None else epoch
    sample.zookeeper.settings.take_answer("a", broker, epoch, values)


def ends(sample: SampleHistory, *, leads: bool) -> None:
    """Let ``a`` end an event."""
    sample.zookeeper.settings.on_event_end("a", sample.time, is_active=leads)


def goes_on(sample: SampleHistory, values: dict[str, str]) -> None:
    answered(sample, values)
    ends(sample, leads=True)


def leads_when_the_broker_is_gone(sample: SampleHistory) -> None:
    answered(sample, AUTHORIZER)
    ends(sample, leads=False)
    sample.die(1)
    ends(sample, leads=True)


def leads_after_the_answer_of_another_broker(sample: SampleHistory) -> None:
    answered(sample, AUTHORIZER)
    answered(sample, NONE, broker=2)
    ends(sample, leads=True)


def gives_the_role_up(sample: SampleHistory) -> None:
    answered(sample, AUTHORIZER)
    ends(sample, leads=False)


def leads_again_when_the_broker_returned_without(sample: SampleHistory) -> None:
    gives_the_role_up(sample)
    sample.die(1)
    sample.register(1)
    answered(sample, NONE)
    ends(sample, leads=True)


def the_answer_came_too_late(sample: SampleHistory) -> None:
    epoch = sample.epoch_of(1)
    sample.die(1)
    answered(sample, AUTHORIZER, epoch=epoch)
    ends(sample, leads=True)


def its_process_starts_anew(sample: SampleHistory) -> None:
    answered(sample, AUTHORIZER)
    sample.zookeeper.settings.begins("a")
    ends(sample, leads=True)


WRONG: Final[dict[str, Step]] = {
    "an authorizer": lambda sample: goes_on(sample, AUTHORIZER),
    "a policy class": lambda sample: goes_on(sample, {"alter.config.policy.class.name": "org.example.Policy"}),
    "a migration": lambda sample: goes_on(sample, {"zookeeper.metadata.migration.enable": "true"}),
    "the broker is gone": leads_when_the_broker_is_gone,
    "another broker has none": leads_after_the_answer_of_another_broker,
}
RIGHT: Final[dict[str, Step]] = {
    "no such setting": lambda sample: goes_on(sample, NONE),
    "gives the role up": gives_the_role_up,
    "the broker returned without it": leads_again_when_the_broker_returned_without,
    "the answer of a life that is over": the_answer_came_too_late,
    "its process starts anew": its_process_starts_anew,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_step_trips_the_rule(wrong: str) -> None:
    assert broken_by(WRONG[wrong]) == RULES.keys()


@pytest.mark.parametrize("right", RIGHT)
def test_a_true_history_does_not(right: str) -> None:
    assert broken_by(RIGHT[right]) == set()
