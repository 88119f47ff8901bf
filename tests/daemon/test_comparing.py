"""The comparison of the controller's state with ZooKeeper and a broker: only lasting differences are reported."""

import asyncio
from collections.abc import Callable

import pytest

from controllerd.core.model import BrokerId, Features
from controllerd.daemon.comparing import ClusterComparison
from controllerd.daemon.differences import PublishedCluster, of_metadata
from controllerd.status.reads.comparison import Comparison, ComparisonProgress, Differing
from tests.fakes.world import World
from tests.scenarios.worlds import world_of
from wire.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata


@pytest.fixture
async def world() -> World:
    """Topics t on brokers 1 and 2, and u on 3."""
    world = await world_of(1, 2, 3)
    world.put_topic("t", {0: [1, 2], 1: [2, 1]})
    world.put_topic("u", {0: [3]})
    return await world.settle()


async def compared(world: World, *, meanwhile: Callable[[], None] = lambda: None) -> Comparison:
    """A comparison without brokers; ``meanwhile`` is called between its looks."""
    comparing = ClusterComparison(world.snapshot, lambda: world.zk, Features, "PLAINTEXT", again_s=0.01)
    asyncio.get_running_loop().call_later(0.005, meanwhile)
    return await comparing.compare(False, ComparisonProgress())


def brief(comparison: Comparison) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.subject, each.field, each.zookeeper, each.memory) for each in comparison.differences]


async def test_equal_states_have_no_difference(world: World) -> None:
    comparison = await compared(world)

    assert (comparison.differences, comparison.partitions) == ((), 3)


async def test_an_unnoticed_write_is_a_difference(world: World) -> None:
    edit(world, "/brokers/topics/t/partitions/0/state", b'"leader":1', b'"leader":2')
    edit(world, "/brokers/topics/u", b"[3]", b"[3,1]")

    assert brief(await compared(world)) == [
        ("t-0", "leader", "2", "1"),
        ("t-0", "state version", "1", "0"),
        ("u-0", "replicas", "3,1", "3"),
    ]


async def test_an_unnoticed_creation_or_deletion_is_a_difference(world: World) -> None:
    del world.tree.nodes["/brokers/topics/u/partitions/0/state"]
    world.tree.put("/admin/delete_topics/t")
    world.register(4)

    found = brief(await compared(world))

    assert ("u-0", "leader", None, "3") in found
    assert ("t", "deletion", "asked for", "not asked for") in found
    assert [each[:2] for each in found if each[0] == "broker 4"] == [("broker 4", "epoch")]


async def test_an_unreadable_znode_is_named_with_the_reason(world: World) -> None:
    edit(world, "/brokers/topics/t", b"{", b"", rest=False)

    (found,) = (await compared(world)).differences

    assert (found.subject, found.field, found.memory) == ("t", "znode", "could be read")


async def test_a_change_in_progress_is_no_difference(world: World) -> None:
    path = "/brokers/topics/t/partitions/0/state"
    node = world.tree.nodes[path]
    edit(world, path, b'"leader":1', b'"leader":2')

    comparison = await compared(world, meanwhile=lambda: world.tree.nodes.__setitem__(path, node))

    assert comparison.differences == ()


def test_differing_metadata_is_named_with_the_broker(world: World) -> None:
    published = PublishedCluster.of(world.snapshot)
    answer = metadata(
        old=[],
        t=[PartitionMetadata(0, 0, 2, 5, (1, 2), (2,), ()), PartitionMetadata(1, 0, 2, 0, (2, 1), (1, 2), ())],
    )

    found = [each for each in of_metadata(BrokerId(2), answer.topics.values(), published) if each is not None]

    assert found == [
        Differing("old", "topic", None, None, "2: exists"),
        Differing("t-0", "leader", "1", "1", "2: 2"),
        Differing("t-0", "leader epoch", "0", "0", "2: 5"),
        Differing("t-0", "isr", "1,2", "1,2", "2: 2"),
        Differing("u-0", "partition", "exists", "exists", "2: unknown"),
    ]


async def test_a_broker_without_an_answer_is_named(world: World) -> None:
    comparing = ClusterComparison(world.snapshot, lambda: world.zk, Features, "OTHER", again_s=0.01)

    comparison = await comparing.compare(True, ComparisonProgress())

    assert comparison.brokers == ()
    assert comparison.unanswered == dict.fromkeys((1, 2, 3), "it has no plaintext listener OTHER")


class RecordedProgress(ComparisonProgress):
    """A progress that records every stage and percentage."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: list[str] = []
        self.percents: list[float] = []

    def enter(self, stage: str, work: float = 0.0) -> None:
        super().enter(stage, work)
        self.stages.append(stage)
        self.percents.append(self.percent or 0.0)

    def advance(self, part: float) -> None:
        super().advance(part)
        self.percents.append(self.percent or 0.0)


async def test_the_progress_is_reported_by_stages(world: World) -> None:
    progress = RecordedProgress()

    await ClusterComparison(world.snapshot, lambda: world.zk, Features, "OTHER").compare(True, progress)

    brokers = [f"asking broker {broker} ({broker} of 3)" for broker in (1, 2, 3)]
    assert progress.stages == ["reading ZooKeeper", "comparing with ZooKeeper", *brokers]
    assert progress.percents == sorted(progress.percents)
    assert 0 < progress.percents[-1] < 100  # a second look might have followed


async def test_the_progress_of_the_second_pass_continues_that_of_the_first(world: World) -> None:
    edit(world, "/brokers/topics/t/partitions/0/state", b'"leader":1', b'"leader":2')
    progress = RecordedProgress()

    await ClusterComparison(world.snapshot, lambda: world.zk, Features, "OTHER", again_s=0.01).compare(False, progress)

    looks = ["reading ZooKeeper", "comparing with ZooKeeper"]
    assert progress.stages == [*looks, "comparing again", *(f"comparing again: {stage}" for stage in looks)]
    assert progress.percents == sorted(progress.percents)
    assert 80 < progress.percents[-1] <= 100


async def test_a_second_comparison_waits_for_its_turn(world: World) -> None:
    comparing = ClusterComparison(world.snapshot, lambda: world.zk, Features, "OTHER")
    first, second = RecordedProgress(), RecordedProgress()
    second.stages = first.stages  # of both, in the order of time

    await asyncio.gather(comparing.compare(False, first), comparing.compare(False, second))

    assert first.stages == ["reading ZooKeeper", "comparing with ZooKeeper"] * 2


def metadata(**topics: list[PartitionMetadata]) -> ClusterMetadata:
    """The metadata response of a broker with these topics."""
    found = {
        name: TopicMetadata(name, None, 0, False, {row.partition: row for row in rows}) for name, rows in topics.items()
    }
    return ClusterMetadata("c", 1, {}, found)


def edit(world: World, path: str, before: bytes, after: bytes, *, rest: bool = True) -> None:
    """Write a znode without a notification."""
    node = world.tree.nodes[path]
    assert before in (node.data or b"").replace(b" ", b"")
    data = (node.data or b"").replace(b" ", b"").replace(before, after) if rest else b"?"
    world.tree.nodes[path] = node._replace(data=data, version=node.version + 1)
