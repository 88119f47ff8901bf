"""Exported heads: number and hash of the newest line of an audit log, kept outside the log.

A head is one line of JSON, signed with HMAC-SHA256 if there is a key. With heads, ``audit verify`` detects what the
chain alone cannot show: that the end was cut off, that all lines were rewritten, or that an old copy was restored. A
file of heads has one per line, the newest last.
"""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from controllerd.audit.lines import Head
from controllerd.errors import ControllerdError

HEAD_VERSION: Final = 1
MIN_KEY_BYTES: Final = 16
_ALGORITHM: Final = "hmac-sha256"


class BadHead(ControllerdError):
    """A head, or the key of its signature, cannot be used. The message gives the cause and the remedy."""


class BadSignature(BadHead):
    """The head was not signed with this key, or was changed after it was signed."""


class ExportedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest line of the log of one cluster and node at the moment of the export."""

    v: int
    cluster: str
    node: int
    boot: str
    seq: Annotated[int, msgspec.Meta(ge=1)]
    """The number of the line in its boot, from 1."""
    epoch: int
    """The controller epoch that the line was written in; 0 outside a term."""
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """The SHA-256 of the line, as the ``prev`` of the next one."""
    exported_ms: int
    """Wall clock, milliseconds since 1970."""
    signature: str | None = None
    """``hmac-sha256:`` and the code in hex, computed over the document without this field."""

    @classmethod
    def of(cls, head: Head, *, cluster: str, node: int, epoch: int, exported_ms: int) -> "ExportedHead":
        """The exported head of a written line. A log without lines (``seq`` 0) has none."""
        return cls(HEAD_VERSION, cluster, node, head.boot, head.seq, epoch, head.hash, exported_ms)

    @property
    def head(self) -> Head:
        """The head as the log keeps it: boot, number and hash."""
        return Head(self.boot, self.seq, self.hash)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(ExportedHead)


def encode_head(head: ExportedHead, key: bytes | None = None) -> bytes:
    """The head as one line of JSON without newline, for a znode, a file or the journal. Pure.

    With a ``key`` it is signed anew. Export only durable lines: if a power cut loses the line of an exported head,
    ``audit verify`` reports the log as cut off.
    """
    return _ENCODER.encode(msgspec.structs.replace(head, signature=_sign(head, key) if key is not None else None))


def decode_head(data: bytes, key: bytes | None = None) -> ExportedHead:
    """Decode a head that ``encode_head`` encoded. Without a ``key``, a signature is ignored. Pure.

    :raises BadHead: the data is no head, or of a newer version.
    :raises BadSignature: there is a key, and the head is unsigned, signed with another key, or changed.
    """
    try:
        version = msgspec.json.decode(data, type=_HeadVersion).v
        if version != HEAD_VERSION:
            raise BadHead(f"head of version {version}; this controllerd knows {HEAD_VERSION}: use a newer one")
        head = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadHead(f"not an exported head: {problem}") from None
    if key is not None:
        _check_signature(head, key)
    return head


def decode_heads(data: bytes, key: bytes | None = None) -> list[ExportedHead]:
    """Decode all heads of a file, one per line, in its order; blank lines are ignored. Pure.

    :raises BadHead: a line is no head or has a wrong signature (``BadSignature``), or there is no head at all.
    """
    heads = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                heads.append(decode_head(line, key))
            except BadHead as problem:
                raise type(problem)(f"line {number}: {problem}") from None
    if not heads:
        raise BadHead("no exported head in it")
    return heads


def encode_heads(heads: Iterable[ExportedHead], key: bytes | None = None) -> bytes:
    """The content of a file of heads, one per line with its newline. Pure."""
    return b"".join(encode_head(head, key) + b"\n" for head in heads)


def read_key(path: Path) -> bytes:
    """The key of signatures: the bytes of a file without white space at its ends.

    :raises BadHead: the key is shorter than 16 bytes. :raises OSError: the file cannot be read.
    """
    key = path.read_bytes().strip()
    if len(key) < MIN_KEY_BYTES:
        raise BadHead(
            f"the key in {path} has {len(key)} bytes, it needs {MIN_KEY_BYTES}: openssl rand -hex 32 > {path}"
        )
    return key


class _HeadVersion(msgspec.Struct):
    v: int


def _sign(head: ExportedHead, key: bytes) -> str:
    document = _ENCODER.encode(msgspec.structs.replace(head, signature=None))
    return f"{_ALGORITHM}:{hmac.new(key, document, hashlib.sha256).hexdigest()}"


def _check_signature(head: ExportedHead, key: bytes) -> None:
    where = f"head of seq {head.seq} of boot {head.boot}"
    if head.signature is None:
        raise BadSignature(f"{where} is not signed; verify without a key if that is as it should be")
    if not head.signature.startswith(f"{_ALGORITHM}:"):
        raise BadSignature(f"{where} is signed by {head.signature.partition(':')[0]!r}; only {_ALGORITHM} is known")
    if not hmac.compare_digest(head.signature.encode(), _sign(head, key).encode()):
        raise BadSignature(f"{where}: the signature does not fit: it was changed, or signed with another key")
