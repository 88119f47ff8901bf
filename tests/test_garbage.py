"""The collector is off while an event is handled, and ignores a large image of the cluster afterwards."""

import gc
from collections.abc import Iterator

import pytest

from controllerd.garbage import MANY, Garbage


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Restore the collector after the test."""
    gc.collect()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_is_off_during_an_event_and_no_longer() -> None:
    garbage = Garbage()

    garbage.pause()
    rests = not gc.isenabled()
    garbage.resume(keeps_image=True)

    assert (rests, gc.isenabled()) == (True, True)


def test_a_grown_image_is_frozen_and_collected_again_when_it_is_given_up() -> None:
    garbage, frozen = Garbage(), gc.get_freeze_count()

    garbage.pause()
    image = [[number] for number in range(2 * MANY)]
    garbage.resume(keeps_image=True)
    while_it_stands = gc.get_freeze_count() - frozen
    garbage.resume(keeps_image=False)

    assert while_it_stands >= len(image)
    assert gc.get_freeze_count() == 0


def test_a_small_event_freezes_nothing() -> None:
    garbage, frozen = Garbage(), gc.get_freeze_count()

    garbage.pause()
    garbage.resume(keeps_image=True)

    assert gc.get_freeze_count() == frozen
