"""The states of a partition's replicas, as one shared object for all partitions that have the same.

A cluster has few different combinations and hundreds of thousands of partitions: a dictionary for each of them was most
of the controller's memory, and changing them one by one most of its failover.
"""

from collections.abc import ItemsView, Mapping
from typing import Final

from controllerd.core.model import BrokerId, ReplicaState


class ReplicaStates:
    """Immutable: broker to state, without replicas that do not exist. Compared by identity; begin with ``nothing``."""

    __slots__ = ("_after", "_by_broker", "_known")

    def __init__(
        self, by_broker: Mapping[BrokerId, ReplicaState], known: dict[frozenset[object], "ReplicaStates"]
    ) -> None:
        self._by_broker = by_broker
        self._known = known
        self._after: dict[tuple[BrokerId, ReplicaState], ReplicaStates] = {}

    @classmethod
    def nothing(cls) -> "ReplicaStates":
        """Return the states without any replica, the root of a family in which equal states are one object."""
        known: dict[frozenset[object], ReplicaStates] = {}
        root = known[frozenset()] = cls({}, known)
        return root

    def __getitem__(self, broker: BrokerId) -> ReplicaState:
        return self._by_broker.get(broker, ReplicaState.NON_EXISTENT)

    def items(self) -> ItemsView[BrokerId, ReplicaState]:
        """Every replica that exists, and its state."""
        return self._by_broker.items()

    def after(self, broker: BrokerId, state: ReplicaState) -> "ReplicaStates":
        """Return the states after this replica has moved; ``NonExistent`` removes it."""
        found = self._after.get((broker, state))
        if found is None:
            found = self._after[broker, state] = self._moved(broker, state)
        return found

    def _moved(self, broker: BrokerId, state: ReplicaState) -> "ReplicaStates":
        moved = {other: its for other, its in self._by_broker.items() if other != broker}
        if state is not ReplicaState.NON_EXISTENT:
            moved[broker] = state
        key = frozenset(moved.items())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = ReplicaStates(moved, self._known)
        return known


NO_REPLICAS: Final = ReplicaStates.nothing()
"""The states of partitions outside a controller, such as in a dry run."""
