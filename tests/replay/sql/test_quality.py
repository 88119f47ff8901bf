"""The quality table: gaps, missing numbers, broken chains, duplicates and damage."""

from itertools import pairwise
from random import Random

import pytest

from replay.facts.engine import Row, Value
from tests.replay.sql.book import Book, answer, columns


def found(book: Book) -> list[tuple[Value, ...]]:
    return columns(answer(book, "quality"), "what", "first_seq", "last_seq", "file", "line", "count")


def lines(count: int, skipped: int = 0) -> Book:
    """A log of so many lines with a sound chain, which begins after those that were skipped."""
    book = Book().skip(skipped)
    for number in range(1, count + 1):
        book.add("alarm", name="x", hash=1000 + number, prev=999 + number)
    return book


def test_a_sound_log_has_no_finding() -> None:
    assert found(lines(20)) == []


def test_lost_records_are_a_gap_and_not_missing() -> None:
    book = lines(3).skip(4).add("gap", reason="disk full", data='{"lost":4,"first_seq":4,"last_seq":7}', prev=1003)
    assert found(book) == [("gap", 4, 7, "f", 8, 4)]


def test_a_gap_that_was_read_twice_is_one() -> None:
    book = Book().add("alarm").skip(1).add("gap", data='{"lost":1,"first_seq":2,"last_seq":2}')
    book.rows += [row | {"file": "g"} for row in book.rows]
    assert found(book) == [("duplicate", 1, 3, "g", 1, 2), ("gap", 2, 2, "f", 3, 1)]


def test_a_small_clock_skew_is_not_reported() -> None:
    book = Book(source="kafka", epoch=0).add("clock_skew", took_us=900_000, reason="a little")
    book.add("clock_skew", took_us=1_000_000, reason="ahead").add("clock_skew", took_us=-1000, reason="behind")
    assert columns(answer(book, "quality"), "what", "detail") == [("clock skew", "ahead"), ("clock skew", "behind")]


def test_numbers_that_no_gap_explains_are_missing() -> None:
    book = Book().add("alarm").skip(2).add("alarm").skip(5).add("alarm")
    book.add("gap", data='{"lost":2,"first_seq":6,"last_seq":7}')
    assert found(book) == [("gap", 6, 7, "f", 11, 2), ("missing", 2, 3, "f", 4, 2), ("missing", 5, 5, None, None, 1),
                           ("missing", 8, 9, "f", 10, 2)]  # fmt: skip


def test_a_log_may_begin_anywhere_and_boots_are_apart() -> None:
    book = Book().skip(500).add("alarm").at(5, boot="c").add("alarm").add("alarm")
    assert found(book) == []


def test_a_deleted_line_is_missing_and_breaks_the_chain() -> None:
    book = lines(9)
    del book.rows[4]
    assert found(book) == [("chain", 4, 6, "f", 6, 1), ("missing", 5, 5, "f", 6, 1)]


def test_an_edited_line_breaks_the_chain_behind_it() -> None:
    book = lines(9)
    book.rows[4]["hash"] = 5
    assert found(book) == [("chain", 5, 6, "f", 6, 1)]


def test_stretches_of_a_long_log_are_one() -> None:
    book = lines(12, skipped=65_530)
    assert found(book) == []
    del book.rows[5]
    assert [row[:3] for row in found(book)] == [("chain", 65_535, 65_537), ("missing", 65_536, 65_536)]


def test_lines_that_changed_places_break_the_chain_thrice() -> None:
    book = lines(9)
    for name in ("hash", "prev"):
        book.rows[4][name], book.rows[5][name] = book.rows[5][name], book.rows[4][name]
    assert found(book) == [("chain", 4, 5, "f", 5, 1), ("chain", 5, 6, "f", 6, 1), ("chain", 6, 7, "f", 7, 1)]


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_is_found_at_its_place(seed: int) -> None:
    book = damaged(Random(seed))
    expected = [*breaks(book.rows), *holes(book.rows), *copies(book.rows)]
    assert sorted(row[:3] for row in found(book)) == sorted(expected) != []


