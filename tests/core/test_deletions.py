"""Deletions that were asked for, and what the journal says of them."""

import pytest

from controllerd.core.changes import DeletionChanged
from controllerd.core.deletions import DeletionBook


@pytest.fixture
def noted() -> list[DeletionChanged]:
    return []


@pytest.fixture
def book(noted: list[DeletionChanged]) -> DeletionBook:
    return DeletionBook(noted.append)


def test_a_request_is_noted_once(book: DeletionBook, noted: list[DeletionChanged]) -> None:
    book.queue("orders")
    book.queue("orders")

    assert book.queued == {"orders"}
    assert noted == [DeletionChanged("orders", "queued")]


def test_a_beginning_is_noted_once(book: DeletionBook, noted: list[DeletionChanged]) -> None:
    book.queue("orders")
    book.begin("orders")
    book.begin("orders")

    assert book.started == {"orders"}
    assert noted[1:] == [DeletionChanged("orders", "started")]


def test_a_topic_waits_with_its_reason_until_that_is_over(book: DeletionBook, noted: list[DeletionChanged]) -> None:
    book.queue("orders")
    book.halt("orders", "broker 3 is away")
    book.halt("orders", "broker 3 is away")
    book.halt("orders", "broker 4 is away")
    book.resume("orders")
    book.resume("orders")

    assert book.halted == {}
    assert noted[1:] == [
        DeletionChanged("orders", "halted", "broker 3 is away"),
        DeletionChanged("orders", "halted", "broker 4 is away"),
        DeletionChanged("orders", "resumed"),
    ]


def test_a_topic_that_is_not_queued_does_not_wait(book: DeletionBook, noted: list[DeletionChanged]) -> None:
    book.halt("orders", "broker 3 is away")

    assert book.halted == {}
    assert noted == []


def test_nothing_is_kept_of_a_deleted_topic(book: DeletionBook) -> None:
    book.queue("orders")
    book.begin("orders")
    book.halt("orders", "broker 3 is away")

    book.forget("orders")

    assert (book.queued, book.started, book.halted) == (set(), set(), {})
