"""Pauses, the throttle and pending deletions: fenced, compared, never overwritten blindly."""

import pytest

from controllerd.core.intents import PausesRead, PauseView
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.throttles import Bound, Throttle, ThrottleView
from controllerd.errors import BadZnode, ControllerMoved, NewerZnode
from controllerd.ports.results import ConfigRead
from controllerd.zk import codecs, paths
from tests.fakes.store import FakeStore
from tests.zk.world import World

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
U0 = TopicPartition("u", 0)
B1 = BrokerId(1)
B2 = BrokerId(2)
B3 = BrokerId(3)
TOPIC_ID = "Zm9vYmFyYmF6cXV4MTIzNA"
MOVES = {T1: (B3, B2), T0: (B1, B2)}
PAUSES = PausesRead(
    {"deletions": PauseView(5_000, "a freeze", "ann"), "drain-1": PauseView(6_000, "", "bob", 77)}, frozenset({"t"})
)
THROTTLE = Throttle(
    ThrottleView(1000, "ann", 4_000, frozenset({TopicPartition("t", 0), TopicPartition("t", 7)})),
    {"brokers/1": {"leader.replication.throttled.rate": Bound("1000", None)}, "topics/t": {"x": Bound("1", "0")}},
)


async def test_pending_deletions_are_kept_until_they_are_done(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.pending_deletions.read_pending_deletions() == {}

    await world.ours.store.pending_deletions.write_pending_deletions({B1: {T0: TOPIC_ID, U0: None}, B2: {T1: TOPIC_ID}})
    assert await world.theirs.store.pending_deletions.read_pending_deletions() == {
        B1: {T0: TOPIC_ID, U0: None},
        B2: {T1: TOPIC_ID},
    }

    await world.ours.store.pending_deletions.write_pending_deletions({B1: {U0: None}, B2: {}, B3: {}})
    assert await world.theirs.store.pending_deletions.read_pending_deletions() == {B1: {U0: None}}
    assert await world.ours.zk.children(paths.PENDING_DELETIONS) == ["1"]


async def test_the_parents_of_pending_deletions_are_created_with_the_first_one(world: World) -> None:
    await world.ours.lead()
    before = len(world.ours.transactions())

    await world.ours.store.pending_deletions.write_pending_deletions({B1: {T0: None}})
    await world.ours.store.pending_deletions.write_pending_deletions({B2: {T0: None}})

    written = [record.paths for record in world.ours.transactions()[before:]]
    assert written == [
        ["/controllerd", paths.PENDING_DELETIONS, paths.pending_deletions(B1)],
        [paths.pending_deletions(B2)],
    ]


@pytest.mark.parametrize("data", [b"", b"?", b'{"version":9,"owed":[]}', b'{"version":1,"owed":[{"topic":1}]}'])
async def test_pending_deletions_that_cannot_be_decoded_are_not_changed_and_hide_no_others(
    world: World, data: bytes
) -> None:
    await world.ours.lead()
    await world.ours.store.pending_deletions.write_pending_deletions({B1: {T0: None}})
    await world.theirs.put(paths.pending_deletions(B2), data)
    await world.theirs.put(f"{paths.PENDING_DELETIONS}/two", b"?")

    assert await world.ours.store.pending_deletions.read_pending_deletions() == {B1: {T0: None}}
    with pytest.raises(BadZnode):
        await world.ours.store.pending_deletions.write_pending_deletions(
            {B2: {T1: None}, B1: {T1: None}, B3: {T1: None}}
        )

    node = await world.ours.node(paths.pending_deletions(B2))
    assert node is not None
    assert node.data == data
    assert await world.ours.store.pending_deletions.read_pending_deletions() == {B1: {T1: None}, B3: {T1: None}}


async def test_pending_deletions_of_a_hundred_thousand_replicas_fit(world: World) -> None:
    await world.ours.lead()
    pending = {TopicPartition(f"topic-{t}", p): TOPIC_ID for t in range(1_000) for p in range(100)}
    await world.ours.store.pending_deletions.write_pending_deletions({B1: dict.fromkeys(pending, TOPIC_ID)})
    assert await world.ours.store.pending_deletions.read_pending_deletions() == {B1: pending}


@pytest.fixture
def store() -> FakeStore:
    """A leading store with reassignments to do, the answer to whose next transaction will be lost."""
    store = FakeStore()
    store.lead()
    store.tree.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    store.zk.lose_reply_of.add(1)
    return store


async def test_pending_deletions_whose_answer_was_lost_are_written(store: FakeStore) -> None:
    await store.pending_deletions.write_pending_deletions({B1: {T0: None}})
    store.zk.lose_reply_of.add(len(store.zk.transactions) + 1)
    await store.pending_deletions.write_pending_deletions({B1: {T1: None}})
    assert await store.pending_deletions.read_pending_deletions() == {B1: {T1: None}}


@pytest.fixture
async def leading(world: World) -> World:
    await world.ours.lead()
    await world.ours.store.cluster.ensure_paths()
    return world


async def test_pauses_are_read_by_the_next_controller_as_they_were_written(leading: World) -> None:
    assert await leading.ours.store.operators.read_pauses() == PausesRead()
    await leading.ours.store.operators.write_pauses(PAUSES)
    await leading.ours.store.operators.write_pauses(PAUSES)

    assert await leading.theirs.store.operators.read_pauses() == PAUSES

    await leading.ours.store.operators.write_pauses(PausesRead())
    assert await leading.ours.store.operators.read_pauses() == PausesRead()
    assert await leading.theirs.node(paths.PAUSES) is None


async def test_a_throttle_is_read_as_it_was_written_and_forgotten(leading: World) -> None:
    assert await leading.ours.store.operators.read_throttle() is None
    await leading.ours.store.operators.write_throttle(THROTTLE)

    assert await leading.theirs.store.operators.read_throttle() == THROTTLE

    await leading.ours.store.operators.write_throttle(None)
    await leading.ours.store.operators.write_throttle(None)
    assert await leading.ours.store.operators.read_throttle() is None


@pytest.mark.parametrize("data", [b"rubbish", b"", b'{"version":1}', b'{"version":2,"pauses":{},"rate":5}'])
async def test_znodes_that_cannot_be_decoded_are_not_overwritten(leading: World, data: bytes) -> None:
    for path in (paths.PAUSES, paths.THROTTLE):
        await leading.theirs.put(path, data)

    for attempt in (
        leading.ours.store.operators.read_pauses(),
        leading.ours.store.operators.write_pauses(PAUSES),
        leading.ours.store.operators.write_pauses(PausesRead()),
        leading.ours.store.operators.read_throttle(),
        leading.ours.store.operators.write_throttle(THROTTLE),
        leading.ours.store.operators.write_throttle(None),
    ):
        with pytest.raises(NewerZnode if b'"version":2' in data else BadZnode):
            await attempt
    for path in (paths.PAUSES, paths.THROTTLE):
        node = await leading.theirs.node(path)
        assert node is not None
        assert (node.data or b"") == data


async def test_a_deposed_controller_writes_no_znode_of_controllerd(leading: World) -> None:
    await leading.theirs.lead()

    for attempt in (
        leading.ours.store.operators.write_pauses(PAUSES),
        leading.ours.store.operators.write_throttle(THROTTLE),
        leading.ours.store.configs.write_configs({"brokers/1": ConfigRead({"a": "b"}, -1, {})}),
    ):
        with pytest.raises(ControllerMoved):
            await attempt
    assert await leading.theirs.node(paths.PAUSES) is None
    assert await leading.theirs.node("/config/brokers/1") is None
