"""The committed pictures are those that the tables draw now."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def diagrams() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diagrams", DOCS / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_architecture_page_is_up_to_date(diagrams: ModuleType) -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")

    assert page == diagrams.redrawn(page), "run: python docs/diagrams.py"


def test_every_legal_move_is_an_arrow(diagrams: ModuleType) -> None:
    assert diagrams.generated().count("-->") == 8 + 14


def test_a_page_without_markers_is_refused(diagrams: ModuleType) -> None:
    with pytest.raises(ValueError, match="no <!-- generated"):
        diagrams.redrawn("no markers")
