"""Kafka's tools and other admin clients, by way of a broker and by way of controllerd: ``docs/compatibility.md``.

Independent cells run a little ahead of their tests, a few at a time; the output of a test is its own.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio

from controllerd.dev.cluster import BROKER_IDS
from tests.real.operator import tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SMALL_FETCHES, Scene, open_scene
from tests.tools import seen
from tests.tools.ahead import Ahead
from tests.tools.cells import WAYS, Cell, Way
from tests.tools.page import ordered
from tests.tools.topics import DEFAULT_PARTITIONS, DEFAULT_REPLICAS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]


def in_turn(while_away: bool) -> list[Cell]:
    """The cells in the order of the page, with the cells that have to run alone last."""
    cells = [each for _, cells in ordered() for each in cells if each.while_away is while_away]
    return sorted(cells, key=lambda each: each.alone)


HEALTHY: Final = in_turn(while_away=False)
AWAY: Final = in_turn(while_away=True)
DEAD: Final = 3
BEHIND: Final = 2
UNCLEAN: Final = tuple(f"unclean-{what}" for what in ("one", "file", "all", "confluent", "python"))
PREPARED: Final[Mapping[str, Mapping[int, list[int]]]] = {
    "unavailable": {0: [DEAD], 1: [1]},
    "preferred": {0: [DEAD, 1]},
    **{what: {0: [DEAD, BEHIND]} for what in UNCLEAN},
}
"""Topics for the time without a broker; of the last ones, that broker is the only ISR member."""
BROKERS: Final = {
    **SMALL_FETCHES,
    "num.partitions": str(DEFAULT_PARTITIONS),
    "default.replication.factor": str(DEFAULT_REPLICAS),
}
SETTINGS: Final = {
    **NO_REBALANCE,
    "CONTROLLERD__KAFKA__NUM_PARTITIONS": str(DEFAULT_PARTITIONS),
    "CONTROLLERD__KAFKA__DEFAULT_REPLICATION_FACTOR": str(DEFAULT_REPLICAS),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Three brokers with small fetches, so that a throttle holds, and without a rebalance."""
    directory = tmp_path_factory.mktemp("tools")
    async with open_scene(directory, overrides=BROKERS, settings=SETTINGS) as scene:
        yield scene


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WAYS)
async def way(request: pytest.FixtureRequest, scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Way:
    """One bootstrap server of the cluster: a broker, or controllerd."""
    controller = scene.cluster.controllers[0]
    entrances = {"broker": f"127.0.0.1:{scene.cluster.brokers[1].port}", "controllerd": controller.kafka_port.address}
    return Way(scene, request.param, entrances[request.param], tmp_path_factory.mktemp(request.param))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ahead(way: Way) -> AsyncIterator[Ahead]:
    """The cells that run ahead of their tests by this bootstrap server."""
    ahead = Ahead(lambda cell: cell.run(way))
    yield ahead
    await ahead.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def without_a_broker(way: Way) -> AsyncIterator[Way]:
    """The same bootstrap server while a broker is down that some topics need."""
    scene = way.scene
    for what, replicas in PREPARED.items():
        way.prepared[what] = await way.topic(replicas, ONE_ALONE, what)
    unclean = [way.prepared[what] for what in UNCLEAN]
    for name in unclean:
        await scene.throttle(name, BEHIND)
    await scene.shut_down(BEHIND)
    await asyncio.gather(*(scene.ballast(name) for name in unclean))
    await scene.start(BEHIND)
    for name in unclean:
        assert (await scene.state(name)).isr == (DEAD,), "a throttled replica has caught up"
    way.whole = False
    await scene.kill(DEAD)

    async def noticed() -> bool:
        states = (await scene.cluster.view()).leaderships
        led_by = {what: states[tp(name)].leader for what, name in way.prepared.items()}
        return led_by == {what: 1 if what == "preferred" else -1 for what in PREPARED}

    await scene.until_seen(noticed, "topics that need the broker have no leader")
    yield way
    await restore(scene)
    way.whole = True


async def restore(scene: Scene) -> None:
    """Start all brokers, and remove their throttles."""
    await scene.unthrottle(BEHIND)
    await scene.all_run()
    await scene.until_registered(*BROKER_IDS)


async def outcome(request: pytest.FixtureRequest, ahead: Ahead, cell: Cell, way: Way) -> None:
    """Run a cell and keep its outcome for the page; the cells of the next tests may run meanwhile."""
    held = False
    try:
        await ahead.outcome(cell, () if cell.alone else _following(request.node))
        held = True
    finally:
        seen.note(cell, way.entrance, held)


def _following(node: Any) -> Iterator[Cell]:
    """The cells of the next tests of the same kind by the same bootstrap server, up to one that has to run alone."""
    items: list[Any] = list(node.session.items)
    for item in itertools.islice(items, items.index(node) + 1, None):
        same = item.originalname == node.originalname and item.callspec.params["way"] == node.callspec.params["way"]
        if not same or item.callspec.params["cell"].alone:
            return
        yield item.callspec.params["cell"]


@pytest.mark.parametrize("cell", HEALTHY, ids=lambda cell: cell.id)
async def test_a_client(request: pytest.FixtureRequest, cell: Cell, way: Way, ahead: Ahead) -> None:
    await outcome(request, ahead, cell, way)


@pytest.mark.parametrize("cell", AWAY, ids=lambda cell: cell.id)
async def test_a_client_while_a_broker_is_down(
    request: pytest.FixtureRequest, cell: Cell, without_a_broker: Way, ahead: Ahead
) -> None:
    await outcome(request, ahead, cell, without_a_broker)


async def test_at_the_end_no_record_is_lost_and_the_audit_logs_are_sound(scene: Scene) -> None:
    await restore(scene)
    await scene.until_whole()
    await scene.judge("tools")
