"""Brokers are asked for replica sizes only during reassignments and deletions; a silent broker delays no other."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from kio.schema.describe_log_dirs.v1.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from controllerd.api.replica_sizes import ReplicaSizes, polling
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.replica_sizes import NO_SIZES
from tests.fakes.listening import ListeningFake
from tests.fakes.reassigning import reassign
from tests.fakes.world import World, tp
from wire.framing import RequestHeader
from wire.kio_codec import decode_request, encode_response


class LogDirsBroker(ListeningFake):
    """A socket that answers DescribeLogDirs with these sizes, or not at all."""

    def __init__(self, sizes: Mapping[TopicPartition, int]) -> None:
        super().__init__()
        self.sizes = dict(sizes)
        self.asked: list[set[TopicPartition]] = []
        self.is_silent = False
        self.was_asked_thrice = asyncio.Event()

    async def answer(self, frame: bytes) -> bytes | None:
        """Answer with all sizes, without regard to the replicas in the request."""
        header, entity = decode_request(frame)
        topics = getattr(entity, "topics", ())
        self.asked.append({tp(topic.topic, number) for topic in topics for number in topic.partitions})
        if len(self.asked) == 3:
            self.was_asked_thrice.set()
        return None if self.is_silent else self._response(header)

    def _response(self, header: RequestHeader) -> bytes:
        topics = tuple(
            DescribeLogDirsTopic(
                name=TopicName(at.topic),
                partitions=(
                    DescribeLogDirsPartition(
                        partition_index=i32(at.partition),
                        partition_size=i64(size),
                        offset_lag=i64(0),
                        is_future_key=False,
                    ),
                ),
            )
            for at, size in self.sizes.items()
        )
        result = DescribeLogDirsResult(error_code=ErrorCode.none, log_dir="/a", topics=topics)
        throttle = i32Timedelta.parse(timedelta(0))
        return encode_response(
            header.correlation_id, DescribeLogDirsResponse(throttle_time=throttle, results=(result,))
        )


@pytest.fixture
async def brokers() -> AsyncIterator[list[LogDirsBroker]]:
    """Three brokers with these sizes of t."""
    sizes = [{tp("t"): 1000}, {tp("t"): 900}, {tp("t"): 100}]
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(LogDirsBroker(each)) for each in sizes]


@pytest.fixture
async def world(brokers: list[LogDirsBroker]) -> World:
    """A cluster of these brokers with the topics t, on brokers 1 and 2, and u, on broker 3."""
    world = World()
    for broker_id, broker in enumerate(brokers, start=1):
        world.register(broker_id, port=broker.port)
    world.put_topic("t", {0: [1, 2]})
    world.put_topic("u", {0: [3]})
    return await world.start()


@pytest.fixture
def sizes(world: World) -> ReplicaSizes:
    return ReplicaSizes(world.snapshot, "PLAINTEXT", world.clock.monotonic, ask_s=0.2)


async def test_no_broker_is_asked_without_a_reassignment_or_deletion(
    sizes: ReplicaSizes, brokers: list[LogDirsBroker]
) -> None:
    await sizes.request_sizes()

    assert [broker.asked for broker in brokers] == [[], [], []]
    assert sizes.view() is NO_SIZES


async def test_every_replica_of_a_moving_partition_is_asked_for_in_one_request_per_broker(
    world: World, sizes: ReplicaSizes, brokers: list[LogDirsBroker]
) -> None:
    await reassign(world, {tp("t"): [1, 3]})

    await sizes.request_sizes()

    assert [broker.asked for broker in brokers] == [[{tp("t")}]] * 3
    found = sizes.view().replicas[tp("t")]
    assert {broker: size.bytes for broker, size in found.items()} == {1: 1000, 2: 900, 3: 100}


async def test_the_next_round_gives_a_rate(world: World, sizes: ReplicaSizes, brokers: list[LogDirsBroker]) -> None:
    await reassign(world, {tp("t"): [1, 3]})
    await sizes.request_sizes()

    brokers[2].sizes[tp("t")] = 600
    world.clock.now += 5
    await sizes.request_sizes()

    size = sizes.view().size(tp("t"), BrokerId(3))
    assert size is not None
    assert size.bytes_per_s == 100


async def test_sizes_are_forgotten_when_the_last_reassignment_ends(world: World, sizes: ReplicaSizes) -> None:
    await reassign(world, {tp("t"): [1, 3]})
    await sizes.request_sizes()

    await reassign(world, {tp("t"): None})
    await sizes.request_sizes()

    assert sizes.view() is NO_SIZES


async def test_a_topic_that_is_being_deleted_is_asked_for(
    world: World, sizes: ReplicaSizes, brokers: list[LogDirsBroker]
) -> None:
    world.tree.put("/admin/delete_topics/u")
    await world.settle()

    await sizes.request_sizes()

    assert brokers[2].asked == [{tp("u")}]


async def test_a_silent_broker_is_named_and_the_others_answer(
    world: World, sizes: ReplicaSizes, brokers: list[LogDirsBroker]
) -> None:
    brokers[1].is_silent = True
    await reassign(world, {tp("t"): [1, 3]})

    await sizes.request_sizes()

    assert sizes.view().failures == {2: "no answer in 0.2 s"}
    assert sizes.view().replicas[tp("t")].keys() == {1, 3}


async def test_a_broker_that_cannot_be_reached_is_named(
    world: World, sizes: ReplicaSizes, brokers: list[LogDirsBroker]
) -> None:
    await brokers[2].close()
    await reassign(world, {tp("t"): [1, 3]})

    await sizes.request_sizes()

    assert sizes.view().failures.keys() == {3}


async def test_a_broker_without_the_inter_broker_listener_is_not_asked(
    world: World, brokers: list[LogDirsBroker]
) -> None:
    sizes = ReplicaSizes(world.snapshot, "INTERNAL", world.clock.monotonic)
    await reassign(world, {tp("t"): [1, 3]})

    await sizes.request_sizes()

    assert sizes.view().failures[BrokerId(1)] == "it has no plaintext listener INTERNAL"
    assert brokers[0].asked == []


async def test_a_plan_may_measure_at_any_time_and_the_view_stays_empty(
    sizes: ReplicaSizes, brokers: list[LogDirsBroker]
) -> None:
    measured = await sizes.measure([tp("t"), tp("nowhere")])

    assert {broker: size.bytes for broker, size in measured.replicas[tp("t")].items()} == {1: 1000, 2: 900}
    assert sizes.view() is NO_SIZES
    assert brokers[2].asked == []


async def test_rounds_follow_each_other_by_themselves(world: World, brokers: list[LogDirsBroker]) -> None:
    sizes = ReplicaSizes(world.snapshot, "PLAINTEXT", world.clock.monotonic, every_s=0.001)
    await reassign(world, {tp("t"): [1, 3]})

    async with polling(sizes), asyncio.timeout(5):
        await brokers[0].was_asked_thrice.wait()

    assert sizes.view().replicas.keys() == {tp("t")}
