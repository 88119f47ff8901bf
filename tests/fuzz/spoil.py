"""Changes to a valid request: extremes that must be answered, and damage that may end the connection.

Every change declares the allowed reactions for the judge: a client that only sends an odd request gets an
answer, and only a client whose bytes are no request may be hung up on.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from random import Random
from typing import Final, NamedTuple

from tests.fuzz.shape import FORMATS, Group, Leaf, Many, encode, nodes, uvarint
from tests.fuzz.values import extreme

_LENGTHS: Final = (0, 1, 2, 127, 128, 300, 2**15, 2**31 - 1, 2**31, 2**32 - 2, -2, -1)
_UNKNOWN_TAGS: Final = (17, 100, 10_000, 2**31 - 1)
_MOST_COPIES: Final = 60


class Expect(IntEnum):
    """The allowed reactions to a frame. The larger one wins when a frame has several changes."""

    ANSWER = 0
    """The frame is a request, however odd."""
    EITHER = 1
    """The frame may still be a request, or not."""
    CLOSE = 2
    """The frame is no request."""


class AppliedChange(NamedTuple):
    """A change to a request, and the allowed reactions."""

    name: str
    expect: Expect


Change = Callable[[Random, Group, bool], AppliedChange | None]
"""Changes a tree of a flexible version or not; None if the tree has no part for this change."""
Damage = Callable[[Random, bytes], tuple[bytes, AppliedChange]]
"""Changes the bytes of a body."""


def _leaf(random: Random, root: Group, *kinds: str) -> Leaf | None:
    found = [node for node in nodes(root) if isinstance(node, Leaf) and (not kinds or node.kind in kinds)]
    return random.choice(found) if found else None


def _many(random: Random, root: Group, accepts: Callable[[Many], bool] = lambda _: True) -> Many | None:
    found = [node for node in nodes(root) if isinstance(node, Many) and accepts(node)]
    return random.choice(found) if found else None


def _group(random: Random, root: Group) -> Group:
    return random.choice([node for node in nodes(root) if isinstance(node, Group)])


def _other_than(random: Random, true: int) -> int:
    """A length that is nearly right, so that the next bytes are read as something else, or an impossible one."""
    return random.choice((true + 1, true - 1, random.randrange(true + 40), random.choice(_LENGTHS)))


# -- odd, but requests -------------------------------------------------------------------------------------------------


def an_extreme(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Set some value to the edge of its type."""
    leaf = _leaf(random, root)
    if leaf is None:
        return None
    is_null = leaf.is_nullable and random.random() < 0.2
    leaf.value = None if is_null else extreme(random, leaf.name, leaf.kind, leaf.value)
    return AppliedChange(f"extreme {leaf.kind}", Expect.ANSWER)


