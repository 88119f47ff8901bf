"""Keeps secrets out of the audit log: passwords, SCRAM credentials, tokens, JAAS lines, digests of ZooKeeper ACLs.

Every record passes ``without_secrets`` in the writer's thread before it is written. A secret is recognised by the name
before it: the key of a mapping, the field of a value, or a name in a text (``name=value``, ``"name": "value"``). Bytes
are replaced by their number. The content of an unreadable znode is dropped whole if the znode may hold secrets, because
damaged content may have lost the names.
"""

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import Record, RejectedRecord

HIDDEN: Final = "<hidden>"
SECRET_PATHS: Final = ("/config/brokers", "/config/users", "/delegation_token")
"""Znodes with passwords and tokens, and their children."""
_NAME: Final = (
    r"(?<![\w.\-])[\w.\-]*(?:passw(?:or)?d|passphrase|secret|token|jaas|credential|salt|scram-sha|hmac"
    r"|(?:stored|server|private|keystore)[._]?key|certificate[._]chain)[\w.\-]*"
)
_VALUE: Final = (
    r"""(?:\\+["'](?:(?!\\["']).)*(?:\\+["'])?"""  # a quoted value within a quoted text
    r"""|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[^\s,;}\]]+)"""
)
_SECRET_NAME: Final = re.compile(_NAME, re.IGNORECASE)
_SECRET_IN_TEXT: Final = re.compile(
    rf"""({_NAME}(?:\\*["'])?\s*=\s*\[?|{_NAME}\\*["']\s*:\s*|\b(?:passw(?:or)?d|passphrase|secret):\s*){_VALUE}""",
    re.IGNORECASE | re.DOTALL,
)
_SECRET_ROW: Final = re.compile(
    rf"""(name["']?\s*[:=]\s*["']{_NAME}["'][^{{}}()]{{0,80}}?\bvalue["']?\s*[:=]\s*){_VALUE}""",
    re.IGNORECASE | re.DOTALL,
)
"""A setting with its name and value apart: ``{"name": "ssl.key.password", "value": "..."}``."""
_LOGIN: Final = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")
_ACL_DIGEST: Final = re.compile(r"(\bdigest\b\W{1,3}(?:id\W{1,3})?[\w.\-@]+:)[\w+/=]{20,}")


def without_secrets(record: Record) -> Record:
    """The record without its secrets; the same object if it has none."""
    if not DESCRIPTIONS[type(record)].holds_texts:
        return record
    if isinstance(record, RejectedRecord):
        record = replace(record, content=_hidden_content(record))
    found = {name: getattr(record, name) for name in _FIELDS_WITH_TEXTS[type(record)]}
    kept = {name: hidden(value) for name, value in found.items()}
    return record if kept == found else replace(record, **kept)


def _holds_texts(name: str, annotation: Any) -> bool:
    """Whether a field holds texts or details, and not a column of names or numbers."""
    is_column = annotation in (int, float, bool) or getattr(annotation, "__origin__", None) is list
    return name == "reasons" or not is_column


_FIELDS_WITH_TEXTS: Final[Mapping[type[Record], Sequence[str]]] = {
    kind: [field.name for field in fields(kind) if _holds_texts(field.name, field.type)] for kind in DESCRIPTIONS
}


def hidden(value: object) -> Any:
    """The value in plain types, with each secret replaced by ``HIDDEN``."""
    if isinstance(value, str):
        return hidden_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        return _hidden_mapping(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _hidden_mapping({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(_hidden_mapping(dict(zip(value._fields, value, strict=True))).values())
    if isinstance(value, Collection):
        return [hidden(item) for item in value]
    return value


def _hidden_mapping(mapping: Mapping[Any, object]) -> dict[Any, object]:
    kept = {key: HIDDEN if value and is_secret(str(key)) else hidden(value) for key, value in mapping.items()}
    if is_secret(str(mapping.get("name", ""))) and mapping.get("value"):  # name and value apart
        kept["value"] = HIDDEN
    return kept


def is_secret(name: str) -> bool:
    """Whether a value with this name is a secret."""
    return _SECRET_NAME.search(name) is not None


def hidden_text(text: str) -> str:
    """The text, with each secret that it names replaced by ``HIDDEN``."""
    for secret in (_SECRET_ROW, _SECRET_IN_TEXT, _ACL_DIGEST, _LOGIN):
        text = secret.sub(_hide, text)
    return text


def _hide(found: re.Match[str]) -> str:
    return found[1] + HIDDEN


def _hidden_content(record: RejectedRecord) -> str:
    """The content of an unreadable znode without secrets; it is searched as a text."""
    if record.path.startswith(SECRET_PATHS):
        return ""
    text = base64.b64decode(record.content).decode("latin-1")
    kept = hidden_text(text)
    return record.content if kept == text else base64.b64encode(kept.encode("latin-1")).decode()
