"""Steps of reassignments that must be retried, and the delay until the retry."""

from controllerd.machines.reassignment.dependencies import FIRST_RETRY_S, LAST_RETRY_S, Unfinished
from tests.fakes.world import ids, tp


def test_without_a_refused_step_there_is_no_retry() -> None:
    assert Unfinished().pause_s() is None


def test_each_delay_is_twice_as_long_as_the_one_before_up_to_the_maximum() -> None:
    unfinished, pauses = Unfinished(), []
    for _ in range(20):
        unfinished.note([tp("t")])
        pauses.append(unfinished.pause_s())
        unfinished.take()

    assert pauses[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pauses[-1] == LAST_RETRY_S


def test_after_a_success_the_first_delay_is_short_again() -> None:
    unfinished = Unfinished()
    unfinished.note([tp("t")])
    unfinished.take()
    assert unfinished.pause_s() is None

    unfinished.note([tp("t")])

    assert unfinished.pause_s() == FIRST_RETRY_S


def test_partitions_are_taken_once_and_in_order() -> None:
    unfinished = Unfinished()
    unfinished.note([tp("t", 1), tp("t", 0)])

    assert unfinished.take() == [tp("t", 0), tp("t", 1)]
    assert unfinished.take() == []


def test_entries_stay_until_they_are_removed() -> None:
    unfinished = Unfinished()
    unfinished.entries[tp("t")] = ids(2)
    unfinished.take()

    assert unfinished.pause_s() == 2 * FIRST_RETRY_S


def test_a_new_term_forgets_everything() -> None:
    unfinished = Unfinished()
    unfinished.entries[tp("t")] = ids(2)
    unfinished.note([tp("t")])
    unfinished.take()

    unfinished.forget()

    assert unfinished.pause_s() is None
    assert not unfinished
