"""Partition state znodes, read and written by the hundred thousand."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.errors import BadZnode
from controllerd.ports.results import StatesRead, WriteResult
from controllerd.ports.states import StateGuard
from controllerd.slicer import Slicer, sliced
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Operation, SetData, Znode, ZooKeeper, read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_SLICE: Final = 500
"""States in one read, which is one request to ZooKeeper."""
_KNOWN_STATES: Final = 10_000

_Read = Callable[[Sequence[TopicPartition]], Awaitable[list[Znode | None]]]


class _PlainStates(dict[tuple[bytes | None, int], LeaderAndIsr | None]):
    """Decoded states by bytes and version: few of them differ, and equal states share their memory.

    The value is None for a state with fields that the plain decoder does not know.
    """

    latest_epoch = 0
    """The highest controller epoch in any of the states."""

    def __missing__(self, znode: tuple[bytes | None, int]) -> LeaderAndIsr | None:
        state = codecs.decode_plain_state(*znode)
        if state is not None:
            self.note_epoch(state)
        if len(self) < _KNOWN_STATES:
            self[znode] = state
        return state

    def note_epoch(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Take the controller epoch of a state into account, and return the state."""
        self.latest_epoch = max(self.latest_epoch, state.controller_epoch)
        return state


class StateZnodes:
    """``ports.states.StateStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections
        self.guard: StateGuard | None = None
        """Checks states before they are written."""
        self._state_extras: dict[TopicPartition, Mapping[str, object]] = {}
        """The unknown fields of states that were read, which a rewrite must keep. They are very rare."""

    async def read_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """Read the state znodes of these partitions; one that cannot be decoded concerns its partition alone.

        :raises ControllerMoved: a later controller wrote one of them, and has the role now.
        """
        return await self._read_states(partitions, self._read_state_nodes)

    async def _read_states(self, partitions: Iterable[TopicPartition], read: _Read) -> StatesRead:
        states: dict[TopicPartition, LeaderAndIsr] = {}
        missing: set[TopicPartition] = set()
        broken: dict[TopicPartition, BadZnode] = {}
        plain = _PlainStates()

        def take(part: Sequence[TopicPartition], nodes: Sequence[Znode | None]) -> None:
            self._forget_extras(part)
            for tp, node in zip(part, nodes, strict=True):  # the hot loop of a load: fields by number
                if node is None:
                    missing.add(tp)
                    continue
                try:
                    states[tp] = plain[node[:2]] or plain.note_epoch(self._decode_fully(tp, node))
                except BadZnode as error:
                    broken[tp] = error
                    self._rejections.note(error, node)

        await read_in_slices(list(dict.fromkeys(partitions)), _SLICE, read, take)
        await self._writer.check_epoch(plain.latest_epoch)
        return StatesRead(states, frozenset(missing), broken)

    async def watch_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """As ``read_states``, with a watch on the data of each."""
        return await self._read_states(partitions, self._watch_state_nodes)

    async def _read_state_nodes(self, partitions: Sequence[TopicPartition]) -> list[Znode | None]:
        return await self._zk.read(paths.partition_states(partitions))

    async def _watch_state_nodes(self, partitions: Sequence[TopicPartition]) -> list[Znode | None]:
        return await self._zk.read_and_watch(paths.partition_states(partitions))

    def _forget_extras(self, partitions: Iterable[TopicPartition]) -> None:
        if self._state_extras:
            for tp in partitions:
                self._state_extras.pop(tp, None)

    def _decode_fully(self, tp: TopicPartition, node: Znode) -> LeaderAndIsr:
        state = codecs.decode_state(tp, node.data, node.version)
        if extra := codecs.state_extra(tp, node.data or b""):
            self._state_extras[tp] = extra
        return state

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Create the state znodes and their missing parents.

        A state that exists already with the very same content is our own, written before a lost reply: ``Written``.
        """
        parents = await self._missing_parents(states)
        slicer = Slicer()
        operations: list[Operation] = []
        for some in sliced(parents, _SLICE):
            operations += [Create(path, None) for path in some]
            await slicer.yield_to_loop()
        for part in sliced(list(states.items()), _SLICE):
            if self.guard is not None:
                self.guard.check_new_states(part)
            paths_of_part = paths.partition_states(tp for tp, _ in part)
            encoded = (codecs.encode_state(state) for _, state in part)
            operations += map(Create, paths_of_part, encoded)
            await slicer.yield_to_loop()
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
        slicer, extras = Slicer(), self._state_extras
        for part in sliced(list(states.items()), _SLICE):
            if self.guard is not None:
                self.guard.check_states(part, by_leaders=by_leaders, unclean=unclean)
            paths_of_part = paths.partition_states(tp for tp, _ in part)
            operations += [
                SetData(path, codecs.encode_state(state, extras.get(tp) if extras else None), state.partition_epoch)
                for path, (tp, state) in zip(paths_of_part, part, strict=True)
            ]
            await slicer.yield_to_loop()
        return dict(zip(states, await self._writer.write(operations), strict=True))

    async def _missing_parents(self, partitions: Collection[TopicPartition]) -> Sequence[str]:
        """Return the missing parents, those of topics first. Below a missing parent no znode is read."""
        parent_of = {topic: paths.topic_partitions(topic) for topic in dict.fromkeys(tp.topic for tp in partitions)}
        topics, slicer = list(parent_of.values()), Slicer()
        fresh = set(await self._missing(topics))
        wanted: dict[str, str] = {}
        for part in sliced(list(partitions), _SLICE):
            wanted.update((paths.partition(tp), parent_of[tp.topic]) for tp in part)
            await slicer.yield_to_loop()
        known = [path for path, parent in wanted.items() if parent not in fresh]
        missing = set(await self._missing(known))
        return [
            *(path for path in topics if path in fresh),
            *(path for path, parent in wanted.items() if parent in fresh or path in missing),
        ]

    async def _missing(self, znodes: Sequence[str]) -> list[str]:
        nodes = await self._zk.read(znodes) if znodes else []
        return [path for path, node in zip(znodes, nodes, strict=True) if node is None]
