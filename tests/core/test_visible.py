"""What is shown of text from outside."""

import pytest

from controllerd.core.text import visible


@pytest.mark.parametrize("text", ["", "payments-7", "rack eins, Köln → 2", "C:\\logs"])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_what_steers_a_terminal_or_hides_is_shown_as_an_escape() -> None:
    assert visible("a\x1b]0;b\x07\nc\u202ed") == r"a\x1b]0;b\x07\nc\u202ed"
