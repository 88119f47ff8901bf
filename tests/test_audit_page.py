"""The page about the audit log and the published schema are up to date with the types."""

from pathlib import Path

from audit_reference import BEGIN, generated
from controllerd.audit.findings import Harm
from controllerd.audit.schema import encoded_schema
from controllerd.record.kinds import KINDS
from markers import rewritten

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "audit.md").read_text("utf-8")


def test_the_tables_are_up_to_date() -> None:
    assert rewritten(PAGE, BEGIN, generated()) == PAGE, "run: make docs"


def test_the_published_schema_is_up_to_date() -> None:
    assert (DOCS / "audit.schema.json").read_bytes() == encoded_schema(), "run: make docs"


def test_every_kind_has_a_section() -> None:
    assert [kind for kind in KINDS if f"\n### {kind}\n" not in PAGE] == []


def test_every_harm_is_explained() -> None:
    assert [harm.value for harm in Harm if f"\n| `{harm.value}` |" not in PAGE] == []
