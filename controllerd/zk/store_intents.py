"""What the controller keeps of operators' wishes in znodes of its own, and configurations that it changes for others.

Our own znodes have one writer, the active controller; they are read and compared all the same, because a znode that
nobody understands may say what must not be lost.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from controllerd.core.mutation_quota import sanitize
from controllerd.core.pauses import PausesRead
from controllerd.core.throttles import Throttle
from controllerd.errors import BadZnode
from controllerd.pace import Pace
from controllerd.results import ConfigRead, WriteResult, Written
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Delete, Node, Operation, SetData, ZooKeeper
from controllerd.zk.reading import missing_parents, read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

T = TypeVar("T")

_MISSING: Final = -1
_SLICE: Final = 1_000


class IntentZnodes:
    """The part of ``ports.AdminStore`` that is about operators' wishes and configurations."""

    _zk: ZooKeeper
    _writer: FencedWriter
    _rejections: Rejections

    # -- ours --------------------------------------------------------------------------------------------------------

    async def read_pauses(self) -> PausesRead:
        """The pauses. :raises BadZnode: they cannot be understood."""
        return await self._own(paths.PAUSES, codecs.decode_pauses) or PausesRead()

    async def write_pauses(self, pauses: PausesRead) -> None:
        """Replace the pauses; without any the znode goes. :raises BadZnode: it is left as it is."""
        data = codecs.encode_pauses(pauses) if pauses.pauses else None
        await self._replace(paths.PAUSES, codecs.decode_pauses, data)

    async def read_throttle(self) -> Throttle | None:
        """The throttle that some controller set and has to take away. :raises BadZnode: it cannot be understood."""
        return await self._own(paths.THROTTLE, codecs.decode_throttle)

    async def write_throttle(self, throttle: Throttle | None) -> None:
        """Replace what is remembered; None forgets it. :raises BadZnode: it is left as it is."""
        data = codecs.encode_throttle(throttle) if throttle is not None else None
        await self._replace(paths.THROTTLE, codecs.decode_throttle, data)

    async def _own(self, path: str, decode: Callable[[bytes | None], T]) -> T | None:
        (node,) = await self._zk.read([path])
        with self._rejections.judging(node):
            return decode(node.data) if node is not None else None

    async def _replace(self, path: str, decode: Callable[[bytes | None], object], data: bytes | None) -> None:
        """:raises BadZnode: what is there cannot be understood, or ZooKeeper refuses."""
        (node,) = await self._zk.read([path])
        operations: list[Operation] = []
        if node is not None:
            with self._rejections.judging(node):
                decode(node.data)
            operations = [Delete(path, node.version) if data is None else SetData(path, data, node.version)]
        elif data is not None:
            operations = [*await missing_parents(self._zk, path.rpartition("/")[0]), Create(path, data)]
        for result in await self._writer.write(operations):
            if not isinstance(result, Written):
                raise BadZnode(path, result.reason)

    # -- configurations ----------------------------------------------------------------------------------------------

    async def read_configs(self, entities: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """The configurations of entities below ``/config``; or why one cannot be understood."""
        configs: dict[str, ConfigRead | BadZnode] = {}

        def take(part: Sequence[str], nodes: Sequence[Node | None]) -> None:
            for entity, node in zip(part, nodes, strict=True):
                try:
                    configs[entity] = _config_of(_path(entity), node)
                except BadZnode as error:
                    configs[entity] = error
                    self._rejections.note(error, node)

        await read_in_slices(list(entities), _SLICE, self._read_config_nodes, take)
        return configs

    async def write_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write the configurations of entities, each with the notification by which brokers notice."""
        groups: list[list[Operation]] = []
        pace = Pace()
        for entity, (config, version, extra) in configs.items():
            path, data = _path(entity), codecs.encode_config(config, extra)
            written = Create(path, data) if version == _MISSING else SetData(path, data, version)
            told = Create(paths.CONFIG_CHANGE_PREFIX, codecs.encode_config_change(entity), sequential=True)
            groups.append([written, told])
            await pace.breathe()
        return dict(zip(configs, await self._writer.write_groups(groups), strict=True))

    async def read_user_configs(self, users: Iterable[str]) -> Mapping[str, ConfigRead | BadZnode]:
        """The configurations of users; or why one cannot be understood."""
        entities = {user: _user(user) for user in users}
        read = await self.read_configs(entities.values())
        return {user: read[entity] for user, entity in entities.items()}

    async def write_user_configs(self, configs: Mapping[str, ConfigRead]) -> Mapping[str, WriteResult]:
        """Write the configurations of users."""
        written = await self.write_configs({_user(user): config for user, config in configs.items()})
        return dict(zip(configs, written.values(), strict=True))

    async def _read_config_nodes(self, entities: Sequence[str]) -> list[Node | None]:
        return await self._zk.read(list(map(_path, entities)))


def _path(entity: str) -> str:
    return f"{paths.CONFIG}/{entity}"


def _user(name: str) -> str:
    return f"users/{sanitize(name)}"


def _config_of(path: str, node: Node | None) -> ConfigRead:
    """:raises BadZnode: it cannot be understood."""
    if node is None:
        return ConfigRead({}, _MISSING, {})
    return ConfigRead(codecs.decode_config(path, node.data), node.version, codecs.config_extra(path, node.data))
