"""Equal states of replicas are one object, however they came about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.model import BrokerId, ReplicaState
from controllerd.core.replica_states import ReplicaStates

B1, B2 = BrokerId(1), BrokerId(2)
moves = st.lists(st.tuples(st.sampled_from([B1, B2, BrokerId(3)]), st.sampled_from(ReplicaState)))


def after(states: ReplicaStates, steps: list[tuple[BrokerId, ReplicaState]]) -> ReplicaStates:
    for broker, state in steps:
        states = states.after(broker, state)
    return states


@given(moves)
def test_moves_leave_what_a_dictionary_would_hold(steps: list[tuple[BrokerId, ReplicaState]]) -> None:
    held = dict(steps)

    states = after(ReplicaStates.nothing(), steps)

    assert dict(states.items()) == {
        broker: state for broker, state in held.items() if state is not ReplicaState.NON_EXISTENT
    }
    assert all(states[broker] is state for broker, state in held.items())


@given(moves)
def test_equal_states_are_one_object_whatever_the_way_there(steps: list[tuple[BrokerId, ReplicaState]]) -> None:
    root = ReplicaStates.nothing()
    states = after(root, steps)

    assert after(root, sorted(states.items(), reverse=True, key=lambda item: item[0])) is states


@pytest.mark.parametrize("broker", [B1, B2])
def test_an_unknown_replica_does_not_exist(broker: BrokerId) -> None:
    assert ReplicaStates.nothing()[broker] is ReplicaState.NON_EXISTENT
