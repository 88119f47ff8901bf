"""The metadata cache of a simulated broker: only the content of UpdateMetadata since the broker started."""

from typing import Final

from tests.sim.broker_frames import Key, LiveBroker, PartitionRow, SimRequest

_REMOVED: Final = -2


class Metadata:
    """The brokers, partitions and topic ids of accepted UpdateMetadata requests."""

    __slots__ = ("brokers", "controller_id", "forgotten", "partitions", "topic_ids")

    def __init__(self) -> None:
        self.controller_id: int | None = None
        self.brokers: dict[int, LiveBroker] = {}
        self.partitions: dict[Key, PartitionRow] = {}
        self.topic_ids: dict[str, str] = {}
        self.forgotten: list[str] = []
        """Topics whose ids the broker lost: by a request version without ids, or by a zero id."""

    def update(self, request: SimRequest) -> bool:
        """Replace brokers and controller, merge ids and then partitions; return whether the brokers changed.

        The id of a topic goes with its last partition (leader -2), even if this request repeats the id
        (``ZkMetadataCache.updateMetadata``).
        """
        brokers = {broker.id: broker for broker in request.live_brokers}
        changed = brokers.keys() != self.brokers.keys()
        self.controller_id, self.brokers = request.controller_id, brokers
        sent_away = self._take_ids(request)
        for row in request.rows:
            self._take_row(row)
        # A topic that is deleted, or that was created anew without an id, loses its id rightly.
        self.forgotten += [topic for topic, numbers in sent_away.items() if numbers & self._numbers(topic)]
        return changed

    def _take_ids(self, request: SimRequest) -> dict[str, set[int]]:
        """Merge the ids; return the topics that lose theirs, each with the partitions known so far."""
        ids = request.topic_ids if request.carries_ids else {}
        self.topic_ids.update(ids)
        without = {row.topic for row in request.rows if row.topic not in ids}
        lost = [topic for topic in sorted(without) if self.topic_ids.pop(topic, None) is not None]
        return {topic: self._numbers(topic) for topic in lost}

    def _take_row(self, row: PartitionRow) -> None:
        key = (row.topic, row.partition)
        if row.leader != _REMOVED:
            self.partitions[key] = row
        elif self.partitions.pop(key, None) is not None and not self._numbers(row.topic):
            self.topic_ids.pop(row.topic, None)

    def _numbers(self, topic: str) -> set[int]:
        return {number for name, number in self.partitions if name == topic}

    def take_forgotten(self) -> list[str]:
        """Return the topics whose ids were forgotten since the last call."""
        taken, self.forgotten = self.forgotten, []
        return taken
