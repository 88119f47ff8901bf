"""Each rule about registrations is tripped by a minimal wrong step, and a correct history trips none."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.sim.oracle_registration import RULES
from tests.sim.oracle_samples import (
    A_NODE,
    A_SESSION,
    B_NODE,
    B_SESSION,
    LONG,
    TOOL_SESSION,
    SampleHistory,
    create,
    delete,
    document,
    election,
    fence,
)
from tests.sim.oracle_seen import Operation

A_PATH, B_PATH = f"/brokers/ids/{A_NODE}", f"/brokers/ids/{B_NODE}"
Step = Callable[[SampleHistory], object]


def check_controller() -> Operation:
    return Operation("check", "/controller", expected=0)


def entry(path: str = A_PATH, *, ephemeral: bool = True, instance: str | None = "uuid-a") -> Operation:
    return create(path, document(version=4, instance=instance), ephemeral=ephemeral)


def register(sample: SampleHistory) -> None:
    """Register ``a`` as the rules demand."""
    sample.write(A_SESSION, fence(1), check_controller(), entry())
    sample.time += LONG


def registered(then: Step) -> Step:
    def steps(sample: SampleHistory) -> None:
        register(sample)
        then(sample)

    return steps


def idle_without_term(sample: SampleHistory) -> None:
    sample.write(TOOL_SESSION, delete("/controller"))
    sample.zookeeper.registrations.on_idle("a", A_SESSION, sample.time)


def take_over(sample: SampleHistory, *deletions: Operation) -> object:
    sample.zookeeper.on_takeover_asked("uuid-b")
    raised, deleted, created = election(B_NODE, "uuid-b", 2, 1, replaces=True)
    return sample.write(B_SESSION, raised, deleted, *deletions, created)


def hidden_by_a_server_that_lags(sample: SampleHistory) -> None:
    sample.write(A_SESSION, fence(1), check_controller(), entry())
    take_over(sample)


RIGHT: Final[dict[str, Step]] = {
    "resigns with it": registered(lambda sample: sample.fenced(delete("/controller", 0), delete(A_PATH, 0))),
    "its session ends": registered(
        lambda sample: sample.write(A_SESSION, delete("/controller"), delete(A_PATH), closes=True)
    ),
    "another instance takes over": registered(lambda sample: take_over(sample, delete(A_PATH, 0))),
    "a session without a term deletes its own": registered(lambda sample: sample.write(A_SESSION, delete(A_PATH, 0))),
    "the active instance deletes what was left": lambda sample: (
        sample.write(TOOL_SESSION, entry(B_PATH)),
        sample.fenced(delete(B_PATH, 0)),
    ),
    "a younger one was hidden by a server that lags": hidden_by_a_server_that_lags,
}
WRONG: Final[list[tuple[str, Step]]] = [
    ("Z-47", lambda sample: sample.write(A_SESSION, fence(1), entry())),
    ("Z-47", lambda sample: sample.write(A_SESSION, fence(1), check_controller(), entry(ephemeral=False))),
    ("Z-47", lambda sample: sample.write(A_SESSION, fence(1), check_controller(), entry(B_PATH))),
    ("Z-47", lambda sample: sample.write(A_SESSION, fence(1), check_controller(), entry(instance=None))),
    ("Z-43", registered(lambda sample: sample.fenced(delete("/controller", 0)))),
    ("Z-43", registered(take_over)),
    ("Z-44", registered(idle_without_term)),
    ("Z-45", registered(lambda sample: sample.write(B_SESSION, delete(A_PATH, 0)))),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_registration_that_goes_with_its_role_breaks_no_rule(name: str) -> None:
    sample = SampleHistory()
    RIGHT[name](sample)
    assert sample.oracle.violations == []


@pytest.mark.parametrize(("rule", "step"), WRONG)
def test_a_wrong_step_breaks_its_rule(rule: str, step: Step) -> None:
    sample = SampleHistory()
    step(sample)
    assert rule in {violation.id for violation in sample.oracle.violations}


def test_every_rule_has_a_wrong_step() -> None:
    assert {rule for rule, _ in WRONG} == RULES.keys()


def test_registrations_are_no_brokers_to_the_judge() -> None:
    sample = SampleHistory()
    register(sample)
    assert sample.zookeeper.history.live() == {1, 2, 3}


def test_at_rest_only_the_active_instance_is_registered_where_a_broker_needs_it() -> None:
    sample = SampleHistory()
    judge = sample.zookeeper.registrations
    assert [rule for rule, _ in judge.at_rest(wanted=True)] == ["Q-25"]
    assert list(judge.at_rest(wanted=False)) == []

    register(sample)
    assert list(judge.at_rest(wanted=True)) == []

    sample.write(TOOL_SESSION, entry(B_PATH))
    assert [rule for rule, _ in judge.at_rest(wanted=True)] == ["Q-25"]
