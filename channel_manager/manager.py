"""The channels to all brokers: opens and closes them, and turns what brokers answer into events."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import structlog

from channel_manager.coalesce import BodyMerger
from channel_manager.observer import ChannelObserver, Exchange, NoObserver, Reactions
from channel_manager.removals import PendingRemovals
from channel_manager.sender import BrokerSender, QueuedRequest, SenderDependencies, SenderStats
from channel_manager.settings import ChannelSettings
from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.releases import Release
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    api_name,
)
from controllerd.errors import IllegalState
from events.base import Event
from events.responses import ApiVersionsReceived, LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived
from events.topics import TopicDeletionStopReplicaResponseReceived
from wire.transport import PLAINTEXT, Transport

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Alarms:
    """Callbacks for conditions that do not go through the event queue. Called in the event loop; none may block."""

    stale_epoch: Callable[[BrokerId, int], None]
    """A broker knows a higher controller epoch than the given one: check whether we still lead."""
    caught_up: Callable[[BrokerId], None]
    """A broker whose queue had to be dropped answers again: bring it up to date as if it had just started."""
    defect: Callable[[BrokerId, Exception], None]
    """A sender ended by an error that must not happen: the term cannot go on."""
    may_send: Callable[[], bool] = field(default=lambda: True)
    """Called right before bytes leave; they are held back while it returns False."""


class ChannelManager:
    """Implements ``ports.channels.Channels`` as an async context manager: senders end with its block."""

    def __init__(
        self,
        controller_id: int,
        listener: str,
        emit: Callable[[Event], None],
        alarms: Alarms,
        *,
        clock: Callable[[], float],
        settings: ChannelSettings | None = None,
        observer: ChannelObserver | None = None,
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``listener`` is the name of the listener to connect to (control plane if there is one, else inter-broker).

        ``emit`` appends to the event queue; ``clock`` gives monotonic seconds.
        """
        self._emit = emit
        self._senders: dict[BrokerId, tuple[BrokerSender, asyncio.Task[None]]] = {}
        self._removals: dict[BrokerId, PendingRemovals] = {}
        """The removals of closed channels by broker, until they are taken; none is kept beyond the term."""
        self._tasks: asyncio.TaskGroup | None = None
        self._shared = SenderDependencies(
            client_id=str(controller_id),
            listener=listener,
            clock=clock,
            settings=settings or ChannelSettings(),
            merger=BodyMerger(),
            observer=observer or NoObserver(),
            reactions=Reactions(
                self._answered,
                self._described,
                alarms.stale_epoch,
                alarms.caught_up,
                alarms.defect,
                alarms.may_send,
            ),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        self._tasks = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            # The block's own error is not the group's: it goes on as it is, not wrapped.
            await tasks.__aexit__(None, None, None)

    def use(self, settings: ChannelSettings) -> None:
        """Use these settings for channels that are opened from now on."""
        self._shared = replace(self._shared, settings=settings)

    def add_broker(self, broker: Broker) -> None:
        """Open a channel to a broker.

        If there is a channel to the same broker epoch, it is kept, and uses the new endpoints. A channel to an earlier
        epoch, or one whose sender ended by a defect, is replaced.

        :raises IllegalState: outside of the ``async with`` block.
        """
        if self._tasks is None:
            raise IllegalState("a channel was opened while the channel manager does not run")
        known = self._senders.get(broker.id)
        if known is not None and known[0].broker.epoch == broker.epoch and not known[0].is_defect:
            known[0].move(broker)
            return
        self.remove_broker(broker.id)
        sender = BrokerSender(broker, self._shared)
        task = self._tasks.create_task(sender.run(), name=f"sender {broker.id}")
        self._senders[broker.id] = (sender, task)

    def remove_broker(self, broker: BrokerId) -> None:
        """Close the channel in this tick of the event loop; requests that wait or are unanswered are lost.

        Does nothing for a broker without a channel.

        Removals from the broker's metadata are kept for ``take_removals``.
        """
        known = self._senders.pop(broker, None)
        if known is not None:
            sender, task = known
            if removals := sender.pending_removals():
                log.info("kept removals for the next channel", broker=broker, partitions=len(removals))
                self._removals.setdefault(broker, PendingRemovals()).add_all(removals)
            task.cancel()
            sender.stop()

    def take_removals(self, broker: BrokerId) -> Mapping[TopicPartition, UpdateMetadataPartition]:
        """Return the removals that closed channels did not deliver, and forget them.

        The caller sends them before all other metadata (``channel_manager.removals``).
        """
        return self._removals.pop(broker, PendingRemovals()).partitions

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Append to the broker's queue; a request for an unknown broker is dropped with a log line."""
        known = self._senders.get(broker)
        if known is None:
            log.warning("request for an unknown broker dropped", broker=broker, api=api_name(request))
            return
        known[0].send(request)

    def shutdown(self) -> None:
        """End the term: close every channel in this very tick. No byte leaves afterwards, and no removal is kept."""
        for sender, task in self._senders.values():
            task.cancel()
            sender.stop()
        self._senders.clear()
        self._removals.clear()

    def disconnect(self) -> None:
        """Close every connection in this tick. Buffered bytes are never sent; the requests are sent again later."""
        for sender, _ in self._senders.values():
            sender.disconnect()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything queued is answered; False when that took longer than ``timeout_s`` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                for sender, _ in list(self._senders.values()):
                    await sender.idle.wait()
        except TimeoutError:
            return False
        return True

    def stats(self) -> list[SenderStats]:
        """The statistics of each channel, in the order of broker ids."""
        return [self._senders[broker][0].stats() for broker in sorted(self._senders)]

    def first_requests(self, broker: BrokerId, limit: int) -> list[QueuedRequest]:
        """The first ``limit`` requests to a broker; empty for a broker without a channel."""
        known = self._senders.get(broker)
        return [] if known is None else known[0].first_requests(limit)

    def _described(self, broker: Broker, release: Release) -> None:
        self._emit(ApiVersionsReceived(broker.id, broker.epoch, release))

    def _answered(self, exchange: Exchange) -> None:
        event = event_of(exchange)
        if event is not None:
            self._emit(event)


def event_of(exchange: Exchange) -> Event | None:
    """The event for an answer; None for a StopReplica without a deletion."""
    request, response = exchange.request, exchange.response
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponseReceived(
                broker=exchange.broker,
                broker_epoch=request.broker_epoch,
                controller_epoch=request.controller_epoch,
                error=response.error,
                partition_errors=response.partition_errors,
                partitions=request.partitions.keys(),
            )
        case UpdateMetadataRequest():
            return UpdateMetadataResponseReceived(
                exchange.broker, request.broker_epoch, request.controller_epoch, response.error
            )
        case StopReplicaRequest():
            return _deletion_answered(exchange, request)


def _deletion_answered(exchange: Exchange, request: StopReplicaRequest) -> Event | None:
    """Return an event with the outcome of each deletion of a request; None for a request that deletes nothing.

    A request that was refused as a whole has an event, too, so that no deletion counts as unanswered for ever. A broker
    that refuses the whole request names no partition: each of them has the error of the request.
    """
    response = exchange.response
    deleted = [tp for tp, partition in request.partitions.items() if partition.delete]
    if not deleted:
        return None
    errors = {tp: response.partition_errors.get(tp, response.error) for tp in deleted}
    return TopicDeletionStopReplicaResponseReceived(
        exchange.broker, request.broker_epoch, request.controller_epoch, response.error, errors
    )
