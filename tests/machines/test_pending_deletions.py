"""Pending replica deletions are the same in the context and in ZooKeeper."""

from controllerd.core.model import BrokerId
from controllerd.errors import BadZnode
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.record.records import AlarmRecord, PendingDeletionsRecord
from controllerd.slicer import Slicer
from tests.fakes.reassigning import PENDING_DELETIONS, pending_deletions_of
from tests.fakes.world import World, topic_id_of, tp

ONE, TWO = BrokerId(1), BrokerId(2)


async def test_a_pending_deletion_is_in_zookeeper_and_in_the_context_with_its_topic_id(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("t"), tp("gone", 3)]})

    assert pending_deletions_of(world, 1) == ["gone-3", "t-0"]
    assert world.context.pending_deletions.of(ONE) == {tp("t"): topic_id_of("t"), tp("gone", 3): None}


async def test_a_deletion_that_is_already_pending_is_not_written_again(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("t")]})
    written = len(world.zk.writes)

    await world.c.pending_deletions.add({ONE: [tp("t")], TWO: []})

    assert len(world.zk.writes) == written


async def test_the_last_pending_deletion_of_a_broker_is_cleared_with_its_znode(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("t"), tp("u")], TWO: [tp("t")]})

    await world.c.pending_deletions.clear(ONE, [tp("t")])
    assert pending_deletions_of(world, 1) == ["u-0"]

    await world.c.pending_deletions.clear_all({ONE: [tp("u"), tp("other")], TWO: [tp("t")]})
    assert f"{PENDING_DELETIONS}/1" not in world.tree.nodes
    assert f"{PENDING_DELETIONS}/2" not in world.tree.nodes
    assert world.context.pending_deletions.brokers() == []


async def test_a_pending_deletion_of_an_earlier_topic_stays_until_the_broker_has_no_replica_of_it(world: World) -> None:
    earlier = topic_id_of("an older one")
    world.context.pending_deletions.set(ONE, {tp("t"): earlier})

    await world.c.pending_deletions.add({ONE: [tp("t")]})
    await world.c.pending_deletions.clear_all({ONE: [tp("t")]})
    assert world.context.pending_deletions.of(ONE) == {tp("t"): earlier}

    await world.c.pending_deletions.clear(ONE, [tp("t")])
    assert world.context.pending_deletions.brokers() == []


async def test_a_deletion_that_is_not_pending_is_cleared_without_a_write(world: World) -> None:
    await world.c.pending_deletions.clear(ONE, [tp("t")])

    assert world.zk.writes == []


async def test_the_next_controller_loads_and_sends_pending_deletions(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("gone")]})
    world.zk.expire()

    after = await World(tree=world.tree, session_id=2).start()

    assert after.context.pending_deletions.of(ONE) == {tp("gone"): None}
    assert "StopReplica(gone-0 -1 delete)" in after.brief(1)
    assert after.audit.of(PendingDeletionsRecord)


class RefusingStore:
    """A store that cannot write pending deletions."""

    async def write_pending_deletions(self, deletions: object) -> None:
        raise BadZnode(f"{PENDING_DELETIONS}/1", "NoAuth")


async def test_a_pending_deletion_that_zookeeper_refuses_raises_an_alarm_and_is_kept_for_the_term(world: World) -> None:
    pending_deletions = PendingReplicaDeletions(world.context, RefusingStore(), world.audit, Slicer())  # type: ignore[arg-type]  # all that is used

    await pending_deletions.add({ONE: [tp("t")]})

    assert world.context.pending_deletions.of(ONE) == {tp("t"): topic_id_of("t")}
    assert [record.what for record in world.audit.of(AlarmRecord)] == ["owed deletions were not written"]
