"""Judges the requests that an instance sends because of an AlterPartition: none, unless a state was changed.

A state that is only written again, for the sake of a newer partition epoch, is not changed: the leader gets it in the
response.
"""

from typing import Final

from tests.sim.oracle_history import History
from tests.sim.oracle_seen import Operation, Report, Transaction

RULES: Final = {
    "R-16": "an AlterPartition that changes no state, except for its epochs, causes no request",
}
_QUESTION: Final = "AlterPartitionReceived"


class AlterPartitionJudge:
    """Tracks which instances handle an AlterPartition, and whether they have changed a state since it began."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self._has_changed: dict[str, bool] = {}
        """By instance; an instance that handles another event is absent."""

    def begins(self, owner: str, name: str) -> None:
        """Note that an instance begins to handle an event."""
        self._has_changed.pop(owner, None)
        if name == _QUESTION:
            self._has_changed[owner] = False

    def writes(self, owner: str, operation: Operation, transaction: Transaction) -> None:
        """Note a write of an instance before it is applied."""
        if not self._has_changed.get(owner, True):
            self._has_changed[owner] = self._is_change(operation, transaction)

    def sends(self, owner: str, api: str, time: float) -> None:
        """Judge a control request that an instance queues."""
        if not self._has_changed.get(owner, True):
            self._report("R-16", time, f"{owner} sends {api} after an AlterPartition that changed nothing")

    def _is_change(self, operation: Operation, transaction: Transaction) -> bool:
        place = self._history.place(operation.path)
        if place.kind != "state":
            return True
        before = self._history.partition(place.topic, place.number).state
        after = self._history.state_after(operation, self._history.node_after(operation, transaction))
        if before is None or after is None:
            return True
        return after._replace(controller_epoch=before.controller_epoch, version=before.version) != before
