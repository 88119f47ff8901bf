"""The last transitions of a partition, a topic and a broker."""

from controllerd.core.model import BrokerId
from controllerd.explain.answers import Transition
from controllerd.explain.history import (
    transitions_of_broker,
    transitions_of_partition,
    transitions_of_topic,
)
from controllerd.record.records import BrokersRecord, ResponseRecord, SnapshotBegin, SnapshotEnd
from events.admin import ControlledShutdown
from events.operator import DrainBroker
from tests.explain.seeding import Seeded, finish
from tests.fakes.reassigning import reassign
from tests.fakes.world import World, tp
from tests.scenarios.acts import configure


async def of_partition(seeded: Seeded, limit: int = 20) -> list[Transition]:
    return finish(transitions_of_partition(tuple(seeded.recent.newest_first()), tp("payments"), limit))


def changes(found: list[Transition], what: str) -> list[str]:
    return [f"{each.was} -> {each.now}" for each in found if each.what == what]


async def test_a_new_leader_has_its_election_and_event() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(5)

    found = await of_partition(seeded)

    assert changes(found, "leader") == [
        " -> leader 5 (epoch 0), isr 5,3",
        "leader 5 (epoch 0), isr 5,3 -> leader 3 (epoch 1), isr 3",
    ]
    latest = [each for each in found if each.what == "leader"][-1]
    assert (latest.event, latest.reason, latest.at) == ("BrokerChange", "Offline election", "2023-11-15T10:01:00.000Z")


async def test_isr_changes_and_refusals_are_listed() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.isr(5)
    await seeded.kill(5)

    found = await of_partition(seeded)

    assert changes(found, "isr") == ["leader 5 (epoch 0), isr 5,3 -> leader 5 (epoch 0), isr 5"]
    refused = [each for each in found if each.what == "refused"]
    assert [(each.now, each.reason) for each in refused] == [
        ("election Offline refused", "no replica is electable: isr [5], online [3]")
    ]
    assert changes(found, "state")[-1] == "OnlinePartition -> OfflinePartition"
    assert [each.at_ms for each in found] == sorted(each.at_ms for each in found)


async def test_an_unclean_election_is_named() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await configure(seeded.world, "topics/payments", {"unclean.leader.election.enable": "true"})
    await seeded.isr(5)
    await seeded.kill(5)

    reasons = [each.reason for each in await of_partition(seeded) if each.what == "leader"]

    assert reasons[-1] == "Offline election, unclean: records may be lost"


async def test_the_steps_of_a_reassignment_are_listed() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})

    found = await of_partition(seeded)

    assert changes(found, "assignment")[-1] == "replicas 5,3 -> replicas 5,6,3, adding 6, removing 3"
    assert changes(found, "reassignment") == [" -> begun"]


async def test_state_that_a_new_controller_reads_is_no_change() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    before = await of_partition(seeded)
    seeded.world.zk.expire()
    await World(tree=seeded.world.tree, session_id=2, readers=[seeded.recent]).start()

    assert await of_partition(seeded) == before


async def test_only_the_last_transitions_are_listed() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(5)

    everything = await of_partition(seeded)

    assert await of_partition(seeded, 2) == everything[-2:]


async def test_changes_of_other_partitions_are_not_listed() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.create("other", [5, 3], [3, 5])
    before = await of_partition(seeded)
    await seeded.isr(5, topic="other")

    assert await of_partition(seeded) == before


async def test_a_topic_is_created_and_deleted() -> None:
    seeded = await Seeded(3).start([3])
    seeded.world.tree.put("/admin/delete_topics/payments", b"")
    await seeded.disks.settle()

    found = finish(transitions_of_topic(tuple(seeded.recent.newest_first()), "payments"))

    assert [each.now for each in found] == [
        "its znode was read or written (version 0)",
        "deletion queued",
        "deletion started",
        "gone",
    ]


async def test_a_broker_leaves_registers_shuts_down_and_refuses() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(3)
    await seeded.bring_back(3)
    epoch = seeded.world.context.epochs()[BrokerId(3)]
    await seeded.world.call(ControlledShutdown(BrokerId(3), epoch))
    seeded.recent.record(ResponseRecord(3, epoch, "LeaderAndIsr", 7, 1, 10, 1, 1.0, 31, {}))

    found = finish(transitions_of_broker(tuple(seeded.recent.newest_first()), 3))

    assert [each.now for each in found] == [
        "gone from /brokers/ids",
        f"alive (broker epoch {epoch})",
        "shutting down",
        "answered LeaderAndIsr with CLUSTER_AUTHORIZATION_FAILED",
    ]


async def test_a_drained_broker_did_not_request_its_shutdown_and_a_snapshot_does_not_repeat_it() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.world.call(DrainBroker(BrokerId(3), leaders_only=False, reason="a test", by="User:test"))
    seeded.recent.record(SnapshotBegin(1, periodic=True), BrokersRecord(shutting_down=[3]), SnapshotEnd(2, 1, 1))

    found = finish(transitions_of_broker(tuple(seeded.recent.newest_first()), 3))

    assert [(each.now, each.reason) for each in found] == [("shutting down", "an operator drained it")]
