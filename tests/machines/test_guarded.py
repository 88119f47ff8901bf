"""A decision that breaks an invariant reaches neither ZooKeeper nor a broker."""

from dataclasses import replace

import pytest

from controllerd.core.model import BrokerId, ReplicaAssignment
from controllerd.errors import InvariantBroken
from controllerd.record.records import AlarmRecord, EventEnd
from tests.fakes.world import World, ids, tp

T0 = tp("t")


def alarms(world: World) -> list[str]:
    """The details of alarms about broken invariants."""
    return [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == "invariant broken"]


async def test_a_wrong_state_is_not_written_and_neither_are_the_others_of_its_batch(world: World) -> None:
    state = world.context.record(T0).leadership
    assert state is not None
    right = state._replace(leader_epoch=1)
    world.put_topic("u", {0: [1, 2]})
    await world.settle()
    world.forget()

    with pytest.raises(InvariantBroken, match="I-06"):
        await world.c.store.states.update_states({tp("u"): right, T0: right._replace(leader=BrokerId(-1), isr=())})

    assert world.zk.transactions == []
    assert world.state("t")[:3] == (1, 0, [1, 2, 3])


async def test_a_wrong_new_state_is_not_created(world: World) -> None:
    state = world.context.record(T0).leadership
    assert state is not None
    with pytest.raises(InvariantBroken, match="I-12"):
        await world.c.store.states.create_states({tp("new"): state._replace(leader_epoch=1)})
    assert world.zk.transactions == []


async def test_a_topic_that_would_lose_a_partition_is_not_written(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3], 1: [1, 2, 3]})
    image = (await world.c.store.topics.read_topics(["t"])).topics["t"]
    with pytest.raises(InvariantBroken, match="I-17"):
        await world.c.store.topics.write_topics({"t": replace(image, assignments={0: ReplicaAssignment(ids(1, 2, 3))})})
    assert world.zk.transactions == []


async def test_a_topic_that_is_not_queued_for_deletion_is_not_deleted(world: World) -> None:
    with pytest.raises(InvariantBroken, match="I-22"):
        await world.c.store.topics.delete_topics(["t"])
    assert world.zk.transactions == []


async def test_a_request_that_would_delete_an_assigned_replica_is_not_sent(world: World) -> None:
    async def delete() -> None:
        async with world.c.outbox.batch() as batch:
            batch.add_update_metadata(ids(1, 2, 3), [T0])
            batch.add_stop_replica(ids(3), T0, delete=True)

    with pytest.raises(InvariantBroken, match="I-21"):
        await delete()
    assert world.channels.sent == []


async def test_the_event_fails_with_an_alarm_that_names_the_rule_and_a_new_term_begins(world: World) -> None:
    world.context.record(T0).sent_epoch = 99
    epoch = world.context.epoch

    world.die(1)
    await world.settle()

    assert alarms(world) == [
        "BrokerChange: InvariantBroken: I-10: brokers would be sent leader epoch 1 of t-0 after 99"
    ]
    assert "error" in [end.outcome for end in world.audit.of(EventEnd)]
    assert world.context.epoch == epoch + 1
    assert world.state("t")[0] == 2
    assert world.context.record(T0).sent_epoch > 0


async def test_after_three_broken_invariants_the_instance_stops_contending(world: World) -> None:
    for broker in (1, 2, 3):
        world.context.record(T0).sent_epoch = 99
        world.die(broker)
        await world.settle()
        if broker < 3:
            world.register(broker)
            await world.settle()

    assert len(alarms(world)) == 3
    assert world.c.role.has_given_up
