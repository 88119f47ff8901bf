"""Frames by seed: requests of every API and version that the listener advertises, valid, odd, and damaged."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final

from kio.index import load_request_schema
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from controllerd.api.catalog import KNOWN, NATIVE, is_relayable
from tests.fuzz.shape import encode, grow, uvarint
from tests.fuzz.spoil import BROKEN, BYTES, ODD, AppliedChange, Expect
from tests.fuzz.values import TEXTS, Facts, Sensible
from wire.versions import ApiKey

_HEAD: Final = struct.Struct(">hhi")
_CLIENT_IDS: Final = (None, "", "fuzz", "x" * 32_767, "\u00e9\U0001f600", *TEXTS[:8])
_CORRELATIONS: Final = (0, -1, 1, 2**31 - 1, -(2**31), 0x16030100)
_UNKNOWN_KEYS: Final = (-1, -(2**15), 58, 80, 999, 2**15 - 1, 36, 17, 4, 5, 6, 55, 64)
"""Unknown APIs, control requests to brokers, and APIs that are never relayed."""
NATIVE_SHARE: Final = 0.86
_LARGE: Final = 200_000
_LARGE_SHARE: Final = 0.03
"""The share of requests beyond so many bytes that are sent: each takes the time of hundreds."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The content of a frame, the changes to it, and the allowed reactions of the server."""

    content: bytes
    done: tuple[str, ...]
    expect: Expect


@cache
def relayed_ranges() -> dict[int, tuple[int, int]]:
    """Every API that brokers answer in our stead, with the versions that have schemas."""
    found = {}
    for key in sorted(KNOWN):
        versions = [v for v, kinds in schema_name_map.get(_name(key), {}).items() if EntityType.request in kinds]
        if versions and is_relayable(key):
            found[key] = (min(versions), max(versions))
    return found


def _name(api_key: int) -> str:
    return {"WRITE_TXN_MARKERS": "write_txn_markers"}.get(ApiKey(api_key).name, ApiKey(api_key).name.lower())


@cache
def advertised() -> Sequence[tuple[int, int]]:
    """API and version of every request that the listener serves itself."""
    return [(key, v) for key, versions in NATIVE.items() for v in range(versions.lowest, versions.highest + 1)]


@cache
def everything() -> Sequence[tuple[int, int]]:
    """API and version of every entry that ApiVersions must show while the brokers support ``relayed_ranges``."""
    relayed = [(key, v) for key, (lowest, highest) in relayed_ranges().items() for v in range(lowest, highest + 1)]
    return [*advertised(), *relayed]


