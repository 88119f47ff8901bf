"""Without a daemon, ZooKeeper is the only source: an answer must not claim to know more."""

from controllerd.core.model import Features
from controllerd.explain.answers import Why
from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.partition import explain_partition
from controllerd.explain.topic import explain_topic
from controllerd.observer.mirror import Mirror
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import SessionRecord
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import Holder, Role
from controllerd.zk.image import read_image
from tests.explain.seeding import Seeded, codes, finish
from tests.fakes.reassigning import reassign
from tests.fakes.world import tp


async def seen(seeded: Seeded, entries: tuple[RecentRecord, ...] = ()) -> ExplanationInputs:
    """The cluster as read from ZooKeeper alone."""
    snapshot = ClusterSnapshot(-1)
    await Mirror(Features(), snapshot).show(await read_image(seeded.world.zk))
    snapshot.role = Role.OBSERVER
    return ExplanationInputs(snapshot=snapshot, now_ms=seeded.clock.now_ms(), entries=entries)


async def why(seeded: Seeded) -> Why:
    return finish(explain_partition(await seen(seeded), tp("payments")))


async def test_the_only_in_sync_replica_is_dead() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    found = await why(seeded)

    assert (found.condition, codes(found)) == ("offline", ["broker-gone", "unclean-off"])
    assert found.headline == "payments-0 is OFFLINE"
    assert found.causes[0].sentence == "broker 5 is not in /brokers/ids"


async def test_the_time_of_the_first_read_is_not_taken_for_the_departure_of_a_broker() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    seeded.recent.record(SessionRecord("established", 7, 1))
    first_look = tuple(seeded.recent.newest_first())[:1]
    await seeded.kill(3)

    found = finish(explain_partition(await seen(seeded, first_look), tp("payments")))

    assert found.causes[-1].sentence == "broker 3 is not in /brokers/ids"


async def test_the_next_steps_use_the_tools_of_the_active_controller() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(5)
    await seeded.bring_back(5)
    await seeded.isr(3, 5)
    inputs = await seen(seeded)
    inputs.snapshot.holder = Holder(3, None, 0)

    found = finish(explain_partition(inputs, tp("payments")))

    options = "--bootstrap-server 127.0.0.1:9003 --election-type preferred --topic payments --partition 0"
    assert found.next == [f"kafka-leader-election.sh {options}"]


async def test_a_built_in_controller_cannot_forget_a_broker() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(3)
    seeded.world.tree.put("/admin/delete_topics/payments", b"")
    await seeded.disks.settle()
    inputs = await seen(seeded)
    inputs.snapshot.holder = Holder(5, None, 0)

    found = finish(explain_topic(inputs, "payments"))

    at = found.next.index("or, if it never returns:")
    assert found.next[at + 1] == "start a broker with the id 3 on an empty disk"


async def test_a_reassignment_is_cancelled_with_kafkas_own_tool() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})
    seeded.world.die(6)
    await seeded.disks.settle()
    inputs = await seen(seeded)
    inputs.snapshot.holder = Holder(5, None, 0)

    found = finish(explain_partition(inputs, tp("payments")))

    assert found.next[-1] == (
        "kafka-reassign-partitions.sh --bootstrap-server 127.0.0.1:9003 --cancel --reassignment-json-file FILE "
        "(a file that names payments-0)"
    )


async def test_a_failed_log_directory_does_not_show() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.fail_dir(3)

    found = await why(seeded)

    assert codes(found) == ["isr-of-one", "replica-lagging"]
    assert "or lost its log directory, which ZooKeeper does not show" in found.causes[1].sentence


async def test_a_deletion_is_held_up_by_a_dead_broker() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(3)
    seeded.world.tree.put("/admin/delete_topics/payments", b"")
    await seeded.disks.settle()

    found = finish(explain_topic(await seen(seeded), "payments"))

    assert codes(found)[0] == "deletion-offline-replicas"


async def test_a_deletion_waits_for_a_reassignment() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})
    seeded.world.tree.put("/admin/delete_topics/payments", b"")
    await seeded.disks.settle()

    found = finish(explain_topic(await seen(seeded), "payments"))

    assert codes(found)[0] == "deletion-waits-for-reassignment"


async def test_the_progress_of_a_deletion_by_another_controller_is_unknown() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    seeded.disks.silent.add(3)
    seeded.world.tree.put("/admin/delete_topics/payments", b"")
    await seeded.disks.settle()

    found = finish(explain_topic(await seen(seeded), "payments"))

    assert codes(found)[0] == "deletion-under-way"
    assert "ZooKeeper does not show how far" in found.causes[0].sentence


async def test_the_rebalance_settings_of_another_controller_are_unknown() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(5)
    await seeded.bring_back(5)
    await seeded.isr(3, 5)

    assert codes(await why(seeded)) == ["rebalance-by-controller"]


async def test_there_is_no_controller() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    seeded.world.tree.remove("/controller")
    seeded.world.die(5)

    found = await why(seeded)

    assert codes(found)[0] == "no-controller"
    assert found.next[0] == "start a broker or a controllerd that can reach ZooKeeper"
