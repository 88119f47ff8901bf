"""Names of new topics: what Kafka allows, and what metrics could not tell apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.kafka_error import KafkaError
from controllerd.core.topic_names import TakenNames, name_problem, refused_names, unified

LETTERS = "abcXYZ019._-"
NAMES = st.text(LETTERS, min_size=1, max_size=249).filter(lambda name: name not in {".", ".."})


@given(NAMES)
def test_ascii_letters_digits_dots_dashes_and_underscores_make_a_name(name: str) -> None:
    assert name_problem(name) is None


@given(NAMES, st.characters(exclude_characters=LETTERS).filter(lambda c: not (c.isascii() and c.isalnum())))
def test_any_other_letter_does_not(name: str, letter: str) -> None:
    assert name_problem(name[:200] + letter) is not None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'"
            ),
        ),
        ("a" * 250, f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_a_bad_name_is_refused_in_kafkas_words(name: str, problem: str) -> None:
    assert name_problem(name) == problem


def test_length_is_counted_as_java_does() -> None:
    assert "longer than" in (name_problem("\N{GRINNING FACE}" * 125) or "")


def test_a_line_break_at_the_end_is_not_overlooked() -> None:
    assert name_problem("orders\n") is not None


def test_names_collide_when_dots_and_underscores_are_the_same() -> None:
    assert TakenNames(["a.b_c", "a.b.c", "abc", "a_b"]).colliding("a_b_c") == ["a.b.c", "a.b_c"]


def test_a_name_does_not_collide_with_itself() -> None:
    assert TakenNames(["a.b"]).colliding("a.b") == []


def test_a_name_that_is_added_later_collides_too() -> None:
    taken = TakenNames([])
    assert taken.colliding("a.b") == []

    taken.add("a_b")

    assert taken.colliding("a.b") == ["a_b"]
    assert "a_b" in taken


@given(st.lists(NAMES, max_size=8), NAMES)
def test_a_collision_is_an_equal_unified_name(names: list[str], name: str) -> None:
    expected = {other for other in names if other != name and unified(other) == unified(name)}

    assert TakenNames(names).colliding(name) == sorted(expected)


def test_names_that_a_request_repeats_are_refused() -> None:
    assert refused_names(["a", "b", "a"]) == {
        "a": (KafkaError.INVALID_REQUEST, "Found multiple entries for this topic."),
    }


def test_the_log_of_a_quorum_is_refused_by_its_own_rule_even_when_repeated() -> None:
    assert refused_names(["__cluster_metadata", "__cluster_metadata"]) == {
        "__cluster_metadata": (
            KafkaError.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    }
