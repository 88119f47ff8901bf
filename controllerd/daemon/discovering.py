"""The settings of the cluster in one instance: discovered in every role, kept on disk, used by the event task."""

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
"""How long the first election of a process that knows no settings waits for the brokers' answers."""


class Discovery:
    """The known settings of brokers, and the task that asks for them."""

    def __init__(self, config: Config, memory: SettingsMemory, snapshot: ClusterSnapshot) -> None:
        self.book: Final = SettingsBook(config.cluster_settings)
        self._listener = config.kafka.inter_broker_listener_name
        self._memory = memory
        self._snapshot = snapshot
        self._kept: Remembered | None = None
        self._poller: SettingsPoller | None = None
        self._shown: Mapping[BrokerId, Broker] = {}

    async def recall(self) -> None:
        """Begin with the settings that an earlier process of this cluster knew."""
        self._kept = await self._memory.load(self._snapshot.cluster_id)
        self.book.recall(self._kept)

    def start(
        self,
        list_brokers: Callable[[], Awaitable[Sequence[Broker]]],
        emit: Emit,
        now: Callable[[], float],
        transport: Transport,
    ) -> asyncio.Task[None]:
        """Ask in the background, over the listener between brokers, until the task is cancelled.

        ``list_brokers`` returns the brokers that are registered in ZooKeeper; ``emit`` gets every
        answer with anything new.
        """

        async def registered() -> Sequence[Broker]:
            """The live brokers as this instance serves them; an instance that does not lead asks ZooKeeper."""
            if self._snapshot.is_active:
                return list(self._snapshot.brokers.values())
            return await list_brokers()

        self._poller = SettingsPoller(
            self.book, registered, self._listener, emit, now, keep=self._keep, transport=transport
        )
        return asyncio.create_task(self._poller.run(), name="settings of brokers")

    async def first_answers(self) -> None:
        """Wait shortly for the brokers' answers before the first election of a process that knows none.

        Every other election, and every takeover by a process that knows the settings, waits for no
        broker.
        """
        if self._poller is None or not self.book.needs_brokers:
            return
        try:
            async with asyncio.timeout(FIRST_ANSWERS_S):
                await self._poller.has_heard_all.wait()
        except TimeoutError:
            log.warning("timed out waiting for broker settings", waited_s=FIRST_ANSWERS_S)

    def published(self) -> None:
        """Have new brokers asked without waiting for the next round: the snapshot has changed."""
        if self._poller is not None and self._snapshot.brokers != self._shown:
            self._shown = self._snapshot.brokers
            self._poller.look()

    def learned(self) -> None:
        """Start a round at once, after which the new content of the book is kept."""
        if self._poller is not None:
            self._poller.look()

    def ask_soon(self) -> None:
        """Have brokers asked again: their configuration changed in ZooKeeper."""
        if self._poller is not None:
            self._poller.ask_soon()

    def channel_settings(self) -> ChannelSettings:
        """The time-outs of channels to brokers."""
        known = self.book.current
        return ChannelSettings(
            connect_timeout_s=known.number(SOCKET_TIMEOUT) / 1000,
            request_timeout_s=known.number(REQUEST_TIMEOUT) / 1000,
        )

    async def _keep(self) -> None:
        """Keep the settings; a failure is only logged, because the next start can ask for them again."""
        known = self.book.remembered()
        if known == self._kept:
            return
        try:
            await self._memory.save(self._snapshot.cluster_id, known)
            self._kept = known
        except OSError as error:
            log.warning("settings of brokers cannot be kept", reason=str(error))
