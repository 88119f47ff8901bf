"""The output of each command, in each format, is checked against its schema."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema_rs import Draft202012Validator

from controllerd.status.schema.tasks import TaskResponse
from tests.cli.documents import run
from tests.cli.matrix.calling import Call
from tests.cli.matrix.clusters import ServedCluster
from tests.cli.matrix.table import ROWS, TASK_ID
from tests.cli.running import Outcome

DATA = [name for name, row in ROWS.items() if row.document is not None]
TABLES = [name for name, row in ROWS.items() if row.heading]
LISTS = [name for name, row in ROWS.items() if row.item is not None]
VERBS = [name for name, row in ROWS.items() if row.document is TaskResponse]
Print = Callable[[str, str], Outcome]


@pytest.fixture
def printed(call: Call) -> Print:
    """Run a command with an output format."""

    def in_format(command: str, output: str) -> Outcome:
        row = ROWS[command]
        outcome = call(row.words, "-o", output, row=row)
        assert outcome.code == row.code, outcome.err
        return outcome

    return in_format


def conforms(document: object, kind: Any) -> bool:
    """Whether this is a document of the type: with all its fields, and no other."""
    return bool(json.loads(msgspec.json.encode(msgspec.convert(document, kind, strict=True))) == document)


def lines_of(text: str) -> list[Any]:
    """Each line as JSON."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("command", DATA)
def test_json_is_the_document_of_the_schema(printed: Print, command: str) -> None:
    row, text = ROWS[command], printed(command, "json").out

    found = lines_of(text) if row.is_stream else [json.loads(text)]

    assert found
    assert all(conforms(document, row.document) for document in found)


@pytest.mark.parametrize("command", DATA)
def test_jsonl_has_a_document_or_an_item_on_each_line(printed: Print, command: str) -> None:
    row = ROWS[command]

    lines = lines_of(printed(command, "jsonl").out)

    assert lines
    assert all(conforms(line, row.item or row.document) for line in lines)
    assert len(lines) == 1 or row.item is not None or row.is_stream


@pytest.mark.parametrize("command", DATA)
def test_yaml_is_the_same_document(printed: Print, command: str) -> None:
    row, text = ROWS[command], printed(command, "yaml").out

    found = list(yaml.safe_load_all(text))

    assert len(found) == 1 or row.is_stream
    assert all(conforms(document, row.document) for document in found)
    assert not text.startswith("{"), "that would be JSON"


@pytest.mark.parametrize("command", ["audit tail", "audit cat"])
def test_lines_of_the_audit_log_are_of_its_own_schema(printed: Print, command: str) -> None:
    schema = Draft202012Validator(json.loads(printed("audit schema", "json").out))

    assert [line for line in lines_of(printed(command, "jsonl").out) if not schema.is_valid(line)] == []


@pytest.mark.parametrize("command", [name for name in LISTS if name != "doctor"])
def test_every_format_has_the_same_items(printed: Print, command: str) -> None:
    document = json.loads(printed(command, "json").out)

    assert yaml.safe_load(printed(command, "yaml").out) == document
    assert lines_of(printed(command, "jsonl").out) == document["items"]
    assert len(printed(command, "name").out.splitlines()) == len(document["items"])


@pytest.mark.parametrize("command", DATA)
def test_a_name_is_a_line_and_there_is_nothing_else(printed: Print, command: str) -> None:
    names, expected = printed(command, "name").out.splitlines(), ROWS[command].names

    patterns = expected if len(expected) > 1 else expected * len(names)
    assert names
    assert [name for name, pattern in zip(names, patterns, strict=True) if not re.fullmatch(pattern, name)] == []


@pytest.mark.parametrize("command", VERBS)
def test_a_dry_run_is_the_planned_task_in_every_format(
    call: Call, shown: dict[str, ServedCluster], command: str
) -> None:
    row, url = ROWS[command], shown[ROWS[command].on].url
    before = run("get", "tasks", "-o", "name", "--api", url).out
    printed = {
        output: call.at(url, row.words, "--dry-run", "-o", output, row=row).out
        for output in ("json", "jsonl", "yaml", "table", "wide", "name")
    }

    task = msgspec.json.decode(printed["json"], type=TaskResponse).task
    assert task.state == "planned"
    assert msgspec.json.decode(printed["jsonl"], type=TaskResponse).task.items == task.items
    assert msgspec.convert(yaml.safe_load(printed["yaml"]), TaskResponse).task.items == task.items
    assert "dry run, nothing was changed" in printed["table"]
    assert printed["wide"] == printed["table"]
    assert re.fullmatch(rf"{TASK_ID}\n", printed["name"])
    assert run("get", "tasks", "-o", "name", "--api", url).out == before


@pytest.mark.parametrize("output", ["table", "wide"])
@pytest.mark.parametrize("command", ROWS)
def test_the_table_of_a_command_contains_its_key_text(printed: Print, command: str, output: str) -> None:
    outcome = printed(command, output)

    assert ROWS[command].says in outcome.out
    assert outcome.out.strip()


@pytest.mark.parametrize("command", TABLES)
def test_a_table_has_headings_and_rows_and_wide_has_no_fewer(printed: Print, command: str) -> None:
    heading = ROWS[command].heading
    table, wide = (rows_below(heading, printed(command, output).out) for output in ("table", "wide"))

    assert len(table) == len(wide) > 1
    assert set(table[0].split()) <= set(wide[0].split())


@pytest.mark.parametrize("command", [name for name in LISTS if name != "doctor"])
def test_a_table_has_a_row_for_each_item(printed: Print, command: str) -> None:
    table = rows_below(ROWS[command].heading, printed(command, "table").out)

    assert len(table) - 1 == len(json.loads(printed(command, "json").out)["items"])


def rows_below(heading: str, text: str) -> list[str]:
    """The last table that begins with this heading, up to an empty line."""
    lines = text.splitlines()
    rest = lines[[number for number, line in enumerate(lines) if line.split()[:1] == [heading]][-1] :]
    return rest[: rest.index("")] if "" in rest else rest
