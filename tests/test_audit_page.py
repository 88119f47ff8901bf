"""The page about the audit log and the published schema are what the types say now."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from controllerd.audit.findings import Harm
from controllerd.audit.schema import encoded_schema
from controllerd.record.kinds import KINDS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "audit.md").read_text("utf-8")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_reference", DOCS / "audit_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_up_to_date(reference: ModuleType) -> None:
    assert reference.with_tables(PAGE) == PAGE, "run: python docs/audit_reference.py"


def test_the_published_schema_is_up_to_date() -> None:
    assert (DOCS / "audit.schema.json").read_bytes() == encoded_schema(), "run: python docs/audit_reference.py"


def test_every_kind_has_a_section() -> None:
    assert [kind for kind in KINDS if f"\n### {kind}\n" not in PAGE] == []


def test_every_harm_is_explained() -> None:
    assert [harm.value for harm in Harm if f"\n| `{harm.value}` |" not in PAGE] == []


def test_a_page_without_markers_is_refused(reference: ModuleType) -> None:
    with pytest.raises(ValueError, match="marker"):
        reference.with_tables("no page")
