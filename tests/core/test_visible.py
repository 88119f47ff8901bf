"""Text from outside, made safe to show."""

import pytest

from controllerd.core.text import visible


@pytest.mark.parametrize("text", ["", "payments-7", "rack eins, Köln → 2", "C:\\logs"])
def test_visible_text_is_not_changed(text: str) -> None:
    assert visible(text) == text


def test_control_and_invisible_characters_are_shown_as_escapes() -> None:
    assert visible("a\x1b]0;b\x07\nc\u202ed") == r"a\x1b]0;b\x07\nc\u202ed"
