"""The checks before any partition of a control request is looked at."""

import pytest

from broker.gate import ControlGate
from controllerd.core.kafka_error import KafkaError


@pytest.fixture
def gate() -> ControlGate:
    gate = ControlGate()
    gate.broker_epoch = 100
    return gate


@pytest.mark.parametrize(
    ("broker_epoch", "expected"),
    [(99, KafkaError.STALE_BROKER_EPOCH), (100, KafkaError.NONE), (101, KafkaError.NONE), (-1, KafkaError.NONE)],
)
def test_only_an_older_broker_epoch_is_refused(gate: ControlGate, broker_epoch: int, expected: KafkaError) -> None:
    assert gate.admit(broker_epoch, 1, is_kraft_controller=False) is expected


def test_a_controller_epoch_below_the_highest_seen_is_refused(gate: ControlGate) -> None:
    gate.admit(100, 5, is_kraft_controller=False)

    assert gate.admit(100, 4, is_kraft_controller=False) is KafkaError.STALE_CONTROLLER_EPOCH
    assert gate.admit(100, 5, is_kraft_controller=False) is KafkaError.NONE


def test_a_refused_request_does_not_raise_the_controller_epoch(gate: ControlGate) -> None:
    gate.admit(99, 7, is_kraft_controller=False)

    assert gate.admit(100, 1, is_kraft_controller=False) is KafkaError.NONE


def test_the_broker_epoch_is_checked_first(gate: ControlGate) -> None:
    gate.admit(100, 5, is_kraft_controller=False)

    assert gate.admit(99, 4, is_kraft_controller=False) is KafkaError.STALE_BROKER_EPOCH


def test_a_kraft_controller_with_a_broker_epoch_is_refused(gate: ControlGate) -> None:
    assert gate.admit(100, 1, is_kraft_controller=True) is KafkaError.UNKNOWN_SERVER_ERROR
    assert gate.admit(-1, 1, is_kraft_controller=True) is KafkaError.NONE
