"""The configurations of topics, read from ZooKeeper on request and cached."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

import structlog

from controllerd.core.cluster_settings import Policy
from controllerd.core.settings_book import SettingsBook
from controllerd.errors import BadZnode, StoreUnavailable

log = structlog.get_logger(__name__)

CACHED_S: Final = 30.0
"""The lifetime of the cache, in seconds."""
_READ_TIMEOUT_S: Final = 2.0

ReadConfigs = Callable[[Iterable[str]], Awaitable[Mapping[str, Mapping[str, str] | BadZnode]]]


class CachedTopicSettings:
    """Implements ``status.sources.TopicSettings``. A request waits for two seconds at most."""

    def __init__(
        self,
        read: ReadConfigs,
        settings: SettingsBook,
        unclean_by_default: Callable[[], bool],
        is_active: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        """``read`` reads from ZooKeeper; ``now`` gives monotonic seconds."""
        self._settings = settings
        self._unclean_by_default = unclean_by_default
        self._is_active = is_active
        self._read = read
        self._now = now
        self._known: dict[str, Mapping[str, str]] = {}
        self._version = 0

    @property
    def policy(self) -> Policy:
        """The policy that follows from the settings of the cluster."""
        return self._settings.policy

    def unclean_by_default(self) -> bool | None:
        """The cluster's ``unclean.leader.election.enable``; None on an instance that does not lead.

        Such an instance has read no dynamic default in this term.
        """
        return self._unclean_by_default() if self._is_active() else None

    @property
    def version(self) -> int:
        """A number that changes whenever the cache is dropped."""
        self._drop_expired()
        return self._version

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """The overrides of these topics, without topics whose configuration cannot be read."""
        self._drop_expired()
        known = self._known
        missing = [topic for topic in topics if topic not in known]
        if missing:
            known.update(await self._asked(missing))
        return {topic: known[topic] for topic in topics if topic in known}

    def _drop_expired(self) -> None:
        current = int(self._now() / CACHED_S)
        if current != self._version:
            self._known, self._version = {}, current

    async def _asked(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                configs = await self._read(topics)
        except (StoreUnavailable, TimeoutError) as error:
            log.info("failed to read topic settings", topics=len(topics), reason=str(error) or "no answer in time")
            return {}
        return {topic: config for topic, config in configs.items() if not isinstance(config, BadZnode)}

    async def min_isr_by_default(self) -> int | None:
        """The ``min.insync.replicas`` of the live brokers; None if it is unknown."""
        return self._settings.current.min_isr
