"""No false alarm: what a whole controller writes down breaks no invariant, whatever goes wrong in its story."""

from collections.abc import Callable

import pytest

from controllerd.record.invariants import check
from controllerd.record.records import RefusedRecord
from tests.fakes.world import World
from tests.handlers import test_faults as faults
from tests.record.logs import stamped_log

FAULTS = [faults.lose_the_answer, faults.fail_unexpectedly, faults.expire_before, faults.expire_after]


@pytest.mark.parametrize("number", faults.TRANSACTIONS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_the_log_of_a_story_with_a_fault_is_clean(fault: Callable[[World, int], None], number: int) -> None:
    world = await faults.story(World(), fault, number)
    assert list(check(stamped_log(world.audit.records))) == []


async def test_the_story_leaves_the_records_that_rules_look_at() -> None:
    """Of a story without elections and requests, no rule would say anything."""
    world = await faults.story(World(), lambda _world, _number: None, 0)
    kinds = {record.kind for record in world.audit.records}
    assert {"decision", "leadership", "request", "reply", "brokers", "zk", "partition_state"} <= kinds
    assert not world.audit.of(RefusedRecord)
