"""Durations are converted to kio and back without a change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.api_codec import milliseconds, throttle

FIRST, LAST = -(2**31), 2**31 - 1


@given(st.integers(FIRST, LAST))
def test_every_duration_of_the_protocol_is_converted_back_unchanged(duration_ms: int) -> None:
    assert milliseconds(throttle(duration_ms)) == duration_ms


@pytest.mark.parametrize("duration_ms", [FIRST - 1, LAST + 1])
def test_a_throttle_time_beyond_32_bits_is_refused(duration_ms: int) -> None:
    with pytest.raises(TypeError):
        throttle(duration_ms)
