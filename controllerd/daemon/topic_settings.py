"""What topics are configured for, read from ZooKeeper and from a broker when somebody asks, and kept for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

import structlog

from controllerd.api.broker_settings import BrokerSettings
from controllerd.core.policy import Policy
from controllerd.errors import BadZnode, StoreUnavailable

log = structlog.get_logger(__name__)

KEPT_S: Final = 30.0
"""Seconds after which what is known is asked anew."""
_PATIENCE_S: Final = 2.0
_MIN_ISR: Final = "min.insync.replicas"

ReadConfigs = Callable[[Iterable[str]], Awaitable[Mapping[str, Mapping[str, str] | BadZnode]]]


class KeptSettings:
    """Implements ``status.sources.TopicSettings``. Whoever asks waits for two seconds at most."""

    def __init__(
        self,
        read: ReadConfigs,
        brokers: BrokerSettings,
        listener: str,
        policy: Policy,
        unclean_by_default: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        """``read`` asks ZooKeeper; brokers are asked over ``listener``; ``now`` gives monotonic seconds."""
        self.policy: Final = policy
        self.unclean_by_default: Final = unclean_by_default
        self._read = read
        self._brokers = brokers
        self._listener = listener
        self._now = now
        self._known: dict[str, Mapping[str, str]] = {}
        self._min_isr: int | None = None
        self._has_asked = False
        self._version = 0

    @property
    def version(self) -> int:
        """Changes with the time after which everything is asked anew."""
        self._forget_what_is_old()
        return self._version

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """The overrides of these topics, without those that cannot be read."""
        self._forget_what_is_old()
        known = self._known
        missing = [topic for topic in topics if topic not in known]
        if missing:
            known.update(await self._asked(missing))
        return {topic: known[topic] for topic in topics if topic in known}

    def _forget_what_is_old(self) -> None:
        current = int(self._now() / KEPT_S)
        if current != self._version:
            self._known, self._has_asked, self._version = {}, False, current

    async def _asked(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                configs = await self._read(topics)
        except (StoreUnavailable, TimeoutError) as error:
            log.info("settings of topics are not known", topics=len(topics), reason=str(error) or "no answer in time")
            return {}
        return {topic: config for topic, config in configs.items() if not isinstance(config, BadZnode)}

    async def min_isr_by_default(self) -> int | None:
        """What a live broker says of ``min.insync.replicas``; None when none says it."""
        self._forget_what_is_old()
        if not self._has_asked:
            self._has_asked = True
            setting = (await self._brokers.of_any(self._listener)).get(_MIN_ISR)
            value = setting.value if setting is not None else None
            self._min_isr = int(value) if value is not None and value.isdecimal() else None
        return self._min_isr
