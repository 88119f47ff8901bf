"""The page about events is up to date with the code and with a tour through all events."""

import pytest

from event_reference import PAGE, generated
from tests.tour import shape_of


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == generated(), "run: make docs"


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
