"""Which topic of a name a broker has heard of at least, where topics of one name follow each other.

A state can be the same in two topics of one name: leader, leader epoch, ISR and partition epoch begin
alike. A queue keeps its order, so that what a broker hears is read as the earliest topic that it can
mean. After leader -2 it means a later topic than before.
"""

from collections.abc import Sequence

from tests.sim.oracle_seen import Key


class HeardLives:
    """What one life of a broker heard in accepted UpdateMetadata."""

    def __init__(self) -> None:
        self._heard: dict[Key, tuple[int, bool]] = {}
        """By partition the earliest life of its state znode that it may have heard of, and whether -2 came since."""

    def take_state(self, key: Key, lives: Sequence[int]) -> None:
        """Take a state that was committed in these lives of the state znode, in order."""
        before, is_gone = self._heard.get(key, (0, False))
        later = [life for life in lives if life > before or (life == before and not is_gone)]
        if later:
            self._heard[key] = later[0], False

    def take_removal(self, key: Key, first: int) -> None:
        """Take a leader -2; ``first`` is the first life that the state znode ever had."""
        before, _ = self._heard.get(key, (first, False))
        self._heard[key] = before, True

    def has_heard_since(self, topic: str, zxid: int) -> bool:
        """Whether it must have heard of a topic of this name that came after the transaction."""
        return any(name == topic and life > zxid for (name, _), (life, _) in self._heard.items())
