"""Recorded traces for an observer: an image before each step, and one after the controller's reaction."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controllerd.zk.access import Create, Delete, Operation, Znode
from controllerd.zk.image import ClusterImage, read_image
from tests.fakes.world import NODE_ID
from tests.fakes.zookeeper import FakeZooKeeper, Tree
from tests.traces.beginning import FIRST_EPOCH, IDS, operation_of
from tests.traces.format import Trace, TraceStep, ZkLine, load
from tests.traces.observe import EPOCH_PATH, raw_data
from tests.traces.symbols import Symbols

_PARENTS: Final = ("/brokers", "/brokers/ids", "/brokers/topics", "/config", "/config/topics", "/config/changes")
_NOTIFIED: Final = ("/isr_change_notification", "/log_dir_event_notification", "/admin")


@dataclass(frozen=True)
class Seen:
    """The images before and after one step of a trace."""

    before: ClusterImage
    after: ClusterImage


class Recording:
    """A tree that takes the states of the trace step by step."""

    def __init__(self, scenario: str) -> None:
        self.trace: Trace = load(scenario)
        self.symbols = Symbols(self.trace, NODE_ID, FIRST_EPOCH, self.trace.initial[EPOCH_PATH].version)
        self.tree = Tree()
        self._ports()
        for path in (*_PARENTS, *_NOTIFIED):
            self.tree.put(path)
        for path, znode in self.trace.initial.items():
            self._begin_with(path, raw_data(znode.data, self.symbols), self._number(znode.version))

    def _number(self, version: object) -> int:
        number = self.symbols.resolve(version)
        assert isinstance(number, int)
        return number

    def _begin_with(self, path: str, data: bytes | None, version: int) -> None:
        if path == f"{IDS}CTRL":  # the recorded controller was a broker; this one has no registration
            return
        if path not in self.tree.nodes:
            self.tree.put(path, data)
        czxid = self.tree.nodes[path].czxid
        self.tree.nodes[path] = Znode(data, version, czxid)
        if path.startswith(IDS):
            self.symbols.bind_registration(int(path.removeprefix(IDS)), czxid)

    def _ports(self) -> None:
        self.symbols.bind_port("port(CTRL)", 7)
        for broker in self.trace.brokers:
            self.symbols.bind_port(f"port({broker})", 9000 + broker)
            self.symbols.bind_port(f"port({broker})'", 9100 + broker)

    async def steps(self) -> list[Seen]:
        """Every step with its two images."""
        found = []
        for step in self.trace.steps:
            before = await self._read()
            for line in _in_order(step):
                self._apply(line)
            found.append(Seen(before, await self._read()))
        return found

    async def _read(self) -> ClusterImage:
        return await read_image(FakeZooKeeper(self.tree, 99))

    def _apply(self, line: ZkLine) -> None:
        if any(op.error for op in line.ops):
            return
        operations: list[Operation] = [Delete(path) for path in line.deletes]
        operations += [operation_of(op, self.symbols) for op in line.ops if op.op != "check"]
        for operation in operations:
            self.tree.outsider(operation)
            if isinstance(operation, Create) and operation.path.startswith(IDS):
                broker = int(operation.path.removeprefix(IDS))
                self.symbols.bind_registration(broker, self.tree.nodes[operation.path].czxid)


def _in_order(step: TraceStep) -> Iterator[ZkLine]:
    """All writes in the order of the recording."""
    yield from sorted((*step.foreign, *step.writes), key=lambda line: line.number)
