"""What absent brokers must delete when they are back."""

from controllerd.core.changes import DebtSet
from controllerd.core.debts import DebtBook
from controllerd.core.model import BrokerId, TopicPartition

THREE, FOUR = BrokerId(3), BrokerId(4)
ORDERS = TopicPartition("orders", 0)


def test_a_broker_owes_nothing_at_first() -> None:
    book = DebtBook(list[DebtSet]().append)

    assert dict(book.of(THREE)) == {}
    assert book.brokers() == []


def test_debts_are_kept_by_broker_and_noted() -> None:
    noted: list[DebtSet] = []
    book = DebtBook(noted.append)

    book.set(FOUR, {ORDERS: "an id"})
    book.set(THREE, {ORDERS: None})
    book.set(THREE, {ORDERS: None})

    assert book.brokers() == [THREE, FOUR]
    assert book.of(FOUR) == {ORDERS: "an id"}
    assert noted == [DebtSet(FOUR, {ORDERS: "an id"}), DebtSet(THREE, {ORDERS: None})]


def test_a_paid_debt_is_gone() -> None:
    noted: list[DebtSet] = []
    book = DebtBook(noted.append)
    book.set(THREE, {ORDERS: None})

    book.set(THREE, {})

    assert book.brokers() == []
    assert noted[-1] == DebtSet(THREE, {})
