"""The primitive types of the Kafka protocol by hand: what the struct templates and headers are made of.

Decoding never trusts a length: everything that does not add up is a ``MalformedMessage``.
"""

import base64
import struct
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from wire.errors import MalformedMessage

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
ZERO_ID: Final = bytes(16)
_VARINT_MAX_SHIFT: Final = 28
_MOST_TAGS: Final = 1_000
"""Tagged fields of one structure: Kafka defines a handful, and a megabyte of empty ones would block the event loop."""
_REMEMBERED_IDS: Final = 32_768
"""Topic ids whose bytes are kept: every request to every broker repeats them."""


def uvarint(value: int) -> bytes:
    """An unsigned variable-length integer, seven bits to a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=_REMEMBERED_IDS)
def topic_id_bytes(topic_id: str | None) -> bytes:
    """The 16 bytes of a base64url topic id without padding; the zero id for None."""
    return ZERO_ID if topic_id is None else base64.urlsafe_b64decode(topic_id + "==")


def topic_id_text(raw: bytes) -> str | None:
    """The base64url text of 16 bytes; None for the zero id."""
    return None if raw == ZERO_ID else base64.urlsafe_b64encode(raw).decode().rstrip("=")


class IdLists(dict[tuple[int, ...], bytes]):
    """Encoded lists of broker ids. A request repeats a few lists for all its partitions: each is encoded once."""

    def __init__(self, form: "Format") -> None:
        super().__init__()
        self._form = form

    def __missing__(self, ids: tuple[int, ...]) -> bytes:
        encoded = self[ids] = self._form.count(len(ids)) + struct.pack(f">{len(ids)}i", *ids)
        return encoded


class Format:
    """The encoding of strings, array lengths and ends of structures: classic, or flexible (KIP-482)."""

    __slots__ = ("flexible", "tags")

    def __init__(self, *, flexible: bool) -> None:
        self.flexible = flexible
        self.tags = b"\0" if flexible else b""
        """The empty tagged fields that end each structure."""

    def count(self, length: int) -> bytes:
        """The length of an array."""
        return uvarint(length + 1) if self.flexible else INT32.pack(length)

    def string(self, text: str) -> bytes:
        """A string that is not null."""
        raw = text.encode()
        return (uvarint(len(raw) + 1) if self.flexible else INT16.pack(len(raw))) + raw

    def nullable_string(self, text: str | None) -> bytes:
        """A string or null."""
        if text is None:
            return b"\0" if self.flexible else b"\xff\xff"
        return self.string(text)


CLASSIC: Final = Format(flexible=False)
FLEXIBLE: Final = Format(flexible=True)
FORMATS: Final[Mapping[bool, Format]] = MappingProxyType({False: CLASSIC, True: FLEXIBLE})


class Cursor:
    """Reads primitives from a message one after the other. :raises MalformedMessage: from every method."""

    __slots__ = ("_data", "_flexible", "offset")

    def __init__(self, data: bytes, offset: int = 0, *, flexible: bool = False) -> None:
        self._data = data
        self._flexible = flexible
        self.offset = offset

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        end = self.offset + size
        if size < 0 or end > len(self._data):
            raise MalformedMessage(f"{size} bytes wanted at {self.offset} of a message of {len(self._data)}")
        raw, self.offset = self._data[self.offset : end], end
        return raw

    @property
    def tags(self) -> bytes:
        """Return the end of a structure without tagged fields."""
        return FORMATS[self._flexible].tags

    def since(self, offset: int) -> bytes:
        """Return the bytes that were read since this offset."""
        return self._data[offset : self.offset]

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, or as many as there are, without going on."""
        return self._data[self.offset : self.offset + size]

    def int16(self) -> int:
        """A signed 16 bit integer."""
        return int(INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        """A signed 32 bit integer."""
        return int(INT32.unpack(self.take(4))[0])

    def uvarint(self) -> int:
        """An unsigned variable-length integer of at most five bytes."""
        value = 0
        for shift in range(0, _VARINT_MAX_SHIFT + 1, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedMessage(f"a varint before {self.offset} does not end")

    def count(self) -> int:
        """The length of an array; null counts as empty."""
        return self.nullable_count() or 0

    def nullable_count(self) -> int | None:
        """The length of an array; None for null."""
        length = self.uvarint() - 1 if self._flexible else self.int32()
        if length > len(self._data) - self.offset:
            raise MalformedMessage(f"an array of {length} elements cannot fit at {self.offset}")
        return length if length >= 0 else None

    def int32s(self) -> tuple[int, ...]:
        """An array of 32 bit integers; null counts as empty."""
        length = self.count()
        return struct.unpack(f">{length}i", self.take(4 * length))

    def string(self) -> str:
        """A string; null is malformed here."""
        text = self.nullable_string()
        if text is None:
            raise MalformedMessage(f"null string before {self.offset}")
        return text

    def nullable_string(self) -> str | None:
        """A string or null."""
        length = self.uvarint() - 1 if self._flexible else self.int16()
        return None if length == -1 else self._text(length)

    def classic_nullable_string(self) -> str | None:
        """A string or null with a 16 bit length whatever the format: the client id in headers."""
        length = self.int16()
        return None if length == -1 else self._text(length)

    def _text(self, length: int) -> str:
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"string before {self.offset} is not UTF-8: {error}") from error

    def skip_tags(self) -> None:
        """Pass over the tagged fields at the end of a structure, known or not; none in the classic format."""
        if not self._flexible:
            return
        if (fields := self.uvarint()) > _MOST_TAGS:
            raise MalformedMessage(f"{fields} tagged fields before {self.offset}")
        for _ in range(fields):
            self.uvarint()
            self.take(self.uvarint())

    def end(self) -> None:
        """Check that nothing follows. :raises MalformedMessage: bytes are left."""
        if self.offset != len(self._data):
            raise MalformedMessage(f"{len(self._data) - self.offset} bytes too many")
