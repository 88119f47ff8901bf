"""The bodies of control requests, and the parts that their encoders and decoders share.

A body may have megabytes. It is encoded in steps, so that the event loop is not blocked, and kept in blocks that are
never copied. The sender writes one block after the other and waits in between, so that a socket buffers one block only.

LeaderAndIsr and UpdateMetadata have the same partition states: a start, the ISR, the partition epoch, and a rest that
is equal for partitions with the same replicas. A template for each combination of ISR and rest therefore packs a state
in one call. Responses to LeaderAndIsr (below version 5) and StopReplica have an error for each named partition.
"""

import struct
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.errors import IllegalState
from controllerd.slicer import Slicer
from wire.primitives import Cursor, Format

BLOCK_BYTES: Final = 64 * 1024
ROWS_PER_STEP: Final = 1_000
"""Partitions between two checks of the clock: about a millisecond of work."""


class Blocks:
    """Bytes that are encoded in pieces of any size.

    Several tasks may wait for them: each encodes pieces, and no piece is encoded twice.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """A piece may be empty: a step of the work was done, and its bytes come with a later piece."""
        self._pieces = iter(pieces)
        self._small: list[bytes] = []
        self._size = 0
        self._blocks: list[bytes] = []
        self._has_failed = False
        """Whether making a piece raised: a later caller must not take a part of the body for all of it."""

    def step(self) -> bool:
        """Encode one piece; return False if none is left."""
        if self._has_failed:
            raise IllegalState("a body that could not be made was asked for again")
        self._has_failed = True
        piece = next(self._pieces, None)
        self._has_failed = False
        if piece:
            self._small.append(piece)
            self._size += len(piece)
        if self._small and (piece is None or self._size >= BLOCK_BYTES):
            self._blocks.append(b"".join(self._small))
            self._small, self._size = [], 0
        return piece is not None

    def complete(self) -> tuple[bytes, ...]:
        """Return all blocks, made at once."""
        while self.step():
            pass
        return tuple(self._blocks)

    async def complete_in_turns(self, slicer: Slicer | None = None) -> tuple[bytes, ...]:
        """Return all blocks, made with turns for the event loop in between."""
        slicer = slicer or Slicer()
        while self.step():
            await slicer.yield_to_loop()
        return tuple(self._blocks)


Pack = Callable[[int, int, int, int, bytes, int, bytes], bytes]
"""Partition, controller epoch, leader, leader epoch, ISR, partition epoch and rest to the bytes of a state."""

K = TypeVar("K", bound=Hashable)

_MOST_TEMPLATES: Final = 10_000


class Templates(dict[K, tuple[Pack, bytes, bytes]]):
    """Templates by the key that ISR and rest follow from."""

    def __init__(self, encode: Callable[[K], tuple[bytes, bytes]]) -> None:
        """``encode`` gives the ISR and the rest."""
        super().__init__()
        self._encode = encode

    def __missing__(self, key: K) -> tuple[Pack, bytes, bytes]:
        if len(self) >= _MOST_TEMPLATES:
            self.clear()
        isr, rest = self._encode(key)
        template = self[key] = (struct.Struct(f">iiii{len(isr)}si{len(rest)}s").pack, isr, rest)
        return template


class ByTopic:
    """Packed states by topic, in the order of the first state of each topic: an array of topics, or of states."""

    def __init__(self, form: Format, *, grouped: bool) -> None:
        """``grouped``: states are grouped by topic; in old versions each state contains its topic."""
        self._form = form
        self._grouped = grouped
        self._runs: dict[str, list[bytes]] = {}
        self._counts: dict[str, int] = {}

    def add(self, topic: str, states: list[bytes]) -> None:
        """Add states of a topic, after its earlier ones."""
        name = b"" if self._grouped else self._form.string(topic)
        self._runs.setdefault(topic, []).append(name + name.join(states))
        self._counts[topic] = self._counts.get(topic, 0) + len(states)

    def array(self, head: Callable[[str], bytes]) -> Iterator[bytes]:
        """Encode the array; ``head`` returns the bytes before the states of a topic, if they are grouped."""
        form = self._form
        if self._grouped:
            yield form.count(len(self._runs))
            for topic, runs in self._runs.items():
                yield b"".join((head(topic), form.count(self._counts[topic]), *runs, form.tags))
        else:
            yield form.count(sum(self._counts.values()))
            for runs in self._runs.values():
                yield from runs


_GROWTH: Final = 8
"""The factor by which the number of rows read at once grows while all are of one topic: their order is arbitrary."""
_BY_CODE: Final = {error.value: error for error in KafkaError}


def error_of(code: int) -> KafkaError:
    """Return the error of a code; an unknown code becomes UNKNOWN_SERVER_ERROR."""
    return _BY_CODE.get(code, KafkaError.UNKNOWN_SERVER_ERROR)


def read_named_errors(cursor: Cursor) -> Generator[None, None, dict[TopicPartition, KafkaError]]:
    """An array of (topic, partition, error code), in steps. :raises MalformedMessage: it does not follow the schema."""
    errors = {}
    left = cursor.count()
    pause_at = left - ROWS_PER_STEP
    while left:
        before = cursor.offset
        topic = cursor.string()
        name = cursor.since(before)
        tp = TopicPartition(topic, cursor.int32())
        errors[tp] = error_of(cursor.int16())
        cursor.skip_tags()
        run = [*_same_topic(cursor, name, min(left - 1, ROWS_PER_STEP))]
        errors.update((TopicPartition(topic, partition), error_of(code)) for partition, code in run)
        left -= 1 + len(run)
        if left <= pause_at:
            pause_at = left - ROWS_PER_STEP
            yield
    return errors


def _same_topic(cursor: Cursor, name: bytes, most: int) -> Iterator[tuple[int, int]]:
    """Read the following rows with the same topic and without tags, all of one size: 100,000 rows need few calls."""
    row, no_tags = _row(len(name), len(cursor.tags)), cursor.tags
    at_once = 1
    while whole := len(rows := cursor.peek(row.size * min(most, at_once))) // row.size:
        for found, partition, code, tags in row.iter_unpack(rows[: whole * row.size]):
            if found != name or tags != no_tags:
                return
            cursor.take(row.size)
            yield partition, code
        most -= whole
        at_once *= _GROWTH


@lru_cache
def _row(name: int, tags: int) -> struct.Struct:
    """A row whose topic takes so many bytes, its length included."""
    return struct.Struct(f">{name}sih{tags}s")
