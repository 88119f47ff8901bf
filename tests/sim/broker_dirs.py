"""The log directories of a simulated broker: where each replica is, which directory failed, which deletions fail.

A broker with one directory left of several goes on and reports to the controller by a notification znode (KIP-112).
Until it starts again with the directory mended, its replicas there answer KAFKA_STORAGE_ERROR, and so does each
replica that is not new to the broker and that is on no good directory: it might be on the bad one.
"""

import json
from typing import TYPE_CHECKING, Final

from tests.sim.broker_frames import Key, PartitionRow

if TYPE_CHECKING:
    from tests.sim.broker import SimBroker

NOTIFICATIONS: Final = "/log_dir_event_notification"
_PREFIX: Final = f"{NOTIFICATIONS}/log_dir_event_"
_FAILURE: Final = 1
_TELL_AGAIN_S: Final = 0.5


class LogDirs:
    """The directories of one broker. A broker with ``count`` 1 dies with its only directory."""

    def __init__(self, broker: "SimBroker") -> None:
        self.count = 1
        self.failed: set[int] = set()
        self.refusals = 0
        """How many of the next deletions fail."""
        self.refused: dict[Key, None] = {}
        """The replicas whose deletion failed since the process started."""
        self._broker = broker
        self._places: dict[Key, int] = {}

    # -- questions of replicas ---------------------------------------------------------------------------------------

    def may_host(self, row: PartitionRow) -> bool:
        """Whether a log can be created for a replica without one; unless it is new, all directories must be good."""
        return row.is_new or not self.failed

    def place(self, key: Key) -> None:
        """Place a new log on the good directory with the fewest logs."""
        self._places.setdefault(key, min(self._good(), key=lambda each: (self._load(each), each)))

    def refuses(self, key: Key) -> bool:
        """Whether the deletion of this replica fails now."""
        if self.refusals == 0:
            return False
        self.refusals -= 1
        self.refused[key] = None
        return True

    def deleted(self, key: Key) -> None:
        """Forget where the log was."""
        self._places.pop(key, None)
        self.refused.pop(key, None)

    def _good(self) -> list[int]:
        return [each for each in range(self.count) if each not in self.failed]

    def _load(self, directory: int) -> int:
        return sum(place == directory for place in self._places.values())

    # -- failures and repairs ----------------------------------------------------------------------------------------

    def fail(self, directory: int) -> bool:
        """Fail a directory; False without effect if it is the last good one, with which the broker would die."""
        if directory in self.failed or len(self._good()) < 2:
            return False
        self.failed.add(directory)
        broker = self._broker
        broker.cluster.trace(f"broker {broker.id} loses log directory {directory}")
        for key, place in self._places.items():
            if place == directory:
                broker.fail_disk(*key)
        for observer in broker.cluster.on_bad_dirs:
            observer(broker.id)
        self.tell()
        return True

    def tell(self) -> None:
        """Notify the controller as soon as ZooKeeper can be written to; a process that dies sends no notification."""
        broker = self._broker
        if broker.life is None:
            return
        if not broker.cluster.server.is_up or not broker.has_session:
            broker.call_later(_TELL_AGAIN_S, self.tell)
            return
        body = {"version": 1, "broker": broker.id, "event": _FAILURE}
        broker.cluster.server.put_sequential(_PREFIX, json.dumps(body).encode())

    def mend(self) -> None:
        """Repair the directories, with their logs, when the process starts the next time."""
        self.failed.clear()

    def started(self) -> dict[Key, None]:
        """Start a process; return the replicas that it cannot use."""
        self.refused.clear()
        return {key: None for key, place in self._places.items() if place in self.failed}
