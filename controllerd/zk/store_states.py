"""Partition state znodes, read and written by the hundred thousand."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.errors import BadZnode
from controllerd.guards import WriteGuard
from controllerd.pace import Pace, sliced
from controllerd.results import StatesRead, WriteResult
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Node, Operation, SetData, ZooKeeper
from controllerd.zk.reading import read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_SLICE: Final = 500
"""States in one read: one request of ZooKeeper's."""
_KNOWN_STATES: Final = 10_000

_Read = Callable[[Sequence[TopicPartition]], Awaitable[list[Node | None]]]


class _PlainStates(dict[tuple[bytes | None, int], LeaderAndIsr | None]):
    """Decoded states by their bytes and version: few differ, and equal ones share their memory. None: look closer."""

    latest_epoch = 0
    """The highest controller epoch that any of them names."""

    def __missing__(self, znode: tuple[bytes | None, int]) -> LeaderAndIsr | None:
        state = codecs.decode_plain_state(*znode)
        if state is not None:
            self.saw(state)
        if len(self) < _KNOWN_STATES:
            self[znode] = state
        return state

    def saw(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Note the controller epoch of a state."""
        self.latest_epoch = max(self.latest_epoch, state.controller_epoch)
        return state


class StateZnodes:
    """``ports.StateStore`` over ZooKeeper."""

    _zk: ZooKeeper
    _writer: FencedWriter
    _guard: WriteGuard | None
    _rejections: Rejections
    _state_extras: dict[TopicPartition, Mapping[str, object]]
    """Unknown fields of states that were read, so that they survive a rewrite. Hardly ever is there one."""

    async def read_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """The state znodes of these partitions; one that cannot be understood concerns its partition alone.

        :raises ControllerMoved: one was written by a later controller, and the role is that one's now.
        """
        return await self._read_states(partitions, self._read_state_nodes)

    async def _read_states(self, partitions: Iterable[TopicPartition], read: _Read) -> StatesRead:
        states: dict[TopicPartition, LeaderAndIsr] = {}
        missing: set[TopicPartition] = set()
        broken: dict[TopicPartition, BadZnode] = {}
        plain = _PlainStates()

        def take(part: Sequence[TopicPartition], nodes: Sequence[Node | None]) -> None:
            self._forget_extras(part)
            for tp, node in zip(part, nodes, strict=True):
                if node is None:
                    missing.add(tp)
                    continue
                try:
                    states[tp] = plain[node[:2]] or plain.saw(self._look_closer(tp, node))
                except BadZnode as error:
                    broken[tp] = error
                    self._rejections.note(error, node)

        await read_in_slices(list(dict.fromkeys(partitions)), _SLICE, read, take)
        await self._writer.heard_of(plain.latest_epoch)
        return StatesRead(states, frozenset(missing), broken)

    async def watch_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """As ``read_states``, with a watch on the data of each."""
        return await self._read_states(partitions, self._watch_state_nodes)

    async def _read_state_nodes(self, partitions: Sequence[TopicPartition]) -> list[Node | None]:
        return await self._zk.read(paths.partition_states(partitions))

    async def _watch_state_nodes(self, partitions: Sequence[TopicPartition]) -> list[Node | None]:
        return await self._zk.read_and_watch(paths.partition_states(partitions))

    def _forget_extras(self, partitions: Iterable[TopicPartition]) -> None:
        if self._state_extras:
            for tp in partitions:
                self._state_extras.pop(tp, None)

    def _look_closer(self, tp: TopicPartition, node: Node) -> LeaderAndIsr:
        state = codecs.decode_state(tp, node.data, node.version)
        if extra := codecs.state_extra(tp, node.data or b""):
            self._state_extras[tp] = extra
        return state

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Create the state znodes with those of their parents that are missing.

        A state that exists already with the very same content is our own, whose answer was lost: ``Written``.
        """
        parents = await self._missing_parents(states)
        pace = Pace()
        operations: list[Operation] = []
        for some in sliced(parents, _SLICE):
            operations += [Create(path, None) for path in some]
            await pace.breathe()
        for part in sliced(list(states.items()), _SLICE):
            if self._guard is not None:
                self._guard.check_new_states(part)
            paths_of_part = paths.partition_states(tp for tp, _ in part)
            encoded = (codecs.encode_state(state) for _, state in part)
            operations += map(Create, paths_of_part, encoded)
            await pace.breathe()
        results = await self._writer.write(operations)
        return dict(zip(states, results[len(parents) :], strict=True))

    async def update_states(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        *,
        by_leaders: bool = False,
        unclean: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, WriteResult]:
        """Write state znodes, each on the condition that its version is ``partition_epoch``."""
        operations: list[Operation] = []
        pace, extras = Pace(), self._state_extras
        for part in sliced(list(states.items()), _SLICE):
            if self._guard is not None:
                self._guard.check_states(part, by_leaders=by_leaders, unclean=unclean)
            paths_of_part = paths.partition_states(tp for tp, _ in part)
            operations += [
                SetData(path, codecs.encode_state(state, extras.get(tp) if extras else None), state.partition_epoch)
                for path, (tp, state) in zip(paths_of_part, part, strict=True)
            ]
            await pace.breathe()
        return dict(zip(states, await self._writer.write(operations), strict=True))

    async def _missing_parents(self, partitions: Collection[TopicPartition]) -> Sequence[str]:
        """Parents to create, each before what is below it. Below one that is missing, nothing need be looked for."""
        parent_of = {topic: paths.topic_partitions(topic) for topic in dict.fromkeys(tp.topic for tp in partitions)}
        topics, pace = list(parent_of.values()), Pace()
        fresh = set(await self._missing(topics))
        wanted: dict[str, str] = {}
        for part in sliced(list(partitions), _SLICE):
            wanted.update((paths.partition(tp), parent_of[tp.topic]) for tp in part)
            await pace.breathe()
        known = [path for path, parent in wanted.items() if parent not in fresh]
        missing = set(await self._missing(known))
        return [
            *(path for path in topics if path in fresh),
            *(path for path, parent in wanted.items() if parent in fresh or path in missing),
        ]

    async def _missing(self, znodes: Sequence[str]) -> list[str]:
        nodes = await self._zk.read(znodes) if znodes else []
        return [path for path, node in zip(znodes, nodes, strict=True) if node is None]
