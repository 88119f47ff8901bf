"""The sizes of replicas: rates are smoothed, and an end is computed only if everything that it needs is known."""

import pytest

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.replica_sizes import NO_SIZES, SizeBook, SizesView

T = TopicPartition("t", 0)
ONE, TWO = BrokerId(1), BrokerId(2)


def sizes_after(*rounds: tuple[float, int, int], lag: int = 9) -> SizesView:
    """After rounds of answers: seconds, bytes of the leader 1, bytes of the new replica 2."""
    book = SizeBook()
    for now, leader, replica in rounds:
        book.take(ONE, {T: (leader, 0)}, now)
        book.take(TWO, {T: (replica, lag)}, now)
    return book.view()


def test_nothing_is_known_before_a_broker_has_answered() -> None:
    assert NO_SIZES.size(T, ONE) is None
    assert NO_SIZES.bytes_left(T, ONE, TWO) is None
    assert NO_SIZES.eta_s(T, ONE, TWO) is None


def test_one_answer_gives_what_is_left_but_no_rate_and_no_end() -> None:
    view = sizes_after((0, 1000, 400))

    assert view.bytes_left(T, ONE, TWO) == 600
    assert view.eta_s(T, ONE, TWO) is None


def test_two_answers_give_a_rate_and_an_end() -> None:
    view = sizes_after((0, 1000, 400), (5, 1000, 500))

    size = view.size(T, TWO)
    assert size is not None
    assert size.bytes_per_s == 20
    assert view.eta_s(T, ONE, TWO) == 25


def test_a_leader_that_grows_as_fast_is_never_caught_up_with() -> None:
    assert sizes_after((0, 1000, 400), (5, 1100, 500)).eta_s(T, ONE, TWO) is None


def test_a_replica_that_stands_still_has_no_end() -> None:
    assert sizes_after((0, 1000, 400), (5, 1000, 400)).eta_s(T, ONE, TWO) is None


def test_the_rate_follows_what_happens_now_more_than_what_was() -> None:
    view = sizes_after((0, 9000, 0), (30, 9000, 3000), (60, 9000, 3000))

    size = view.size(T, TWO)
    assert size is not None
    assert size.bytes_per_s == pytest.approx(100 * 0.36788, rel=1e-3)


def test_a_replica_that_begins_anew_has_no_rate() -> None:
    size = sizes_after((0, 9, 500), (5, 9, 0)).size(T, TWO)

    assert size is not None
    assert size.bytes_per_s is None


def test_a_replica_without_lag_may_not_know_of_the_rest() -> None:
    view = sizes_after((0, 1000, 400), (5, 1000, 500), lag=0)

    assert (view.bytes_left(T, ONE, TWO), view.eta_s(T, ONE, TWO)) == (500, 25)


def test_a_replica_that_is_as_large_is_at_its_end() -> None:
    view = sizes_after((0, 1000, 900), (5, 1000, 1010))

    assert (view.bytes_left(T, ONE, TWO), view.eta_s(T, ONE, TWO)) == (0, 0.0)


def test_a_broker_that_does_not_answer_is_named_and_its_earlier_answer_stays() -> None:
    book = SizeBook()
    book.take(ONE, {T: (5, 0)}, 0)
    book.fail(ONE, "refused")

    assert book.view().failures == {ONE: "refused"}
    assert book.view().size(T, ONE) is not None
    book.take(ONE, {T: (6, 0)}, 1)
    assert book.view().failures == {}


def test_replicas_that_are_not_asked_for_any_more_are_forgotten() -> None:
    book = SizeBook()
    book.take(ONE, {T: (5, 0)}, 0)
    book.take(TWO, {T: (5, 0)}, 0)
    book.fail(TWO, "gone")

    book.keep({ONE: frozenset({T})})

    assert book.view().replicas.keys() == {T}
    assert book.view().replicas[T].keys() == {ONE}
    assert book.view().failures == {}
    book.keep({})
    assert book.view() == NO_SIZES
