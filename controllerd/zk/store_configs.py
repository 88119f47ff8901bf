"""Configurations below ``/config``: read for the controller's own decisions, and changed for operators and clients."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from controllerd.core.mutation_quota import RATE_CONFIG, sanitize
from controllerd.errors import BadZnode
from controllerd.ports.results import ConfigChangesRead, ConfigRead, WriteResult
from controllerd.slicer import Slicer, sliced
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Operation, SetData, Znode, ZooKeeper, read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_MISSING: Final = -1
"""The version of a configuration without a znode."""
_SLICE: Final = 1_000
_LISTINGS: Final = 10
"""Reads of children in flight."""


class ConfigZnodes:
    """``ports.configs.ConfigStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections

    # -- read ----------------------------------------------------------------------------------------------------------

    async def read_config_changes(self, known: AbstractSet[str] = frozenset()) -> ConfigChangesRead:
        """Read the children of ``/config/changes`` in the order of their sequence numbers, without the known ones.

        The children stay watched.
        """
        children = await self._zk.children(paths.CONFIG_CHANGES, watch=True) or []
        numbered = sorted((paths.parse_sequence(child) or 0, child) for child in children if child not in known)
        names = [child for _, child in numbered]
        nodes = await self._zk.read([paths.config_change(child) for child in names])
        entities, broken = self._rejections.decode_all(names, nodes, _entity_of)
        return ConfigChangesRead(entities, broken, frozenset(children))

    async def read_broker_defaults(self) -> Mapping[str, str]:
        """Read the dynamic defaults of all brokers. :raises BadZnode: they cannot be decoded."""
        path = paths.CONFIG_BROKER_DEFAULTS
        (node,) = await self._zk.read([path])
        with self._rejections.judging(node):
            return codecs.decode_config(path, node.data if node is not None else None)

    async def read_topic_configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        """Read the overrides of these topics; a znode that cannot be decoded is a value, not an error."""
        wanted = list(dict.fromkeys(topics))
        nodes = await self._zk.read([paths.topic_config(topic) for topic in wanted])
        return self._rejections.decode_each(wanted, nodes, _overrides_of)

    async def read_mutation_rates(self, entities: Iterable[str] | None = None) -> Mapping[str, str | BadZnode | None]:
        """Read ``controller_mutation_rate`` of entities; None means all users and client ids."""
        wanted = list(dict.fromkeys(await self._quota_entities() if entities is None else entities))
        rates: dict[str, str | BadZnode | None] = {}

        def take(part: Sequence[str], nodes: Sequence[Znode | None]) -> None:
            rates.update(self._rejections.decode_each(part, nodes, _rate_of))

        await read_in_slices(wanted, _SLICE, self._read_nodes, take)
        return rates

    async def _quota_entities(self) -> list[str]:
        """Return the paths below ``/config`` of users, of client ids, and of client ids of one user."""
        users = await self._entities_below("users")
        found = users + await self._entities_below("clients")
        # Few users have a folder of client ids, so one read finds out which.
        folders = [f"{user}/clients" for user in users]
        nodes = await self._read_nodes(folders)
        there = [folder for folder, node in zip(folders, nodes, strict=True) if node is not None]
        for part in sliced(there, _LISTINGS):
            for below in await asyncio.gather(*map(self._entities_below, part)):
                found += below
        return found

    async def _entities_below(self, parent: str) -> list[str]:
        return [f"{parent}/{child}" for child in sorted(await self._zk.children(_path(parent)) or [])]

    async def _read_nodes(self, entities: Sequence[str]) -> list[Znode | None]:
        return await self._zk.read(list(map(_path, entities)))

    # -- changed -------------------------------------------------------------------------------------------------------

    async def read_configs(self, entities: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """Read the configurations of entities; a ``BadZnode`` for each that cannot be decoded."""
        configs: dict[str, ConfigRead | BadZnode] = {}

        def take(part: Sequence[str], nodes: Sequence[Znode | None]) -> None:
            configs.update(self._rejections.decode_each(part, nodes, _config_of))

        await read_in_slices(list(entities), _SLICE, self._read_nodes, take)
        return configs

    async def write_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write the configurations of entities, each with the notification that makes brokers read it."""
        groups: list[list[Operation]] = []
        slicer = Slicer()
        for entity, (config, version, extra) in configs.items():
            path, data = _path(entity), codecs.encode_config(config, extra)
            written = Create(path, data) if version == _MISSING else SetData(path, data, version)
            notification = Create(paths.CONFIG_CHANGE_PREFIX, codecs.encode_config_change(entity), sequential=True)
            groups.append([written, notification])
            await slicer.yield_to_loop()
        return dict(zip(configs, await self._writer.write_groups(groups), strict=True))

    async def read_user_configs(self, users: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """Read the configurations of users; a ``BadZnode`` for each that cannot be decoded."""
        entities = {user: _user(user) for user in users}
        read = await self.read_configs(entities.values())
        return {user: read[entity] for user, entity in entities.items()}

    async def write_user_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write the configurations of users."""
        written = await self.write_configs({_user(user): config for user, config in configs.items()})
        return dict(zip(configs, written.values(), strict=True))


def _path(entity: str) -> str:
    return f"{paths.CONFIG}/{entity}"


def _user(name: str) -> str:
    return f"users/{sanitize(name)}"


def _entity_of(child: str, node: Znode) -> str:
    return codecs.decode_config_change(child, node.data)


def _overrides_of(topic: str, node: Znode | None) -> Mapping[str, str]:
    return codecs.decode_config(paths.topic_config(topic), node.data if node else None)


def _rate_of(entity: str, node: Znode | None) -> str | None:
    return codecs.decode_config(_path(entity), node.data if node else None).get(RATE_CONFIG)


def _config_of(entity: str, node: Znode | None) -> ConfigRead:
    if node is None:
        return ConfigRead({}, _MISSING, {})
    path = _path(entity)
    return ConfigRead(codecs.decode_config(path, node.data), node.version, codecs.config_extra(path, node.data))
