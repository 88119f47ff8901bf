"""Brokers that carry out the requests of the controller of a ``World``, and the replicas that they have on disk.

A broker that is not registered keeps its replicas. Requests that it was sent before its end are lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from channel_manager.manager import event_of
from channel_manager.observer import Exchange
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    api_name,
)
from tests.fakes.world import World


@dataclass
class Disks:
    """The brokers of one world and their replicas; make it before the world sends a request."""

    world: World
    logs: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """The replicas that each broker has on its disks."""
    metadata: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)
    """The leader of each partition in the metadata of a broker; a broker that starts knows none."""
    refusing: dict[int, KafkaError] = field(default_factory=dict)
    """Brokers that cannot delete anything, and what they answer."""
    silent: set[int] = field(default_factory=set)
    """Brokers that get requests and answer nothing."""
    _at: int = 0
    _lives: dict[int, int] = field(default_factory=dict)
    """The broker epoch of each broker's present life."""

    async def settle(self) -> World:
        """Handle events, and the answers of brokers to the requests, until there are no more."""
        await self.world.settle()
        while self._at < len(self.world.channels.sent):
            broker, request = self.world.channels.sent[self._at]
            self._at += 1
            self._deliver(broker, request)
            await self.world.settle()
        return self.world

    async def start(self) -> World:
        """Start the controller, and handle everything that follows."""
        await self.world.start()
        return await self.settle()

    def forget(self) -> None:
        """Forget the requests and records so far, but not the replicas on disk."""
        self.world.forget()
        self._at = 0

    def _deliver(self, broker: BrokerId, request: ControlRequest) -> None:
        registered = self.world.context.brokers.get(broker)
        if registered is None or registered.epoch != request.broker_epoch or broker in self.silent:
            return
        if self._lives.setdefault(broker, request.broker_epoch) != request.broker_epoch:
            self._lives[broker] = request.broker_epoch
            self.metadata.pop(broker, None)
        errors = self._carry_out(broker, request)
        response = ControlResponse(api_name(request), KafkaError.NONE, errors)
        event = event_of(Exchange(broker, request, response, 0, 0, 0, 1, 0.0))
        if event is not None:
            self.world.queue.put(event)

    def _carry_out(self, broker: BrokerId, request: ControlRequest) -> Mapping[TopicPartition, KafkaError]:
        logs = self.logs.setdefault(broker, set())
        match request:
            case LeaderAndIsrRequest():
                logs.update(request.partitions)
            case UpdateMetadataRequest():
                self._update_metadata(broker, request)
            case StopReplicaRequest():
                deleted = {tp for tp, partition in request.partitions.items() if partition.delete}
                if broker in self.refusing:
                    return dict.fromkeys(deleted, self.refusing[broker])
                logs -= deleted
        return {}

    def _update_metadata(self, broker: BrokerId, request: UpdateMetadataRequest) -> None:
        known = self.metadata.setdefault(broker, {})
        for tp, partition in request.body.partitions.items():
            known[tp] = partition.state.leader
            if partition.state.leader == -2:
                del known[tp]


def successor(before: Disks, session_id: int, **options: object) -> Disks:
    """The next controller of the same cluster, not started yet: same ZooKeeper, same disks, new connections."""
    world = World(tree=before.world.tree, session_id=session_id, **options)  # type: ignore[arg-type]
    return Disks(world, before.logs, before.metadata, before.refusing, before.silent, _lives=before._lives)
