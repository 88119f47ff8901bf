"""The outbox: one batch at a time, recorded before it is sent, dropped when it fails."""

import pytest

from controllerd.errors import IllegalState
from controllerd.record.records import RequestRecord
from tests.fakes.world import World, ids, tp


async def test_requests_are_recorded_and_accepted_before_they_are_sent(world: World) -> None:
    await world.c.outbox.update_metadata(ids(1, 2), [tp("t")])

    recorded = world.audit.records.index(world.audit.of(RequestRecord)[0])
    assert world.audit.accepted_at[-1] > recorded
    assert world.brief(1) == ["UpdateMetadata(t-0 1/0 [1, 2, 3])"]


async def test_a_second_batch_while_one_is_open_is_an_illegal_state(world: World) -> None:
    async with world.c.outbox.batch():
        with pytest.raises(IllegalState, match="still open"):
            await world.c.outbox.update_metadata(ids(1))


async def fail_half_way(world: World) -> None:
    async with world.c.outbox.batch() as batch:
        batch.add_stop_replica(ids(1), tp("t"), delete=False)
        raise RuntimeError("planted")


async def test_a_batch_that_fails_is_dropped_and_the_next_one_is_empty_kafka_2300(world: World) -> None:
    with pytest.raises(RuntimeError, match="planted"):
        await fail_half_way(world)

    await world.c.outbox.update_metadata(ids(1))

    assert world.brief(1) == ["UpdateMetadata()"]


async def test_an_empty_batch_sends_no_request_and_waits_for_no_record(world: World) -> None:
    waits = len(world.audit.accepted_at)

    async with world.c.outbox.batch():
        pass

    assert (world.channels.sent, len(world.audit.accepted_at)) == ([], waits)
