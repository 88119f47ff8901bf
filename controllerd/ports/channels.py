"""The channels by which requests are sent to brokers."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.requests import ControlRequest, UpdateMetadataPartition


class RequestSender(Protocol):
    """Sends control requests to brokers, in order for each."""

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Append a request to the broker's queue; one for an unknown broker is dropped and logged."""
        ...

    def take_removals(self, broker: BrokerId) -> Mapping[TopicPartition, UpdateMetadataPartition]:
        """Return and forget the removals from metadata (leader -2) that ``remove_broker`` kept."""
        ...


class Channels(RequestSender, Protocol):
    """Ordered delivery of control requests to brokers, for as long as each is registered."""

    def add_broker(self, broker: Broker) -> None:
        """Open a queue, a connection and a sender; for a known broker of the same epoch, take its new endpoint."""
        ...

    def remove_broker(self, broker: BrokerId) -> None:
        """Stop the sender, close the connection, drop the queue; the removals in it are kept until the term ends."""
        ...

    def shutdown(self) -> None:
        """Stop every sender in the same tick, because the term ends. No byte is sent afterwards, no request is kept."""
        ...


class RequestGuard(Protocol):
    """Checks requests immediately before they are sent."""

    def check_requests(self, requests: Iterable[tuple[BrokerId, ControlRequest]]) -> None:
        """Check requests before the senders get them. :raises InvariantBroken: a request must not be sent."""
        ...
