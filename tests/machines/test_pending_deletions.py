"""What brokers still have to delete: in the context and in ZooKeeper, the same."""

from controllerd.core.model import BrokerId
from controllerd.errors import BadZnode
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.record.records import AlarmRecord, PendingDeletionsRecord
from controllerd.slicer import Slicer
from tests.fakes.reassigning import OWED, owed
from tests.fakes.world import World, topic_id_of, tp

ONE, TWO = BrokerId(1), BrokerId(2)


async def test_a_debt_is_in_zookeeper_and_in_the_context_with_the_id_of_its_topic(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("t"), tp("gone", 3)]})

    assert owed(world, 1) == ["gone-3", "t-0"]
    assert world.context.pending_deletions.of(ONE) == {tp("t"): topic_id_of("t"), tp("gone", 3): None}


async def test_what_is_owed_already_is_not_written_again(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("t")]})
    written = len(world.zk.writes)

    await world.c.pending_deletions.add({ONE: [tp("t")], TWO: []})

    assert len(world.zk.writes) == written


async def test_the_last_debt_of_a_broker_goes_with_its_znode(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("t"), tp("u")], TWO: [tp("t")]})

    await world.c.pending_deletions.clear(ONE, [tp("t")])
    assert owed(world, 1) == ["u-0"]

    await world.c.pending_deletions.clear_all({ONE: [tp("u"), tp("other")], TWO: [tp("t")]})
    assert f"{OWED}/1" not in world.tree.nodes
    assert f"{OWED}/2" not in world.tree.nodes
    assert world.context.pending_deletions.brokers() == []


async def test_what_is_owed_of_an_earlier_topic_stays_until_the_broker_has_nothing_of_it(world: World) -> None:
    earlier = topic_id_of("an older one")
    world.context.pending_deletions.set(ONE, {tp("t"): earlier})

    await world.c.pending_deletions.add({ONE: [tp("t")]})
    await world.c.pending_deletions.clear_all({ONE: [tp("t")]})
    assert world.context.pending_deletions.of(ONE) == {tp("t"): earlier}

    await world.c.pending_deletions.clear(ONE, [tp("t")])
    assert world.context.pending_deletions.brokers() == []


async def test_what_is_not_owed_is_settled_without_a_write(world: World) -> None:
    await world.c.pending_deletions.clear(ONE, [tp("t")])

    assert world.zk.writes == []


async def test_the_next_controller_knows_the_debts_and_asks_for_what_is_due(world: World) -> None:
    await world.c.pending_deletions.add({ONE: [tp("gone")]})
    world.zk.expire()

    after = await World(tree=world.tree, session_id=2).start()

    assert after.context.pending_deletions.of(ONE) == {tp("gone"): None}
    assert "StopReplica(gone-0 -1 delete)" in after.brief(1)
    assert after.audit.of(PendingDeletionsRecord)


class RefusingStore:
    """A ZooKeeper that takes no debts."""

    async def write_pending_deletions(self, debts: object) -> None:
        raise BadZnode(f"{OWED}/1", "NoAuth")


async def test_a_debt_that_zookeeper_refuses_is_alarmed_and_known_as_long_as_we_lead(world: World) -> None:
    debts = PendingReplicaDeletions(world.context, RefusingStore(), world.audit, Slicer())  # type: ignore[arg-type]  # all that is used

    await debts.add({ONE: [tp("t")]})

    assert world.context.pending_deletions.of(ONE) == {tp("t"): topic_id_of("t")}
    assert [record.what for record in world.audit.of(AlarmRecord)] == ["owed deletions were not written"]
