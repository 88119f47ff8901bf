"""What a simulated broker knows about the cluster: nothing but what UpdateMetadata told it since it started."""

from typing import Final

from tests.sim.broker_frames import Key, LiveBroker, SimRequest, Told

_REMOVED: Final = -2


class Metadata:
    """What UpdateMetadata told."""

    __slots__ = ("brokers", "controller_id", "partitions", "topic_ids")

    def __init__(self) -> None:
        self.controller_id: int | None = None
        self.brokers: dict[int, LiveBroker] = {}
        self.partitions: dict[Key, Told] = {}
        self.topic_ids: dict[str, str] = {}

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
            else:
                partitions[key] = row
        if request.carries_ids:
            ids = request.topic_ids
            self.topic_ids.update(ids)
            for row in request.rows:
                if row.topic not in ids:
                    self.topic_ids.pop(row.topic, None)
        return changed