def damaged(random: Random) -> Book:
    """A log over three stretches: lines are gone, edited, doubled, or have changed their numbers."""
    book = lines(30, skipped=65_520).skip(65_500)
    for number in range(30):
        book.add("alarm", name="x", hash=5000 + number, prev=4999 + number if number else 1030)
    for _ in range(random.randrange(1, 5)):
        at, other = random.sample(range(len(book.rows)), 2)
        what = random.choice(("gone", "edited", "doubled", "swapped"))
        if what == "gone":
            del book.rows[at]
        elif what == "edited":
            book.rows[at]["hash"] = 7
        elif what == "doubled":
            book.rows.append(book.rows[at] | {"file": f"g{len(book.rows)}"})
        else:
            book.rows[at]["prev"], book.rows[other]["prev"] = book.rows[other]["prev"], book.rows[at]["prev"]
    return book


Finding = tuple[Value, ...]


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (int(str(row["seq"])), str(row["file"])))


def breaks(rows: list[Row]) -> list[Finding]:
    """Each line that names another hash than that of the line before it."""
    pairs = pairwise(in_order(rows))
    return [("chain", a["seq"], b["seq"]) for a, b in pairs if a["seq"] != b["seq"] and a["hash"] != b["prev"]]


def holes(rows: list[Row]) -> list[Finding]:
    numbers = [int(str(row["seq"])) for row in in_order(rows)]
    return [("missing", a + 1, b - 1) for a, b in pairwise(numbers) if b > a + 1]


def copies(rows: list[Row]) -> list[Finding]:
    """Every copy is in a file of its own here."""
    return [("duplicate", a["seq"], a["seq"]) for a, b in pairwise(in_order(rows)) if a["seq"] == b["seq"]]


def test_lines_in_two_files_are_duplicates_by_file() -> None:
    book = lines(5)
    book.rows += [row | {"file": "g"} for row in book.rows[1:4]]
    assert found(book) == [("duplicate", 2, 4, "g", 2, 3)]


def test_unknown_kinds_are_listed_twenty_times_and_then_counted() -> None:
    book = Book()
    for number in range(23):
        book.add("unknown_kind", name=f"kind-{number}")
    book.add("torn_tail", reason="no newline", seq=None).add("damaged", reason="no JSON", seq=None)
    quality = answer(book, "quality")
    assert [(row["what"], row["count"], row["detail"]) for row in quality if row["what"] != "unknown kind"] == [
        ("damaged", 1, "no JSON"),
        ("torn tail", 1, "no newline"),
    ]
    unknown = [(row["detail"], row["count"]) for row in quality if row["what"] == "unknown kind"]
    assert unknown == [("3 more like the ones listed", 3)] + [(f"kind-{number}", 1) for number in range(20)]


def test_lines_of_a_newer_schema_are_counted_by_file_and_are_no_records() -> None:
    book = lines(4).add("newer_schema", seq=None, reason="schema 2", data='{"first_seq":2,"last_seq":4,"lines":3}')
    assert columns(answer(book, "quality"), "what", "first_seq", "last_seq", "file", "count", "detail") == [
        ("newer schema", 2, 4, "f", 3, "schema 2")
    ]
    assert columns(answer(book.add("torn_tail", seq=None), "sources"), "records") == [(4,)]


def test_lines_of_unknown_origin_are_listed_too() -> None:
    book = Book(cluster=None, node=None, boot=None).add("damaged", reason="no JSON", seq=None)
    assert columns(answer(book, "quality"), "cluster", "what", "file", "detail") == [(None, "damaged", "f", "no JSON")]


def test_kafkas_own_logs_number_no_lines() -> None:
    book = Book(source="kafka").add("alarm").skip(5).add("alarm").add("unknown_line", data="what?")
    assert columns(answer(book, "quality"), "what", "count", "detail") == [("unknown line", 1, "what?")]
