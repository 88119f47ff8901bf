"""Changes that were taken out of the journal of the context are recorded even when the writing is cancelled."""

import asyncio
from contextlib import suppress

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.model import (
    BrokerId,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicImage,
    TopicPartition,
)
from controllerd.machines.outbox import Outbox
from controllerd.record.records import LeadershipRecord
from controllerd.slicer import Slicer
from tests.fakes.audit import RecordingAudit
from tests.fakes.world import RecordedChannels


def images(context: ControllerContext, topics: int) -> None:
    for number in range(topics):
        name = f"t{number}"
        one = ReplicaAssignment((BrokerId(1),))
        context.add_topic(TopicImage(name, {0: one}, None, 1))
        record = context.record(TopicPartition(name, 0))
        context.set_leaderships([(record, LeaderAndIsr(BrokerId(1), 0, (BrokerId(1),), 1, 0))])


async def test_a_cancelled_write_down_leaves_no_change_out() -> None:
    """``machines.beside`` cancels the work of an event when ZooKeeper refuses the coroutine beside it."""
    context, audit = ControllerContext(), RecordingAudit()
    context.begin_term(1, 1)
    images(context, 50)
    changes = context.change_count
    outbox = Outbox(
        context,
        RecordedChannels(),
        audit,
        lambda c: RequestBatch(2_000_000_000, c, inter_broker_listener="PLAINTEXT"),
        Slicer(slice_s=0.0),
    )
    writing = asyncio.create_task(outbox.write_down_slowly())
    for _ in range(3):
        await asyncio.sleep(0)
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    outbox.write_down()  # what ``end_term`` does

    leaderships = [tp for record in audit.of(LeadershipRecord) for tp in record.topics]
    assert changes == 150
    assert len(leaderships) == 50, f"{len(leaderships)} of 50 leaderships are in the audit log"
