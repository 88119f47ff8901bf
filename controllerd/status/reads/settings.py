"""The settings of topics, and the inputs of explanations."""

from collections.abc import Collection, Mapping

from controllerd.core.policy import KAFKAS_DEFAULTS, Policy
from controllerd.explain.inputs import ExplanationInputs, TopicConfigs
from controllerd.status.sources import StatusSources
from controllerd.views import QueueView


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
        inputs = await self.inputs(topics)
        known = {topic: inputs.min_isr(topic) for topic in topics}
        return {topic: min_isr for topic, min_isr in known.items() if min_isr is not None}

    async def inputs(self, topics: Collection[str]) -> ExplanationInputs:
        """Return the inputs of an explanation, with the settings of these topics."""
        source = self._sources.settings
        if source is None:
            return inputs_of(self._sources)
        configs: Mapping[str, Mapping[str, str]] = await source.of(topics)
        return inputs_of(
            self._sources,
            policy=source.policy,
            configs=configs,
            unclean_by_default=source.unclean_by_default(),
            min_isr_by_default=await source.min_isr_by_default(),
        )


def inputs_of(
    sources: StatusSources,
    *,
    policy: Policy = KAFKAS_DEFAULTS,
    configs: TopicConfigs | None = None,
    unclean_by_default: bool | None = None,
    min_isr_by_default: int | None = None,
) -> ExplanationInputs:
    """Collect what a running instance knows now. ``configs`` are those of the topics that are asked about."""
    known = sources.cluster_settings()
    return ExplanationInputs(
        snapshot=sources.snapshot(),
        now_ms=sources.now_ms(),
        entries=tuple(sources.recent.newest_first()),
        channels=sources.channels(),
        queue=QueueView(len(sources.queue), sources.queue.oldest_age_s()),
        worker=sources.worker(),
        session=sources.session(),
        policy=policy,
        configs=configs or {},
        unclean_by_default=unclean_by_default,
        unclean_awaits=() if known is None else known.unclean_awaits,
        min_isr_by_default=min_isr_by_default,
    )
