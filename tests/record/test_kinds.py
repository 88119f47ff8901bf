"""Every kind of record is described completely, and a new kind needs nothing beside its description."""

import ast
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from controllerd.record import records
from controllerd.record.description import Kind
from controllerd.record.families import cluster, operators, partitions, terms, traffic, work
from controllerd.record.kinds import DESCRIPTIONS, EVERY_KIND, FOLDS, KINDS, sentence_of
from controllerd.record.records import Record
from controllerd.status.metrics.meters import Meters
from replay.facts.assemble import FOLDED_KINDS
from replay.facts.schema import NAMES
from tests.audit.samples import ONE_OF_EACH

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = (terms, cluster, partitions, work, traffic, operators)
SAMPLES = {type(record): record for record in ONE_OF_EACH}
READERS = (
    "controllerd/audit",
    "controllerd/daemon",
    "controllerd/status/metrics",
    "replay/facts",
)


@pytest.fixture(params=DESCRIPTIONS.values(), ids=lambda kind: kind.record.kind)
def kind(request: pytest.FixtureRequest) -> Kind[Any]:
    """The description of each kind."""
    described: Kind[Any] = request.param
    return described


def test_every_type_of_record_is_described_once() -> None:
    defined = {
        each
        for module in (records, *FAMILIES)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Record) and each is not Record
    }
    described = [each.record for module in FAMILIES for each in vars(module).values() if isinstance(each, Kind)]

    assert defined == EVERY_KIND
    assert sorted(described, key=lambda record: record.kind) == sorted(EVERY_KIND, key=lambda record: record.kind)
    assert len(KINDS) == len(DESCRIPTIONS)


def test_every_kind_has_a_sentence(kind: Kind[Any]) -> None:
    assert sentence_of(SAMPLES[kind.record])


def test_every_kind_has_columns_of_the_schema_and_loses_no_field(kind: Kind[Any]) -> None:
    record = SAMPLES[kind.record]
    rows, columns = kind.facts(record)

    assert rows >= 1
    assert columns.keys() <= set(NAMES)
    assert all(len(values) == rows or name == "data" for name, values in columns.items())


def test_every_kind_says_whether_the_fold_applies_it(kind: Kind[Any]) -> None:
    """What is folded can be read back from facts, or a replay of facts would fold less than one of the log."""
    assert kind.fold is None or kind.from_facts is not None
    assert (kind.record in FOLDS) == (kind.fold is not None)
    assert (kind.record.kind in FOLDED_KINDS) == (kind.from_facts is not None)


def test_every_kind_has_a_counter_that_is_exported_or_none(kind: Kind[Any]) -> None:
    exported = {metric.name for metric in Meters().collect()}

    assert kind.counter is None or kind.counter.name in exported


def test_a_kind_cannot_be_described_in_part() -> None:
    required = {"record", "sentence", "facts", "from_facts", "fold", "counter"}

    assert {field.name for field in fields(Kind)} > required
    with pytest.raises(TypeError, match="missing 6 required keyword-only arguments"):
        Kind()  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True)
class Unheard(Record):
    """A kind that nothing describes."""

    kind: ClassVar[str] = "not_heard_of"


def test_a_kind_without_a_description_is_named_by_itself() -> None:
    assert sentence_of(Unheard()) == "not heard of"


def test_the_readers_keep_no_list_of_kinds() -> None:
    """A mapping from many types of record to something else belongs into the descriptions."""
    listed = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in READERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict | ast.Tuple | ast.Set) and _records_named(node) > 3
    ]

    assert listed == []


def _records_named(node: ast.Dict | ast.Tuple | ast.Set) -> int:
    """How many types of record are the keys or elements."""
    elements = node.keys if isinstance(node, ast.Dict) else node.elts
    names = {record.__name__ for record in EVERY_KIND}
    return sum(isinstance(element, ast.Name) and element.id in names for element in elements)
