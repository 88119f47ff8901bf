"""What a simulated broker knows about the cluster: nothing but what UpdateMetadata told it since it started."""

from collections.abc import Iterable
from typing import Final

from tests.sim.broker_frames import Key, LiveBroker, SimRequest, Told

_REMOVED: Final = -2


class Metadata:
    """What UpdateMetadata told."""

    __slots__ = ("brokers", "controller_id", "forgotten", "partitions", "topic_ids")

    def __init__(self) -> None:
        self.controller_id: int | None = None
        self.brokers: dict[int, LiveBroker] = {}
        self.partitions: dict[Key, Told] = {}
        self.topic_ids: dict[str, str] = {}
        self.forgotten: list[str] = []
        """Topics whose ids the broker forgot: by a request version without ids, or by a zero id."""

    def update(self, request: SimRequest) -> bool:
        """Brokers and controller are replaced, partitions merged, leader -2 removes; whether the brokers changed."""
        brokers = {broker.id: broker for broker in request.live_brokers}
        changed = brokers.keys() != self.brokers.keys()
        self.controller_id, self.brokers = request.controller_id, brokers
        partitions = self.partitions
        for row in request.rows:
            key = (row.topic, row.partition)
            if row.leader == _REMOVED:
                partitions.pop(key, None)
                self.topic_ids.pop(row.topic, None)
            else:
                partitions[key] = row
        if request.carries_ids:
            ids = request.topic_ids
            self.topic_ids.update(ids)
            self._forget(row.topic for row in request.rows if row.topic not in ids)
        else:
            self._forget(row.topic for row in request.rows)
        return changed

    def take_forgotten(self) -> list[str]:
        """Return the topics whose ids were forgotten since the last call."""
        taken, self.forgotten = self.forgotten, []
        return taken

    def _forget(self, topics: Iterable[str]) -> None:
        self.forgotten += [topic for topic in topics if self.topic_ids.pop(topic, None) is not None]
