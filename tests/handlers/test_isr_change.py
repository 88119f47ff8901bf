"""ISR changes by AlterPartition and by notification."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.fakes.world import World, ids, topic_id_of, tp


async def with_isr_of_two(world: World) -> World:
    """t-0 [1, 2, 3], led by broker 2 with leader epoch 1 and ISR [2, 3]; broker 1 has returned."""
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    world.forget()
    return world


def ask(world: World, isr: tuple[int, ...], *, by: int = 2, version: int = 3, **epochs: int) -> AlterPartitionReceived:
    proposal = ProposedIsr(epochs.get("leader_epoch", 1), epochs.get("partition_epoch", 1), ids(*isr))
    by_id = {(topic_id_of("t"), 0): proposal} if version >= 2 else {}
    by_name = {} if version >= 2 else {tp("t"): proposal}
    epoch = world.context.epochs()[BrokerId(by)]
    return AlterPartitionReceived(BrokerId(by), epoch, version, by_name, by_id)


async def test_an_accepted_change_is_written_answered_and_sent_to_all_live_brokers_without_leader_and_isr(
    world: World,
) -> None:
    await with_isr_of_two(world)

    reply = await world.call(ask(world, (2, 3, 1)))

    assert reply.error is KafkaError.NONE
    assert reply.partitions == {tp("t"): LeaderAndIsr(BrokerId(2), 1, ids(2, 3, 1), 1, 2)}
    assert world.state("t") == (2, 1, [2, 3, 1], 2)
    assert world.brief(1) == ["UpdateMetadata(t-0 2/1 [2, 3, 1])"]


async def test_a_repeated_request_writes_nothing_and_gets_the_same_answer(world: World) -> None:
    await with_isr_of_two(world)
    await world.call(ask(world, (2, 3, 1)))
    world.forget()

    reply = await world.call(ask(world, (2, 3, 1)))

    assert reply.partitions == {tp("t"): LeaderAndIsr(BrokerId(2), 1, ids(2, 3, 1), 1, 2)}
    assert world.zk.writes == []
    assert world.channels.sent == []


async def test_a_refused_change_is_sent_to_no_broker(world: World) -> None:
    await with_isr_of_two(world)

    reply = await world.call(ask(world, (2, 3, 1), leader_epoch=0))

    assert reply.partitions == {tp("t"): KafkaError.FENCED_LEADER_EPOCH}
    assert world.channels.sent == []


async def test_a_leader_that_asks_again_and_again_for_a_broker_that_shuts_down_causes_no_requests(world: World) -> None:
    await with_isr_of_two(world)
    world.context.mark_shutting_down(BrokerId(1))

    for _ in range(3):
        reply = await world.call(ask(world, (2, 3, 1)))
        assert reply.partitions == {tp("t"): KafkaError.INELIGIBLE_REPLICA}
        assert not reply.costs_writes

    assert world.channels.sent == []


async def test_a_leader_older_than_3_0_that_asks_again_and_again_for_a_broker_that_shuts_down_causes_no_requests(
    world: World,
) -> None:
    """Each refusal is a write of a newer partition epoch, which the leader alone repeats. So its answer is delayed."""
    await with_isr_of_two(world)
    world.context.mark_shutting_down(BrokerId(1))

    for epoch in (1, 2, 3):
        reply = await world.call(ask(world, (2, 3, 1), version=0, partition_epoch=epoch))
        assert reply.partitions == {tp("t"): LeaderAndIsr(BrokerId(2), 1, ids(2, 3), 1, epoch + 1)}
        assert reply.costs_writes

    assert world.channels.sent == []


async def test_of_a_change_and_a_refusal_by_a_write_only_the_change_is_sent(world: World) -> None:
    world.put_topic("u", {0: [2, 3]})
    await with_isr_of_two(world)
    world.context.mark_shutting_down(BrokerId(1))
    _, leader_epoch, _, partition_epoch = world.state("u")
    shrunk = {tp("u"): ProposedIsr(leader_epoch, partition_epoch, ids(2))}
    refused = {tp("t"): ProposedIsr(1, 1, ids(2, 3, 1))}
    broker_epoch = world.context.epochs()[BrokerId(2)]

    reply = await world.call(AlterPartitionReceived(BrokerId(2), broker_epoch, 0, shrunk | refused, {}))

    assert reply.costs_writes
    assert (world.state("t")[3], world.state("u")[2:]) == (2, ([2], partition_epoch + 1))
    assert world.brief(3) == [f"UpdateMetadata(u-0 2/{leader_epoch} [2])"]


async def test_of_several_changes_only_what_was_written_is_sent(world: World) -> None:
    await with_isr_of_two(world)
    accepted = {(topic_id_of("t"), 0): ProposedIsr(1, 1, ids(2, 3, 1))}
    refused = {(topic_id_of("unknown topic"), 0): ProposedIsr(0, 0, ids(2))}
    epoch = world.context.epochs()[BrokerId(2)]

    await world.call(AlterPartitionReceived(BrokerId(2), epoch, 3, {}, accepted | refused))

    assert world.brief(3) == ["UpdateMetadata(t-0 2/1 [2, 3, 1])"]


async def test_a_stale_broker_epoch_is_a_top_level_error_and_no_broker_is_sent_anything(world: World) -> None:
    await with_isr_of_two(world)
    stale = AlterPartitionReceived(BrokerId(2), 1, 3, {}, {(topic_id_of("t"), 0): ProposedIsr(1, 1, ids(2, 3, 1))})

    reply = await world.call(stale)

    assert reply.error is KafkaError.STALE_BROKER_EPOCH
    assert world.channels.sent == []


async def test_an_unknown_topic_id_is_named_and_no_broker_is_sent_anything(world: World) -> None:
    await with_isr_of_two(world)
    unknown = topic_id_of("unknown topic")
    epoch = world.context.epochs()[BrokerId(2)]
    request = AlterPartitionReceived(BrokerId(2), epoch, 3, {}, {(unknown, 4): ProposedIsr(0, 0, ids(2))})

    reply = await world.call(request)

    assert reply.unknown_ids == {unknown: (4,)}
    assert world.channels.sent == []


async def test_a_dead_member_is_ineligible_under_the_name_that_the_version_knows(world: World) -> None:
    await with_isr_of_two(world)
    world.die(1)
    await world.settle()

    new = await world.call(ask(world, (2, 3, 1), version=2))
    old = await world.call(ask(world, (2, 3, 1), version=1))

    assert new.partitions == {tp("t"): KafkaError.INELIGIBLE_REPLICA}
    assert old.partitions == {tp("t"): KafkaError.OPERATION_NOT_ATTEMPTED}


async def test_losing_the_compare_and_set_is_an_invalid_update_version(world: World) -> None:
    await with_isr_of_two(world)
    state = "/brokers/topics/t/partitions/0/state"
    foreign = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2]}'
    world.zk.before_transaction[1] = lambda: world.tree.put(state, foreign)

    reply = await world.call(ask(world, (2, 3, 1)))

    assert reply.partitions == {tp("t"): KafkaError.INVALID_UPDATE_VERSION}


async def test_a_notification_refreshes_the_isr_on_all_live_brokers_and_is_deleted(world: World) -> None:
    await with_isr_of_two(world)
    state = "/brokers/topics/t/partitions/0/state"
    world.tree.put(state, b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2]}')
    note = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'

    world.tree.put("/isr_change_notification/isr_change_0000000000", note)
    await world.settle()

    assert world.context.leadership(TopicPartition("t", 0)) == LeaderAndIsr(BrokerId(2), 1, ids(2), 1, 2)
    assert world.brief(1) == ["UpdateMetadata(t-0 2/1 [2])"]
    assert world.tree.children("/isr_change_notification") == []


async def test_a_notification_that_cannot_be_read_is_removed(world: World) -> None:
    world.tree.put("/isr_change_notification/isr_change_0000000000", b"{")

    await world.settle()

    assert world.tree.children("/isr_change_notification") == []
    assert world.channels.sent == []


async def test_after_a_lost_compare_and_set_an_election_sends_the_leader_the_current_state(world: World) -> None:
    """KAFKA-2729: the leader waits for a newer leader epoch, and with the old image every request would conflict."""
    await with_isr_of_two(world)
    state = "/brokers/topics/t/partitions/0/state"
    foreign = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2]}'
    world.zk.before_transaction[1] = lambda: world.tree.put(state, foreign)

    await world.call(ask(world, (2, 3, 1)))

    leadership = world.context.leadership(tp("t"))
    assert leadership is not None
    assert (leadership.leader, leadership.leader_epoch, list(leadership.isr), leadership.partition_epoch) == (
        world.state("t")
    )
    assert world.state("t") == (2, 2, [2], 3)
    assert "LeaderAndIsr(t-0 2/2 [2])" in world.brief(2)
