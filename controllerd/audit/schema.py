"""The JSON Schema of a line of the log, generated from the types of the records."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from controllerd.audit.lines import AuditEntry
from controllerd.record.kinds import KINDS
from controllerd.record.records import SCHEMA_VERSION

_JSON_TYPES: Final = {int: "integer", str: "string"}
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def line_schema() -> dict[str, Any]:
    """The schema: the envelope, and the type of ``data`` for each kind. Unknown fields and kinds are allowed."""
    references, definitions = msgspec.json.schema_components(
        KINDS.values(), schema_hook=_of_anything, ref_template="#/$defs/{name}"
    )
    return {
        "$schema": DIALECT,
        "title": f"A line of the audit log of controllerd, schema {SCHEMA_VERSION}",
        "type": "object",
        "required": list(AuditEntry.__struct_fields__),
        "properties": dict(_envelope()),
        "allOf": [_of_kind(kind, reference) for kind, reference in zip(KINDS, references, strict=True)],
        "$defs": definitions,
    }


def encoded_schema() -> bytes:
    """The schema as formatted JSON, as it is published."""
    return msgspec.json.format(msgspec.json.encode(line_schema()), indent=2) + b"\n"


def _of_anything(custom: type) -> dict[str, Any]:
    """The schema of a value of details and configurations: any value."""
    if custom is not object:
        raise NotImplementedError(custom)
    return {"description": "any value"}


def _envelope() -> Iterator[tuple[str, dict[str, Any]]]:
    for field in msgspec.structs.fields(AuditEntry):
        yield field.name, {"type": _JSON_TYPES.get(field.type, "object")}


def _of_kind(kind: str, reference: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": {"data": reference}}}
