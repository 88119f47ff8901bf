"""The collector rests while an event is handled, and leaves a large picture of the cluster alone afterwards."""

import gc
from collections.abc import Iterator

import pytest

from controllerd.garbage import MANY, Garbage


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """As it was before."""
    gc.collect()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_rests_during_an_event_and_no_longer() -> None:
    garbage = Garbage()

    garbage.pause()
    rests = not gc.isenabled()
    garbage.resume(keeps_image=True)

    assert (rests, gc.isenabled()) == (True, True)


def test_a_picture_that_has_grown_is_left_out_of_collections_and_looked_at_again_when_it_is_given_up() -> None:
    garbage, frozen = Garbage(), gc.get_freeze_count()

    garbage.pause()
    picture = [[number] for number in range(2 * MANY)]
    garbage.resume(keeps_image=True)
    while_it_stands = gc.get_freeze_count() - frozen
    garbage.resume(keeps_image=False)

    assert while_it_stands >= len(picture)
    assert gc.get_freeze_count() == 0


def test_a_small_event_freezes_nothing() -> None:
    garbage, frozen = Garbage(), gc.get_freeze_count()

    garbage.pause()
    garbage.resume(keeps_image=True)

    assert gc.get_freeze_count() == frozen
