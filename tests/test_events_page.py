"""The page about events is what the code and a tour through all events say now."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.tour import shape_of

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("events_page", DOCS / "event_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(page: ModuleType) -> None:
    assert (DOCS / "events.md").read_text("utf-8") == page.generated(), "run: python docs/event_reference.py"


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/brokers/topics/orders/partitions/12/state", "/brokers/topics/…/partitions/…/state"),
        ("/brokers/topics/orders", "/brokers/topics/…"),
        ("/isr_change_notification/isr_change_0000000003", "/isr_change_notification/…"),
        ("/admin/reassign_partitions", "/admin/reassign_partitions"),
    ],
)
def test_names_are_left_out_of_paths(path: str, shape: str) -> None:
    assert shape_of(path) == shape
