"""Prevents Python's collection of cyclic garbage while an event is handled.

A collection of the oldest generation visits every object, and a cluster of 100,000 partitions has more than a million.
It took half of the time of a failover, although none of these objects is garbage: the context has no reference cycles,
so reference counting alone frees it.
"""

import gc
from typing import Final, Protocol

MANY: Final = 50_000
"""The number of new objects during an event from which on they count as part of the cluster's image, which stays."""


class Collector(Protocol):
    """The interface by which the event loop reports the beginning and the end of events."""

    def pause(self) -> None:
        """Stop collections: an event begins."""
        ...

    def resume(self, *, keeps_image: bool) -> None:
        """Allow collections: an event ended. ``keeps_image``: whether the context holds a cluster."""
        ...


class Garbage:
    """Implements ``Collector`` with Python's garbage collector."""

    def __init__(self) -> None:
        self._has_frozen = False

    @staticmethod
    def pause() -> None:
        """Disable collections."""
        gc.disable()

    def resume(self, *, keeps_image: bool) -> None:
        """Enable collections. If the event made very many objects, exclude them from all later collections.

        Without an image of the cluster there are few objects, so all of them are collected again.
        """
        if keeps_image and gc.get_count()[0] > MANY:
            gc.freeze()
            self._has_frozen = True
        elif self._has_frozen and not keeps_image:
            gc.unfreeze()
            self._has_frozen = False
        gc.enable()
