"""Exported heads: the newest line of an audit log, written down where who changes the log cannot change it too.

A head is one line of JSON, signed with HMAC-SHA256 when there is a key. Against heads ``audit verify`` tells what the
chain alone cannot: that the end was cut off, that everything was rewritten, that an old copy was put back. A file of
heads has one per line, the newest last.
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
    """A head, or the key of its signature, cannot be used; the message says why and what to do."""


class BadSignature(BadHead):
    """The head was not signed with this key, or was changed since."""


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
    """``hmac-sha256:`` and the code in hex, over the document without this field."""

    @classmethod
    def of(cls, head: Head, *, cluster: str, node: int, epoch: int, exported_ms: int) -> "ExportedHead":
        """Of a line that was written; a log without a line (``seq`` 0) has no head to export."""
        return cls(HEAD_VERSION, cluster, node, head.boot, head.seq, epoch, head.hash, exported_ms)

    @property
    def head(self) -> Head:
        """The line as the log knows it."""
        return Head(self.boot, self.seq, self.hash)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(ExportedHead)


def encode_head(head: ExportedHead, key: bytes | None = None) -> bytes:
    """One line of JSON without newline: the content of a znode, a line of a file or of the journal. Pure.

    With a ``key`` it is signed, whatever signature the head had. Export lines that are durable: of a head that a power
    cut took away, ``audit verify`` says rightly that the log ends before it.
    """
    return _ENCODER.encode(msgspec.structs.replace(head, signature=_sign(head, key) if key is not None else None))


def decode_head(data: bytes, key: bytes | None = None) -> ExportedHead:
    """The head that ``encode_head`` made. Without a ``key`` a signature is passed over. Pure.

    :raises BadHead: this is no head, or of a newer version.
    :raises BadSignature: there is a key, and the head is not signed, or with another key, or was changed.
    """
    try:
        version = msgspec.json.decode(data, type=_Versioned).v
        if version != HEAD_VERSION:
            raise BadHead(f"head of version {version}; this controllerd knows {HEAD_VERSION}: use a newer one")
        head = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadHead(f"not an exported head: {problem}") from None
    if key is not None:
        _check_signature(head, key)
    return head


def decode_heads(data: bytes, key: bytes | None = None) -> list[ExportedHead]:
    """All heads of a file, one per line, in its order; blank lines are passed over. Pure.

    :raises BadHead: a line is no head, or its signature is wrong (``BadSignature``); or there is none at all.
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
    """A file of heads, one per line with its newline. Pure."""
    return b"".join(encode_head(head, key) + b"\n" for head in heads)


def read_key(path: Path) -> bytes:
    """The key of signatures: the bytes of a file without white space at its ends.

    :raises BadHead: shorter than 16 bytes. :raises OSError: it cannot be read.
    """
    key = path.read_bytes().strip()
    if len(key) < MIN_KEY_BYTES:
        raise BadHead(
            f"the key in {path} has {len(key)} bytes, it needs {MIN_KEY_BYTES}: openssl rand -hex 32 > {path}"
        )
    return key


class _Versioned(msgspec.Struct):
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
