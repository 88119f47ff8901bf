"""The operations of one call of the fenced writer: how they are packed, and the result of each by the answer."""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Final, NamedTuple

from controllerd.errors import ControllerMoved
from controllerd.ports.results import Conflict, WriteFailed, WriteResult, Written
from controllerd.slicer import Slicer, sliced
from controllerd.zk import paths
from controllerd.zk.access import (
    ANY_VERSION,
    CONFLICT_CODES,
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Operation,
    SetData,
    TransactionOutcome,
    Znode,
    code_name,
)

MAX_OPERATIONS: Final = 500
MAX_BYTES: Final = 512 * 1024
_WEIGHED_AT_ONCE: Final = 5_000
MAX_SINGLE_BYTES: Final = 1_000_000
"""Bytes of one request: a little below ZooKeeper's default ``jute.maxbuffer``, above which it closes the connection."""
_OVERHEAD: Final = 60
"""Bytes of an operation besides its path and its data: header, lengths, version or ACL."""
_TOO_LARGE: Final = "{} bytes are more than ZooKeeper accepts in one request"
_REFUSED: Final = Conflict("refused, though the znode itself did not change")

Chunk = Sequence[int]
"""The groups of one transaction, by index."""


class Judgement(NamedTuple):
    """Two functions that judge a group by its znodes, read after a failure."""

    effect: Callable[[Sequence[Operation], Sequence[Znode | None]], Written | None]
    """The result if the group took effect, for a group with a lost reply; None if it did not."""
    obstacle: Callable[[Sequence[Operation], Sequence[Znode | None]], WriteResult | None]
    """The result of a group that must not be sent again; None if it may be."""


class Work:
    """The operations of one call, in groups, and the result of each group as far as it is known.

    A group is carried out as a whole or not at all, in one transaction. Its result is that of its last operation, or of
    the first operation that was refused. An independent operation is a group of one. Only the judgement differs: an
    independent Create of a znode that exists with the very same data counts as written, and so does an independent
    Delete of a znode that is gone. Neither counts in a group, because the rest of the group was not written.
    Everything is a list by index, because there may be 100,000 groups.
    """

    def __init__(self, groups: Sequence[Sequence[Operation]], judgement: Judgement) -> None:
        self._groups = groups
        self._counts = list(map(len, groups))
        self._judgement = judgement
        self._sizes: list[int] = []
        self.results: list[WriteResult | None] = [None] * len(groups)

    async def weigh(self) -> None:
        """Compute the bytes of each group before anything is sent; a group that is too large fails."""
        slicer = Slicer()
        for part in sliced(self._groups, _WEIGHED_AT_ONCE):
            first = len(self._sizes)
            if self._counts[first : first + len(part)].count(1) == len(part):  # each group is one operation
                self._sizes += map(size_of, chain.from_iterable(part))
            else:
                self._sizes += [sum(map(size_of, group)) for group in part]
            if max(self._sizes[first:]) > MAX_SINGLE_BYTES:
                self._refuse_too_large(first)
            await slicer.yield_to_loop()

    def _refuse_too_large(self, first: int) -> None:
        for index, size in enumerate(self._sizes[first:], first):
            if size > MAX_SINGLE_BYTES:
                self.results[index] = WriteFailed(_TOO_LARGE.format(size))

    def of(self, chunk: Chunk) -> list[Operation]:
        """Return the operations of the groups of a chunk."""
        return list(chain.from_iterable(map(self._groups.__getitem__, chunk)))

    def pending(self) -> list[int]:
        """Return the groups without a result."""
        return [index for index, result in enumerate(self.results) if result is None]

    def chunks(self, pending: Chunk, size: int) -> Generator[Chunk, None, None]:
        """Yield whole groups in order: at most ``size`` operations and about ``MAX_BYTES``, but at least one group."""
        chunk: list[int] = []
        left, room = size, MAX_BYTES
        for index in pending:
            count, weight = self._counts[index], self._sizes[index]
            if chunk and (count > left or weight > room):
                yield chunk
                chunk, left, room = [], size, MAX_BYTES
            chunk.append(index)
            left, room = left - count, room - weight
        if chunk:
            yield chunk

    def settle(self, chunk: Chunk, outcome: TransactionOutcome) -> None:
        """Note the results of the groups of a transaction that was answered."""
        if isinstance(outcome, Committed):
            # The fence is the first operation of the transaction.
            for index, end in zip(chunk, accumulate(map(self._counts.__getitem__, chunk)), strict=True):
                self.results[index] = written(outcome.versions[end])
        elif isinstance(outcome, Aborted):
            self._settle_aborted(chunk, outcome)

    def _settle_aborted(self, chunk: Chunk, outcome: Aborted) -> None:
        """Note the failures that are final. Groups that only met a conflict get no result: their znodes are read."""
        _raise_if_fenced(outcome)
        if outcome.failed < 0:  # the server refused the request as a whole
            for index in chunk:
                self.results[index] = WriteFailed(code_name(outcome.code))
        elif outcome.code not in CONFLICT_CODES:
            group_of_operation = [index for index in chunk for _ in self._groups[index]]
            # The fence is the first operation of the transaction.
            self.results[group_of_operation[outcome.failed - 1]] = WriteFailed(code_name(outcome.code))

    def settle_lost(self, chunk: Chunk, nodes: Sequence[Znode | None]) -> list[WriteResult | None]:
        """Judge groups with a lost reply by their znodes; return the result of each operation for the audit log.

        A group without a result is sent again.
        """
        of_operations: list[WriteResult | None] = []
        for index, group, found in self._with_nodes(chunk, nodes):
            effect = self._judgement.effect(group, found)
            self.results[index] = effect or self._judgement.obstacle(group, found)
            versions = [written(node.version if node is not None else ANY_VERSION) for node in found]
            of_operations += versions if effect else [self.results[index]] * len(group)
        return of_operations

    def settle_read(self, chunk: Chunk, nodes: Sequence[Znode | None], *, final: bool) -> None:
        """Judge groups of a refused transaction by their znodes.

        A group with a znode that another client changed gets its result; with ``final`` every group gets one.
        """
        for index, group, found in self._with_nodes(chunk, nodes):
            self.results[index] = self._judgement.obstacle(group, found) or (_REFUSED if final else None)

    def _with_nodes(
        self, chunk: Chunk, nodes: Sequence[Znode | None]
    ) -> Iterator[tuple[int, Sequence[Operation], Sequence[Znode | None]]]:
        first = 0
        for index in chunk:
            group = self._groups[index]
            yield index, group, nodes[first : first + len(group)]
            first += len(group)


