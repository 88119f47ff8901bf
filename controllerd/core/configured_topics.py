"""The defaults of topics that change elections, from the settings of the cluster and its dynamic default."""

from collections.abc import Callable

from controllerd.core.resolved_settings import Resolution


class ConfiguredTopics:
    """The defaults of topics: configured here or on the brokers, and overridden by dynamic ones of the cluster."""

    def __init__(self, settings: Callable[[], Resolution]) -> None:
        """``settings`` returns the settings of the cluster as they are known now."""
        self._settings = settings
        self._dynamic: bool | None = None

    def set_unclean_by_default(self, value: bool | None) -> None:
        """The dynamic default of all brokers, which beats the configured one; None: there is none."""
        self._dynamic = value

    def unclean_by_default(self) -> bool:
        """``unclean.leader.election.enable`` of the cluster."""
        return self._settings().unclean.under(self._dynamic)
