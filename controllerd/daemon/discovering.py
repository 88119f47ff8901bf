"""The settings of the cluster in one instance: discovered in every role, stored on disk, used by the event task."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from channel_manager.settings import ChannelSettings
from controllerd.api.settings_poller import Emit, SettingsPoller
from controllerd.config.model import Config
from controllerd.core.cluster_settings import REQUEST_TIMEOUT, SOCKET_TIMEOUT
from controllerd.core.model import Broker, BrokerId
from controllerd.core.settings_book import Remembered, SettingsBook
from controllerd.daemon.settings_memory import SettingsMemory
from controllerd.snapshot import ClusterSnapshot
from wire.transport import Transport

log = structlog.get_logger(__name__)

FIRST_ANSWERS_S: Final = 1.5
"""The wait for the brokers' answers before the first election of a process that knows no settings."""


class Discovery:
    """The known settings of brokers, and the task that requests them."""

    def __init__(self, config: Config, memory: SettingsMemory, snapshot: ClusterSnapshot) -> None:
        self.book: Final = SettingsBook(config.cluster_settings)
        self._listener = config.kafka.inter_broker_listener_name
        self._memory = memory
        self._snapshot = snapshot
        self._stored: Remembered | None = None
        self._poller: SettingsPoller | None = None
        self._asked_brokers: Mapping[BrokerId, Broker] = {}

    async def recall(self) -> None:
        """Load the settings that an earlier process of this cluster has stored."""
        self._stored = await self._memory.load(self._snapshot.cluster_id)
        self.book.recall(self._stored)

    def start(
        self,
        list_brokers: Callable[[], Awaitable[Sequence[Broker]]],
        emit: Emit,
        now: Callable[[], float],
        transport: Transport,
    ) -> asyncio.Task[None]:
        """Request settings in the background, over the inter-broker listener, until the task is cancelled.

        ``list_brokers`` returns the brokers that are registered in ZooKeeper. ``emit`` gets every new or changed
        answer.
        """

        async def registered() -> Sequence[Broker]:
            """The live brokers of the active controller's snapshot; other instances read ZooKeeper."""
            if self._snapshot.is_active:
                return list(self._snapshot.brokers.values())
            return await list_brokers()

        self._poller = SettingsPoller(
            self.book, registered, self._listener, emit, now, keep=self._store, transport=transport
        )
        return asyncio.create_task(self._poller.run(), name="settings of brokers")

    async def wait_for_first_answers(self) -> None:
        """Wait for the brokers' answers before the first election of a process that knows no settings.

        The wait is bounded by ``FIRST_ANSWERS_S``. No other election, and no takeover by a process that knows the
        settings, waits for a broker.
        """
        if self._poller is None or not self.book.needs_brokers:
            return
        try:
            async with asyncio.timeout(FIRST_ANSWERS_S):
                await self._poller.every_broker_answered.wait()
        except TimeoutError:
            log.warning("timed out waiting for broker settings", waited_s=FIRST_ANSWERS_S)

    def published(self) -> None:
        """Start a round at once if the brokers in the snapshot changed."""
        if self._poller is not None and self._snapshot.brokers != self._asked_brokers:
            self._asked_brokers = self._snapshot.brokers
            self._poller.start_round()

    def learned(self) -> None:
        """Start a round at once; at its end the changed settings are stored."""
        if self._poller is not None:
            self._poller.start_round()

    def ask_soon(self) -> None:
        """Request the settings of all brokers again, because their configuration changed in ZooKeeper."""
        if self._poller is not None:
            self._poller.ask_soon()

    def channel_settings(self) -> ChannelSettings:
        """The timeouts of the channels to brokers."""
        known = self.book.current
        return ChannelSettings(
            connect_timeout_s=known.number(SOCKET_TIMEOUT) / 1000,
            request_timeout_s=known.number(REQUEST_TIMEOUT) / 1000,
        )

    async def _store(self) -> None:
        """Store the settings. A failure is only logged, because the next start can request them again."""
        known = self.book.remembered()
        if known == self._stored:
            return
        try:
            await self._memory.save(self._snapshot.cluster_id, known)
            self._stored = known
        except OSError as error:
            log.warning("failed to store broker settings", reason=str(error))
