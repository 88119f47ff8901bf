"""Operators pause the rebalance and deletions: a pause ends by itself, survives a failover, and is never guessed."""

import json

import pytest

from controllerd.core.intents import LONGEST_MS, PauseView
from controllerd.core.model import BrokerId
from controllerd.errors import CallRefused, NotController
from events.cluster import Resign
from events.elections import AutoPreferredReplicaLeaderElection, ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.operator import Pause, PauseCheck, Resume
from tests.fakes.disks import Disks, successor
from tests.fakes.requester import ALICE
from tests.fakes.world import World, tp

PATH = "/controllerd/pauses"
HOUR_MS = 3_600_000


def pause(world: World, what: str = "deletions", for_ms: int = HOUR_MS) -> Pause:
    return Pause(what, world.clock.now_ms() + for_ms, "a freeze", "ann")


def advance(world: World, ms: int) -> None:
    """Advance the clock, and queue the events that are due by then."""
    world.clock.now += ms / 1000
    for event in world.timers.fire(ms / 1000):
        world.queue.put(event)


@pytest.fixture
async def disks() -> Disks:
    """Three brokers, a controller, and the topics t and u."""
    disks = Disks(World())
    for broker in (1, 2, 3):
        disks.world.register(broker)
    await disks.start()
    disks.world.put_topic("t", {0: [1, 2, 3]})
    disks.world.put_topic("u", {0: [2, 1]})
    await disks.settle()
    disks.forget()
    return disks


# -- the pause itself --------------------------------------------------------------------------------------------------


async def test_a_pause_is_in_zookeeper_and_in_the_snapshot(world: World) -> None:
    asked = pause(world)

    answer = await world.call(asked)

    assert answer == PauseView(asked.until_ms, "a freeze", "ann")
    assert world.snapshot.pauses == {"deletions": answer}
    kept = json.loads(world.tree.nodes[PATH].data or b"")
    assert kept["pauses"]["deletions"] == {
        "until_ms": asked.until_ms,
        "reason": "a freeze",
        "by": "ann",
        "broker_epoch": -1,
    }


async def test_a_resume_returns_the_pause_that_ended_and_leaves_no_znode(world: World) -> None:
    asked = pause(world, "auto-rebalance")
    await world.call(asked)

    ended = await world.call(Resume("auto-rebalance", "done", "ann"))

    assert ended == PauseView(asked.until_ms, "a freeze", "ann")
    assert world.snapshot.pauses == {}
    assert PATH not in world.tree.nodes
    assert await world.call(Resume("auto-rebalance", "again", "ann")) is None


async def test_a_pause_ends_by_itself_even_when_a_longer_one_began_first(world: World) -> None:
    await world.call(pause(world, "auto-rebalance", 2 * HOUR_MS))
    await world.call(pause(world, "deletions", HOUR_MS))

    advance(world, HOUR_MS)
    await world.settle()

    assert list(world.snapshot.pauses) == ["auto-rebalance"]


@pytest.mark.parametrize("for_ms", [0, -1, LONGEST_MS + 1])
async def test_a_pause_that_would_end_in_the_past_or_too_late_is_refused(world: World, for_ms: int) -> None:
    with pytest.raises(CallRefused, match="give a time within 7 days"):
        await world.call(pause(world, "deletions", for_ms))

    assert world.snapshot.pauses == {}


async def test_an_unknown_operation_is_refused_with_the_names_of_the_known_ones(world: World) -> None:
    with pytest.raises(CallRefused, match="auto-rebalance and deletions"):
        await world.call(pause(world, "elections"))
    with pytest.raises(CallRefused, match="drain-<broker id>"):
        await world.call(Resume("elections", "", "ann"))


async def test_a_standby_pauses_nothing(world: World) -> None:
    await world.call(Resign())

    with pytest.raises(NotController):
        await world.call(pause(world))
    with pytest.raises(NotController):
        await world.call(Resume("deletions", "", "ann"))
    world.queue.put(PauseCheck())
    await world.settle()

    assert world.snapshot.pauses == {}


async def test_a_pause_survives_a_failover_and_one_that_ran_out_meanwhile_does_not(disks: Disks) -> None:
    await disks.world.call(pause(disks.world, "deletions", 2 * HOUR_MS))
    await disks.world.call(pause(disks.world, "auto-rebalance", HOUR_MS))
    disks.world.zk.expire()

    after = successor(disks, 2)
    after.world.clock.now = disks.world.clock.now + 1.5 * HOUR_MS / 1000
    await after.start()

    assert list(after.world.snapshot.pauses) == ["deletions"]


async def test_a_znode_that_cannot_be_understood_is_left_alone_and_holds_deletions(disks: Disks) -> None:
    disks.world.tree.put(PATH, b"rubbish")
    disks.world.zk.expire()
    after = await successor(disks, 2).start()
    after.tree.put("/admin/delete_topics/t")
    await after.settle()

    assert after.tree.nodes[PATH].data == b"rubbish"
    assert PATH in after.snapshot.quarantine
    assert "repair or delete" in (after.snapshot.deletions["t"].held_up_by or "")
    with pytest.raises(CallRefused, match="repair or delete that znode"):
        await after.call(pause(after))
    assert after.tree.nodes[PATH].data == b"rubbish"


