"""When Python may look for cyclic garbage: never while an event is handled.

A collection of the oldest generation walks over every object there is, and a cluster of 100,000 partitions has more
than a million. Half of a failover went into that, though none of these objects is garbage: nothing of the context has
cycles, so reference counting alone frees it.
"""

import gc
from typing import Final, Protocol

MANY: Final = 50_000
"""So many more objects than before an event mean that the picture of the cluster has grown, and will stay."""


class Collector(Protocol):
    """What the event loop tells when an event begins and ends."""

    def pause(self) -> None:
        """An event begins."""
        ...

    def resume(self, *, keeps_image: bool) -> None:
        """An event ended."""
        ...


class Garbage:
    """The collector rests from ``pause`` to ``resume``."""

    def __init__(self) -> None:
        self._has_frozen = False

    @staticmethod
    def pause() -> None:
        """An event begins."""
        gc.disable()

    def resume(self, *, keeps_image: bool) -> None:
        """An event ended. What it made in great number is left out of all later collections (that costs nothing).

        Without a picture of the cluster everything is looked through again: it is not much then.
        """
        if keeps_image and gc.get_count()[0] > MANY:
            gc.freeze()
            self._has_frozen = True
        elif self._has_frozen and not keeps_image:
            gc.unfreeze()
            self._has_frozen = False
        gc.enable()