def each_alone(operations: Sequence[Operation]) -> Work:
    """Return the work of independent operations."""
    return Work([(operation,) for operation in operations], _ALONE)


def as_wholes(groups: Sequence[Sequence[Operation]]) -> Work:
    """Return the work of groups that are carried out as a whole or not at all."""
    return Work(groups, _WHOLE)


def _raise_if_fenced(outcome: Aborted) -> None:
    if outcome.failed == 0:
        reason = f"{code_name(outcome.code)}, another controller has the role"
        raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: {reason}")


def _effect_alone(group: Sequence[Operation], nodes: Sequence[Znode | None]) -> Written | None:
    (operation,), (node,) = group, nodes
    return effect_of(operation, node)


def _obstacle_alone(group: Sequence[Operation], nodes: Sequence[Znode | None]) -> WriteResult | None:
    (operation,), (node,) = group, nodes
    return conflict_of(operation, node)


def _effect_of_group(group: Sequence[Operation], nodes: Sequence[Znode | None]) -> Written | None:
    """Judge a group by its last znode, apart from sequential ones, whose names are not known."""
    last = max(index for index, operation in enumerate(group) if not _is_sequential(operation))
    operation, node = group[last], nodes[last]
    return written(node.version) if node is not None and _is_effect(operation, node) else None


def _is_sequential(operation: Operation) -> bool:
    """Whether ZooKeeper appends a number to the name, so that the znode cannot be read back."""
    return isinstance(operation, Create) and operation.sequential


def _is_effect(operation: Operation, node: Znode) -> bool:
    if isinstance(operation, Create):
        return node.data == operation.data
    return effect_of(operation, node) is not None


def _first_conflict(group: Sequence[Operation], nodes: Sequence[Znode | None]) -> Conflict | None:
    """Return the conflict of the first operation whose znode another client changed; None if there is none."""
    for operation, node in zip(group, nodes, strict=True):
        if isinstance(operation, Create):
            if node is not None and not operation.sequential:
                return Conflict(f"{operation.path}: the znode exists already")
        elif node is None:
            return Conflict(f"{operation.path}: the znode is gone")
        elif conflict := _version_conflict(operation.version, node):
            return Conflict(f"{operation.path}: {conflict.reason}")
    return None


_ALONE: Final = Judgement(_effect_alone, _obstacle_alone)
_WHOLE: Final = Judgement(_effect_of_group, _first_conflict)


@lru_cache
def written(version: int) -> Written:
    return Written(version)


def size_of(operation: Operation) -> int:
    """Return about how many bytes an operation has in a request."""
    path = operation.path
    length = len(path) if path.isascii() else len(path.encode())
    return length + len(getattr(operation, "data", None) or b"") + _OVERHEAD


def effect_of(operation: Operation, node: Znode | None) -> Written | None:
    """Return the result if the znode is as the operation leaves it, for an operation with a lost reply; else None."""
    if isinstance(operation, SetData) and node is not None and node.data == operation.data:
        is_next = operation.version in {ANY_VERSION, node.version - 1}
        return Written(node.version) if is_next else None
    return None


def conflict_of(operation: Operation, node: Znode | None) -> WriteResult | None:
    """Return the result of an operation by its znode, read after a failure; None if it may be sent again."""
    match operation:
        case Create():
            return _created_already(operation, node) if node is not None else None
        case Delete():
            return Written(ANY_VERSION) if node is None else _version_conflict(operation.version, node)
        case SetData() | CheckVersion():
            return Conflict("the znode is gone") if node is None else _version_conflict(operation.version, node)


def _created_already(operation: Create, node: Znode) -> WriteResult:
    if node.data == operation.data and not operation.ephemeral:
        return Written(node.version)
    return Conflict("the znode exists already")


def _version_conflict(expected: int, node: Znode) -> Conflict | None:
    if expected in {ANY_VERSION, node.version}:
        return None
    return Conflict(f"version {node.version} instead of {expected}")
