"""The metadata of the cluster that a broker has received by UpdateMetadata."""

from collections.abc import Mapping
from typing import Final

from controllerd.core.model import LEADER_DURING_DELETE, Broker, BrokerId, Endpoint
from controllerd.core.requests import UpdateMetadataPartition, UpdateMetadataRequest

NO_CONTROLLER: Final = -1


class MetadataCache:
    """Live brokers, controller and partitions. Sync and without I/O; empty after every start of the broker."""

    def __init__(self) -> None:
        self.controller_id = NO_CONTROLLER
        self._brokers: dict[BrokerId, Broker] = {}
        self._topics: dict[str, dict[int, UpdateMetadataPartition]] = {}
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    @property
    def brokers(self) -> Mapping[BrokerId, Broker]:
        """The live brokers, with the active controller if the request lists it."""
        return self._brokers

    @property
    def topics(self) -> Mapping[str, Mapping[int, UpdateMetadataPartition]]:
        """The states that clients receive, by topic and partition."""
        return self._topics

    def topic_id(self, topic: str) -> str | None:
        """Return the base64url id of a topic, None if no request contained one."""
        return self._ids.get(topic)

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of the topic with this id."""
        return self._names.get(topic_id)

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        """Return the endpoint of a live broker (or of the listed controller) for a listener name."""
        found = self._brokers.get(BrokerId(broker))
        return None if found is None else found.endpoint(listener)

    def update(self, request: UpdateMetadataRequest, listed: Mapping[str, str | None], *, carries_ids: bool) -> None:
        """Replace live brokers and controller, and merge partitions; leader -2 removes a partition.

        ``listed`` are the topics of the request with their ids; with ``carries_ids`` (version 7 and later) a topic
        listed without id loses the id that is known (KIP-516).
        """
        self.controller_id = request.controller_id if request.controller_id >= 0 else NO_CONTROLLER
        self._brokers = {broker.id: broker for broker in request.body.live_brokers}
        if carries_ids:
            for topic, topic_id in listed.items():
                self._set_id(topic, topic_id)
        for (topic, partition), state in request.body.partitions.items():
            if state.state.leader == LEADER_DURING_DELETE:
                self._remove(topic, partition)
            else:
                self._topics.setdefault(topic, {})[partition] = state

    def _set_id(self, topic: str, topic_id: str | None) -> None:
        self._names.pop(self._ids.pop(topic, ""), None)
        if topic_id is not None:
            self._ids[topic] = topic_id
            self._names[topic_id] = topic

    def _remove(self, topic: str, partition: int) -> None:
        partitions = self._topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self._topics.pop(topic, None)
            self._set_id(topic, None)