def all_extreme(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Set every value to the edge of its type."""
    for node in nodes(root):
        if isinstance(node, Leaf):
            node.value = extreme(random, node.name, node.kind, node.value)
    return AppliedChange("all extreme", Expect.ANSWER)


def an_empty_array(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Empty an array, or make it null, which requests all."""
    many = _many(random, root)
    if many is None:
        return None
    many.items = None if many.is_nullable and random.random() < 0.5 else []
    return AppliedChange("empty array", Expect.ANSWER)


def a_repetition(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Repeat a row once, or often."""
    many = _many(random, root, lambda node: bool(node.items))
    if many is None or not many.items:
        return None
    many.items = many.items * random.choice((2, 3, _MOST_COPIES))
    return AppliedChange("repetition", Expect.ANSWER)


def a_crowd(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Add many rows."""
    many = _many(random, root)
    if many is None:
        return None
    many.items = [many.make() for _ in range(random.choice((5, 20, _MOST_COPIES)))]
    return AppliedChange("crowd", Expect.ANSWER)


def unknown_tags(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Add unknown tags, as a newer client does (KIP-482)."""
    if not flexible:
        return None
    wanted = random.choice((1, 1, 2, 4))
    _group(random, root).tags = [(tag, random.randbytes(random.choice((0, 3, 900)))) for tag in _UNKNOWN_TAGS[:wanted]]
    return AppliedChange("unknown tags", Expect.ANSWER)


# -- inconsistent structures -------------------------------------------------------------------------------------------


def a_wrong_null(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Set a null that the schema does not allow."""
    leaf = _leaf(random, root, "string", "bytes", "records")
    many = _many(random, root)
    if leaf is not None and (many is None or random.random() < 0.5):
        leaf.value = None
    elif many is not None:
        many.items = None
    else:
        return None
    return AppliedChange("wrong null", Expect.EITHER)


def a_wrong_count(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Declare another number of elements than an array has."""
    many = _many(random, root)
    if many is None:
        return None
    true = len(many.items or ())
    many.declared = _other_than(random, true)
    return AppliedChange("wrong count", Expect.EITHER)


def a_wrong_length(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Declare another length than a string or bytes have."""
    leaf = _leaf(random, root, "string", "bytes", "records")
    if leaf is None:
        return None
    leaf.declared = _other_than(random, len(leaf.value or ""))
    return AppliedChange("wrong length", Expect.EITHER)


def an_endless_array(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Declare thousands of millions of elements; the first string of the array leads back to itself."""
    many = _many(random, root, lambda node: bool(node.items))
    if many is None or not many.items:
        return None
    many.declared = random.choice((2**31 - 1, 2**24, 300))
    texts = [node for node in nodes(many.items[0]) if isinstance(node, Leaf) and node.kind in {"string", "bytes"}]
    for leaf in texts[:1]:
        leaf.declared = random.choice((-2, -3, -4))
    return AppliedChange("endless array", Expect.EITHER)


def bad_text(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Make a string invalid UTF-8: cut, overlong, or half of a surrogate pair."""
    leaf = _leaf(random, root, "string")
    if leaf is None:
        return None
    bad = random.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"ok\xe2\x82", b"\xf5\x80\x80\x80"))
    leaf.raw = (uvarint(len(bad) + 1) if flexible else len(bad).to_bytes(2, "big")) + bad
    return AppliedChange("bad text", Expect.EITHER)


def a_long_text(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Make a string longer than any of Kafka's clients would send it."""
    leaf = _leaf(random, root, "string")
    if leaf is None or not flexible:
        return None
    length = random.choice((2**15, 2**16, 100_000))
    leaf.raw = uvarint(length + 1) + b"y" * length
    return AppliedChange("long text", Expect.EITHER)


def a_tag_bomb(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Declare tagged fields that are missing, reach beyond the end, are out of order or very many."""
    if not flexible:
        return None
    group = _group(random, root)
    match random.randrange(4):
        case 0:
            group.announced = random.choice((1, 200, 2**31 - 1, 2**32 - 1))
        case 1:
            group.tags = [(0, random.randbytes(random.choice((0, 1, 40))))]
        case 2:
            group.tags = [(tag, b"") for tag in range(random.choice((2_000, 20_000)))]
        case _:
            group.tags = [(5, b"a"), (5, b"b")]
    return AppliedChange("tag bomb", Expect.EITHER)


def an_overlong_varint(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Encode a length in more bytes than it needs, or than a varint may have."""
    leaf = _leaf(random, root, "string", "bytes")
    if not flexible or leaf is None:
        return None
    raw = leaf.value.encode() if isinstance(leaf.value, str) else bytes(leaf.value or b"")
    leaf.raw = uvarint(len(raw) + 1, least=random.choice((2, 5, 6, 10, 40))) + raw
    return AppliedChange("overlong varint", Expect.EITHER)


def odd_bytes(random: Random, root: Group, flexible: bool) -> AppliedChange | None:
    """Replace a value by other bytes of the same number; a bool of 2 is one of them."""
    leaf = _leaf(random, root, *FORMATS, "uuid")
    if leaf is None:
        return None
    leaf.raw = random.randbytes(len(encode(leaf, flexible=flexible)))
    return AppliedChange("odd bytes", Expect.EITHER)


# -- bytes -------------------------------------------------------------------------------------------------------------


def cut(random: Random, body: bytes) -> tuple[bytes, AppliedChange]:
    """Cut off the end."""
    return body[: random.randrange(len(body) + 1)] if body else body, AppliedChange("cut", Expect.EITHER)


def trailing(random: Random, body: bytes) -> tuple[bytes, AppliedChange]:
    """Append bytes."""
    return body + random.randbytes(random.choice((1, 2, 9, 500))), AppliedChange("trailing bytes", Expect.EITHER)


def flipped(random: Random, body: bytes) -> tuple[bytes, AppliedChange]:
    """Flip bits."""
    changed = bytearray(body)
    for _ in range(random.choice((1, 1, 2, 8)) if changed else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed), AppliedChange("flipped bits", Expect.EITHER)


def spliced(random: Random, body: bytes) -> tuple[bytes, AppliedChange]:
    """Remove, repeat or overwrite a piece."""
    start, end = sorted(random.randrange(len(body) + 1) for _ in range(2))
    piece = random.choice((b"", body[start:end] * 2, random.randbytes(end - start), b"\xff" * (end - start)))
    return body[:start] + piece + body[end:], AppliedChange("spliced", Expect.EITHER)


ODD: Final[Sequence[Change]] = (
    an_extreme, an_extreme, an_extreme, all_extreme, an_empty_array, a_repetition, a_crowd, unknown_tags,
)  # fmt: skip
BROKEN: Final[Sequence[Change]] = (
    a_wrong_null, a_wrong_count, a_wrong_length, bad_text, a_tag_bomb, an_overlong_varint, odd_bytes, odd_bytes,
    a_wrong_count, a_long_text, an_endless_array,
)  # fmt: skip
BYTES: Final[Sequence[Damage]] = (cut, trailing, flipped, spliced)
