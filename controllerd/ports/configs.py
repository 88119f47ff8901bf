"""Configurations as ZooKeeper stores them, and the effective configuration of topics."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from controllerd.errors import BadZnode
from controllerd.ports.results import ConfigChangesRead, ConfigRead, WriteResult


class TopicConfigReader(Protocol):
    """Reads the configurations of topics."""

    async def read_topic_configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        """Read the overrides of these topics below ``/config/topics``; a topic without a znode has none."""
        ...


class ConfigStore(TopicConfigReader, Protocol):
    """Everything below ``/config``. Entities are named by their path there, such as ``users/alice/clients/app``."""

    async def read_config_changes(self, known: AbstractSet[str] = frozenset()) -> ConfigChangesRead:
        """Read the children of ``/config/changes``, without the children in ``known``; arms the child watch."""
        ...

    async def read_broker_defaults(self) -> Mapping[str, str]:
        """Read the dynamic defaults of all brokers (``/config/brokers/<default>``).

        :raises BadZnode: they cannot be decoded.
        """
        ...

    async def read_mutation_rates(self, entities: Iterable[str] | None = None) -> Mapping[str, str | BadZnode | None]:
        """Read ``controller_mutation_rate`` (KIP-599) of entities, None for one that has no such quota.

        Without ``entities``: of all users and client ids that have a znode.
        """
        ...

    async def read_configs(self, entities: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """Read the configurations of entities; a ``BadZnode`` for each that cannot be decoded."""
        ...

    async def write_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write each on the condition of the version read, and notify brokers in the same transaction. Fenced."""
        ...

    async def read_user_configs(self, users: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """Read the configurations of users by their plain names; a ``BadZnode`` for each that cannot be decoded."""
        ...

    async def write_user_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """As ``write_configs``, by the plain names of users. Fenced."""
        ...


class TopicConfigs(Protocol):
    """The effective configuration of topics, as far as the controller decides by it."""

    def set_unclean_by_default(self, value: bool | None) -> None:
        """Set the cluster's dynamic default of ``unclean.leader.election.enable``; None: the configured one."""
        ...

    def unclean_by_default(self) -> bool:
        """Return the cluster's default of ``unclean.leader.election.enable``."""
        ...
