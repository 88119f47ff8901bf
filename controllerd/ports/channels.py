"""Requests to brokers."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.requests import ControlRequest, UpdateMetadataPartition


class RequestSender(Protocol):
    """Sends control requests to brokers, in order for each."""

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Append to the broker's queue; a request for an unknown broker is dropped with a log line."""
        ...

    def take_removals(self, broker: BrokerId) -> Mapping[TopicPartition, UpdateMetadataPartition]:
        """Return the removals from metadata (leader -2) that ``remove_broker`` kept, and forget them."""
        ...


class Channels(RequestSender, Protocol):
    """Ordered delivery of control requests to brokers, for as long as each is registered."""

    def add_broker(self, broker: Broker) -> None:
        """Open a queue, a connection and a sender; for a known broker with the same epoch, follow its new endpoint."""
        ...

    def remove_broker(self, broker: BrokerId) -> None:
        """Stop the sender, close the connection, drop the queue; keep the removals in it until the term ends."""
        ...

    def shutdown(self) -> None:
        """End the term: stop every sender in this very tick. No byte leaves afterwards, and nothing is kept."""
        ...


class RequestGuard(Protocol):
    """Checks requests at the last moment before they leave."""

    def check_requests(self, requests: Iterable[tuple[BrokerId, ControlRequest]]) -> None:
        """Check requests that are about to be handed to the senders. :raises InvariantBroken: one must not be sent."""
        ...
