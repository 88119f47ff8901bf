"""The sample behind the quantiles."""

import random

import pytest

from controllerd.status.metrics.reservoir import RESCALE_S, SIZE, DecayingReservoir


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sample(clock: Clock) -> DecayingReservoir:
    return DecayingReservoir(clock, draw=random.Random(7).random)


def test_an_empty_sample_has_quantiles_of_zero() -> None:
    assert sample(Clock()).quantiles([0.5, 0.999]) == [0.0, 0.0]


def test_quantiles_are_interpolated_as_yammer_does() -> None:
    reservoir = sample(Clock())
    for value in range(1, 101):
        reservoir.update(value)

    assert reservoir.quantiles([0.5, 0.75, 0.99, 0.999]) == pytest.approx([50.5, 75.75, 99.99, 100])


def test_the_sample_is_bounded() -> None:
    reservoir = sample(Clock())
    for value in range(10 * SIZE):
        reservoir.update(value)

    assert len(reservoir) == SIZE
    assert reservoir.quantiles([0.5])[0] == pytest.approx(5 * SIZE, rel=0.1)  # all are equally likely


def test_recent_values_have_most_weight() -> None:
    clock = Clock()
    reservoir = sample(clock)
    for _ in range(SIZE):
        reservoir.update(1000.0)
    clock.now = 600.0
    for _ in range(SIZE):
        reservoir.update(1.0)

    assert reservoir.quantiles([0.5, 0.95]) == [1.0, 1.0]


def test_weights_do_not_overflow_over_weeks() -> None:
    clock = Clock()
    reservoir = sample(clock)
    for hour in range(24 * 21):
        clock.now = hour * RESCALE_S * 1.01
        for _ in range(5):
            reservoir.update(float(hour))

    assert len(reservoir) == SIZE
    assert reservoir.quantiles([0.5])[0] > 24 * 21 - SIZE
