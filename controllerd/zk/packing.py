"""The operations of one call of the fenced writer: how they are packed, and what an answer means for each of them."""

from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from typing import Final

from controllerd.errors import ControllerMoved
from controllerd.pace import Pace, sliced
from controllerd.results import Conflict, WriteFailed, WriteResult, Written
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
"""Which operations go into one transaction."""


class Work:
    """The operations of one call and what is known of each. Lists, because there may be 100,000."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._sizes: list[int] = []
        self.results: list[WriteResult | None] = [None] * len(operations)

    async def weigh(self) -> None:
        """Look how large each is, before anything else; what is too large has failed."""
        pace = Pace()
        for part in sliced(self._operations, _WEIGHED_AT_ONCE):
            first = len(self._sizes)
            self._sizes += map(size_of, part)
            for index, size in enumerate(self._sizes[first:], first):
                if size > MAX_SINGLE_BYTES:
                    self.results[index] = WriteFailed(_TOO_LARGE.format(size))
            await pace.breathe()

    def of(self, chunk: Chunk) -> list[Operation]:
        """The operations of a chunk."""
        return [self._operations[index] for index in chunk]

    def pending(self) -> list[int]:
        """Those without a result."""
        return [index for index, result in enumerate(self.results) if result is None]

    def chunks(self, pending: Chunk, size: int) -> Generator[Chunk, None, None]:
        """At most ``size`` operations and about ``MAX_BYTES`` each, in order."""
        chunk: list[int] = []
        room = MAX_BYTES
        for index in pending:
            weight = self._sizes[index]
            if chunk and (len(chunk) >= size or weight > room):
                yield chunk
                chunk, room = [], MAX_BYTES
            chunk.append(index)
            room -= weight
        if chunk:
            yield chunk

    def settle(self, chunk: Chunk, outcome: Outcome) -> None:
        """Note what an answer says of the operations of its transaction."""
        if isinstance(outcome, Committed):
            for index, version in zip(chunk, outcome.versions[1:], strict=True):
                self.results[index] = written(version)
        elif isinstance(outcome, Aborted):
            self._settle_aborted(chunk, outcome)

    def _settle_aborted(self, chunk: Chunk, outcome: Aborted) -> None:
        _raise_if_fenced(outcome)
        if outcome.failed < 0:
            for index in chunk:
                self.results[index] = WriteFailed(code_name(outcome.code))
        elif outcome.code not in CONFLICT_CODES:
            self.results[chunk[outcome.failed - 1]] = WriteFailed(code_name(outcome.code))

    def settle_lost(self, chunk: Chunk, nodes: Sequence[Node | None]) -> list[WriteResult | None]:
        """The answer was lost: what the znodes tell of each operation; those without a result are sent again."""
        for index, operation, node in zip(chunk, self.of(chunk), nodes, strict=True):
            self.results[index] = effect_of(operation, node) or conflict_of(operation, node)
        return [self.results[index] for index in chunk]

    def settle_read(self, chunk: Chunk, nodes: Sequence[Node | None], *, final: bool) -> None:
        """The transaction was refused: report what somebody else moved; with ``final`` whatever is left as well."""
        for index, operation, node in zip(chunk, self.of(chunk), nodes, strict=True):
            result = conflict_of(operation, node)
            self.results[index] = _REFUSED if final and result is None else result


class GroupWork:
    """The same for groups of operations: each is done as a whole or not at all, in one transaction.

    A group's result is that of its last operation, or of the first that stood in the way.
    """

    def __init__(self, groups: Sequence[Sequence[Operation]]) -> None:
        self._groups = groups
        self._sizes: list[int] = []
        self.results: list[WriteResult | None] = [None] * len(groups)

    async def weigh(self) -> None:
        """Look how large each group is; what is too large has failed."""
        pace = Pace()
        for index, group in enumerate(self._groups):
            self._sizes.append(sum(map(size_of, group)))
            if self._sizes[index] > MAX_SINGLE_BYTES:
                self.results[index] = WriteFailed(_TOO_LARGE.format(self._sizes[index]))
            await pace.breathe()

    def of(self, chunk: Chunk) -> list[Operation]:
        """The operations of the groups of a chunk."""
        return [operation for index in chunk for operation in self._groups[index]]

    def pending(self) -> list[int]:
        """The groups without a result."""
        return [index for index, result in enumerate(self.results) if result is None]

    def chunks(self, pending: Chunk, size: int) -> Generator[Chunk, None, None]:
        """Whole groups: at most ``size`` operations and about ``MAX_BYTES``, but at least one group."""
        chunk: list[int] = []
        left, room = size, MAX_BYTES
        for index in pending:
            count, weight = len(self._groups[index]), self._sizes[index]
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
            last = 0
            for index in chunk:
                last += len(self._groups[index])
                self.results[index] = written(outcome.versions[last])
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
        """The answer was lost: a group took effect if its last znode that has a name of its own looks like it."""
        told: list[WriteResult | None] = []
        for index, group, found in self._with_nodes(chunk, nodes):
            last = max(at for at, operation in enumerate(group) if not _is_numbered(operation))
            operation, node = group[last], found[last]
            effect = written(node.version) if node is not None and _shows(operation, node) else None
            self.results[index] = effect or _first_conflict(group, found)
            versions = [written(node.version if node is not None else ANY_VERSION) for node in found]
            told += versions if effect else [self.results[index]] * len(group)
        return told

    def settle_read(self, chunk: Chunk, nodes: Sequence[Node | None], *, final: bool) -> None:
        """The transaction was refused: report the groups of which somebody else moved something."""
        for index, group, found in self._with_nodes(chunk, nodes):
            self.results[index] = _first_conflict(group, found) or (_REFUSED if final else None)

    def _with_nodes(
        self, chunk: Chunk, nodes: Sequence[Node | None]
    ) -> Iterator[tuple[int, Sequence[Operation], Sequence[Node | None]]]:
        first = 0
        for index in chunk:
            group = self._groups[index]
            yield index, group, nodes[first : first + len(group)]
            first += len(group)


def _raise_if_fenced(outcome: Aborted) -> None:
    if outcome.failed == 0:
        reason = f"{code_name(outcome.code)}, another controller has the role"
        raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: {reason}")


def _is_numbered(operation: Operation) -> bool:
    """Whether ZooKeeper chooses the name, so that nobody can read the znode back."""
    return isinstance(operation, Create) and operation.sequential


def _shows(operation: Operation, node: Node) -> bool:
    if isinstance(operation, Create):
        return node.data == operation.data
    return effect_of(operation, node) is not None


def _first_conflict(group: Sequence[Operation], nodes: Sequence[Node | None]) -> Conflict | None:
    """What somebody else moved. Unlike for single operations nothing counts as done: the rest of the group is not."""
    for operation, node in zip(group, nodes, strict=True):
        if isinstance(operation, Create):
            if node is not None and not operation.sequential:
                return Conflict(f"{operation.path}: the znode exists already")
        elif node is None:
            return Conflict(f"{operation.path}: the znode is gone")
        elif conflict := _version_conflict(operation.version, node):
            return Conflict(f"{operation.path}: {conflict.reason}")
    return None


@lru_cache
def written(version: int) -> Written:
    return Written(version)


def size_of(operation: Operation) -> int:
    """Bytes in a request, about."""
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
    """What a znode that was read after a failure means for the operation; None: it may be sent again."""
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
