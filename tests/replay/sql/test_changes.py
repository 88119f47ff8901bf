"""ISRs, elections and churn."""

from replay.facts.engine import Row
from tests.replay.sql.book import Book, answer, columns


def test_an_isr_shrinks_grows_is_replaced_or_only_named_in_another_order() -> None:
    book = Book().leads("t-0", 1, 1, 2, 3, version=1).event(5, "BrokerChange").leads("t-0", 1, 1, 3, version=2).done()
    book.leads("t-0", 1, 3, 1, version=3).leads("t-0", 1, 3, 1, 2, version=4).leads("t-0", 4, 4, 1, 2, version=5)
    found = answer(book, "isr_changes")
    assert columns(found, "change", "before", "after", "event_name") == [
        ("shrink", [1, 2, 3], [1, 3], "BrokerChange"),
        ("expand", [3, 1], [3, 1, 2], None),
        ("replace", [3, 1, 2], [4, 1, 2], None),
    ]
    assert columns(found, "seq", "event") == [(3, 5), (6, 0), (7, 0)]


def test_a_topic_created_anew_has_no_change_of_its_isr() -> None:
    book = Book().leads("t-0", 1, 1, 2, version=7).leads("t-0", 2, 2, version=0)
    assert answer(book, "isr_changes") == []


def test_the_order_of_controllers_counts_and_not_the_clock() -> None:
    book = Book(epoch=2, node=8).leads("t-0", 1, 1, version=3).at(500, epoch=1, node=7)
    book.leads("t-0", 1, 1, 2, version=2)
    assert columns(answer(book, "isr_changes"), "change", "epoch") == [("shrink", 2)]


def decided(book: Book, *partitions: int, strategy: str = "Offline", unclean: bool = False) -> Book:
    """An election of these partitions of one topic."""
    rows: list[Row] = [{"topic": "t", "partition": number} for number in partitions]
    return book.add("decision", *rows, name=strategy, unclean=unclean)


def test_elections_count_events_and_partitions_by_strategy() -> None:
    book = Book(event=1)
    decided(decided(book, 0, 1), 2).at(50, event=2)
    decided(decided(decided(book, 0), 5, strategy="Preferred"), 1, unclean=True)
    names = ("strategy", "unclean", "events", "partitions", "first_ms", "last_ms")
    assert columns(answer(book, "elections"), *names) == [
        ("Offline", False, 2, 4, 0, 50),
        ("Offline", True, 1, 1, 52, 52),
        ("Preferred", False, 1, 1, 51, 51),
    ]
    book.rows += [row | {"file": "copy"} for row in book.rows]
    assert columns(answer(book, "elections"), "events", "partitions") == [(2, 4), (1, 1), (1, 1)]


def test_elections_without_event_numbers_are_counted_by_record() -> None:
    book = decided(decided(Book(source="kafka"), 0, 1), 0)
    assert columns(answer(book, "elections"), "events", "partitions") == [(2, 3)]


def test_churn_counts_only_what_changed() -> None:
    book = Book().snapshot(("t-0", 1), ("u-0", 1)).done()
    book.at(100).event(2, "E").leads("t-0", -1, 1, 2, epoch=1).done()
    book.at(200).event(3, "E").leads("t-0", 2, 2, epoch=2)
    decided(book, 0).done()
    book.at(300).event(4, "E").leads("t-0", 2, 2, 1, epoch=2).leads("t-0", 2, 2, 1, epoch=3).done()
    names = ("topic", "leader_changes", "epoch_bumps", "shrinks", "expands", "elections", "windows", "last_ms")
    assert columns(answer(book, "churn"), *names) == [("t", 2, 3, 1, 1, 1, 1, 302)]
