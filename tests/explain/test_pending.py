"""Decisions that are due or were refused: states that exist during one event, as a reader sees them."""

import dataclasses

import pytest

from controllerd.core.model import NO_LEADER, PartitionState
from controllerd.record.records import RefusedRecord
from controllerd.views import DeletionView
from tests.explain.seeding import Seeded, codes
from tests.fakes.reassigning import reassign
from tests.fakes.world import ids, tp

UNCLEAN = "unclean.leader.election.enable"


def led_by(seeded: Seeded, leader: int, *isr: int, state: PartitionState = PartitionState.ONLINE) -> None:
    """Publish this leader and ISR of partition 0, as before the end of the event that decided it."""
    topic = seeded.world.snapshot.topics["payments"]
    (view,) = topic.partitions
    assert view.leadership is not None
    leadership = view.leadership._replace(leader=ids(leader)[0], isr=ids(*isr))
    seen = view._replace(state=state, leadership=leadership)
    seeded.world.snapshot.topics["payments"] = dataclasses.replace(topic, partitions=(seen,))


def held_up(seeded: Seeded, reason: str) -> None:
    """Publish a deletion that waits for this reason."""
    topic = seeded.world.snapshot.topics["payments"]
    deletion = DeletionView(has_begun=True, held_up_by=reason, deleting=())
    seeded.world.snapshot.topics["payments"] = dataclasses.replace(topic, deletion=deletion)


async def in_sync_and_moving() -> Seeded:
    """A reassignment with all its targets in sync."""
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})
    led_by(seeded, 5, 5, 3, 6)
    return seeded


async def test_a_reassignment_whose_targets_are_in_sync_ends_next() -> None:
    why = await (await in_sync_and_moving()).why()

    assert (why.condition, why.severity, codes(why)) == ("reassigning", "ok", ["reassignment-ending"])
    assert "the last step follows" in why.causes[0].sentence


async def test_the_refusal_of_the_last_step_of_a_reassignment_is_the_cause() -> None:
    seeded = await in_sync_and_moving()
    seeded.recent.record(RefusedRecord("reassignment", ["payments"], [0], ["its znode was changed meanwhile"]))

    why = await seeded.why()

    assert (why.condition, why.severity, codes(why)) == ("reassigning", "warning", ["reassignment-refused"])
    assert why.causes[0].sentence.endswith("its znode was changed meanwhile")
    assert why.causes[0].since is not None


async def test_an_election_is_pending() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    led_by(seeded, NO_LEADER, 5, 3, state=PartitionState.OFFLINE)

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("offline", ["election-pending"])
    assert why.causes[0].sentence == "brokers 5,3 can lead: the election follows"
    assert why.next == ["controllerctl get queue"]


async def test_a_new_partition_on_live_brokers_gets_its_first_leader_at_once() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    topic = seeded.world.snapshot.topics["payments"]
    new = topic.partitions[0]._replace(state=PartitionState.NEW, leadership=None)
    seeded.world.snapshot.topics["payments"] = dataclasses.replace(topic, partitions=(new,))

    why = await seeded.why()

    assert (why.condition, codes(why)) == ("waiting", ["election-pending"])
    assert why.causes[0].sentence == "the write of its first leader follows"


async def test_an_unclean_election_that_is_allowed_now_is_pending() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    why = await seeded.why(configs={"payments": {UNCLEAN: "true"}}, unclean_by_default=False)

    assert codes(why) == ["broker-gone", "unclean-election-pending"]
    assert "unclean election is enabled now, and follows" in why.causes[1].sentence


@pytest.mark.parametrize(
    ("reason", "code", "says"),
    [
        ("its znode cannot be understood", "quarantined", "/brokers/topics/payments cannot be understood"),
        ("a reason of tomorrow", "deletion-held-up", "a reason of tomorrow"),
    ],
)
async def test_an_unknown_reason_of_a_waiting_deletion_is_quoted(reason: str, code: str, says: str) -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    held_up(seeded, reason)

    why = await seeded.why_topic()

    assert (why.condition, why.severity, codes(why)) == ("deleting", "warning", [code])
    assert why.causes[0].sentence == says
