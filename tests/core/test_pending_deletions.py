"""Pending replica deletions: replicas that absent brokers must delete when they are back."""

from controllerd.core.changes import PendingDeletionsSet
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.pending_deletions import PendingDeletions

THREE, FOUR = BrokerId(3), BrokerId(4)
ORDERS = TopicPartition("orders", 0)


def test_a_broker_has_no_pending_deletions_at_first() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)

    assert dict(book.of(THREE)) == {}
    assert book.brokers() == []


def test_pending_deletions_are_kept_by_broker_and_noted() -> None:
    noted: list[PendingDeletionsSet] = []
    book = PendingDeletions(noted.append)

    book.set(FOUR, {ORDERS: "an id"})
    book.set(THREE, {ORDERS: None})
    book.set(THREE, {ORDERS: None})

    assert book.brokers() == [THREE, FOUR]
    assert book.of(FOUR) == {ORDERS: "an id"}
    assert noted == [PendingDeletionsSet(FOUR, {ORDERS: "an id"}), PendingDeletionsSet(THREE, {ORDERS: None})]


def test_a_sent_deletion_counts_until_it_is_cleared_or_the_broker_dies() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: "an id", TopicPartition("orders", 1): None})
    book.note_sent(THREE, [ORDERS, TopicPartition("not owed", 0)])
    book.note_sent(FOUR, [ORDERS])
    assert book.was_sent(THREE, ORDERS)
    assert not book.was_sent(FOUR, ORDERS)

    book.set(THREE, {TopicPartition("orders", 1): None})
    book.set(THREE, {ORDERS: "an id"})
    assert not book.was_sent(THREE, ORDERS)

    book.note_sent(THREE, [ORDERS])
    book.end_life(THREE)
    assert not book.was_sent(THREE, ORDERS)


def test_a_cleared_deletion_is_not_pending_any_more() -> None:
    noted: list[PendingDeletionsSet] = []
    book = PendingDeletions(noted.append)
    book.set(THREE, {ORDERS: None})

    book.set(THREE, {})

    assert book.brokers() == []
    assert noted[-1] == PendingDeletionsSet(THREE, {})


def test_a_sent_deletion_may_happen_until_it_is_answered_though_it_is_not_pending_any_more() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.note_sent(THREE, [ORDERS])

    book.waive(THREE, [ORDERS])
    book.set(THREE, {})
    assert book.is_going(THREE, ORDERS)

    assert book.end_waiver(THREE, [ORDERS]) == [ORDERS]
    assert not book.is_going(THREE, ORDERS)


def test_a_replica_whose_deletion_was_not_sent_stays() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})

    book.waive(THREE, [ORDERS])

    assert not book.is_going(THREE, ORDERS)
    assert book.end_waiver(THREE, [ORDERS]) == []


def test_sent_deletions_end_with_the_life_of_the_broker() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.note_sent(THREE, [ORDERS])
    book.waive(THREE, [ORDERS])

    book.end_life(THREE)

    assert not book.is_going(THREE, ORDERS)


def test_only_the_answer_to_the_newest_request_shows_that_the_replica_is_deleted() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.note_sent(THREE, [ORDERS])
    book.set(THREE, {})
    book.set(THREE, {ORDERS: None})
    assert book.sent(THREE) == set()
    book.note_sent(THREE, [ORDERS])

    assert [book.take_answer(THREE, ORDERS) for _ in range(2)] == [False, True]
    assert book.sent(THREE) == {ORDERS}


def test_a_request_counts_though_nothing_is_pending_while_an_earlier_one_is_unanswered() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.note_sent(THREE, [ORDERS])
    book.set(THREE, {})

    book.note_sent(THREE, [ORDERS, TopicPartition("not owed", 0)])

    assert not book.take_answer(THREE, ORDERS)
    assert book.take_answer(THREE, ORDERS)
    assert book.take_answer(THREE, TopicPartition("not owed", 0))


def test_no_request_is_unanswered_after_the_end_of_a_life_or_of_a_channel() -> None:
    for end in (PendingDeletions.end_life, PendingDeletions.end_channel):
        book = PendingDeletions(list[PendingDeletionsSet]().append)
        book.set(THREE, {ORDERS: None})
        book.note_sent(THREE, [ORDERS])
        book.note_sent(THREE, [ORDERS])

        end(book, THREE)

        book.note_sent(THREE, [ORDERS])
        assert book.take_answer(THREE, ORDERS)


def test_a_channel_that_ends_does_not_tell_whether_the_broker_took_the_order() -> None:
    book = PendingDeletions(list[PendingDeletionsSet]().append)
    book.set(THREE, {ORDERS: None})
    book.note_sent(THREE, [ORDERS])

    book.end_channel(THREE)

    assert book.was_sent(THREE, ORDERS)
