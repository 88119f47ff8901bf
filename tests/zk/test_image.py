"""A image has everything that a controller reads, and says when it may never have been so."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.slicer import Slicer
from controllerd.zk import paths
from controllerd.zk.access import Znode
from controllerd.zk.image import ATTEMPTS, read_image
from tests.fakes.store import FakeStore
from tests.fakes.zookeeper import FakeZooKeeper, Tree

T0 = TopicPartition("t", 0)
STATE = paths.partition_state(T0)


class Moving(FakeZooKeeper):
    """A session that has something happen at the n-th read from now on."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, 9)
        self.at_read: dict[int, Callable[[], None]] = {}
        self.reads = 0

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        self.reads += 1
        self.at_read.pop(self.reads, lambda: None)()
        return await super().read(paths)


class Queueing(FakeZooKeeper):
    """A session that remembers how many znodes were asked for at once, in one read or in several."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, 9)
        self.most = 0
        self._asked = 0

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        self._asked += len(paths)
        self.most = max(self.most, self._asked)
        await asyncio.sleep(0)
        self._asked -= len(paths)
        return await super().read(paths)


@pytest.fixture
def store() -> FakeStore:
    store = FakeStore()
    store.lead()
    store.add_broker(1)
    store.add_broker(2)
    store.add_topic("t", {0: [1, 2], 1: [2, 1]})
    store.set_state(T0, LeaderAndIsr(BrokerId(1), 0, (BrokerId(1), BrokerId(2)), 1, 0))
    store.tree.put(paths.topic_config("t"), b"{}")
    store.tree.put(paths.delete_topic("t"))
    return store


async def test_the_znodes_of_brokers_topics_states_requests_and_configs_are_in_it(store: FakeStore) -> None:
    image = await read_image(store.zk)

    assert image.nodes.keys() == {
        paths.CONTROLLER,
        paths.CONTROLLER_EPOCH,
        "/brokers/ids/1",
        "/brokers/ids/2",
        "/brokers/topics/t",
        STATE,
        "/config/topics/t",
        "/admin/delete_topics/t",
    }
    assert all(node == store.tree.nodes[path] for path, node in image.nodes.items())
    assert not image.is_torn


async def test_the_children_of_folders_are_in_it(store: FakeStore) -> None:
    image = await read_image(store.zk)

    assert image.names("/brokers/ids") == ("1", "2")
    assert image.names("/brokers/topics/t/partitions") == ("0",)
    assert image.names("/nowhere") == ()


async def test_nothing_is_written_and_nothing_is_watched(store: FakeStore) -> None:
    await read_image(store.zk)
    store.remove_broker(1)
    store.tree.put("/brokers/topics/t", b"{}")

    assert store.zk.transactions == []
    assert store.events == []


@pytest.mark.parametrize(
    ("slicer", "at_once"), [(Slicer(clock=lambda: 0.0), range(100, 251)), (None, range(2_000, 4_001))]
)
async def test_on_the_session_of_a_controller_reads_are_small(
    store: FakeStore, slicer: Slicer | None, at_once: range
) -> None:
    store.add_topic("wide", {number: [1, 2] for number in range(5_000)})
    zk = Queueing(store.tree)

    await read_image(zk, slicer=slicer)

    assert zk.most in at_once


async def test_a_topic_that_cannot_be_decoded_has_no_states(store: FakeStore) -> None:
    store.tree.put("/brokers/topics/t", b"not json")

    image = await read_image(store.zk)

    assert image.nodes["/brokers/topics/t"].data == b"not json"
    assert STATE not in image.nodes


async def test_the_next_image_has_the_partitions_added_to_a_topic(store: FakeStore) -> None:
    before = await read_image(store.zk)
    store.add_topic("t", {0: [1, 2], 1: [2, 1], 2: [1, 2]})

    after = await read_image(store.zk, before)

    assert [len(image.state_paths["t"]) for image in (before, after)] == [2, 3]


async def test_unchanged_topics_are_not_decoded_again(store: FakeStore) -> None:
    before = await read_image(store.zk)

    assert (await read_image(store.zk, before)).state_paths["t"] is before.state_paths["t"]


async def test_images_share_unchanged_znodes(store: FakeStore) -> None:
    before = await read_image(store.zk)
    store.tree.put(paths.topic_config("t"), b"{ }")

    after = await read_image(store.zk, before)

    assert after.nodes[STATE] is before.nodes[STATE]
    assert after.nodes[paths.topic_config("t")].data == b"{ }"


@pytest.mark.parametrize(("data", "epoch"), [(b"7", 7), (b"seven", -1), (None, -1)])
async def test_the_controller_epoch_is_a_number_or_nothing(store: FakeStore, data: bytes | None, epoch: int) -> None:
    if data is None:
        store.tree.remove(paths.CONTROLLER_EPOCH)
    else:
        store.tree.put(paths.CONTROLLER_EPOCH, data)

    assert (await read_image(store.zk)).controller_epoch == epoch


async def test_an_image_is_read_anew_if_a_broker_dies_meanwhile(store: FakeStore) -> None:
    zk = Moving(store.tree)
    zk.at_read[3] = lambda: store.remove_broker(1)

    image = await read_image(zk)

    assert image.names("/brokers/ids") == ("2",)
    assert "/brokers/ids/1" not in image.nodes
    assert not image.is_torn


async def test_an_image_of_brokers_that_keep_changing_is_torn(store: FakeStore) -> None:
    zk = Moving(store.tree)
    zk.at_read = dict.fromkeys(range(1, 100), store.depose)

    assert (await read_image(zk)).is_torn
    assert zk.reads <= ATTEMPTS * 10


async def test_a_zookeeper_without_kafka_gives_an_empty_image() -> None:
    image = await read_image(FakeZooKeeper())

    assert (image.nodes, image.children) == ({}, {})


async def test_the_progress_of_a_read_is_reported(store: FakeStore) -> None:
    reported: list[int] = []

    image = await read_image(store.zk, report=reported.append)

    assert reported == sorted(reported)
    assert reported[-1] >= len(image.nodes)
