"""The mirror shows the cluster as the controller at work publishes it, as far as ZooKeeper tells."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from controllerd.core.model import Features
from controllerd.core.replica_states import NO_REPLICAS
from controllerd.observer.mirror import Mirror
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView
from controllerd.zk import paths
from controllerd.zk.image import ClusterImage, read_image
from tests.fakes.world import INSTANCE, NODE_ID, World


class Shown(NamedTuple):
    """The published parts of a cluster that do not depend on a controller's own knowledge."""

    brokers: object
    epoch: int
    offline: int
    quarantine: object
    topics: dict[str, tuple[str | None, tuple[PartitionView, ...]]]
    names_by_id: dict[str, str]
    deletions: set[str]


def shown(snapshot: ClusterSnapshot) -> Shown:
    return Shown(
        dict(snapshot.brokers),
        snapshot.controller_epoch,
        snapshot.offline_partitions,
        dict(snapshot.quarantine),
        {name: (view.topic_id, _without_replicas(view.partitions)) for name, view in snapshot.topics.items()},
        snapshot.names_by_id,
        set(snapshot.deletions),
    )


def _without_replicas(partitions: tuple[PartitionView, ...]) -> tuple[PartitionView, ...]:
    return tuple(view._replace(replica_states=NO_REPLICAS) for view in partitions)


class Watched:
    """A controller that leads three brokers, and a mirror that has seen them once."""

    def __init__(self) -> None:
        self.world = World()
        self.seen = ClusterSnapshot(NODE_ID + 1)
        self.mirror = Mirror(Features(), self.seen)
        self.image: ClusterImage | None = None

    async def begin(self) -> "Watched":
        for broker in (1, 2, 3):
            self.world.register(broker)
        await self.world.start()
        self.world.put_topic("t", {0: [1, 2, 3], 1: [2, 3], 2: [1]})
        self.world.put_topic("u", {0: [2, 3]})
        return await self.observe()

    async def observe(self) -> "Watched":
        """Let the controller finish, and look."""
        await self.world.settle()
        self.image = await read_image(self.world.zk, self.image)
        await self.mirror.show(self.image)
        return self

    @property
    def both(self) -> tuple[Shown, Shown]:
        """The views of the mirror and of the controller."""
        return shown(self.seen), shown(self.world.snapshot)


@pytest.fixture
async def watched() -> Watched:
    return await Watched().begin()


def test_the_first_image_is_published_whole(watched: Watched) -> None:
    seen, published = watched.both

    assert seen == published
    assert set(seen.topics) == {"t", "u"}


def test_the_holder_of_the_role_is_named(watched: Watched) -> None:
    holder = watched.seen.holder

    assert holder is not None
    assert (holder.node_id, holder.instance) == (NODE_ID, INSTANCE)


def changes(world: World) -> Iterator[str]:
    """Everything that shows in ZooKeeper, one after the other."""
    yield "nothing"
    world.die(1)
    yield "a broker that dies, and with it a partition's only replica"
    world.register(1)
    yield "a broker that comes back"
    world.bounce(2)
    yield "a broker that bounces"
    world.put_topic("v", {0: [3, 1], 1: [1, 2]})
    yield "a new topic"
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 3], 2: [1], 3: [3, 2]})
    yield "more partitions"
    world.put_topic("w", {0: [9]})
    yield "a topic that waits for its broker"
    world.tree.put(paths.REASSIGN_PARTITIONS, REASSIGNMENT)
    yield "a reassignment"
    world.tree.put("/brokers/topics/x", b"not json")
    yield "a topic that cannot be understood"
    world.tree.remove("/brokers/topics/u")
    yield "a topic that vanishes"
    world.die(3)
    yield "another death"


REASSIGNMENT = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'


async def test_after_each_change_both_show_the_same(watched: Watched) -> None:
    for what in changes(watched.world):
        await watched.observe()
        seen, published = watched.both

        assert seen == published, what


async def test_unchanged_topics_are_not_published_anew(watched: Watched) -> None:
    view = watched.seen.topics["u"]
    watched.world.put_topic("v", {0: [1]})
    await watched.observe()

    assert watched.seen.topics["u"] is view


async def test_a_requested_deletion_is_shown_until_the_request_is_withdrawn(watched: Watched) -> None:
    marker = paths.delete_topic("u")
    watched.world.tree.put(marker)
    image = await read_image(watched.world.zk)
    await watched.mirror.show(image)
    assert set(watched.seen.deletions) == {"u"}

    watched.world.tree.remove(marker)
    await watched.mirror.show(await read_image(watched.world.zk))

    assert watched.seen.deletions == {}


async def test_a_readable_znode_leaves_quarantine(watched: Watched) -> None:
    tree = watched.world.tree
    state, topic = "/brokers/topics/u/partitions/0/state", "/brokers/topics/x"
    before = tree.nodes[state].data
    tree.put(state, b"[]")
    tree.put(topic, b"[]")
    tree.put("/brokers/ids/one", b"{}")
    await watched.mirror.show(await read_image(watched.world.zk))
    assert set(watched.seen.quarantine) == {state, topic, "/brokers/ids/one"}

    tree.put(state, before)
    tree.remove(topic)
    tree.remove("/brokers/ids/one")
    await watched.mirror.show(await read_image(watched.world.zk))

    assert dict(watched.seen.quarantine) == {}


async def test_a_broker_with_an_unreadable_registration_keeps_its_known_state(watched: Watched) -> None:
    watched.world.tree.put("/brokers/ids/1", b"{}")
    await watched.mirror.show(await read_image(watched.world.zk))

    assert set(watched.seen.brokers) == {1, 2, 3}
    assert set(watched.seen.quarantine) == {"/brokers/ids/1"}


async def test_without_a_cluster_there_is_nothing_to_show() -> None:
    snapshot = ClusterSnapshot(NODE_ID)

    await Mirror(Features(), snapshot).show(await read_image(World().zk))

    assert (snapshot.holder, snapshot.controller_epoch, dict(snapshot.brokers), snapshot.topics) == (None, 0, {}, {})
