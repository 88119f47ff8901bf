"""Requests as trees whose every part can be made wrong, and their encoding.

The schemas are kio's; the encoder is our own, because kio would refuse to write most of the wrong values.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

FORMATS: Final = {
    "int8": ">b",
    "int16": ">h",
    "error_code": ">h",
    "int32": ">i",
    "timedelta_i32": ">i",
    "int64": ">q",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
    "bool": ">B",
}
"""The formats of types with a fixed size, for the struct module."""
LONGEST_TEXT: Final = 2**15 - 1
"""Bytes of a string: Kafka's own clients send no longer one, in any version."""


@dataclass
class Leaf:
    """A single value; ``raw`` replaces its bytes, and ``declared`` its declared length."""

    name: str
    kind: str
    is_nullable: bool
    value: Any
    raw: bytes | None = None
    declared: int | None = None


@dataclass
class Many:
    """An array; ``declared`` replaces its true length, ``make`` makes one more element."""

    name: str
    is_nullable: bool
    items: "list[Node] | None"
    make: Callable[[], "Node"]
    declared: int | None = None


@dataclass
class Group:
    """A structure. ``tags`` are unknown to its schema, ``announced`` replaces their true number."""

    name: str
    members: "list[Node]"
    known: "list[tuple[int, Node]]"
    tags: list[tuple[int, bytes]] = field(default_factory=list)
    announced: int | None = None
    has_marker: bool = False


Node = Leaf | Many | Group
Draw = Callable[[str, str], object]
"""A sensible value for a field of this name and type."""


class Part(NamedTuple):
    """A field of a schema: of an entity, or primitive; as an array or not; tagged or not."""

    name: str
    tag: int | None
    entity: Any
    kind: str
    is_array: bool
    is_nullable: bool


@cache
def parts_of(entity: Any) -> tuple[Part, ...]:
    """The fields of a kio entity in the order of their bytes."""
    return tuple(_part(each) for each in fields(entity))


def _part(each: "Field[Any]") -> Part:
    kind: Any = each.type
    is_nullable = get_origin(kind) is UnionType and NoneType in get_args(kind)
    if is_nullable:
        (kind,) = (inner for inner in get_args(kind) if inner is not NoneType)
    is_array = get_origin(kind) is tuple
    inner = get_args(kind)[0] if is_array else kind
    is_entity = isinstance(inner, type) and is_dataclass(inner)
    primitive = "" if is_entity else each.metadata["kafka_type"]
    return Part(each.name, each.metadata.get("tag"), inner if is_entity else None, primitive, is_array, is_nullable)


def grow(entity: Any, draw: Draw, count: Callable[[str], int], name: str = "") -> Group:
    """A tree of this schema: ``draw`` chooses values, ``count`` how many elements an array has."""

    def one(part: Part) -> Node:
        if part.entity is not None:
            return grow(part.entity, draw, count, part.name)
        nullable = part.is_nullable and not part.is_array and part.kind != "uuid"
        value = draw(part.name, part.kind)
        return Leaf(part.name, part.kind, nullable, "x" if value is None and not nullable else value)

    def node(part: Part) -> Node:
        if part.is_array:
            items = [one(part) for _ in range(count(part.name))]
            return Many(part.name, part.is_nullable, items, lambda: one(part))
        made = one(part)
        if isinstance(made, Group):
            made.has_marker = part.is_nullable
        return made

    parts = parts_of(entity)
    known = [(part.tag, node(part)) for part in parts if part.tag is not None]
    return Group(name, [node(part) for part in parts if part.tag is None], known)


def nodes(root: Node) -> Iterator[Node]:
    """The nodes of the tree, each before its children."""
    yield root
    if isinstance(root, Group):
        for member in (*root.members, *(node for _, node in root.known)):
            yield from nodes(member)
    elif isinstance(root, Many):
        for item in root.items or ():
            yield from nodes(item)


def uvarint(value: int, least: int = 1) -> bytes:
    """An unsigned varint of at least so many bytes: more than needed make it overlong."""
    out = bytearray()
    while value > 0x7F or len(out) + 1 < least:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(node: Node, *, flexible: bool) -> bytes:
    """Encode the tree, valid or not."""
    if isinstance(node, Leaf):
        return node.raw if node.raw is not None else _leaf(node, flexible=flexible)
    if isinstance(node, Many):
        length = -1 if node.items is None else len(node.items)
        items = b"".join(encode(item, flexible=flexible) for item in node.items or ())
        return _length(length if node.declared is None else node.declared, 4, flexible=flexible) + items
    body = b"".join(encode(member, flexible=flexible) for member in node.members)
    marker = b"\1" if node.has_marker else b""
    return marker + body + (_tags(node) if flexible else b"")


def _tags(node: Group) -> bytes:
    known = [(tag, encode(member, flexible=True)) for tag, member in node.known]
    tags = sorted((*known, *node.tags), key=lambda each: each[0])
    count = len(tags) if node.announced is None else node.announced
    return uvarint(count) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)


def _leaf(leaf: Leaf, *, flexible: bool) -> bytes:
    if leaf.kind in FORMATS:
        return struct.pack(FORMATS[leaf.kind], leaf.value)
    if leaf.kind == "uuid":
        return bytes(leaf.value)
    width = 2 if leaf.kind == "string" else 4
    raw: bytes | None = None
    if leaf.value is not None:
        raw = leaf.value.encode() if leaf.kind == "string" else bytes(leaf.value)
    if raw is not None and width == 2 and len(raw) > LONGEST_TEXT:
        raw = raw[:LONGEST_TEXT].decode(errors="ignore").encode()
    length = -1 if raw is None else len(raw)
    start = _length(length if leaf.declared is None else leaf.declared, width, flexible=flexible)
    return start + raw if raw is not None else start


def _length(length: int, width: int, *, flexible: bool) -> bytes:
    if flexible:
        return uvarint((length + 1) & 0xFFFFFFFF)
    bits = 8 * width
    return (length & ((1 << bits) - 1)).to_bytes(width, "big")