class Maker:
    """Makes frames; the same random numbers and facts make the same frames."""

    def __init__(self, random: Random, facts: Facts) -> None:
        self._random = random
        self._facts = facts

    def frame(self) -> Frame:
        """Make the next frame."""
        roll = self._random.random()
        if roll < 0.05:
            return self._no_request()
        key, version = self._api()
        return self._request(key, version, how="good" if roll < 0.20 else "odd" if roll < 0.62 else "broken")

    def good(self, key: int, version: int) -> Frame:
        """Make an undamaged request."""
        return self._request(key, version, how="good")

    def odd(self) -> Frame:
        """Make a request that must be answered, of an API that we serve."""
        return self._request(*self._random.choice(advertised()), how="odd")

    def _api(self) -> tuple[int, int]:
        if self._random.random() < NATIVE_SHARE:
            return self._random.choice(advertised())
        key, (lowest, highest) = self._random.choice(list(relayed_ranges().items()))
        return key, self._random.randint(lowest, highest)

    def _request(self, key: int, version: int, *, how: str) -> Frame:
        schema: Any = load_request_schema(key, version)
        sensible = Sensible(self._random, self._facts, ApiKey(key).name)
        tree = grow(schema, sensible, sensible.count)
        flexible = bool(schema.__flexible__)
        done: list[AppliedChange | None] = []
        if how == "odd" or (how == "broken" and self._random.random() < 0.3):
            changes = self._random.choices(ODD, k=self._random.choice((1, 1, 2, 3)))
            done += [change(self._random, tree, flexible) for change in changes]
        if how == "broken":
            done += [self._random.choice(BROKEN)(self._random, tree, flexible)]
        body, harm = encode(tree, flexible=flexible), [each for each in done if each is not None]
        if len(body) > _LARGE and self._random.random() > _LARGE_SHARE:
            return self._request(key, version, how=how)
        if how == "broken" and (not harm or self._random.random() < 0.4):
            body, last = self._random.choice(BYTES)(self._random, body)
            harm.append(last)
        return self._with_header(key, version, schema, body, harm, broken=how == "broken")

    def _with_header(
        self, key: int, version: int, schema: Any, body: bytes, harm: list[AppliedChange], *, broken: bool
    ) -> Frame:
        header_version = schema.__header_schema__.__version__
        if broken and self._random.random() < 0.12:
            header_version = self._random.choice((0, 1, 2))
            harm.append(AppliedChange("other header version", Expect.EITHER))
        head, also = self._header(key, version, header_version, broken=broken)
        harm += also
        names = tuple(each.name for each in harm) or ("good",)
        return Frame(head + body, names, max((each.expect for each in harm), default=Expect.ANSWER))

    def _header(
        self, key: int, version: int, header_version: int, *, broken: bool
    ) -> tuple[bytes, list[AppliedChange]]:
        """Make a header. Client ids and correlation ids may be anything; damaged lengths and tags make it invalid."""
        pick, harm = self._random.choice, list[AppliedChange]()
        is_odd = self._random.random() < 0.1
        correlation = pick(_CORRELATIONS) if is_odd else self._random.randrange(2**31)
        client = pick(_CLIENT_IDS) if is_odd else "fuzz"
        raw = b"" if client is None else client.encode()
        length = -1 if client is None else len(raw)
        if broken and self._random.random() < 0.06:
            length = pick((-2, -(2**15), 2**15 - 1, 300, 0))
            harm.append(AppliedChange("wrong client id", Expect.EITHER))
        out = _HEAD.pack(key, version, correlation)
        if header_version >= 1:
            out += struct.pack(">h", length) + raw
        return out + (self._tags(harm, broken=broken) if header_version >= 2 else b""), harm

    def _tags(self, harm: list[AppliedChange], *, broken: bool) -> bytes:
        roll = self._random.random()
        if broken and roll < 0.04:
            harm.append(AppliedChange("tag bomb in the header", Expect.EITHER))
            return uvarint(self._random.choice((1, 2**31 - 1))) + uvarint(3) + uvarint(2**31)
        if roll < 0.94:
            return b"\0"
        data = self._random.randbytes(self._random.choice((0, 5, 400)))
        return b"\1" + uvarint(77) + uvarint(len(data)) + data

    def _no_request(self) -> Frame:
        """Make a frame that is too short, or has an unknown API or version."""
        pick = self._random.choice
        match self._random.randrange(4):
            case 0:
                return Frame(self._random.randbytes(self._random.randrange(8)), ("short",), Expect.CLOSE)
            case 1:
                content = _HEAD.pack(pick(_UNKNOWN_KEYS), pick((0, 1, -1)), 1) + b"\xff\xff\0"
                return Frame(content, ("unknown api",), Expect.CLOSE)
            case 2:
                key = pick(list(NATIVE))
                version = pick((-1, -(2**15), NATIVE[key].highest + 1, NATIVE[key].lowest - 1, 2**15 - 1))
                answered = key == ApiKey.API_VERSIONS
                content = _HEAD.pack(key, version, 1) + b"\xff\xff" + self._random.randbytes(pick((0, 1, 9)))
                return Frame(content, ("no version",), Expect.ANSWER if answered else Expect.CLOSE)
            case _:
                return Frame(self._random.randbytes(pick((8, 20, 500))), ("noise",), Expect.EITHER)
