"""Partition state znodes, read and written by the hundred thousand."""

from collections.abc import Iterable, Mapping, Sequence

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.errors import BadZnode
from controllerd.ports import StatesRead, WriteResult
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Node, Operation, SetData, ZooKeeper
from controllerd.zk.writer import FencedWriter

_QUOTES_OF_KNOWN_FIELDS = frozenset({10, 12})
"""All known fields are numbers, so a state that says nothing else has two quotation marks for each of its 5 or 6."""


class StateZnodes:
    """``ports.StateStore`` over ZooKeeper."""

    _zk: ZooKeeper
    _writer: FencedWriter
    _state_extras: dict[TopicPartition, Mapping[str, object]]
    """Unknown fields of states that were read, so that they survive a rewrite. Hardly ever is there one."""

    async def read_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """The state znodes of these partitions; one that cannot be understood concerns its partition alone."""
        wanted = list(dict.fromkeys(partitions))
        nodes = await self._zk.read([paths.partition_state(tp) for tp in wanted])
        states: dict[TopicPartition, LeaderAndIsr] = {}
        missing: set[TopicPartition] = set()
        broken: dict[TopicPartition, BadZnode] = {}
        for tp, node in zip(wanted, nodes, strict=True):
            if node is None:
                missing.add(tp)
                continue
            try:
                states[tp] = codecs.decode_state(tp, node.data, node.version)
                self._keep_extra(tp, node)
            except BadZnode as error:
                broken[tp] = error
        return StatesRead(states, frozenset(missing), broken)

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Create the state znodes with those of their parents that are missing.

        A state that exists already with the very same content is our own, whose answer was lost: ``Written``.
        """
        parents = await self._missing_parents(states)
        operations: list[Operation] = [Create(path, None) for path in parents]
        operations += [Create(paths.partition_state(tp), codecs.encode_state(state)) for tp, state in states.items()]
        results = await self._writer.write(operations)
        return dict(zip(states, results[len(parents) :], strict=True))

    async def update_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Write state znodes, each on the condition that its version is ``partition_epoch``."""
        operations = [
            SetData(
                paths.partition_state(tp),
                codecs.encode_state(state, self._state_extras.get(tp)),
                state.partition_epoch,
            )
            for tp, state in states.items()
        ]
        return dict(zip(states, await self._writer.write(operations), strict=True))

    async def _missing_parents(self, partitions: Iterable[TopicPartition]) -> Sequence[str]:
        """Parents to create, each before what is below it."""
        wanted: dict[str, None] = {}
        for tp in partitions:
            wanted[paths.topic_partitions(tp.topic)] = None
            wanted[paths.partition(tp)] = None
        nodes = await self._zk.read(list(wanted))
        return [path for path, node in zip(wanted, nodes, strict=True) if node is None]

    def _keep_extra(self, tp: TopicPartition, node: Node) -> None:
        data = node.data or b""
        extra = {} if data.count(b'"') in _QUOTES_OF_KNOWN_FIELDS else codecs.state_extra(tp, data)
        if extra:
            self._state_extras[tp] = extra
        elif self._state_extras:
            self._state_extras.pop(tp, None)
