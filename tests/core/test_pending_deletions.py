"""What absent brokers must delete when they are back."""

from controllerd.core.changes import PendingDeletionsSet
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.pending_deletions import PendingDeletions

THREE, FOUR = BrokerId(3), BrokerId(4)
ORDERS = TopicPartition("orders", 0)


def test_a_broker_owes_nothing_at_first() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)

    assert dict(book.of(THREE)) == {}
    assert book.brokers() == []


def test_debts_are_kept_by_broker_and_noted() -> None:
    noted: list[PendingDeletionsSet] = []
    book = PendingDeletions(noted.append)

    book.set(FOUR, {ORDERS: "an id"})
    book.set(THREE, {ORDERS: None})
    book.set(THREE, {ORDERS: None})

    assert book.brokers() == [THREE, FOUR]
    assert book.of(FOUR) == {ORDERS: "an id"}
    assert noted == [PendingDeletionsSet(FOUR, {ORDERS: "an id"}), PendingDeletionsSet(THREE, {ORDERS: None})]


def test_what_a_broker_was_told_to_delete_counts_until_it_is_settled_or_the_broker_ends() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: "an id", TopicPartition("orders", 1): None})
    book.order(THREE, [ORDERS, TopicPartition("not owed", 0)])
    book.order(FOUR, [ORDERS])
    assert book.was_ordered(THREE, ORDERS)
    assert not book.was_ordered(FOUR, ORDERS)

    book.set(THREE, {TopicPartition("orders", 1): None})
    book.set(THREE, {ORDERS: "an id"})
    assert not book.was_ordered(THREE, ORDERS)

    book.order(THREE, [ORDERS])
    book.end_life(THREE)
    assert not book.was_ordered(THREE, ORDERS)


def test_a_paid_debt_is_gone() -> None:
    noted: list[PendingDeletionsSet] = []
    book = PendingDeletions(noted.append)
    book.set(THREE, {ORDERS: None})

    book.set(THREE, {})

    assert book.brokers() == []
    assert noted[-1] == PendingDeletionsSet(THREE, {})


def test_what_a_broker_was_told_to_delete_may_go_until_it_answers_though_it_is_not_owed_any_more() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.order(THREE, [ORDERS])

    book.waive(THREE, [ORDERS])
    book.set(THREE, {})
    assert book.is_going(THREE, ORDERS)

    assert book.end_waiver(THREE, [ORDERS]) == [ORDERS]
    assert not book.is_going(THREE, ORDERS)


def test_what_a_broker_was_never_told_to_delete_stays() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})

    book.waive(THREE, [ORDERS])

    assert not book.is_going(THREE, ORDERS)
    assert book.end_waiver(THREE, [ORDERS]) == []


def test_orders_end_with_the_life_of_the_broker() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.order(THREE, [ORDERS])
    book.waive(THREE, [ORDERS])

    book.end_life(THREE)

    assert not book.is_going(THREE, ORDERS)


def test_only_the_answer_to_the_newest_order_tells_that_the_replica_is_gone() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.order(THREE, [ORDERS])
    book.set(THREE, {})
    book.set(THREE, {ORDERS: None})
    assert book.ordered(THREE) == set()
    book.order(THREE, [ORDERS])

    assert [book.take_answer(THREE, ORDERS) for _ in range(2)] == [False, True]
    assert book.ordered(THREE) == {ORDERS}


def test_an_order_counts_though_it_is_not_of_a_debt_when_an_earlier_one_is_on_its_way() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.order(THREE, [ORDERS])
    book.set(THREE, {})

    book.order(THREE, [ORDERS, TopicPartition("not owed", 0)])

    assert not book.take_answer(THREE, ORDERS)
    assert book.take_answer(THREE, ORDERS)
    assert book.take_answer(THREE, TopicPartition("not owed", 0))


def test_nothing_is_on_its_way_after_the_end_of_a_life_or_of_a_channel() -> None:
    for end in (PendingDeletions.end_life, PendingDeletions.end_channel):
        book = PendingDeletions(list[PendingDeletionsSet]().append)
        book.set(THREE, {ORDERS: None})
        book.order(THREE, [ORDERS])
        book.order(THREE, [ORDERS])

        end(book, THREE)

        book.order(THREE, [ORDERS])
        assert book.take_answer(THREE, ORDERS)


def test_a_channel_that_ends_does_not_tell_whether_the_broker_took_the_order() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.order(THREE, [ORDERS])

    book.end_channel(THREE)

    assert book.was_ordered(THREE, ORDERS)
