"""Topics and partitions in quarantine, because a znode cannot be decoded."""

import pytest

from controllerd.core.context import ControllerContext
from controllerd.core.soundness import is_in_doubt
from tests.fakes.world import tp

TOPIC = "/brokers/topics/t"


@pytest.mark.parametrize("path", [TOPIC, f"{TOPIC}/partitions/0", f"{TOPIC}/partitions/0/state"])
def test_a_partition_is_in_doubt_with_its_state_its_folder_and_its_topic(path: str) -> None:
    context = ControllerContext()

    context.put_in_quarantine(path, "not JSON")

    assert is_in_doubt(context, tp("t"))
    assert not is_in_doubt(context, tp("u"))


def test_a_partition_is_not_in_doubt_for_another_one_or_when_it_is_understood_again() -> None:
    context = ControllerContext()
    context.put_in_quarantine(f"{TOPIC}/partitions/1", "not JSON")
    assert not is_in_doubt(context, tp("t"))

    context.take_out_of_quarantine(f"{TOPIC}/partitions/1")

    assert not is_in_doubt(context, tp("t", 1))
