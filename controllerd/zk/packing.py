"""The operations of one call of the fenced writer: how they are packed, and what an answer means for each."""

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
    Check,
    Committed,
    Create,
    Delete,
    Node,
    Operation,
    Outcome,
    SetData,
    code_name,
)

MAX_OPERATIONS: Final = 500
MAX_BYTES: Final = 512 * 1024
_WEIGHED_AT_ONCE: Final = 5_000
MAX_SINGLE_BYTES: Final = 1_000_000
"""What one request may weigh: a little below ZooKeeper's default ``jute.maxbuffer``, beyond which it hangs up."""
_OVERHEAD: Final = 60
"""Bytes of an operation besides its path and its data: header, lengths, version or ACL."""
_TOO_LARGE: Final = "{} bytes are more than ZooKeeper takes in one request"
_REFUSED: Final = Conflict("refused, though the znode itself has not moved")

Chunk = Sequence[int]
"""Which groups go into one transaction."""


class Judgement(NamedTuple):
    """What the znodes of a group, read after a failure, mean for it."""

    effect: Callable[[Sequence[Operation], Sequence[Node | None]], Written | None]
    """Whether the group took effect, for a group whose answer was lost."""
    obstacle: Callable[[Sequence[Operation], Sequence[Node | None]], WriteResult | None]
    """The result of a group that may not be sent again; None if it may."""


class Work:
    """The operations of one call, in groups, and what is known of each group. Lists, because there may be 100,000.

    A group is done as a whole or not at all, in one transaction. Its result is that of its last operation, or of the
    first operation that stood in the way. An independent operation is a group of one. Only the judgement differs: an
    independent Create of a znode that exists with the very same data counts as done, and so does an independent Delete
    of a znode that is gone. In a group nothing counts as done, because the rest of the group is not.
    """

    def __init__(self, groups: Sequence[Sequence[Operation]], judgement: Judgement) -> None:
        self._groups = groups
        self._counts = list(map(len, groups))
        self._judgement = judgement
        self._sizes: list[int] = []
        self.results: list[WriteResult | None] = [None] * len(groups)

    async def weigh(self) -> None:
        """Look how large each group is, before anything is sent; a group that is too large has failed."""
        slicer = Slicer()
        for part in sliced(self._groups, _WEIGHED_AT_ONCE):
            first = len(self._sizes)
            flat = list(chain.from_iterable(part))
            is_alone = len(flat) == len(part)
            self._sizes += map(size_of, flat) if is_alone else [sum(map(size_of, group)) for group in part]
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

    def settle(self, chunk: Chunk, outcome: Outcome) -> None:
        """Note what an answer says of the groups of its transaction."""
        if isinstance(outcome, Committed):
            # The fence is the first operation of the transaction.
            for index, end in zip(chunk, accumulate(map(self._counts.__getitem__, chunk)), strict=True):
                self.results[index] = written(outcome.versions[end])
        elif isinstance(outcome, Aborted):
            self._settle_aborted(chunk, outcome)

    def _settle_aborted(self, chunk: Chunk, outcome: Aborted) -> None:
        _raise_if_fenced(outcome)
        if outcome.failed < 0:
            for index in chunk:
                self.results[index] = WriteFailed(code_name(outcome.code))
        elif outcome.code not in CONFLICT_CODES:
            owners = [index for index in chunk for _ in self._groups[index]]
            self.results[owners[outcome.failed - 1]] = WriteFailed(code_name(outcome.code))

    def settle_lost(self, chunk: Chunk, nodes: Sequence[Node | None]) -> list[WriteResult | None]:
        """Judge groups whose answer was lost by their znodes; return the result of each operation for the audit log.

        A group without a result is sent again.
        """
        of_operations: list[WriteResult | None] = []
        for index, group, found in self._with_nodes(chunk, nodes):
            effect = self._judgement.effect(group, found)
            self.results[index] = effect or self._judgement.obstacle(group, found)
            versions = [written(node.version if node is not None else ANY_VERSION) for node in found]
            of_operations += versions if effect else [self.results[index]] * len(group)
        return of_operations

    def settle_read(self, chunk: Chunk, nodes: Sequence[Node | None], *, final: bool) -> None:
        """The transaction was refused: report what another client moved; with ``final`` all other groups as well."""
        for index, group, found in self._with_nodes(chunk, nodes):
            self.results[index] = self._judgement.obstacle(group, found) or (_REFUSED if final else None)

    def _with_nodes(
        self, chunk: Chunk, nodes: Sequence[Node | None]
    ) -> Iterator[tuple[int, Sequence[Operation], Sequence[Node | None]]]:
        first = 0
        for index in chunk:
            group = self._groups[index]
            yield index, group, nodes[first : first + len(group)]
            first += len(group)


def each_alone(operations: Sequence[Operation]) -> Work:
    """Return the work of independent operations."""
    return Work([(operation,) for operation in operations], _ALONE)


def as_wholes(groups: Sequence[Sequence[Operation]]) -> Work:
    """Return the work of groups that are done as a whole or not at all."""
    return Work(groups, _WHOLE)


def _raise_if_fenced(outcome: Aborted) -> None:
    if outcome.failed == 0:
        reason = f"{code_name(outcome.code)}, another controller has the role"
        raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: {reason}")


def _effect_alone(group: Sequence[Operation], nodes: Sequence[Node | None]) -> Written | None:
    return effect_of(group[0], nodes[0])


def _obstacle_alone(group: Sequence[Operation], nodes: Sequence[Node | None]) -> WriteResult | None:
    return conflict_of(group[0], nodes[0])


def _effect_of_group(group: Sequence[Operation], nodes: Sequence[Node | None]) -> Written | None:
    """A group took effect if its last znode that has a name of its own looks like it."""
    last = max(at for at, operation in enumerate(group) if not _is_numbered(operation))
    operation, node = group[last], nodes[last]
    return written(node.version) if node is not None and _shows(operation, node) else None


def _is_numbered(operation: Operation) -> bool:
    """Whether ZooKeeper chooses the name, so that the znode cannot be read back."""
    return isinstance(operation, Create) and operation.sequential


def _shows(operation: Operation, node: Node) -> bool:
    if isinstance(operation, Create):
        return node.data == operation.data
    return effect_of(operation, node) is not None


def _first_conflict(group: Sequence[Operation], nodes: Sequence[Node | None]) -> Conflict | None:
    """Return what another client moved."""
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


def effect_of(operation: Operation, node: Node | None) -> Written | None:
    """Whether the znode looks exactly as our operation leaves it; for operations whose answer was lost."""
    if isinstance(operation, SetData) and node is not None and node.data == operation.data:
        is_next = operation.version in {ANY_VERSION, node.version - 1}
        return Written(node.version) if is_next else None
    return None


def conflict_of(operation: Operation, node: Node | None) -> WriteResult | None:
    """Return what a znode that was read after a failure means for an operation; None: it may be sent again."""
    match operation:
        case Create():
            return _created_already(operation, node) if node is not None else None
        case Delete():
            return Written(ANY_VERSION) if node is None else _version_conflict(operation.version, node)
        case SetData() | Check():
            return Conflict("the znode is gone") if node is None else _version_conflict(operation.version, node)


def _created_already(operation: Create, node: Node) -> WriteResult:
    if node.data == operation.data and not operation.ephemeral:
        return Written(node.version)
    return Conflict("the znode exists already")


def _version_conflict(expected: int, node: Node) -> Conflict | None:
    if expected in {ANY_VERSION, node.version}:
        return None
    return Conflict(f"version {node.version} instead of {expected}")
