"""Topics and partitions are created, enlarged, removed and repaired in ZooKeeper."""

import json
from collections.abc import Sequence

import pytest

from controllerd.core.model import PartitionState, Replica, ReplicaState
from controllerd.record.records import AlarmRecord, RefusedRecord
from controllerd.zk.access import Transaction, TransactionOutcome
from events.topics import PartitionModifications, TopicChange
from tests.fakes.disks import Disks
from tests.fakes.world import NODE_ID, World, ids, topic_id_of, tp

ANOTHER_ID = topic_id_of("another")


async def test_a_new_topic_gets_its_state_then_leader_and_isr_then_metadata(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})

    await world.settle()

    assert world.state("t") == (1, 0, [1, 2, 3], 0)
    for broker in (1, 2, 3):
        assert world.brief(broker) == [
            "LeaderAndIsr(t-0 1/0 [1, 2, 3] new)",
            "UpdateMetadata(t-0 1/0 [1, 2, 3])",
        ]
    assert world.context.partition_state(tp("t")) is PartitionState.ONLINE
    assert world.context.replica_state(Replica(tp("t"), ids(2)[0])) is ReplicaState.ONLINE


async def test_the_three_znodes_of_a_new_partition_are_created_in_one_transaction(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})

    await world.settle()

    assert [write.path for write in world.zk.writes] == [
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
    ]
    assert len(world.zk.transactions) == 1


async def test_a_topic_of_many_partitions_costs_few_transactions(world: World) -> None:
    world.put_topic("t", {partition: [1 + partition % 3] for partition in range(1000)})

    await world.settle()

    assert len(world.zk.transactions) <= 6
    assert len(world.context.waiting_partitions()) == 0


async def test_a_replica_on_a_dead_broker_is_not_in_the_first_isr(world: World) -> None:
    world.die(1)
    await world.settle()
    world.put_topic("t", {0: [1, 2, 3]})

    await world.settle()

    assert world.state("t") == (2, 0, [2, 3], 0)


async def test_a_topic_without_live_replica_waits_until_one_comes(world: World) -> None:
    world.put_topic("t", {0: [7]})
    await world.settle()
    waiting = world.context.partition_state(tp("t"))

    world.register(7)
    await world.settle()

    assert waiting is PartitionState.NEW
    assert world.state("t") == (7, 0, [7], 0)


