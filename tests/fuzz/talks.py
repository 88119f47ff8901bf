"""Conversations by seed: frames on one connection, and the ways in which clients bring bytes to a server."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from tests.fuzz.frames import Frame, Maker
from tests.fuzz.judge import LIMITS
from tests.fuzz.other_protocols import foreign_bytes
from tests.fuzz.spoil import Expect
from tests.fuzz.values import Facts

_SMALL: Final = 300
"""Frames up to so many bytes are also sent byte by byte."""
_PIECES: Final = 6
_MOST_RISKY: Final = 2


class Way(Enum):
    """The way in which the bytes are sent, and in which the client reads the answers."""

    TURNS = "one frame, one answer"
    GLUED = "all frames at once"
    BYTES = "single bytes"
    PIECES = "pieces that end anywhere"
    SLOW = "all at once, answers are read late"
    DEAF = "all at once, then gone without a look"
    HALF = "the last frame is cut off, then gone"
    HALF_OPEN = "all at once and the end of the stream, answers are read"
    FOREIGN = "another protocol"


_WAYS: Final = (
    *[Way.TURNS] * 8, *[Way.GLUED] * 4, *[Way.PIECES] * 2,
    Way.BYTES, Way.SLOW, Way.DEAF, Way.HALF, Way.HALF_OPEN, Way.FOREIGN,
)  # fmt: skip


@dataclass(frozen=True)
class Conversation:
    """The whole conversation of one client on one connection."""

    way: Way
    over_socket: bool
    frames: tuple[Frame, ...]
    chunks: tuple[bytes, ...]
    """The bytes in the pieces in which they are sent; with turns, one piece for each frame."""

    @property
    def stream(self) -> bytes:
        """All bytes of the conversation."""
        return b"".join(self.chunks)

    def expected(self) -> dict[bytes, Expect]:
        """The allowed reactions to each content; the strictest counts where a content occurs twice."""
        found: dict[bytes, Expect] = {}
        for frame in self.frames:
            found[frame.content] = min(frame.expect, found.get(frame.content, frame.expect))
        return found


class ConversationMaker:
    """Makes conversations from a seed and the facts that a client could know of the cluster."""

    def __init__(self, seed: str, facts: Facts) -> None:
        self._random = Random(seed)
        self._maker = Maker(self._random, facts)

    def talk(self) -> Conversation:
        """Make the next conversation."""
        way = self._random.choice(_WAYS)
        if way is Way.FOREIGN:
            return Conversation(way, self._random.random() < 0.6, (), (foreign_bytes(self._random),))
        frames = self._frames()
        wires = [self._framed(frame.content) for frame in frames]
        return Conversation(way, self._random.random() < 0.6, frames, tuple(self._chunks(way, wires)))

    def _frames(self) -> tuple[Frame, ...]:
        count = self._random.choice((1, 1, 2, 3, 5, 12))
        frames = [self._maker.odd() if self._random.random() < 0.3 else self._maker.frame() for _ in range(count)]
        # Frames that may end the connection come last, and are few: the server would not read the frames behind them.
        risky = sorted((frame for frame in frames if frame.expect is not Expect.ANSWER), key=lambda f: f.expect)
        return (*(frame for frame in frames if frame.expect is Expect.ANSWER), *risky[:_MOST_RISKY])

    def _framed(self, content: bytes) -> bytes:
        size = len(content)
        if self._random.random() < 0.01:
            wrong = (-1, -(2**31), 2**31 - 1, LIMITS.max_frame_bytes + 1, size + 1, size - 1, 0, size + 1_000)
            size = self._random.choice(wrong)
        return struct.pack(">i", size) + content

    def _chunks(self, way: Way, wires: Sequence[bytes]) -> Sequence[bytes]:
        if way is Way.TURNS:
            return wires
        stream = b"".join(wires)
        if way is Way.BYTES and len(stream) <= _SMALL * 4:
            return [stream[at : at + 1] for at in range(len(stream))]
        if way in {Way.BYTES, Way.PIECES}:
            ends = sorted(self._random.randrange(len(stream) + 1) for _ in range(_PIECES))
            return [stream[a:b] for a, b in zip([0, *ends], [*ends, len(stream)], strict=True)]
        if way is Way.HALF:
            return [stream[: len(stream) - self._random.randrange(1, len(wires[-1]) + 1)]]
        return [stream]
