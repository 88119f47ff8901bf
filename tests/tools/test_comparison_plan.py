"""Every request of the comparison can be encoded, and every allowed difference is about one of the requests."""

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
from kio.schema.errors import ErrorCode

from tests.api.cluster import new_request
from tests.real.comparison.asking import (
    ROUNDS,
    Ask,
    Difference,
    Justified,
    differences,
    errors,
    justified,
    lines,
    ms,
    worded,
)
from tests.real.comparison.plan import EVERYTHING
from wire.api_codec import fill
from wire.kio_codec import encode_entity

PAGE: Final = Path(__file__).resolve().parents[1] / "real" / "README.md"
PROMISED: Final = 120
ROW: Final = Justified(["grow *"], ["error_message"], "words")


def test_there_are_at_least_the_promised_requests() -> None:
    assert len(EVERYTHING) >= PROMISED


def test_the_page_about_real_brokers_has_the_number_of_requests() -> None:
    assert f" {len(EVERYTHING)} questions" in PAGE.read_text("utf-8")


def test_no_two_requests_share_a_name() -> None:
    assert [name for name, times in Counter(ask.id for ask in EVERYTHING).items() if times > 1] == []


@pytest.mark.parametrize("api", sorted({ask.api for ask in EVERYTHING}))
def test_every_request_of_an_api_can_be_written(api: int) -> None:
    def size(ask: Ask) -> int:
        return len(encode_entity(new_request(api, ask.version, worded(ask.values, ROUNDS[0]))))

    assert all(size(ask) > 0 for ask in EVERYTHING if ask.api == api)


def test_every_difference_is_about_a_request_and_has_a_reason() -> None:
    for row in justified():
        assert row.why, row
        for pattern in row.asks:
            assert any(fnmatchcase(ask.id, pattern) for ask in EVERYTHING), pattern


CODE, SAYS = "results['x'].error_code = none", "results['x'].error_message = 'a'"


@pytest.mark.parametrize(
    ("difference", "covered"),
    [
        (Difference("grow x", [SAYS], []), True),
        (Difference("grow x", [SAYS], [CODE]), False),
        (Difference("move x", [SAYS], []), False),
        (Difference("grow x", [], []), False),
        (Difference("grow x", ["results['x'].error_code = 'is .error_message = b'"], []), False),
    ],
    ids=["its field", "another field", "another request", "only the order", "another field that quotes it"],
)
def test_a_reason_covers_its_requests_and_fields_alone(difference: Difference, covered: bool) -> None:
    assert ROW.covers(difference) is covered


@pytest.mark.parametrize(
    ("built_in", "ours", "covered"),
    [("none", "invalid_request", True), ("none", "none", False), ("invalid_request", "invalid_request", False)],
)
def test_a_reason_that_names_errors_covers_no_others(built_in: str, ours: str, covered: bool) -> None:
    row = Justified(["grow *"], ["error_code"], "errors", built_in="none", controllerd="invalid_request")
    code = "results['x'].error_code ="

    assert row.covers(Difference("grow x", [f"{code} {built_in}"], [f"{code} {ours}"])) is covered


def test_a_reason_without_a_difference_is_found() -> None:
    row = Justified(["grow a*", "grow b"], ["error_code", "error_message"], "words")

    assert row.unused([Difference("grow ab", [SAYS], [])]) == ["grow b", "grow a*: error_code"]
    assert row.unused([Difference("grow ab", [SAYS], [CODE]), Difference("grow b", [SAYS], [])]) == []


def answer(*rows: tuple[int, str]) -> list[str]:
    """The answer to a CreatePartitions, line by line."""
    results = [{"name": name, "error_code": ErrorCode(code), "error_message": None} for code, name in rows]
    return list(lines("", fill(CreatePartitionsResponse, {"throttle_time": ms(0), "results": results})))


def test_rows_in_another_order_are_no_difference() -> None:
    assert answer((0, "a"), (37, "b")) == answer((37, "b"), (0, "a"))


def test_one_more_equal_row_is_a_difference() -> None:
    once, twice = answer((37, "a")), answer((37, "a"), (37, "a"))

    (found,) = differences({"grow": once}, {"grow": twice})

    assert found.fields == {"error_code", "error_message"}
    assert (found.built_in, len(found.controllerd)) == ([], 2)


def test_replicas_in_another_order_are_a_difference() -> None:
    assert list(lines("replicas", (1, 2))) == ["replicas = [1, 2]"]


def test_errors_of_rows_and_of_the_top_level_are_found_and_messages_are_not() -> None:
    assert errors(["error_code = not_controller", *answer((0, "a"), (37, "b"))]) == [
        "not_controller",
        "invalid_partitions",
    ]
    assert errors(["x.error_message = 'y.error_code = unknown'"]) == []
