"""The offsets that consumer groups committed, as the group coordinators of brokers keep them.

A group is assumed to commit an offset for each partition as soon as its broker receives the partition.
A coordinator drops the offsets of a partition only when an UpdateMetadata says that the partition is
gone (leader -2). Without one the offsets of the deleted topic stay, and groups apply them to the
topic that is created anew.

A deletion that other brokers received while a broker was registered was sent to that broker, too. If
it did not arrive before the broker registered anew, whose process may be the same, then it is still
pending: the controller of that term sends it before the state of the next topic of that name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.sim.oracle_history import State
from tests.sim.oracle_seen import Key

_Life = tuple[int, int]


@dataclass(slots=True)
class _Committed:
    """Offsets of a partition whose state znode was created with the zxid ``topic_life``."""

    topic_life: int
    epoch: int
    """The controller epoch of the last request with the partition to the broker."""
    is_dropped: bool = False


class GroupOffsets:
    """The offsets that the coordinator of each life of a broker keeps or kept."""

    def __init__(self) -> None:
        self._committed: Final[dict[_Life, dict[Key, _Committed]]] = {}
        self._to_drop: Final[dict[tuple[int, Key], _Committed]] = {}
        """The offsets that brokers of any life must drop because other brokers received the deletion."""

    def note_deletion(self, lives: Iterable[_Life], key: Key, epoch: int) -> None:
        """Note that a broker received a deletion of this controller epoch while these lives were registered."""
        for life in lives:
            kept = self._committed.get(life, {}).get(key)
            if kept is not None and not kept.is_dropped and kept.epoch == epoch:
                self._to_drop[life[0], key] = kept

    def drop(self, broker: _Life, key: Key) -> None:
        """Note that the broker received the deletion of the partition."""
        self._to_drop.pop((broker[0], key), None)
        kept = self._committed.get(broker, {}).get(key)
        if kept is not None:
            kept.is_dropped = True

    def commit(self, broker: _Life, key: Key, epoch: int, state: State) -> bool:
        """Note that the broker receives a partition; return whether its groups begin without old offsets.

        A controller is responsible for its own term alone: the unsent requests of an earlier controller are
        lost with it. A request of the same topic after it was dropped is a repeated one that the
        network delivers late.
        """
        committed = self._committed.setdefault(broker, {})
        kept = committed.get(key)
        if kept is None or epoch > kept.epoch:
            committed[key] = _Committed(state.life, epoch)
            to_drop = self._to_drop.get((broker[0], key))
            return to_drop is None or epoch > to_drop.epoch or state.life <= to_drop.topic_life
        if state.life <= kept.topic_life:
            return True
        committed[key] = _Committed(state.life, epoch)
        return kept.is_dropped
