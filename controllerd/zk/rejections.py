"""What could not be understood is kept in the audit log as it was found: with its version, its digest and its bytes."""

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controllerd.errors import BadZnode
from controllerd.ports import AuditLog
from controllerd.record.records import RejectedRecord
from controllerd.zk.access import Node

MOST_BYTES: Final = 16_384
"""Of one znode's content in a record; the digest is that of all of it."""
REMEMBERED: Final = 10_000
"""Znodes that are not written down again while they stay as they are."""
_MAY_BE_SECRET: Final = ("/config/brokers", "/config/users", "/delegation_token")
"""Below these there are passwords and tokens: no byte of them is kept."""


class Rejections:
    """Writes each rejection once for as long as the znode stays as it is: what is in quarantine is read every 10 s."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._written: dict[str, tuple[int, int, str]] = {}

    @contextmanager
    def judging(self, node: Node | None) -> Iterator[None]:
        """Around whatever decodes this znode: a ``BadZnode`` is written down and goes on its way."""
        try:
            yield
        except BadZnode as bad:
            self.note(bad, node)
            raise

    def note(self, bad: BadZnode, node: Node | None) -> None:
        """This znode was found and cannot be used. One that is missing leaves nothing to keep."""
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
