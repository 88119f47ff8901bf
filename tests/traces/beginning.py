"""How a scenario begins, as transactions: what brokers create, and the znodes that the trace starts with."""

from collections.abc import Iterator, Mapping
from typing import Final

from controllerd.zk.access import ANY_VERSION, Create, Delete, Operation, SetData
from controllerd.zk.paths import PERSISTENT_PATHS
from tests.traces.format import Json, Op, Trace
from tests.traces.observe import EPOCH_PATH, raw_data
from tests.traces.symbols import Symbols

IDS: Final = "/brokers/ids/"
FIRST_EPOCH: Final = 4
"""Controller epoch before anything happens; our controller wins the next one."""
_BY_FIRST_BROKER: Final[Mapping[str, Json]] = {
    **dict.fromkeys(PERSISTENT_PATHS),
    "/latest_producer_id_block": None,
    "/feature": {"features": {}, "version": 2, "status": 1},
}
"""What the first broker of a cluster creates when it starts, and the first controller."""


def symbols_of(trace: Trace, node_id: int) -> Symbols:
    """The symbols of a run that begins with ``beginning``; ports and registrations are bound as they come."""
    epoch = FIRST_EPOCH if trace.starts_deposed else FIRST_EPOCH + 1
    return Symbols(trace, node_id, epoch, trace.initial[EPOCH_PATH].version)


def beginning(trace: Trace, symbols: Symbols) -> list[Operation]:
    """What makes an empty ZooKeeper look like the beginning of the trace, but for registrations and ``/controller``.

    If it is our controller that leads at the beginning, its election brings ``/controller_epoch`` to its version.
    """
    wanted: dict[str, tuple[Json, int]] = {path: (data, 0) for path, data in _BY_FIRST_BROKER.items()}
    for path, znode in trace.initial.items():
        if not path.startswith((IDS, "/controller")):
            wanted[path] = (znode.data, znode.version)
    version = trace.initial[EPOCH_PATH].version
    wanted[EPOCH_PATH] = (str(FIRST_EPOCH), version if trace.starts_deposed else version - 1)
    return list(_operations(wanted, symbols))


def _operations(wanted: Mapping[str, tuple[Json, int]], symbols: Symbols) -> Iterator[Operation]:
    parents = {path[:end] for path in wanted for end in range(1, len(path)) if path[end] == "/"}
    for path in sorted({*wanted, *parents}):
        form, version = wanted.get(path, (None, 0))
        data = raw_data(form, symbols)
        yield Create(path, data)
        yield from (SetData(path, data or b"", ANY_VERSION) for _ in range(version))


def operation_of(op: Op, symbols: Symbols) -> Operation:
    """What a stub or a tester writes."""
    expect = ANY_VERSION if op.expect is None else symbols.resolve(op.expect)
    match op.op:
        case "create":
            return Create(op.path, raw_data(op.data, symbols), op.ephemeral)
        case "setData":
            return SetData(op.path, raw_data(op.data, symbols) or b"", expect)
        case _:
            return Delete(op.path, expect)


def unlike_beginning(trace: Trace, znodes: Mapping[str, Json]) -> list[str]:
    """Topics that are not as the trace begins: the start of our controller must not have written to them."""
    return [
        f"{path}: {znodes.get(path)} instead of {znode}"
        for path, znode in trace.initial.items()
        if path.startswith(("/brokers/topics/", EPOCH_PATH)) and znodes.get(path) != znode
    ]
