"""The state at the start of a scenario, as transactions: the znodes of the brokers and of the trace."""

from collections.abc import Iterator, Mapping
from typing import Final

from controllerd.core.cluster_settings import Policy
from controllerd.core.model import NO_LEADER
from controllerd.zk.access import ANY_VERSION, Create, Delete, Operation, SetData
from controllerd.zk.paths import PERSISTENT_PATHS
from tests.traces.format import Json, Op, Trace, TraceZnode
from tests.traces.observe import EPOCH_PATH, raw_data
from tests.traces.symbols import Symbols

IDS: Final = "/brokers/ids/"
FIRST_EPOCH: Final = 4
"""The controller epoch before the scenario; our controller wins the next one."""
_BY_FIRST_BROKER: Final[Mapping[str, Json]] = {
    **dict.fromkeys(PERSISTENT_PATHS),
    "/latest_producer_id_block": None,
    "/feature": {"features": {}, "version": 2, "status": 1},
}
"""The znodes that the first broker of a cluster and the first controller create at their start."""


def symbols_of(trace: Trace, node_id: int) -> Symbols:
    """The symbols of a run that begins with ``beginning``; ports and registrations are bound as they come."""
    epoch = FIRST_EPOCH if trace.starts_deposed else FIRST_EPOCH + 1
    return Symbols(trace, node_id, epoch, trace.initial[EPOCH_PATH].version)


def policy_of(trace: Trace) -> Policy:
    """The controller's settings in the trace; the imbalance of leaders is checked as often as possible."""
    is_balanced = trace.config.get("auto.leader.rebalance.enable") != "false"
    return Policy(auto_leader_rebalance_enable=is_balanced, leader_imbalance_check_interval_s=1.0)


def beginning(trace: Trace, symbols: Symbols) -> list[Operation]:
    """The transactions from an empty ZooKeeper to the start of the trace, without registrations and ``/controller``.

    If our controller leads at the start, its election brings ``/controller_epoch`` to its version; and
    a reassignment that is under way is resumed then, with the next leader epoch.
    """
    wanted: dict[str, tuple[Json, int]] = {path: (data, 0) for path, data in _BY_FIRST_BROKER.items()}
    for path, znode in trace.initial.items():
        if not path.startswith((IDS, "/controller")):
            wanted[path] = (znode.data, znode.version)
    for path in _states_under_reassignment(trace):
        state, version = wanted[path]
        wanted[path] = ({**state, "leader_epoch": state["leader_epoch"] - 1}, version - 1)
    wanted.update(_when_still_led(trace))
    version = trace.initial[EPOCH_PATH].version
    wanted[EPOCH_PATH] = (str(FIRST_EPOCH), version if trace.starts_deposed else version - 1)
    return list(_operations(wanted, symbols))


def dying(trace: Trace) -> tuple[int, ...]:
    """Brokers that died under the controller before the trace begins, so that partitions have no leader.

    A controller that is elected after the death would take the dead out of their ISRs once more.
    """
    return tuple(sorted({znode.data["isr"][0] for znode in _leaderless(trace).values()}))


def _leaderless(trace: Trace) -> Mapping[str, TraceZnode]:
    states = {path: znode for path, znode in trace.initial.items() if path.endswith("/state")}
    return {path: znode for path, znode in states.items() if znode.data["leader"] == NO_LEADER}


def _when_still_led(trace: Trace) -> dict[str, tuple[Json, int]]:
    """The states of partitions without leader before their leaders died."""
    return {
        path: (data | {"leader": data["isr"][0], "leader_epoch": data["leader_epoch"] - 1}, version - 1)
        for path, (data, version) in ((path, (found.data, found.version)) for path, found in _leaderless(trace).items())
    }


def _states_under_reassignment(trace: Trace) -> list[str]:
    if trace.starts_deposed:
        return []
    return [
        f"{path}/partitions/{partition}/state"
        for path, znode in trace.initial.items()
        if isinstance(znode.data, dict)
        for partition in {**znode.data.get("adding_replicas", {}), **znode.data.get("removing_replicas", {})}
    ]


def _operations(wanted: Mapping[str, tuple[Json, int]], symbols: Symbols) -> Iterator[Operation]:
    parents = {path[:end] for path in wanted for end in range(1, len(path)) if path[end] == "/"}
    for path in sorted({*wanted, *parents}):
        form, version = wanted.get(path, (None, 0))
        data = raw_data(form, symbols)
        yield Create(path, data)
        yield from (SetData(path, data or b"", ANY_VERSION) for _ in range(version))


def operation_of(op: Op, symbols: Symbols) -> Operation:
    """The operation of a stub or a tester."""
    expect = ANY_VERSION if op.expect is None else symbols.resolve(op.expect)
    match op.op:
        case "create":
            return Create(op.path, raw_data(op.data, symbols), op.ephemeral)
        case "setData":
            return SetData(op.path, raw_data(op.data, symbols) or b"", expect)
        case _:
            return Delete(op.path, expect)


def unlike_beginning(trace: Trace, znodes: Mapping[str, Json]) -> list[str]:
    """Topics that differ from the start of the trace: the start of our controller must not have written to them."""
    return [
        f"{path}: {znodes.get(path)} instead of {znode}"
        for path, znode in trace.initial.items()
        if path.startswith(("/brokers/topics/", EPOCH_PATH)) and znodes.get(path) != znode
    ]
