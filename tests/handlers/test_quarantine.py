"""States in quarantine that are mended while something else goes on."""

import pytest

from controllerd.core.model import LeaderAndIsr
from events.cluster import QuarantineCheck
from tests.fakes.disks import Disks, successor
from tests.fakes.world import World, tp

STATE = "/brokers/topics/t/partitions/0/state"


@pytest.fixture
async def after() -> Disks:
    """Brokers 1 to 3 with the topic t, whose state the new controller cannot read; broker 3 is silent."""
    before = Disks(World())
    for broker in (1, 2, 3):
        before.world.register(broker)
    await before.start()
    before.world.put_topic("t", {0: [1, 2, 3]})
    await before.settle()
    sound = before.world.tree.nodes[STATE].data
    before.world.tree.put(STATE, b"not JSON")
    after = successor(before, 2)
    before.world.zk.expire()
    await after.start()
    after.silent = {3}
    after.world.tree.put("/admin/delete_topics/t")
    await after.settle()
    after.world.tree.put(STATE, sound)
    return after


async def test_a_mended_state_brings_no_replica_back_that_is_being_deleted(after: Disks) -> None:
    """A broker that has deleted its replica would begin it anew, and keep it when the topic is gone."""
    told = {broker: len(after.world.brief(broker)) for broker in (1, 2, 3)}
    after.world.queue.put(QuarantineCheck())
    await after.settle()

    assert [line for b in told for line in after.world.brief(b)[told[b] :] if "LeaderAndIsr" in line] == []
    assert (after.logs[1], after.logs[2]) == (set(), set())


async def test_a_mended_state_of_a_topic_that_goes_is_known_and_in_quarantine_no_more(after: Disks) -> None:
    after.world.queue.put(QuarantineCheck())
    await after.settle()

    assert isinstance(after.world.context.leadership(tp("t")), LeaderAndIsr)
    assert STATE not in after.world.context.quarantine
