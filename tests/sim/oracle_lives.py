"""The topics of one name that a broker has surely received, where topics of one name follow each other.

A state can be the same in two topics of one name: leader, leader epoch, ISR and partition epoch begin
alike. A queue keeps its order, so that a received state counts for the earliest topic that it can belong
to. After leader -2 it counts for a later topic than before.
"""

from collections.abc import Sequence

from tests.sim.oracle_seen import Key


class ReceivedLives:
    """The states that one life of a broker received in accepted UpdateMetadata."""

    def __init__(self) -> None:
        self._received: dict[Key, tuple[int, bool]] = {}
        """By partition the earliest life of its state znode that it may have received, and whether -2 came since."""

    def take_state(self, key: Key, lives: Sequence[int]) -> None:
        """Take a state that was committed in these lives of the state znode, in order."""
        before, is_gone = self._received.get(key, (0, False))
        later = [life for life in lives if life > before or (life == before and not is_gone)]
        if later:
            self._received[key] = later[0], False

    def take_removal(self, key: Key, first: int) -> None:
        """Take a leader -2; ``first`` is the first life that the state znode ever had."""
        before, _ = self._received.get(key, (first, False))
        self._received[key] = before, True

    def has_received_since(self, topic: str, zxid: int) -> bool:
        """Whether the broker must have received a topic of this name that was created after the transaction."""
        return any(name == topic and life > zxid for (name, _), (life, _) in self._received.items())
