"""The judge sees the transactions of the simulated ZooKeeper: sessions, fences and ephemeral znodes as they are."""

from collections.abc import Iterator

import pytest

from controllerd.zk.access import CheckVersion, Create, Delete, SetData
from tests.sim.loop import VirtualLoop
from tests.sim.oracle import Oracle, watch
from tests.sim.oracle_samples import A_NODE, STATE, TOPIC, WINDOW, document, state, topic
from tests.sim.zk_server import SimZooKeeper

PAYLOAD = document(version=2, brokerid=A_NODE, timestamp="1", instance="uuid-a")


class WatchedZooKeeper:
    """A simulated ZooKeeper with one elected instance, one broker, one partition, and the judge."""

    def __init__(self) -> None:
        self.oracle = Oracle(window=WINDOW)
        self.loop = VirtualLoop(1)
        self.zookeeper = SimZooKeeper(self.loop)
        watch(self.zookeeper, self.oracle.zookeeper)
        self.instance, self.broker = self.zookeeper.new_session(6.0), self.zookeeper.new_session(6.0)
        self.oracle.zookeeper.on_session("a", self.instance.id)
        self.zookeeper.put("/controller_epoch", b"0")
        self.zookeeper.put("/brokers/ids")
        self.zookeeper.attempt([Create("/brokers/ids/1", document(version=5), ephemeral=True)], self.broker.id)
        self.zookeeper.put(TOPIC, topic({0: [1]}))
        self.elect()
        parents = [Create(f"{TOPIC}/partitions", None), Create(f"{TOPIC}/partitions/0", None)]
        self.write(CheckVersion("/controller_epoch", 1), *parents, Create(STATE, state(1, 0, [1])))

    def elect(self) -> None:
        self.write(SetData("/controller_epoch", b"1", 0), Create("/controller", PAYLOAD, ephemeral=True))

    def write(self, *operations: CheckVersion | Create | Delete | SetData) -> None:
        self.zookeeper.attempt(operations, self.instance.id)


@pytest.fixture
def watched() -> Iterator[WatchedZooKeeper]:
    watched = WatchedZooKeeper()
    yield watched
    watched.loop.close()


def test_a_true_beginning_is_seen_and_trips_nothing(watched: WatchedZooKeeper) -> None:
    history = watched.oracle.zookeeper.history
    assert watched.oracle.is_unbroken
    assert history.live() == {1}
    assert history.partitions["t", 0].state is not None


def test_a_write_without_fence_is_seen(watched: WatchedZooKeeper) -> None:
    watched.write(SetData(STATE, state(1, 1, [1]), 0))
    assert {found.id for found in watched.oracle.violations} == {"Z-01"}


def test_what_goes_with_a_session_needs_no_fence(watched: WatchedZooKeeper) -> None:
    watched.zookeeper.expire(watched.instance.id)
    watched.zookeeper.expire(watched.broker.id)
    assert "/controller" not in watched.oracle.zookeeper.history.nodes
    assert watched.oracle.zookeeper.history.live() == set()
    assert watched.oracle.is_unbroken


def test_a_resignation_without_fence_is_seen(watched: WatchedZooKeeper) -> None:
    watched.write(Delete("/controller", 0))
    assert {found.id for found in watched.oracle.violations} == {"Z-01"}


def test_a_refused_transaction_is_not_seen(watched: WatchedZooKeeper) -> None:
    watched.write(CheckVersion("/controller_epoch", 7), SetData(STATE, b"junk", 0))
    assert watched.oracle.is_unbroken
