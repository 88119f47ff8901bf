"""Each rule about registrations is tripped by a minimal wrong step, and a true history trips none."""

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
    Tale,
    create,
    delete,
    document,
    election,
    fence,
)
from tests.sim.oracle_seen import Operation

A_PATH, B_PATH = f"/brokers/ids/{A_NODE}", f"/brokers/ids/{B_NODE}"
Step = Callable[[Tale], object]


def check_controller() -> Operation:
    return Operation("check", "/controller", expected=0)


def entry(path: str = A_PATH, *, ephemeral: bool = True, instance: str | None = "uuid-a") -> Operation:
    return create(path, document(version=4, instance=instance), ephemeral=ephemeral)


def register(tale: Tale) -> None:
    """Register ``a`` as the rules demand."""
    tale.write(A_SESSION, fence(1), check_controller(), entry())
    tale.time += LONG


def registered(then: Step) -> Step:
    def steps(tale: Tale) -> None:
        register(tale)
        then(tale)

    return steps


def idle_without_term(tale: Tale) -> None:
    tale.write(TOOL_SESSION, delete("/controller"))
    tale.zookeeper.registrations.on_idle("a", A_SESSION, tale.time)


def take_over(tale: Tale, *deletions: Operation) -> object:
    tale.zookeeper.on_takeover_asked("uuid-b")
    raised, deleted, created = election(B_NODE, "uuid-b", 2, 1, replaces=True)
    return tale.write(B_SESSION, raised, deleted, *deletions, created)


def hidden_by_a_server_that_lags(tale: Tale) -> None:
    tale.write(A_SESSION, fence(1), check_controller(), entry())
    take_over(tale)


RIGHT: Final[dict[str, Step]] = {
    "resigns with it": registered(lambda tale: tale.fenced(delete("/controller", 0), delete(A_PATH, 0))),
    "its session ends": registered(
        lambda tale: tale.write(A_SESSION, delete("/controller"), delete(A_PATH), closes=True)
    ),
    "another instance takes over": registered(lambda tale: take_over(tale, delete(A_PATH, 0))),
    "a session without a term deletes its own": registered(lambda tale: tale.write(A_SESSION, delete(A_PATH, 0))),
    "the active instance deletes what was left": lambda tale: (
        tale.write(TOOL_SESSION, entry(B_PATH)),
        tale.fenced(delete(B_PATH, 0)),
    ),
    "a younger one was hidden by a server that lags": hidden_by_a_server_that_lags,
}
WRONG: Final[list[tuple[str, Step]]] = [
    ("Z-47", lambda tale: tale.write(A_SESSION, fence(1), entry())),
    ("Z-47", lambda tale: tale.write(A_SESSION, fence(1), check_controller(), entry(ephemeral=False))),
    ("Z-47", lambda tale: tale.write(A_SESSION, fence(1), check_controller(), entry(B_PATH))),
    ("Z-47", lambda tale: tale.write(A_SESSION, fence(1), check_controller(), entry(instance=None))),
    ("Z-43", registered(lambda tale: tale.fenced(delete("/controller", 0)))),
    ("Z-43", registered(take_over)),
    ("Z-44", registered(idle_without_term)),
    ("Z-45", registered(lambda tale: tale.write(B_SESSION, delete(A_PATH, 0)))),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_registration_that_goes_with_its_role_breaks_no_rule(name: str) -> None:
    tale = Tale()
    RIGHT[name](tale)
    assert tale.oracle.violations == []


@pytest.mark.parametrize(("rule", "step"), WRONG)
def test_a_wrong_step_breaks_its_rule(rule: str, step: Step) -> None:
    tale = Tale()
    step(tale)
    assert rule in {violation.id for violation in tale.oracle.violations}


def test_every_rule_has_a_wrong_step() -> None:
    assert {rule for rule, _ in WRONG} == RULES.keys()


def test_registrations_are_no_brokers_to_the_judge() -> None:
    tale = Tale()
    register(tale)
    assert tale.zookeeper.history.live() == {1, 2, 3}


def test_at_rest_whoever_leads_alone_is_registered_where_a_broker_needs_it() -> None:
    tale = Tale()
    judge = tale.zookeeper.registrations
    assert [rule for rule, _ in judge.at_rest(wanted=True)] == ["Q-25"]
    assert list(judge.at_rest(wanted=False)) == []

    register(tale)
    assert list(judge.at_rest(wanted=True)) == []

    tale.write(TOOL_SESSION, entry(B_PATH))
    assert [rule for rule, _ in judge.at_rest(wanted=True)] == ["Q-25"]
