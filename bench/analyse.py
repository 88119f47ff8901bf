"""Calculate the figures of an observed run by the definitions of the metrics, and check that the run is valid.

Times are seconds since the transaction that caused the workload, by the time in ZooKeeper's transaction log, rounded
down to milliseconds. These transactions are the creation of ``/controller`` (W3), the end of the broker's session (W1),
its registration (W2), the new topics (W6), the request to delete (W7) or to reassign (W8, W8S). W5 begins with the
broker's ControlledShutdown request.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench import layout
from bench.frames import FrameReader, SentRequest, State
from bench.observe import worst_ms
from bench.prepare import BenchError
from bench.run import GROWING, SLOW, ObservedRun, Plan, Window
from controllerd.core.model import TopicPartition
from controllerd.dev.txnlog import LoggedTransaction
from controllerd.zk import paths

Figures = dict[str, float]
"""Name of a metric to its value: seconds (``_s``), MiB (``_mib``), milliseconds (``_ms``), or a count."""

_NS_PER_MS: Final = 1_000_000
_SHORT: Final = {"LEADER_AND_ISR": "lisr", "UPDATE_METADATA": "um", "STOP_REPLICA": "sr"}
HEADLINES: Final = {
    "W1": "last_request_s", "W2": "last_request_s", "W3": "ready_s", "W5": "rpc_s", "W6": "lisr_s",
    "W7": "gone_s", "W8": "done_s", "W8S": "done_s",
}  # fmt: skip
MODIFYING: Final = frozenset({"create", "setData", "delete"})


class ReceivedRequest(NamedTuple):
    """A decoded control request. ``size`` includes the size field of the frame."""

    broker: int
    at_ns: int
    size: int
    request: SentRequest


@dataclass(frozen=True, slots=True)
class Result:
    """One workload of one run."""

    workload: str
    partitions: int
    slow: str
    figures: Figures
    start_ns: int = 0
    last_ns: int = 0
    """The moments of its cause (``start_ns``) and of its last request."""

    @property
    def headline(self) -> float:
        """The main metric of the workload, in seconds."""
        return self.figures[HEADLINES[self.workload]]


def analyse(watched: ObservedRun) -> list[Result]:
    """Return the figures of every workload of a run. :raises BenchError: the run is not valid."""
    reader = FrameReader()
    received = [ReceivedRequest(a.broker, a.at_ns, len(a.frame) + 4, reader.read(a.frame)) for a in watched.arrived]
    received.sort(key=lambda one: one.at_ns)
    check(watched, received)
    return [_result(watched, window, received) for window in watched.windows]


# -- whether the run is valid ------------------------------------------------------------------------------------------


def check(watched: ObservedRun, received: Iterable[ReceivedRequest]) -> None:
    """Check that the last state of each partition that every stub received is the state in ZooKeeper.

    Two cases are left out: the late stub of W12, and LeaderAndIsr to the broker that was shut down.

    :raises BenchError: a state differs
    """
    metadata, replicas = _last_states(received)
    stopped = {int(layout.VICTIM)} if "W5" in watched.plan.workloads else set()
    for broker in watched.brokers:
        if watched.plan.slow != "none" and broker == SLOW:
            continue
        _compare("UpdateMetadata", broker, metadata[broker], watched.states)
        if broker not in stopped:
            hosted = {tp: s for tp, s in watched.states.items() if broker in watched.replicas[tp]}
            _compare("LeaderAndIsr", broker, replicas[broker], hosted)


_Cache = dict[tuple[str, int], State | None]


def _last_states(received: Iterable[ReceivedRequest]) -> tuple[dict[int, _Cache], dict[int, _Cache]]:
    metadata: dict[int, _Cache] = defaultdict(dict)
    replicas: dict[int, _Cache] = defaultdict(dict)
    for one in received:
        cache = (metadata if one.request.api == "UPDATE_METADATA" else replicas)[one.broker]
        for topic, entries in one.request.entries.items():
            cache.update({(topic, partition): state for partition, state in entries.items()})
    return metadata, replicas


def _compare(api: str, broker: int, cache: _Cache, truth: Mapping[TopicPartition, State]) -> None:
    wrong = [tp for tp, state in truth.items() if cache.get(tp) != state]
    if wrong:
        tp = wrong[0]
        raise BenchError(
            f"the run is not valid: the last {api} to broker {broker} differs from ZooKeeper in "
            f"{len(wrong)} of {len(truth)} partitions, for example {tp}: {cache.get(tp)}, not {truth[tp]}"
        )


# -- figures -----------------------------------------------------------------------------------------------------------


def _result(watched: ObservedRun, window: Window, received: Sequence[ReceivedRequest]) -> Result:
    plan = watched.plan
    transactions = [t for t in watched.logged if window.began_ns <= _at_ns(t, window) + _NS_PER_MS <= window.ended_ns]
    start_ns = _start_ns(window, transactions)
    ours = _controller_session(watched)
    within = [one for one in received if window.began_ns <= one.at_ns <= window.ended_ns]
    others = [one for one in within if plan.slow == "none" or one.broker != SLOW]
    figures = {
        **_times(window, plan, others, start_ns),
        **_zookeeper([t for t in transactions if t.session_id == ours]),
        **_writing([_at_ns(t, window) for t in transactions if t.session_id == ours and _writes_states(t)], start_ns),
        **_ended(window, [t for t in transactions if t.session_id == ours], start_ns),
        "zk_reads": window.zk_reads,
        **_requests(within),
        "cpu_s": window.after.cpu_s - window.before.cpu_s,
        "rss_mib": window.after.rss_mib,
        "zk_cpu_s": window.zk_cpu_s,
        "others": window.others,
        "away_ms": worst_ms(watched.asked, start_ns, window.ended_ns),
        "probe_late_ms": worst_ms(watched.late, start_ns, window.ended_ns),
    }
    last_ns = start_ns + int(figures["last_request_s"] * 1e9)
    size = plan.affected if window.workload in GROWING else plan.partitions
    return Result(window.workload, size, plan.slow, figures, start_ns, last_ns)


def _at_ns(transaction: LoggedTransaction, window: Window) -> int:
    return transaction.time_ms * _NS_PER_MS - window.realtime_ns


def _controller_session(watched: ObservedRun) -> int:
    return next(t.session_id for t in watched.logged if not t.was_refused and _creates(t, paths.CONTROLLER))


def _creates(transaction: LoggedTransaction, path: str) -> bool:
    return any(operation.op == "create" and operation.path == path for operation in transaction.operations)


def _is_cause(workload: str) -> Callable[[LoggedTransaction], bool]:
    match workload:
        case "W3":
            return lambda t: _creates(t, paths.CONTROLLER)
        case "W1":
            return lambda t: any(operation.op == "closeSession" for operation in t.operations)
        case "W2":
            return lambda t: _creates(t, paths.broker(layout.VICTIM))
        case "W7":
            return lambda t: _creates(t, paths.delete_topic(layout.name(layout.OLD, 0)))
        case "W8" | "W8S":
            return lambda t: _creates(t, paths.REASSIGN_PARTITIONS)
        case _:
            return lambda t: _creates(t, paths.topic(layout.name(layout.NEW, 0)))


def _start_ns(window: Window, transactions: Iterable[LoggedTransaction]) -> int:
    """Return the moment in which the workload was caused."""
    if window.workload == "W5":
        return window.began_ns
    is_cause = _is_cause(window.workload)
    causes = (t for t in transactions if not t.was_refused and is_cause(t))
    cause = next(causes, None)
    if cause is None:
        raise BenchError(f"ZooKeeper's log does not hold the cause of {window.workload}")
    return _at_ns(cause, window)


def _times(window: Window, plan: Plan, received: Sequence[ReceivedRequest], start_ns: int) -> Figures:
    def since(moments: Iterable[int]) -> float:
        return (max(moments, default=start_ns) - start_ns) / 1e9

    figures = {
        "first_request_s": (min((one.at_ns for one in received), default=start_ns) - start_ns) / 1e9,
        "last_request_s": since(one.at_ns for one in received),
    }
    match window.workload:
        case "W3":
            figures["ready_s"] = since(_full_metadata(received, plan.partitions).values())
        case "W1":
            figures |= _leaderless([(at - start_ns) / 1e9 for at in _new_leader_moments(received)], plan)
        case "W5":
            figures["rpc_s"] = since([window.answered_ns])
        case "W6":
            figures["lisr_s"] = since(one.at_ns for one in received if one.request.api == "LEADER_AND_ISR")
        case _:
            pass
    return figures


def _full_metadata(received: Iterable[ReceivedRequest], partitions: int) -> dict[int, int]:
    """Return the moment in which each broker had received every partition by UpdateMetadata."""
    known: dict[int, set[tuple[str, int]]] = defaultdict(set)
    moments: dict[int, int] = {}
    for one in received:
        if one.request.api == "UPDATE_METADATA" and one.broker not in moments and one.request.named:
            seen = known[one.broker]
            seen.update((topic, p) for topic, entries in one.request.entries.items() for p in entries)
            if len(seen) >= partitions:
                moments[one.broker] = one.at_ns
    return moments


def _new_leader_moments(received: Iterable[ReceivedRequest]) -> Iterator[int]:
    """Yield, for each partition that the failed broker led, when its new leader received LeaderAndIsr."""
    counted: set[tuple[str, int]] = set()
    for one in received:
        if one.request.api != "LEADER_AND_ISR":
            continue
        for topic, entries in one.request.entries.items():
            for partition, state in entries.items():
                is_new_leader = state is not None and state.leader == one.broker and _led_by_victim(partition)
                if is_new_leader and (topic, partition) not in counted:
                    counted.add((topic, partition))
                    yield one.at_ns


def _led_by_victim(partition: int) -> bool:
    return layout.replicas(partition)[0] == layout.VICTIM


def _leaderless(times: list[float], plan: Plan) -> Figures:
    led = plan.partitions // layout.BROKERS
    if plan.slow == "none" and len(times) != led:
        raise BenchError(f"the run is not valid: {len(times)} of {led} partitions got a new leader")
    return {
        "leaders_s": max(times),
        "leaders_p50_s": statistics.median(times),
        "partition_seconds": sum(times),
    }


def _zookeeper(transactions: Sequence[LoggedTransaction]) -> Figures:
    operations = [o for t in transactions for o in t.operations if o.op in MODIFYING]
    return {
        "zk_transactions": len([t for t in transactions if t.operations and t.operations[0].op != "closeSession"]),
        "zk_operations": len(operations),
        "zk_log_bytes": sum(t.size for t in transactions),
    }


def _writes_states(transaction: LoggedTransaction) -> bool:
    return any(o.op in MODIFYING and o.path.endswith("/state") for o in transaction.operations)


def _writing(moments: Sequence[int], start_ns: int) -> Figures:
    """Return when ZooKeeper received the first and the last write of partition states."""
    if not moments:
        return {}
    return {"first_write_s": (min(moments) - start_ns) / 1e9, "last_write_s": (max(moments) - start_ns) / 1e9}


def _ended(window: Window, transactions: Sequence[LoggedTransaction], start_ns: int) -> Figures:
    """Return the time until the last topic was deleted (W7), or until no reassignment was left (W8), by the znodes."""
    ends = {"W7": ("gone_s", "delete"), "W8": ("done_s", "setData"), "W8S": ("done_s", "setData")}
    if window.workload not in ends:
        return {}
    name, op = ends[window.workload]
    moments = [
        _at_ns(t, window)
        for t in transactions
        if any(o.op == "delete" or (o.op == op and paths.topic(paths.parse_topic(o.path) or "") == o.path)
               for o in t.operations)
    ]  # fmt: skip
    rewrites = [o for t in transactions for o in t.operations if o.op == "setData" and o.path.count("/") == 3]
    return {
        name: (max(moments, default=start_ns) - start_ns) / 1e9,
        "topic_writes": len([o for o in rewrites if paths.parse_topic(o.path) is not None]),
    }


def _requests(received: Iterable[ReceivedRequest]) -> Figures:
    requests: Counter[str] = Counter()
    size: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    for one in received:
        api = _SHORT[one.request.api]
        requests[api] += 1
        size[api] += one.size
        entries[api] += one.request.named
    return {
        "requests": requests.total(),
        "request_bytes": size.total(),
        **{f"requests_{api}": requests[api] for api in _SHORT.values()},
        **{f"entries_{api}": entries[api] for api in _SHORT.values()},
        **{f"bytes_{api}": size[api] for api in _SHORT.values()},
    }
