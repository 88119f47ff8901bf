"""What the settings of topics say, for those who judge partitions by them."""

from collections.abc import Collection, Mapping

from controllerd.status.explain.circumstances import Circumstances, circumstances_of
from controllerd.status.sources import StatusSources


class Settings:
    """Asks the source of settings, where there is one."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources

    @property
    def version(self) -> int:
        """Changes with the settings; 0 where none are known."""
        source = self._sources.settings
        return source.version if source is not None else 0

    @property
    def are_known(self) -> bool:
        """Whether anything can be asked."""
        return self._sources.settings is not None

    async def min_isr_of(self, topics: Collection[str]) -> dict[str, int]:
        """``min.insync.replicas`` of those of the topics for which it is known."""
        if not topics:
            return {}
        around = await self.around(topics)
        known = {topic: around.min_isr(topic) for topic in topics}
        return {topic: min_isr for topic, min_isr in known.items() if min_isr is not None}

    async def around(self, topics: Collection[str]) -> Circumstances:
        """Everything that is known, with the settings of these topics."""
        source = self._sources.settings
        if source is None:
            return circumstances_of(self._sources)
        configs: Mapping[str, Mapping[str, str]] = await source.of(topics)
        return circumstances_of(
            self._sources,
            policy=source.policy,
            configs=configs,
            unclean_by_default=source.unclean_by_default(),
            min_isr_by_default=await source.min_isr_by_default(),
        )
