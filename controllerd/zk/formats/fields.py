"""Functions of all znode codecs: strict types, precise reasons of errors, and unknown fields."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec

from controllerd.core.model import BrokerId
from controllerd.errors import BadZnode, NewerZnode

T = TypeVar("T")


class HasVersion(Protocol):
    """A decoded znode."""

    @property
    def version(self) -> int:
        """The version of its format."""
        ...


Formatted = TypeVar("Formatted", bound=HasVersion)

MAX_INT32: Final = 2**31 - 1
BrokerInt = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]
EpochInt = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]
VersionInt = Annotated[int, msgspec.Meta(ge=0)]
_SHARED_LISTS: Final = 65_536


def decode_json(path: str, data: bytes | None, decoder: "msgspec.json.Decoder[T]") -> T:
    """Decode with this decoder; ``BadZnode`` says what is wrong, and where in the document."""
    if not data:
        raise BadZnode(path, "empty")
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadZnode(path, str(error)) from error
    except msgspec.DecodeError as error:
        raise BadZnode(path, f"not JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise BadZnode(path, "not UTF-8") from error
    except RecursionError as error:
        raise BadZnode(path, "nested too deep") from error


@lru_cache(maxsize=_SHARED_LISTS)
def broker_ids(ids: tuple[int, ...]) -> tuple[BrokerId, ...]:
    """Return decoded ids as broker ids: one object for equal lists, because a cluster has few different lists."""
    return tuple(map(BrokerId, ids))


_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


def decode_object(path: str, data: bytes | None) -> dict[str, Any]:
    """Decode a JSON object without a check of its fields."""
    return decode_json(path, data, _OBJECT)


def convert(path: str, raw: Mapping[str, Any], kind: type[T]) -> T:
    """Convert a decoded object to a struct type. :raises BadZnode: a field has a wrong type or value."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise BadZnode(path, str(error)) from error


def unknown_fields(raw: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the fields that the struct type does not have, which a rewrite must keep."""
    known = kind.__struct_encode_fields__
    return {name: value for name, value in raw.items() if name not in known}


def check_version(path: str, version: int, known: Collection[int]) -> None:
    """Check the version of a format.

    :raises NewerZnode: the version is newer than all known ones. :raises BadZnode: there is no such version.
    """
    if version > max(known):
        raise NewerZnode(path, f"format version {version} is newer than {max(known)}")
    if version not in known:
        raise BadZnode(path, f"format version {version} does not exist")


class _WithVersion(msgspec.Struct):
    version: VersionInt


_WITH_VERSION: Final = msgspec.json.Decoder(_WithVersion)


def decode_format(
    path: str, data: bytes | None, decoder: "msgspec.json.Decoder[Formatted]", known: Collection[int]
) -> Formatted:
    """As ``decode_json`` and ``check_version``; a newer format that cannot be decoded is a ``NewerZnode``."""
    try:
        found = decode_json(path, data, decoder)
    except BadZnode:
        check_version(path, _version_of(path, data, known), known)
        raise
    check_version(path, found.version, known)
    return found


def _version_of(path: str, data: bytes | None, known: Collection[int]) -> int:
    """Return the version of a znode that cannot be decoded; a known version if it has none."""
    try:
        return decode_json(path, data, _WITH_VERSION).version
    except BadZnode:
        return max(known)


def decode_number(path: str, data: bytes | None) -> int:
    """Decode a non-negative decimal number within 32 bits."""
    text = data or b""
    if not text.isdigit() or len(text) > 10 or int(text) > MAX_INT32:
        raise BadZnode(path, "not a number" if text else "empty")
    return int(text)


encode_json = msgspec.json.encode
