"""Znodes that could not be decoded are kept in the audit log as they were found: version, digest and bytes."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from controllerd.errors import BadZnode
from controllerd.ports.audit import AuditLog
from controllerd.record.records import RejectedRecord
from controllerd.zk.access import Node

Key = TypeVar("Key")
T = TypeVar("T")

MOST_BYTES: Final = 16_384
"""Of one znode's content in a record; the digest is that of all of it."""
REMEMBERED: Final = 10_000
"""Znodes that are not recorded again while they stay as they are."""
_MAY_BE_SECRET: Final = ("/config/brokers", "/config/users", "/delegation_token")
"""Below these there are passwords and tokens: no byte of them is kept."""


class Rejections:
    """Records each rejection once for as long as the znode stays as it is: what is in quarantine is read every 10 s."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._written: dict[str, tuple[int, int, str]] = {}

    @contextmanager
    def judging(self, node: Node | None) -> Iterator[None]:
        """Record a ``BadZnode`` that the block raises about this znode, and let it pass."""
        try:
            yield
        except BadZnode as bad:
            self.note(bad, node)
            raise

    def decode_all(
        self, keys: Iterable[Key], nodes: Iterable[Node | None], decode: Callable[[Key, Node], T]
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
        self, keys: Iterable[Key], nodes: Iterable[Node | None], decode: Callable[[Key, Node | None], T]
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

    def note(self, bad: BadZnode, node: Node | None) -> None:
        """Record a znode that was found and cannot be used. One that is missing leaves nothing to keep."""
        if node is None:
            return
        found = (node.czxid, node.version, bad.reason)
        if self._written.get(bad.path) == found:
            return
        if len(self._written) >= REMEMBERED:
            self._written.clear()
        self._written[bad.path] = found
        self._audit.record(_record(bad, node))


def _record(bad: BadZnode, node: Node) -> RejectedRecord:
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
