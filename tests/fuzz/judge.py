"""The allowed reactions of a server to the bytes of a connection, and the check of the actual ones."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, NamedTuple

from kio.index import load_response_schema
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from controllerd.api.catalog import NATIVE, PARTLY_RELAYED, is_relayable
from controllerd.api.server_settings import ServerLimits
from tests.fuzz.rows import missing_rows
from tests.fuzz.spoil import Expect
from wire.versions import ApiKey

LIMITS: Final = ServerLimits(frame_s=300.0, write_s=300.0, wait_s=2.0)
"""The limits of the product except for times: a busy machine is no slow client, and a fuzzer must not wait for long."""
LONGEST_TEXT: Final = 2**15 - 1
_HEAD: Final = struct.Struct(">hhi")
_RELAYED: Final = b"answer of "
_UNREADABLE: Final = (SerialError, ValueError, TypeError, OverflowError, struct.error, KeyError, IndexError)


class SeenFrame(NamedTuple):
    """A frame as the server reads it, with the allowed reactions."""

    content: bytes | None
    """The content; None for an invalid size."""
    expect: Expect


class Wrong(AssertionError):
    """A forbidden reaction of the server; ``frame`` is the frame that caused it, if that is known."""

    def __init__(self, text: str, frame: bytes | None = None) -> None:
        super().__init__(text)
        self.frame = frame


def unfinished(stream: bytes) -> int:
    """How many bytes at the end of a stream are an incomplete frame."""
    at = 0
    for seen in deframe(stream, {}):
        at += 4 + len(seen.content or b"")
    return len(stream) - at


def deframe(stream: bytes, expected: Mapping[bytes, Expect]) -> list[SeenFrame]:
    """The frames that the server must read from a stream, without the incomplete end."""
    seen, at, limit = [], 0, LIMITS.max_first_frame_bytes
    while at + 4 <= len(stream):
        (size,) = struct.unpack_from(">i", stream, at)
        if not 0 <= size <= limit:
            seen.append(SeenFrame(None, Expect.CLOSE))
            break
        if at + 4 + size > len(stream):
            break
        content = stream[at + 4 : at + 4 + size]
        seen.append(SeenFrame(content, expected.get(content, Expect.EITHER)))
        at, limit = at + 4 + size, LIMITS.max_frame_bytes
    return seen


def judge(
    frames: Sequence[SeenFrame], answers: Sequence[bytes], *, closed: bool, may_lose: bool, finished: bool = False
) -> int:
    """Check the answers; return how many frames were answered.

    ``closed``: the server hung up; ``may_lose``: answers may be lost with the connection; ``finished``: the server may
    hang up after the last answer, because the client has finished its side.

    :raises Wrong: it answered a frame that it had to refuse, hung up on a request, or sent an unreadable answer.
    """
    if len(answers) > len(frames):
        raise Wrong(f"{len(answers)} answers to {len(frames)} frames")
    for frame, answer in zip(frames, answers, strict=False):
        if frame.content is None or frame.expect is Expect.CLOSE:
            raise Wrong("what is no request was answered", frame.content)
        entity = read_answer(frame.content, answer)
        if frame.expect is Expect.ANSWER and len(answer) > LONGEST_TEXT and has_long_text(entity):
            raise Wrong("an answer has a text that Kafka's clients refuse", frame.content)
        if frame.expect is Expect.ANSWER and entity is not None and (text := missing_rows(frame.content, entity)):
            raise Wrong(text, frame.content)
    if len(answers) == len(frames):
        if closed and not finished:
            raise Wrong(f"the server hung up after it had answered all {len(frames)} frames")
        return len(answers)
    if not closed:
        raise Wrong("neither an answer nor a hang-up", frames[len(answers)].content)
    rest = frames[len(answers) :]
    ends = finished or any(frame.expect is not Expect.ANSWER for frame in rest)
    if rest[0].expect is Expect.ANSWER and not (may_lose and ends):
        raise Wrong("the server hung up on a request", rest[0].content)
    return len(answers)


def read_answer(request: bytes, answer: bytes) -> Any:
    """The answer as kio reads it; None if a broker gave it. :raises Wrong: it does not answer this request."""
    key, version, correlation_id = _HEAD.unpack_from(request)
    if answer[:4] != request[4:8]:
        raise Wrong(f"answer to {answer[:4].hex()}, but {correlation_id} was asked", request)
    if is_relayable(key) or is_brokers(key, answer):
        if not (answer[4:].startswith(_RELAYED) and answer.endswith(request)):
            raise Wrong(f"a relayed answer was changed: {answer[:200].hex()}", request)
        return None
    if key == ApiKey.API_VERSIONS and version not in NATIVE[key]:
        version = 0
    kind: Any = load_response_schema(key, version)
    try:
        _, head = entity_reader(kind.__header_schema__)(answer, 0)
        entity, size = entity_reader(kind)(answer, head)
    except _UNREADABLE as error:
        text = f"{kind.__name__} {version} cannot be read: {error!r}: {answer[:400].hex()}"
        raise Wrong(text, request) from error
    if head + size != len(answer):
        raise Wrong(f"{kind.__name__} {version} has {len(answer) - head - size} bytes too many", request)
    return entity


def is_brokers(key: int, answer: bytes) -> bool:
    """Whether a broker answered a request that we might have answered ourselves."""
    return key in PARTLY_RELAYED and answer[4:].startswith(_RELAYED)


def has_long_text(value: object) -> bool:
    """Whether a string anywhere in an answer is longer than Kafka's own clients can read."""
    if isinstance(value, str):
        return len(value.encode()) > LONGEST_TEXT
    if isinstance(value, tuple):
        return any(map(has_long_text, value))
    return is_dataclass(value) and any(has_long_text(getattr(value, field.name)) for field in fields(value))
