"""The embedded reference broker: the control plane of a stock broker, as its controller sees it, without records."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Self

import structlog

from broker import answers, controlled_shutdown, log_dir
from broker.background import Background, Signal
from broker.controller_channel import ControllerChannel
from broker.fetchers import Fetchers
from broker.gate import ControlGate
from broker.isr_updater import IsrUpdater
from broker.metadata_cache import MetadataCache
from broker.producer_ids import BrokerProducerIds
from broker.replicas import ReplicaManager
from broker.server import BrokerListener
from broker.settings import BrokerSettings
from broker.state import BrokerState
from controllerd.core.model import Broker, Endpoint
from controllerd.zk.registration import BrokerRegistration

log = structlog.get_logger(__name__)

_SESSIONS_TO_WAIT = 3
"""The wait for the registration of a killed predecessor to end, in session timeouts."""


class EmbeddedBroker:
    """One broker in this event loop. As an async context manager it runs on entry and is closed on exit."""

    def __init__(self, settings: BrokerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives monotonic seconds."""
        self.settings = settings
        self._background = Background()
        self._state = _assemble(settings, clock)
        self._listener = BrokerListener(self._background, self._answer)
        self._registration = BrokerRegistration(settings.zookeeper, settings.session_timeout_ms, self._registered)
        self._endpoint = settings.listener
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of its listener; with the real port after the start."""
        return self._endpoint

    @property
    def epoch(self) -> int:
        """The broker epoch of the present registration, -1 before the first."""
        return self._state.gate.broker_epoch

    @property
    def state(self) -> BrokerState:
        """The metadata cache, the replicas and the other parts, for tests to read."""
        return self._state

    async def start(self) -> None:
        """Open the listener, and register in ZooKeeper.

        :raises OSError: the port is taken, or the data directory cannot be used. :raises ControllerdError: ZooKeeper
            cannot be reached, the broker id is taken, or the data belongs to another broker or cluster. Nothing stays
            open then.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            await self._start()
            undo.pop_all()

    async def _start(self) -> None:
        settings, state = self.settings, self._state
        state.cluster_id = await self._registration.open(settings.connect_timeout_s)
        log_dir.claim(settings.data_dir, settings.broker_id, state.cluster_id)
        self._endpoint = await self._listener.open(settings.listener)
        self._spawn_loops()
        broker = Broker(settings.broker_id, self.epoch, (self._endpoint,), settings.rack)
        await self._registration.register(broker, wait_s=_SESSIONS_TO_WAIT * settings.session_timeout_ms / 1000)
        self._background.spawn("registration", self._registration.keep_registered(broker))

    async def run(self) -> None:
        """Wait until a task fails, and raise its error."""
        await self._background.failure()

    async def shut_down(self) -> bool:
        """Request a controlled shutdown, then close; return whether the controller confirmed it."""
        agreed = await controlled_shutdown.request_controlled_shutdown(self._state)
        await self.close()
        return agreed

    async def close(self) -> None:
        """Deregister and close without a controlled shutdown. :raises Exception: the error of a failed task, if any."""
        if self._closed:
            return
        self._closed = True
        self._listener.close()
        try:
            await self._registration.close()
        finally:
            await self._background.close()
            await self._listener.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _answer(self, frame: bytes) -> bytes:
        return await answers.answer(self._state, frame)

    def _registered(self, epoch: int) -> None:
        self._state.gate.broker_epoch = epoch

    def _spawn_loops(self) -> None:
        settings, state = self.settings, self._state
        channel = _channel(settings, state.cache, state.metadata_changed, "alter-partition")
        updater = IsrUpdater(settings.broker_id, state.gate, state.replicas, channel)
        fetchers = Fetchers(settings, state.cache, state.replicas, self._background)
        self._background.spawn("isr-updater", updater.run())
        self._background.spawn("isr-shrinker", self._shrink())
        self._background.spawn("fetchers", fetchers.run())
        self._background.spawn("producer-ids", state.producer_ids.run())

    async def _shrink(self) -> None:
        while True:
            await asyncio.sleep(self.settings.replica_lag_ms / 2000)
            self._state.replicas.shrink_isrs()


def _channel(settings: BrokerSettings, cache: MetadataCache, changed: Signal, purpose: str) -> ControllerChannel:
    client_id = f"broker-{settings.broker_id}-{purpose}"
    return ControllerChannel(cache, changed, settings.listener.listener, client_id)


def _assemble(settings: BrokerSettings, clock: Callable[[], float]) -> BrokerState:
    gate, cache, changed = ControlGate(), MetadataCache(), Signal()
    forwarding = _channel(settings, cache, changed, "forwarding")
    return BrokerState(
        settings=settings,
        gate=gate,
        cache=cache,
        replicas=ReplicaManager(settings.broker_id, cache, settings.replica_lag_ms / 1000, clock),
        producer_ids=BrokerProducerIds(settings.broker_id, gate, forwarding),
        metadata_changed=changed,
    )
