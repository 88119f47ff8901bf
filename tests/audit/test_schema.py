"""The published JSON Schema is made from the types, and real lines fit it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllerd.audit.schema import line_schema
from controllerd.audit.segments import list_segments, read_lines
from controllerd.record.kinds import KINDS
from tests.audit.samples import ONE_OF_EACH, write_log

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value fits a schema, for the few keywords that the schema uses."""
    if "$ref" in schema:
        return fits(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return any(fits(value, option, root) for option in schema["anyOf"])
    if "if" in schema and fits(value, schema["if"], root):
        return fits(value, schema["then"], root)
    if "const" in schema:
        return bool(value == schema["const"])
    if "type" in schema and (not isinstance(value, TYPES[schema["type"]]) or is_bool_for_number(value, schema)):
        return False
    fields = schema.get("properties", {})
    return (
        all(fits(value, each, root) for each in schema.get("allOf", ()))
        and all(name in value for name in schema.get("required", ()))
        and all(fits(value[name], each, root) for name, each in fields.items() if name in value)
        and ("items" not in schema or all(fits(item, schema["items"], root) for item in value))
    )


def is_bool_for_number(value: object, schema: dict[str, Any]) -> bool:
    """Python's booleans are integers, JSON's are not."""
    return isinstance(value, bool) and schema["type"] in {"integer", "number"}


@pytest.fixture
async def lines(tmp_path: Path) -> list[Any]:
    """A written line of every kind."""
    directory = await write_log(tmp_path, *ONE_OF_EACH)
    return [msgspec.json.decode(line) for segment in list_segments(directory) for line in read_lines(segment)]


async def test_every_line_that_is_written_fits_the_schema(lines: list[Any]) -> None:
    schema = line_schema()
    assert {line["kind"] for line in lines} == KINDS.keys()
    assert [line["kind"] for line in lines if not fits(line, schema, schema)] == []


async def test_a_line_without_a_field_or_with_another_type_does_not_fit(lines: list[Any]) -> None:
    schema = line_schema()
    for line in lines:
        name = next(iter(line["data"]))
        assert not fits({**line, "seq": "1"}, schema, schema)
        assert not fits({**line, "data": {**line["data"], name: {"an": "object"}}}, schema, schema) or isinstance(
            line["data"][name], dict
        )


async def test_fields_and_kinds_of_a_newer_version_fit(lines: list[Any]) -> None:
    schema = line_schema()
    assert all(fits({**line, "added": 1, "data": {**line["data"], "added": 1}}, schema, schema) for line in lines)
    assert fits({**lines[0], "kind": "of tomorrow", "data": {}}, schema, schema)
