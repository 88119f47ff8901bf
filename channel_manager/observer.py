"""Observers of the requests to brokers: the audit log and the metrics, behind small protocols."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from controllerd.core.model import Broker, BrokerId
from controllerd.core.releases import Release
from controllerd.core.requests import ControlRequest, ControlResponse


@dataclass(frozen=True, slots=True)
class Exchange:
    """A control request that was answered; ``took_s`` counts from its first attempt.

    ``bytes_sent`` is what one attempt sent, without headers.
    """

    broker: BrokerId
    request: ControlRequest
    response: ControlResponse
    version: int
    correlation_id: int
    bytes_sent: int
    attempts: int
    took_s: float


class ChannelObserver(Protocol):
    """Called for every request and answer, in the event loop; must not block."""

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """A request was taken from the broker's queue, in which it had waited for so long."""
        ...

    def on_request(
        self, broker: BrokerId, request: ControlRequest, version: int, correlation_id: int, bytes_sent: int
    ) -> None:
        """A request is about to leave; called again for each attempt."""
        ...

    def on_response(self, exchange: Exchange) -> None:
        """A request was answered, with or without an error."""
        ...


class NoObserver:
    """Observes nothing."""

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """Nothing to do."""

    def on_request(
        self, broker: BrokerId, request: ControlRequest, version: int, correlation_id: int, bytes_sent: int
    ) -> None:
        """Nothing to do."""

    def on_response(self, exchange: Exchange) -> None:
        """Nothing to do."""


class AllObserve:
    """Several observers, called one after the other."""

    def __init__(self, *observers: ChannelObserver) -> None:
        self._observers = observers

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """Call each."""
        for observer in self._observers:
            observer.on_taken(broker, waited_s)

    def on_request(
        self, broker: BrokerId, request: ControlRequest, version: int, correlation_id: int, bytes_sent: int
    ) -> None:
        """Call each."""
        for observer in self._observers:
            observer.on_request(broker, request, version, correlation_id, bytes_sent)

    def on_response(self, exchange: Exchange) -> None:
        """Call each."""
        for observer in self._observers:
            observer.on_response(exchange)


@dataclass(frozen=True, slots=True)
class Reactions:
    """The callbacks by which a channel reports to the controller. Called in the event loop; none may block."""

    answered: Callable[[Exchange], None]
    """A request was answered: the manager makes an event of it."""
    described: Callable[[Broker, Release], None]
    """Note that a broker answered ApiVersions on a new connection; the manager makes an event of it."""
    stale_epoch: Callable[[BrokerId, int], None]
    """A broker knows a higher controller epoch than the one given: another controller may lead."""
    caught_up: Callable[[BrokerId], None]
    """A broker whose queue had to be dropped answers again: bring it up to date as if it had just started."""
    defect: Callable[[BrokerId, Exception], None]
    """A sender ended by an error that must not happen; nothing reaches this broker any more."""
    may_send: Callable[[], bool]
    """Called right before bytes leave; False holds them back (session suspended, process was suspended)."""