async def test_deletions_continue_when_the_znode_is_gone(disks: Disks) -> None:
    disks.world.tree.put(PATH, b"rubbish")
    disks.world.zk.expire()
    after = successor(disks, 2)
    await after.start()
    after.world.tree.put("/admin/delete_topics/t")
    await after.settle()

    after.world.tree.remove(PATH)
    advance(after.world, 10_000)
    await after.settle()

    assert "t" not in after.world.context.topics
    assert PATH not in after.world.snapshot.quarantine


# -- deletions ---------------------------------------------------------------------------------------------------------


async def test_while_deletions_are_paused_a_topic_is_served_and_its_marker_stays(disks: Disks) -> None:
    world = disks.world
    await world.call(pause(world))
    disks.forget()

    world.tree.put("/admin/delete_topics/t")
    await disks.settle()

    assert "/admin/delete_topics/t" in world.tree.nodes
    assert world.channels.sent == []
    view = world.snapshot.deletions["t"]
    assert (view.has_begun, view.is_hidden, view.is_queued) == (False, False, False)
    assert view.held_up_by == "paused by ann until 1970-01-01T01:16:40Z: a freeze"


async def test_a_topic_whose_deletion_is_paused_gets_another_leader(disks: Disks) -> None:
    world = disks.world
    await world.call(pause(world))
    world.tree.put("/admin/delete_topics/t")
    await disks.settle()

    world.die(1)
    await disks.settle()

    assert world.state("t")[0] == 2


async def test_deletions_continue_when_they_are_resumed(disks: Disks) -> None:
    await disks.world.call(pause(disks.world))
    disks.world.tree.put("/admin/delete_topics/t")
    await disks.settle()

    await disks.world.call(Resume("deletions", "", "ann"))
    await disks.settle()

    assert "t" not in disks.world.context.topics
    assert "/admin/delete_topics/t" not in disks.world.tree.nodes
    assert disks.world.snapshot.deletions == {}


async def test_deletions_continue_when_the_pause_has_ended(disks: Disks) -> None:
    await disks.world.call(pause(disks.world))
    disks.world.tree.put("/admin/delete_topics/t")
    await disks.settle()

    advance(disks.world, HOUR_MS)
    await disks.settle()

    assert "t" not in disks.world.context.topics


async def test_a_marker_that_is_removed_during_the_pause_deletes_nothing(disks: Disks) -> None:
    await disks.world.call(pause(disks.world))
    disks.world.tree.put("/admin/delete_topics/t")
    await disks.settle()

    disks.world.tree.remove("/admin/delete_topics/t")
    await disks.settle()
    await disks.world.call(Resume("deletions", "", "ann"))
    await disks.settle()

    assert "t" in disks.world.context.topics
    assert disks.world.snapshot.deletions == {}


async def test_brokers_delete_replicas_they_were_asked_to_but_the_topic_stays_in_zookeeper(disks: Disks) -> None:
    world = disks.world
    disks.silent = {1, 2, 3}
    world.tree.put("/admin/delete_topics/t")
    await disks.settle()
    await world.call(pause(world))

    disks.silent, disks._at = set(), 0
    await disks.settle()

    assert all(tp("t") not in logs for logs in disks.logs.values())
    assert "/brokers/topics/t" in world.tree.nodes
    assert (world.snapshot.deletions["t"].held_up_by or "").startswith("paused by ann")


async def test_a_deletion_that_had_begun_is_not_undone_by_a_failover_in_the_pause(disks: Disks) -> None:
    disks.silent = {3}
    disks.world.tree.put("/admin/delete_topics/t")
    await disks.settle()
    await disks.world.call(pause(disks.world))
    disks.world.tree.put("/admin/delete_topics/u")
    await disks.settle()
    disks.world.zk.expire()

    after = successor(disks, 2)
    await after.start()

    views = after.world.snapshot.deletions
    assert {name: view.is_hidden for name, view in views.items()} == {"t": True, "u": False}
    assert tp("t") not in after.metadata[1]
    assert after.metadata[1][tp("u")] == 2


# -- the rebalance -----------------------------------------------------------------------------------------------------


async def out_of_balance(world: World) -> World:
    """Topic t is led by broker 2, though broker 1 is preferred and in sync."""
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    path = "/brokers/topics/t/partitions/0/state"
    state = json.loads(world.tree.nodes[path].data or b"") | {"leader": 2}
    world.tree.put(path, json.dumps(state).encode())
    world.zk.expire()
    after = World(tree=world.tree, session_id=2)
    await after.start()
    assert after.state("t")[0] == 2
    return after


async def test_the_periodic_rebalance_moves_no_leader_and_stays_scheduled(world: World) -> None:
    after = await out_of_balance(world)
    await after.call(pause(after, "auto-rebalance"))
    after.timers.clear()

    after.queue.put(AutoPreferredReplicaLeaderElection())
    await after.settle()

    assert after.state("t")[0] == 2
    assert AutoPreferredReplicaLeaderElection() in after.timers.fire()


async def test_an_election_by_request_takes_place_during_a_pause(world: World) -> None:
    after = await out_of_balance(world)
    await after.call(pause(after, "auto-rebalance"))
    asked = ReplicaLeaderElection(frozenset({tp("t")}), ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, ALICE)

    answer = await after.call(asked)

    assert answer == {tp("t"): BrokerId(1)}


async def test_the_rebalance_works_again_afterwards(world: World) -> None:
    after = await out_of_balance(world)
    await after.call(pause(after, "auto-rebalance"))
    await after.call(Resume("auto-rebalance", "", "ann"))

    after.queue.put(AutoPreferredReplicaLeaderElection())
    await after.settle()

    assert after.state("t")[0] == 1
