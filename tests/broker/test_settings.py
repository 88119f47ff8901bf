"""Listeners as they are written on the command line."""

import pytest

from broker.settings import parse_listener
from controllerd.core.model import Endpoint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Endpoint("PLAINTEXT", "127.0.0.1", 9092)),
        ("internal://broker-1:0", Endpoint("INTERNAL", "broker-1", 0)),
        ("PLAINTEXT://[::1]:9092", Endpoint("PLAINTEXT", "::1", 9092)),
    ],
)
def test_a_listener_is_parsed(text: str, expected: Endpoint) -> None:
    assert parse_listener(text) == expected


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "PLAINTEXT://127.0.0.1", "PLAINTEXT://127.0.0.1:70000", "P://:1"])
def test_an_invalid_listener_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no listener"):
        parse_listener(text)
