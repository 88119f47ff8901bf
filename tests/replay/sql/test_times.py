"""Percentiles of events and requests, and terms."""

import pytest

from tests.replay.sql.book import Book, answer, columns


@pytest.mark.parametrize(
    ("count", "expected"), [(1, (1, 1, 1, 1)), (2, (1, 2, 2, 2)), (100, (50, 95, 99, 100)), (101, (51, 96, 100, 101))]
)
def test_percentiles_are_by_nearest_rank(count: int, expected: tuple[int, ...]) -> None:
    book = Book()
    for number in range(count, 0, -1):
        book.event(number, "E", queued_us=number).done(took_us=10 * number)
    found = answer(book, "events")
    assert columns(found, "count", "failed", *(f"queued_{what}_us" for what in ("p50", "p95", "p99", "max"))) == [
        (count, 0, *expected)
    ]
    assert columns(found, *(f"took_{what}_us" for what in ("p50", "p95", "p99", "max"))) == [
        tuple(10 * value for value in expected)
    ]


def test_an_event_that_was_not_done_failed_and_one_without_end_did_not() -> None:
    book = Book().event(1, "A").done().event(2, "A").done("error").event(3, "A").done("refused").event(4, "A")
    assert columns(answer(book, "events"), "name", "state", "count", "failed") == [("A", 2, 4, 2)]


def test_requests_are_counted_by_broker_and_api_and_once() -> None:
    book = Book()
    for took, error, attempts in ((5, 0, 1), (7, 0, 3), (9, 11, 1)):
        book.add("response", broker=1, name="Stop", took_us=took, error=error, attempts=attempts, bytes=100)
    book.add("response", broker=2, name="Stop", took_us=1, error=0, attempts=1, bytes=4)
    book.rows += [row | {"file": "copy"} for row in book.rows]
    assert columns(answer(book, "requests"), "broker", "api", "count", "errors", "retried", "bytes") == [
        (1, "Stop", 3, 1, 1, 300),
        (2, "Stop", 1, 0, 0, 4),
    ]
    assert columns(answer(book, "requests"), "took_p50_us", "took_p95_us", "took_max_us") == [(7, 9, 9), (1, 1, 1)]


TERM = ("epoch", "begin_ms", "ready_ms", "end_ms", "how_begun", "how_ended", "reason", "records")


def test_a_term_begins_is_ready_at_the_end_of_its_first_event_and_ends() -> None:
    book = Book(epoch=0).event(1, "Startup").at(5, epoch=3).add("term", name="elected", reason="").at(20).done()
    book.at(70).event(2, "Resign").add("term", name="resigned", reason="asked to").at(80, epoch=0).done()
    assert columns(answer(book, "terms"), *TERM) == [(3, 5, 20, 71, "elected", "resigned", "asked to", 4)]


def test_a_renewed_term_ends_with_the_old_epoch_and_begins_with_the_new_one() -> None:
    book = Book(epoch=3).add("term", name="elected", reason="").at(50).add("term", name="renewed", reason="expired")
    book.at(60, epoch=4).add("term", name="renewed", reason="won")
    assert columns(answer(book, "terms"), *TERM) == [
        (3, 0, None, 50, "elected", "renewed", "expired", 2),
        (4, 60, None, None, "renewed", None, "won", 1),
    ]


def test_a_term_whose_begin_is_not_in_the_log_is_shown_without_it() -> None:
    book = Book(epoch=3).add("alarm", name="x").at(9).add("term", name="fenced", reason="epoch 4")
    assert columns(answer(book, "terms"), *TERM) == [(3, None, None, 9, None, "fenced", "epoch 4", 2)]


def test_a_record_without_an_election_is_no_term() -> None:
    assert answer(Book(epoch=0).add("term", name="held", reason="by 1"), "terms") == []


def test_in_kafkas_logs_a_term_is_ready_when_its_start_up_ends() -> None:
    book = Book(source="kafka", epoch=5).add("term", name="elected", reason="").add("event_begin", name="Startup")
    book.at(40).add("event_end", name="Startup", after="done", took_us=39_000)
    book.at(90, epoch=6, node=8).add("term", name="elected", reason="").add("event_begin", name="Startup")
    book.at(95).add("event_end", name="Startup", after="done", took_us=4_000)
    assert columns(answer(book, "terms"), "epoch", "ready_ms") == [(5, 40), (6, 95)]
    assert columns(answer(book, "events"), "name", "count", "took_p50_us", "took_max_us") == [
        ("Startup", 2, 4_000, 39_000)
    ]