async def test_an_added_partition_starts_and_the_others_are_left_alone(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.forget()

    world.put_topic("t", {0: [1, 2], 1: [2, 3]})
    await world.settle()

    assert world.state("t", 1) == (2, 0, [2, 3], 0)
    assert world.brief(1) == ["UpdateMetadata(t-1 2/0 [2, 3])"]


async def test_a_topic_without_id_gets_one_and_keeps_its_unknown_fields(world: World) -> None:
    znode = {"version": 1, "partitions": {"0": [1]}, "owner": {"team": "billing"}}
    world.tree.put("/brokers/topics/t", json.dumps(znode).encode())

    await world.settle()

    written = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")
    assert written["topic_id"] == world.context.topic_id("t")
    assert written["owner"] == {"team": "billing"}


async def test_a_topic_that_is_gone_leaves_nothing_behind_and_can_be_created_again(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.tree.remove("/brokers/topics/t")
    await world.settle()
    forgotten = world.context.partition_state(tp("t"))
    world.forget()

    world.put_topic("t", {0: [2]})
    await world.settle()

    assert forgotten is PartitionState.NON_EXISTENT
    assert world.state("t") == (2, 0, [2], 0)


async def test_a_topic_deleted_and_created_between_two_events_is_started_as_new(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()

    world.tree.remove("/brokers/topics/t")
    world.put_topic("t", {0: [3]}, topic_id=ANOTHER_ID)
    await world.settle()

    assert world.context.topic_id("t") == ANOTHER_ID
    assert world.state("t") == (3, 0, [3], 0)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version":3}', b"\xff\xfe", b'{"version":3,"partitions":[1]}']
)
async def test_a_broken_topic_is_quarantined_untouched_and_the_others_are_served(world: World, content: bytes) -> None:
    world.tree.put("/brokers/topics/broken", content)
    world.put_topic("good", {0: [1, 2]})

    await world.settle()

    assert world.tree.nodes["/brokers/topics/broken"].data == content
    assert "/brokers/topics/broken" in world.snapshot.quarantine
    assert world.audit.of(AlarmRecord)
    assert world.state("good") == (1, 0, [1, 2], 0)


async def test_a_broken_topic_that_is_repaired_leaves_the_quarantine_and_starts(world: World) -> None:
    world.tree.put("/brokers/topics/t", b"{")
    await world.settle()

    world.put_topic("t", {0: [1, 2]})
    await world.settle()

    assert world.snapshot.quarantine == {}
    assert world.state("t") == (1, 0, [1, 2], 0)


async def test_controllerd_in_an_assignment_is_replaced_before_the_first_election(world: World) -> None:
    world.put_topic("__consumer_offsets", {0: [1, NODE_ID, 2], 1: [NODE_ID, 3, 1]})

    await world.settle()

    znode = json.loads(world.tree.nodes["/brokers/topics/__consumer_offsets"].data or b"")
    assert znode["partitions"] == {"0": [1, 3, 2], "1": [2, 3, 1]}
    assert world.state("__consumer_offsets", 1) == (2, 0, [2, 3, 1], 0)


async def test_with_too_few_brokers_the_topic_waits_and_keeps_its_replication_factor(world: World) -> None:
    world.die(3)
    await world.settle()
    world.put_topic("t", {0: [1, NODE_ID, 2]})
    await world.settle()
    waiting = world.context.partition_state(tp("t"))

    world.register(3)
    await world.settle()

    assert waiting is PartitionState.NEW
    assert world.context.assignment(tp("t")).replicas == ids(1, 3, 2)
    assert world.state("t") == (1, 0, [1, 3, 2], 0)


async def test_the_failure_of_a_broker_while_a_topic_waits_for_another_one_refuses_no_transition() -> None:
    """The broker's replica of the waiting partition never started, so there is nothing to stop."""
    world = World()
    world.register(1)
    await world.start()
    world.put_topic("t", {0: [1, NODE_ID]})
    await world.settle()
    assert world.context.partition_state(tp("t")) is PartitionState.NEW

    world.die(1)
    await world.settle()

    assert [record for record in world.audit.of(RefusedRecord) if record.what == "replica transition"] == []

    world.register(1)
    world.register(2)
    await world.settle()
    assert world.state("t")[:3] == (1, 0, [1, 2])


async def test_added_partitions_that_wait_for_a_broker_raise_an_alarm() -> None:
    world = World()
    world.register(1)
    world.put_topic("t", {0: [1]})
    await world.start()

    body = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")
    body["partitions"]["1"] = [1, NODE_ID]
    world.tree.put("/brokers/topics/t", json.dumps(body).encode())
    await world.settle()

    details = [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == "topic waits for brokers"]
    assert details == ["t: 1 partition has a replica on controllerd, and no live broker is without one to take it"]


async def test_a_replica_on_controllerd_is_given_to_a_broker_while_the_deletion_of_its_topic_waits() -> None:
    """Until its deletion has begun, a topic is served in full."""
    disks = Disks(World())
    world = disks.world
    world.register(1)
    world.register(2)
    await disks.start()
    world.put_topic("t", {0: [1]})
    await disks.settle()
    body = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"") | {
        "partitions": {"0": [2, 1], "1": [1, 2, NODE_ID]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {"0": [1]},
    }
    world.tree.put("/brokers/topics/t", json.dumps(body).encode())
    await world.settle()
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    assert world.context.queued_for_deletion == {"t"}
    assert world.context.being_reassigned == {tp("t", 0)}

    world.register(3)
    await world.settle()

    assert world.context.assignment(tp("t", 1)).replicas == ids(1, 2, 3)
    assert world.state("t", 1)[0] == 1


async def test_a_topic_that_begins_to_wait_for_a_broker_raises_one_alarm() -> None:
    world = World()
    world.register(1)
    await world.start()

    world.put_topic("t", {0: [1, NODE_ID], 1: [NODE_ID, 1]})
    await world.settle()
    world.die(1)
    world.register(1)
    await world.settle()

    details = [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == "topic waits for brokers"]
    assert details == ["t: 2 partitions have a replica on controllerd, and no live broker is without one to take it"]


async def test_the_audit_log_has_the_reason_why_a_partition_waits(world: World) -> None:
    world.put_topic("t", {0: [8, 9]})

    await world.settle()

    (refused,) = [record for record in world.audit.of(RefusedRecord) if record.what == "initial leadership"]
    assert refused.reasons == ["no assigned replica is live"]


async def test_a_broker_twice_in_an_assignment_quarantines_that_partition_alone(world: World) -> None:
    world.put_topic("t", {0: [1, 1], 1: [1, 2]})

    await world.settle()

    assert "/brokers/topics/t/partitions/0" in world.snapshot.quarantine
    assert world.state("t", 1) == (1, 0, [1, 2], 0)
    assert tp("t", 0) not in world.context


async def test_the_younger_of_two_topics_with_one_id_is_left_alone(world: World) -> None:
    world.put_topic("old", {0: [1]})
    await world.settle()
    world.put_topic("young", {0: [2]}, topic_id=topic_id_of("old"))

    await world.settle()

    assert "/brokers/topics/young" in world.snapshot.quarantine
    assert world.state("old") == (1, 0, [1], 0)
    assert "/brokers/topics/young/partitions" not in world.tree.nodes


async def test_a_leader_outside_its_isr_raises_an_alarm_and_is_replaced_by_an_election() -> None:
    world = World()
    for broker in (1, 2):
        world.register(broker)
    world.put_topic("t", {0: [1, 2]})
    world.tree.put("/controller_epoch", b"3")
    world.tree.put(
        "/brokers/topics/t/partitions/0/state",
        b'{"controller_epoch":0,"leader":1,"version":1,"leader_epoch":4,"isr":[2]}',
    )

    await world.start()

    assert "partition state is not sound" in [alarm.what for alarm in world.audit.of(AlarmRecord)]
    assert world.state("t") == (2, 5, [2], 1)


async def left_behind(*brokers: int) -> World:
    """A broker's own controller started t-0 while it still counted controllerd among the brokers."""
    world = World()
    for broker in brokers:
        world.register(broker)
    world.put_topic("t", {0: [1, NODE_ID, 2], 1: [1, 2, 3]})
    world.tree.put("/controller_epoch", b"3")
    for partition in (0, 1):
        world.tree.put(
            f"/brokers/topics/t/partitions/{partition}/state",
            b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}',
        )
    return await world.start()


async def test_a_replica_that_a_brokers_controller_assigned_to_controllerd_moves_to_a_live_broker() -> None:
    world = await left_behind(1, 2, 3)

    znode = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")
    assert znode["partitions"] == {"0": [1, 3, 2], "1": [1, 2, 3]}
    assert world.state("t") == (1, 1, [1, 2], 1)
    assert "LeaderAndIsr(t-0 1/0 [1, 2] new)" in world.brief(3)
    assert world.brief(2)[-2:] == ["LeaderAndIsr(t-0 1/1 [1, 2])", "UpdateMetadata(t-0 1/1 [1, 2])"]
    assert world.state("t", 1) == (1, 0, [1, 2], 0)


async def test_a_replica_on_controllerd_raises_an_alarm_until_a_broker_can_take_it() -> None:
    world = await left_behind(1, 2)
    alarms = [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == "a replica is on controllerd"]

    world.register(3)
    await world.settle()

    assert alarms == ["t-0"]
    assert world.context.assignment(tp("t")).replicas == ids(1, 3, 2)


async def started_for_us(replicas: list[int], isr: Sequence[int] = (NODE_ID,)) -> World:
    """A broker's own controller started t-0 with controllerd as its leader and only ISR member."""
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    world.put_topic("t", {0: replicas})
    world.tree.put("/controller_epoch", b"3")
    state = f'{{"controller_epoch":3,"leader":-1,"version":1,"leader_epoch":1,"isr":{list(isr)}}}'
    world.tree.put("/brokers/topics/t/partitions/0/state", state.encode())
    return await world.start()


async def test_a_partition_that_was_started_on_controllerd_alone_is_led_by_a_live_broker() -> None:
    """No broker has a record of it, so a leader from outside its ISR loses none."""
    world = await started_for_us([NODE_ID])

    (replica,) = world.context.assignment(tp("t")).replicas
    assert replica in ids(1, 2, 3)
    leader, _, isr, _ = world.state("t")
    assert (leader, isr) == (replica, [replica])
    assert [alarm for alarm in world.audit.of(AlarmRecord) if alarm.what == "a replica is on controllerd"] == []


async def test_a_partition_that_was_reassigned_before_its_election_is_led_by_its_only_replica() -> None:
    """A controller that wrote the new assignment died before it elected the broker (simulated seed 386)."""
    world = await started_for_us([1])

    leader, _, isr, _ = world.state("t")
    assert (leader, isr) == (1, [1])


async def test_one_of_several_replicas_does_not_lead_in_place_of_controllerd() -> None:
    """Another of the replicas may have more records."""
    world = await started_for_us([1, 2])

    leader, _, isr, _ = world.state("t")
    assert (leader, isr) == (-1, [NODE_ID])


@pytest.mark.parametrize("isr", [[], [NODE_ID, 5]])
async def test_the_only_replica_does_not_lead_with_an_empty_or_foreign_isr(isr: list[int]) -> None:
    """An empty ISR proves nothing, and broker 5, once a replica, may have records that broker 1 lacks."""
    world = await started_for_us([1], isr)

    assert world.state("t")[0] == -1
    assert world.state("t")[2] == isr


async def test_a_partition_with_controllerd_and_brokers_as_replicas_raises_an_alarm_and_is_left_alone() -> None:
    world = await started_for_us([1, NODE_ID, 2])

    alarms = [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == "a replica is on controllerd"]
    assert alarms == ["t-0"]
    assert world.context.assignment(tp("t")).replicas == ids(1, NODE_ID, 2)
    leader, _, isr, _ = world.state("t")
    assert (leader, isr) == (-1, [NODE_ID])


async def test_a_topic_recreated_between_two_reads_is_started_as_new(world: World) -> None:
    """TopicChange always finds the name of the topic, and its znode was missing when PartitionModifications read it."""
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.tree.remove("/brokers/topics/t")
    by_kind = {type(queued.event): queued for queued in [await world.queue.take() for _ in range(len(world.queue))]}

    await world.loop.handle(by_kind[PartitionModifications])
    world.put_topic("t", {0: [2, 3]}, topic_id_of("another"))
    await world.loop.handle(by_kind[TopicChange])
    await world.settle()

    assert world.state("t") == (2, 0, [2, 3], 0)
    assert world.context.topic_id("t") == topic_id_of("another")


async def test_partitions_added_while_a_new_topic_gets_its_id_are_started_with_it() -> None:
    """The write of the id loses the race and the topic is read again. No other event would start the new partitions."""
    world = World()
    for broker in (1, 2):
        world.register(broker)
    await world.start()
    commit = world.zk.commit
    added = False

    async def beaten(transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        nonlocal added
        if not added and any(op.path == "/brokers/topics/t" for batch in transactions for op in batch):
            added = True
            world.put_topic("t", {0: [1, 2], 1: [2, 1]}, topic_id=None)
        return await commit(transactions)

    world.zk.commit = beaten  # type: ignore[method-assign]
    world.put_topic("t", {0: [1, 2]}, topic_id=None)
    await world.settle()

    assert added
    assert (world.state("t", 0)[0], world.state("t", 1)[0]) == (1, 2)


async def test_partitions_added_while_replicas_on_controllerd_are_replaced_are_started_too() -> None:
    """The compare-and-set loses against the expansion, whose own event finds no new partition any more."""
    world = World()
    world.register(1)
    await world.start()
    world.put_topic("t", {0: [1, NODE_ID]})
    await world.settle()
    commit = world.zk.commit
    added = False

    async def beaten(transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        nonlocal added
        if not added and any(op.path == "/brokers/topics/t" for batch in transactions for op in batch):
            added = True
            world.put_topic("t", {0: [1, NODE_ID], 1: [2, 1]})
        return await commit(transactions)

    world.zk.commit = beaten  # type: ignore[method-assign]
    world.register(2)
    await world.settle()

    assert added
    assert (world.state("t", 0)[0], world.state("t", 1)[0]) == (1, 2)


async def test_a_deletion_request_for_an_unreadable_topic_deletes_the_topic_created_in_its_place(
    world: World,
) -> None:
    """The request would otherwise delete the new topic much later, with all records written until then."""
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.tree.put("/brokers/topics/t", b"not JSON")
    await world.settle()
    world.tree.put("/admin/delete_topics/t", b"")
    await world.settle()

    world.tree.remove("/brokers/topics/t")
    world.put_topic("t", {0: [1, 2]}, topic_id_of("another"))
    await world.settle()

    assert "t" in world.context.queued_for_deletion
