"""Durations cross the border to kio without losing or gaining a millisecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.api_codec import milliseconds, throttle

FIRST, LAST = -(2**31), 2**31 - 1


@given(st.integers(FIRST, LAST))
def test_every_duration_of_the_protocol_comes_back_as_it_went(duration_ms: int) -> None:
    assert milliseconds(throttle(duration_ms)) == duration_ms


@pytest.mark.parametrize("duration_ms", [FIRST - 1, LAST + 1])
def test_a_throttle_time_beyond_32_bits_does_not_leave(duration_ms: int) -> None:
    with pytest.raises(TypeError):
        throttle(duration_ms)
