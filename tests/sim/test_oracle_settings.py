"""Wrong steps trip the rule about settings with which no instance must lead, and true histories do not."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.oracle_samples import Tale, broken_by
from tests.sim.oracle_settings import RULES

AUTHORIZER: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
NONE: Final = {"authorizer.class.name": "", "zookeeper.set.acl": "false"}
Step = Callable[[Tale], object]


def told(tale: Tale, values: dict[str, str], *, broker: int = 1, epoch: int | None = None) -> None:
    """Tell ``a`` the settings of a broker."""
    epoch = tale.epoch_of(broker) if epoch is None else epoch
    tale.zookeeper.settings.told("a", broker, epoch, values)


def ends(tale: Tale, *, leads: bool) -> None:
    """Let ``a`` end an event."""
    tale.zookeeper.settings.on_event_end("a", tale.time, is_active=leads)


def goes_on(tale: Tale, values: dict[str, str]) -> None:
    told(tale, values)
    ends(tale, leads=True)


def leads_when_the_broker_is_gone(tale: Tale) -> None:
    told(tale, AUTHORIZER)
    ends(tale, leads=False)
    tale.die(1)
    ends(tale, leads=True)


def leads_after_the_answer_of_another_broker(tale: Tale) -> None:
    told(tale, AUTHORIZER)
    told(tale, NONE, broker=2)
    ends(tale, leads=True)


def gives_the_role_up(tale: Tale) -> None:
    told(tale, AUTHORIZER)
    ends(tale, leads=False)


def leads_again_when_the_broker_returned_without(tale: Tale) -> None:
    gives_the_role_up(tale)
    tale.die(1)
    tale.register(1)
    told(tale, NONE)
    ends(tale, leads=True)


def the_answer_came_too_late(tale: Tale) -> None:
    epoch = tale.epoch_of(1)
    tale.die(1)
    told(tale, AUTHORIZER, epoch=epoch)
    ends(tale, leads=True)


def its_process_starts_anew(tale: Tale) -> None:
    told(tale, AUTHORIZER)
    tale.zookeeper.settings.begins("a")
    ends(tale, leads=True)


WRONG: Final[dict[str, Step]] = {
    "an authorizer": lambda tale: goes_on(tale, AUTHORIZER),
    "a policy class": lambda tale: goes_on(tale, {"alter.config.policy.class.name": "org.example.Policy"}),
    "a migration": lambda tale: goes_on(tale, {"zookeeper.metadata.migration.enable": "true"}),
    "the broker is gone": leads_when_the_broker_is_gone,
    "another broker has none": leads_after_the_answer_of_another_broker,
}
RIGHT: Final[dict[str, Step]] = {
    "no such setting": lambda tale: goes_on(tale, NONE),
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
