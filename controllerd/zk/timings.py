"""Who wants to know how long ZooKeeper takes: the metrics, behind a small protocol."""

from typing import Protocol


class Timings(Protocol):
    """Told about every request, in the event loop; must not block."""

    def on_answer(self, op: str, took_s: float) -> None:
        """A request of this kind was answered, or it is known that it will not be."""
        ...

    def on_commit(self, operations: int) -> None:
        """A transaction of so many operations is about to be sent."""
        ...


class Untimed:
    """Nobody wants to know."""

    def on_answer(self, op: str, took_s: float) -> None:
        """Nothing to do."""

    def on_commit(self, operations: int) -> None:
        """Nothing to do."""


UNTIMED = Untimed()
