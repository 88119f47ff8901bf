"""Control requests as records of the audit log: brokers that get an equal body share one record. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypeVar

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    api_name,
)
from controllerd.record.records import MAX_ROWS, Record, RequestRecord

T = TypeVar("T")

_ORDER: Final[Mapping[type[ControlRequest], int]] = {
    LeaderAndIsrRequest: 0,
    UpdateMetadataRequest: 1,
    StopReplicaRequest: 2,
}


def request_records(
    requests: Sequence[tuple[BrokerId, ControlRequest]], *, names_partitions: bool = True
) -> Iterator[Record]:
    """Make the records of the requests of a flush. Brokers with an equal body share a record.

    Without ``names_partitions``, the records of LeaderAndIsr and UpdateMetadata only count their partitions.

    Each broker's order stays exact. A flush has one or more rounds. In a round a broker gets at most one LeaderAndIsr,
    UpdateMetadata and StopReplica, in this order, so records ordered by round and API are in order for every broker.
    The records are made one by one, so that the caller may yield to the event loop between them.
    """
    steps: dict[tuple[int, int], list[_Shared]] = {}
    last: dict[BrokerId, tuple[int, int]] = {}
    for broker, request in requests:
        step = last[broker] = _next_step(last.get(broker), _ORDER[type(request)])
        _share(steps.setdefault(step, []), broker, request)
    for step in sorted(steps):
        for shared in steps[step]:
            yield from shared.records(names_partitions=names_partitions)


def _next_step(last: tuple[int, int] | None, order: int) -> tuple[int, int]:
    """The round and the order within it of a broker's next request, after the step of its last one."""
    if last is None:
        return 0, order
    return (last[0], order) if order > last[1] else (last[0] + 1, order)


class _Shared:
    """One body, and the brokers to which it is sent."""

    def __init__(self, request: ControlRequest) -> None:
        self.request = request
        self.brokers: list[BrokerId] = []
        self.broker_epochs: list[int] = []

    def records(self, *, names_partitions: bool) -> Iterator[Record]:
        match self.request:
            case LeaderAndIsrRequest() | UpdateMetadataRequest() if not names_partitions:
                return iter([_unnamed(self, self.request)])
            case LeaderAndIsrRequest():
                return _leader_and_isr(self, self.request)
            case UpdateMetadataRequest():
                return _update_metadata(self, self.request)
            case StopReplicaRequest():
                return _stop_replica(self, self.request)


def _share(present: list[_Shared], broker: BrokerId, request: ControlRequest) -> None:
    shared = next((shared for shared in present if _same_body(shared.request, request)), None)
    if shared is None:
        shared = _Shared(request)
        present.append(shared)
    shared.brokers.append(broker)
    shared.broker_epochs.append(request.broker_epoch)


def _same_body(one: ControlRequest, other: ControlRequest) -> bool:
    if one.controller_epoch != other.controller_epoch:
        return False
    if isinstance(one, UpdateMetadataRequest) and isinstance(other, UpdateMetadataRequest):
        return one.body is other.body
    if isinstance(one, LeaderAndIsrRequest) and isinstance(other, LeaderAndIsrRequest):
        return one.partitions == other.partitions
    if isinstance(one, StopReplicaRequest) and isinstance(other, StopReplicaRequest):
        return one.partitions == other.partitions
    return False


def _unnamed(shared: _Shared, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> Record:
    live = _live(request) if isinstance(request, UpdateMetadataRequest) else []
    record = _request(shared, (), ([], [], []), live_brokers=live, continues=False)
    return _with_unnamed(record, request, 0)


def _with_unnamed(record: RequestRecord, request: ControlRequest, named: int) -> RequestRecord:
    """The record with the number of partitions of the request that it does not name."""
    body = request.body if isinstance(request, UpdateMetadataRequest) else request
    if len(body.partitions) <= named:
        return record
    led = _led(record.brokers, request, named) if isinstance(request, LeaderAndIsrRequest) else []
    return replace(record, unnamed=len(body.partitions) - named, led=led)


def _led(brokers: Sequence[int], request: LeaderAndIsrRequest, named: int) -> list[int]:
    """The number of the unnamed partitions that each broker leads."""
    leaders = Counter([state[0] for state, _, _ in islice(request.partitions.values(), named, None)])
    return [leaders[BrokerId(broker)] for broker in brokers]


def _live(request: UpdateMetadataRequest) -> list[int]:
    return [broker.id for broker in request.body.live_brokers]


def _leader_and_isr(shared: _Shared, request: LeaderAndIsrRequest) -> Iterator[Record]:
    for continues, partitions, entries in _parts(request.partitions):
        states, _, is_new = _columns(entries, 3)
        record = _request(shared, partitions, _epochs(states), is_new=list(is_new), continues=continues)
        yield record if continues else _with_unnamed(record, request, MAX_ROWS)


def _update_metadata(shared: _Shared, request: UpdateMetadataRequest) -> Iterator[Record]:
    live = _live(request)
    for continues, partitions, entries in _parts(request.body.partitions):
        states, _, _ = _columns(entries, 3)
        record = _request(shared, partitions, _epochs(states), live_brokers=live, continues=continues)
        yield record if continues else _with_unnamed(record, request, MAX_ROWS)


def _stop_replica(shared: _Shared, request: StopReplicaRequest) -> Iterator[Record]:
    for continues, partitions, entries in _parts(request.partitions):
        epochs, delete = _columns(entries, 2)
        record = _request(shared, partitions, ([], list(epochs), []), delete=list(delete), continues=continues)
        yield record if continues else _with_unnamed(record, request, MAX_ROWS)


def _parts(partitions: Mapping[TopicPartition, T]) -> Iterator[tuple[bool, Sequence[TopicPartition], Sequence[T]]]:
    """The rows in slices, each with whether it continues the previous one. No partitions give one empty slice."""
    keys, entries = iter(partitions), iter(partitions.values())
    for start in range(0, max(len(partitions), 1), MAX_ROWS):
        yield start > 0, list(islice(keys, MAX_ROWS)), list(islice(entries, MAX_ROWS))


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Sequence[Sequence[Any]]:
    """Rows of ``width`` fields as columns. A flush may have 400,000 rows."""
    return list(zip(*rows, strict=True)) or [()] * width


def _epochs(states: Sequence[LeaderAndIsr]) -> tuple[list[int], list[int], list[int]]:
    """Leaders, leader epochs and partition epochs."""
    leaders, leader_epochs, _, _, partition_epochs, _ = _columns(states, 6)
    return list(leaders), list(leader_epochs), list(partition_epochs)


def _request(
    shared: _Shared,
    partitions: Sequence[TopicPartition],
    epochs: tuple[list[int], list[int], list[int]],
    *,
    live_brokers: list[int] | None = None,
    delete: list[bool] | None = None,
    is_new: list[bool] | None = None,
    continues: bool,
) -> RequestRecord:
    leaders, leader_epochs, partition_epochs = epochs
    topics, numbers = _columns(partitions, 2)
    return RequestRecord(
        api_name(shared.request),
        shared.request.controller_epoch,
        list(shared.brokers),
        shared.broker_epochs,
        list(topics),
        list(numbers),
        leaders,
        leader_epochs,
        partition_epochs,
        live_brokers or [],
        delete or [],
        is_new or [],
        continues,
    )
