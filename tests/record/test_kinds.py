"""Every kind of record is described completely, and a new kind needs nothing beside its description."""

import ast
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from controllerd.record import records
from controllerd.record.description import RecordKind
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
def kind(request: pytest.FixtureRequest) -> RecordKind[Any]:
    """The description of each kind."""
    described: RecordKind[Any] = request.param
    return described


def test_every_type_of_record_is_described_once() -> None:
    defined = {
        each
        for module in (records, *FAMILIES)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Record) and each is not Record
    }
    described = [each.record for module in FAMILIES for each in vars(module).values() if isinstance(each, RecordKind)]

    assert defined == EVERY_KIND
    assert sorted(described, key=lambda record: record.kind) == sorted(EVERY_KIND, key=lambda record: record.kind)
    assert len(KINDS) == len(DESCRIPTIONS)


def test_every_kind_has_a_sentence(kind: RecordKind[Any]) -> None:
    assert sentence_of(SAMPLES[kind.record])


def test_every_kind_has_columns_of_the_schema_and_loses_no_field(kind: RecordKind[Any]) -> None:
    record = SAMPLES[kind.record]
    rows, columns = kind.facts(record)

    assert rows >= 1
    assert columns.keys() <= set(NAMES)
    assert all(len(values) == rows or name == "data" for name, values in columns.items())


def test_every_kind_says_whether_the_fold_applies_it(kind: RecordKind[Any]) -> None:
    """Every folded kind can be restored from facts, so that a replay of facts folds as much as one of the log."""
    assert kind.fold is None or kind.from_facts is not None
    assert (kind.record in FOLDS) == (kind.fold is not None)
    assert (kind.record.kind in FOLDED_KINDS) == (kind.from_facts is not None)


def test_a_kind_in_a_snapshot_or_in_the_digest_is_folded(kind: RecordKind[Any]) -> None:
    assert kind.fold is not None or not (kind.in_snapshot or kind.in_digest)


def test_every_kind_has_a_counter_that_is_exported_or_none(kind: RecordKind[Any]) -> None:
    exported = {metric.name for metric in Meters().collect()}

    assert kind.counter is None or kind.counter.name in exported


def test_a_kind_cannot_be_described_in_part() -> None:
    required = {"record", "sentence", "facts", "from_facts", "fold", "counter"}

    assert {field.name for field in fields(RecordKind)} > required
    with pytest.raises(TypeError, match="missing 6 required keyword-only arguments"):
        RecordKind()  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True)
class Undescribed(Record):
    """A kind without a description."""

    kind: ClassVar[str] = "not_described"


def test_a_kind_without_a_description_is_named_by_itself() -> None:
    assert sentence_of(Undescribed()) == "not described"


def test_readers_have_no_lists_of_kinds_of_their_own() -> None:
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
