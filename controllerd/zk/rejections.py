"""Records of znodes that cannot be decoded, as they were found: version, digest and bytes, for the audit log."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from controllerd.errors import BadZnode
from controllerd.ports.audit import AuditLog
from controllerd.record.records import RejectedRecord
from controllerd.zk.access import Znode

Key = TypeVar("Key")
T = TypeVar("T")

MOST_BYTES: Final = 16_384
"""Bytes of a znode that a record keeps; the digest is of the whole content."""
REMEMBERED: Final = 10_000
"""Number of znodes that are not recorded again while they do not change."""
_MAY_BE_SECRET: Final = ("/config/brokers", "/config/users", "/delegation_token")
"""Znodes below these paths may hold passwords and tokens: none of their bytes are kept."""


class Rejections:
    """Records each rejection once while the znode does not change: znodes in quarantine are read every 10 s."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._recorded: dict[str, tuple[int, int, str]] = {}
        """The czxid, version and reason of the latest record of each znode, by path."""

    @contextmanager
    def judging(self, node: Znode | None) -> Iterator[None]:
        """Record a ``BadZnode`` that the block raises about this znode, and raise it again."""
        try:
            yield
        except BadZnode as bad:
            self.note(bad, node)
            raise

    def decode_all(
        self, keys: Iterable[Key], nodes: Iterable[Znode | None], decode: Callable[[Key, Znode], T]
    ) -> tuple[dict[Key, T], tuple[BadZnode, ...]]:
        """Decode the znodes that exist, by key; return them and the broken ones, which are recorded."""
        decoded: dict[Key, T] = {}
        broken: list[BadZnode] = []
        for key, node in zip(keys, nodes, strict=True):
            try:
                if node is not None:
                    decoded[key] = decode(key, node)
            except BadZnode as bad:
                broken.append(bad)
                self.note(bad, node)
        return decoded, tuple(broken)

    def decode_each(
        self, keys: Iterable[Key], nodes: Iterable[Znode | None], decode: Callable[[Key, Znode | None], T]
    ) -> dict[Key, T | BadZnode]:
        """Decode each znode, missing ones too, by key; the value of a broken one is its error, which is recorded."""
        decoded: dict[Key, T | BadZnode] = {}
        for key, node in zip(keys, nodes, strict=True):
            try:
                decoded[key] = decode(key, node)
            except BadZnode as bad:
                decoded[key] = bad
                self.note(bad, node)
        return decoded

    def note(self, bad: BadZnode, node: Znode | None) -> None:
        """Record a znode that cannot be decoded; nothing is recorded of a missing one."""
        if node is None:
            return
        found = (node.czxid, node.version, bad.reason)
        if self._recorded.get(bad.path) == found:
            return
        if len(self._recorded) >= REMEMBERED:
            self._recorded.clear()
        self._recorded[bad.path] = found
        self._audit.record(_record(bad, node))


def _record(bad: BadZnode, node: Znode) -> RejectedRecord:
    content = node.data or b""
    kept = b"" if bad.path.startswith(_MAY_BE_SECRET) else content[:MOST_BYTES]
    return RejectedRecord(
        path=bad.path,
        version=node.version,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        content=base64.b64encode(kept).decode(),
        reason=bad.reason,
    )
