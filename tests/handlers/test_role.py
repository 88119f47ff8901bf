"""The role: election, fencing, expired sessions, takeover, resignation, and failures in the middle of an event."""

import json
from collections.abc import Iterator, Sequence

import pytest

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, Features, PartitionState
from controllerd.core.requests import ControlRequest
from controllerd.errors import CallFailed, NotController
from controllerd.record.records import AlarmRecord, SnapshotBegin, SnapshotEnd, TermRecord
from controllerd.views import Role
from controllerd.zk.access import Aborted, Create, SetData, Transaction, TransactionOutcome
from events.admin import AllocateProducerIds
from events.cluster import (
    BrokerChange,
    Expire,
    Reelect,
    RegisterBrokerAndReelect,
    Resign,
    Resync,
    ShutdownEventThread,
    Takeover,
)
from tests.fakes.world import NODE_ID, World, registration, tp
from tests.fakes.zookeeper import Tree

OTHER = NODE_ID + 1
_NO_AUTH = -102
OTHER_INSTANCE = "5c0ffee0-0000-4000-8000-000000000002"


def foreign_controller(world: World, *, epoch: int = 5, broker: int = 3) -> None:
    """A broker's own controller holds the role."""
    body = {"version": 2, "brokerid": broker, "timestamp": "1", "kraftControllerEpoch": -1}
    world.tree.put("/controller_epoch", str(epoch).encode())
    world.tree.outsider(Create("/controller", json.dumps(body).encode(), ephemeral=True))


def depose(world: World) -> None:
    """A broker takes the role in one transaction."""
    body = {"version": 2, "brokerid": 3, "timestamp": "1", "kraftControllerEpoch": -1}
    world.tree.outsider(
        SetData("/controller_epoch", str(world.context.epoch + 1).encode(), -1),
        SetData("/controller", json.dumps(body).encode(), -1),
    )


async def test_the_first_controller_of_a_cluster_has_epoch_one() -> None:
    world = await World().start()

    assert world.snapshot.role is Role.ACTIVE
    assert world.tree.nodes["/controller_epoch"].data == b"1"
    assert world.context.epoch == 1


async def test_a_controller_znode_deleted_right_after_the_election_is_contended_for_again() -> None:
    """The watch from before the election fires for the own znode, and the next read finds none."""
    world = World()
    world.tree.put("/controller_epoch", b"0")
    world.zk.after_transaction[1] = lambda: world.tree.remove("/controller")

    await world.start()
    await world.settle()

    assert "/controller" in world.tree.nodes
    assert world.snapshot.role is Role.ACTIVE
    assert world.context.epoch == 2


async def test_a_broker_that_holds_the_role_keeps_it_by_default() -> None:
    world = World()
    foreign_controller(world)

    await world.start()

    assert world.snapshot.role is Role.STANDBY
    assert str(world.snapshot.holder) == "broker 3 (built-in)"
    assert world.zk.writes == []


async def test_the_role_is_taken_from_a_broker_in_one_transaction_if_configured() -> None:
    world = World(takes_from_brokers=True)
    foreign_controller(world)

    await world.start()

    assert world.context.epoch == 6
    assert [write.path for write in world.zk.writes[:3]] == ["/controller_epoch", "/controller", "/controller"]


async def test_the_role_is_taken_when_its_holder_is_gone() -> None:
    world = World()
    foreign_controller(world)
    await world.start()

    world.tree.remove("/controller")
    await world.settle()

    assert world.snapshot.role is Role.ACTIVE
    assert world.context.epoch == 6


async def test_a_fenced_controller_sends_and_writes_nothing_more(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.forget()

    depose(world)
    world.die(1)
    await world.settle()

    assert world.channels.sent == []
    assert world.zk.writes == []
    assert world.snapshot.role is Role.STANDBY


async def test_a_controller_fenced_in_the_middle_of_an_event_answers_not_controller(world: World) -> None:
    world.zk.before_transaction[1] = lambda: depose(world)
    reply = world.queue.call(AllocateProducerIds(BrokerId(world.c.node_id), -1))

    await world.settle()

    with pytest.raises(NotController):
        await reply
    assert world.snapshot.role is Role.STANDBY


async def test_after_expiry_the_context_is_empty_and_the_session_is_notified(world: World) -> None:
    world.queue.clear_and_put(Expire(1))

    await world.settle()

    assert (world.context.brokers, world.channels.open, world.expired) == ({}, set(), 1)
    assert world.snapshot.role is Role.STANDBY


async def test_a_new_session_contends_again_with_a_higher_epoch(world: World) -> None:
    world.zk.expire()
    world.queue.clear_and_put(Expire(1))
    await world.settle()
    world.zk.reconnect_as(2)

    world.queue.put(RegisterBrokerAndReelect())
    await world.settle()

    assert world.snapshot.role is Role.ACTIVE
    assert world.context.epoch == 2


async def test_on_shutdown_the_role_is_given_back(world: World) -> None:
    world.queue.clear_and_put(ShutdownEventThread())

    await world.loop.handle(await world.queue.take())

    assert "/controller" not in world.tree.nodes
    assert world.snapshot.role is Role.STOPPING


async def test_takeover_takes_the_role_from_another_controllerd(world: World) -> None:
    other = World(tree=world.tree, session_id=2, node_id=OTHER, instance=OTHER_INSTANCE)
    await other.start()

    result = await other.call(Takeover("maintenance"))
    await world.settle()

    assert (result.epoch_before, result.epoch_after) == (1, 2)
    assert (world.snapshot.role, other.snapshot.role) == (Role.STANDBY, Role.ACTIVE)


async def test_a_takeover_by_the_active_instance_changes_nothing(world: World) -> None:
    result = await world.call(Takeover())

    assert (result.epoch_before, result.epoch_after) == (1, 1)
    assert world.zk.writes == []


async def test_after_a_resignation_the_instance_stands_by_even_if_no_other_takes_the_role(world: World) -> None:
    await world.call(Resign("maintenance"))

    assert "/controller" not in world.tree.nodes
    assert world.snapshot.role is Role.STANDBY


async def test_standing_by_after_a_resignation_ends_by_itself(world: World) -> None:
    await world.call(Resign())
    world.clock.now += world.c.local.stand_by_s + 1

    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()

    assert world.snapshot.role is Role.ACTIVE


async def test_an_operator_may_take_the_role_back_at_once_after_a_resignation(world: World) -> None:
    await world.call(Resign())

    result = await world.call(Takeover())

    assert (result.epoch_before, result.epoch_after, result.held_by) == (1, 2, "nobody")
    assert world.snapshot.role is Role.ACTIVE


async def test_the_role_cannot_be_resigned_twice(world: World) -> None:
    await world.call(Resign())

    with pytest.raises(NotController, match="nothing to resign"):
        await world.call(Resign())


async def resigned_to_a_broker(*, takes_from_brokers: bool) -> World:
    """A standby whose resignation let a broker win the election."""
    world = World(takes_from_brokers=takes_from_brokers)
    await world.start()
    await world.call(Resign())
    foreign_controller(world)
    await world.settle()
    assert world.snapshot.role is Role.STANDBY
    return world


@pytest.mark.parametrize(("takes_from_brokers", "role"), [(True, Role.ACTIVE), (False, Role.STANDBY)])
async def test_a_role_that_a_broker_won_after_a_resignation_is_taken_back_later_if_configured(
    takes_from_brokers: bool, role: Role
) -> None:
    world = await resigned_to_a_broker(takes_from_brokers=takes_from_brokers)
    world.clock.now += world.c.local.stand_by_s + 1

    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()

    assert world.snapshot.role is role


async def test_a_role_that_a_broker_won_after_a_resignation_is_not_taken_back_at_once() -> None:
    world = await resigned_to_a_broker(takes_from_brokers=True)

    world.queue.put(Reelect())
    await world.settle()

    assert (world.snapshot.role, str(world.snapshot.holder)) == (Role.STANDBY, "broker 3 (built-in)")


async def test_a_takeover_with_an_unreadable_controller_znode_is_refused() -> None:
    world = World()
    world.tree.outsider(Create("/controller", b"?", ephemeral=True))
    world.tree.put("/controller_epoch", b"4")
    await world.start()

    with pytest.raises(NotController, match="cannot be decoded, so this instance never deletes it"):
        await world.call(Takeover())


async def test_after_three_failures_a_takeover_of_an_operator_makes_it_contend_again(world: World) -> None:
    for topic in ("t", "u", "v"):
        await fail_after_a_write(world, topic)
    await world.settle()

    result = await world.call(Takeover())

    assert world.snapshot.role is Role.ACTIVE
    assert result.epoch_after == result.epoch_before + 1


async def test_a_standby_has_nothing_to_resign() -> None:
    world = World()
    foreign_controller(world)
    await world.start()

    with pytest.raises(NotController):
        await world.call(Resign())


async def test_a_failure_before_any_write_is_answered_and_the_term_continues(world: World) -> None:
    async def broken() -> None:
        raise RuntimeError("planted")

    world.c.store.producer_ids.read_producer_ids = broken  # type: ignore[method-assign,assignment]

    with pytest.raises(CallFailed):
        await world.call(AllocateProducerIds(BrokerId(world.c.node_id), -1))

    assert world.context.epoch == 1


async def fail_after_a_write(world: World, topic: str) -> None:
    """A new topic is written, then its batch cannot be taken; the reload that follows meets no failure."""
    await world.settle()
    world.put_topic(topic, {0: [1, 2, 3]})
    queued = await world.queue.take()
    before = world.c.outbox._new_batch

    class BrokenBatch(RequestBatch):
        def requests(self) -> Iterator[tuple[BrokerId, ControlRequest]]:
            if world.zk.writes:
                world.c.outbox._new_batch = before
                raise RuntimeError("planted")
            return super().requests()

    def new_batch(context: ControllerContext) -> RequestBatch:
        return BrokenBatch(world.c.node_id, context, inter_broker_listener="PLAINTEXT")

    world.zk.writes.clear()
    world.c.outbox._new_batch = new_batch
    await world.loop.handle(queued)


async def test_a_failure_after_a_write_begins_a_new_term_without_letting_the_role_go(world: World) -> None:
    await fail_after_a_write(world, "t")

    assert world.context.epoch == 2
    assert world.snapshot.role is Role.ACTIVE
    assert world.tree.nodes["/controller"].ephemeral_owner == world.zk.session_id
    assert world.state("t")[0] == 1


async def test_after_three_failures_the_instance_stops_contending_with_an_alarm(world: World) -> None:
    for topic in ("t", "u", "v"):
        await fail_after_a_write(world, topic)
    await world.settle()

    assert "/controller" not in world.tree.nodes
    assert world.snapshot.role is Role.STANDBY
    assert "stopped contending" in [alarm.what for alarm in world.audit.of(AlarmRecord)]


async def test_after_a_refusal_to_lead_the_instance_contends_again_by_itself() -> None:
    world = World()
    world.tree.put("/migration", b"{}")
    await world.start()
    refused = world.snapshot.role

    world.tree.remove("/migration")
    for event in world.timers.fire():
        world.queue.put(event)
    await world.settle()

    assert refused is Role.STANDBY
    assert world.snapshot.role is Role.ACTIVE


async def test_each_term_begins_with_an_audit_snapshot_of_the_loaded_state() -> None:
    world = World()
    for broker in (1, 2):
        world.register(broker)
    world.put_topic("t", {0: [1, 2], 1: [2, 1]})

    await world.start()

    assert [record.controller_epoch for record in world.audit.of(SnapshotBegin)] == [1]
    assert world.audit.of(SnapshotEnd) == [SnapshotEnd(brokers=2, topics=1, partitions=2)]


async def test_failover_with_a_leader_that_died_unnoticed_writes_twice_and_elects() -> None:
    tree = Tree()
    world = World(tree=tree)
    for broker in (1, 2, 3):
        world.register(broker)
    world.put_topic("t", {0: [3, 1]})
    await world.start()
    world.zk.expire()
    world.die(3)
    second = World(tree=tree, session_id=2, node_id=OTHER, instance=OTHER_INSTANCE)

    await second.start()

    assert second.state("t") == (1, 2, [1], 2)
    assert second.context.partition_state(tp("t")) is PartitionState.ONLINE
    assert second.brief(1)[0] == "UpdateMetadata()"


async def test_after_a_reconnect_every_missed_change_is_handled(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.zk.on_watch = lambda _path, _fired: None
    world.die(1)
    world.put_topic("t", {0: [1, 2], 1: [2]})
    world.put_topic("u", {0: [3]})

    world.queue.put(Resync())
    await world.settle()

    assert world.state("t") == (2, 1, [2], 1)
    assert world.state("t", 1) == (2, 0, [2], 0)
    assert world.state("u") == (3, 0, [3], 0)


async def test_a_standby_ignores_the_events_of_the_cluster() -> None:
    world = World()
    foreign_controller(world)
    await world.start()

    world.queue.put(BrokerChange())
    await world.settle()

    assert world.zk.writes == []
    assert world.context.brokers == {}


async def test_a_cluster_with_an_old_protocol_version_gets_no_topic_ids() -> None:
    world = World(features=Features(topic_ids=False))
    world.register(1)
    await world.start()

    world.put_topic("t", {0: [1]}, topic_id=None)
    await world.settle()

    assert world.context.topic_id("t") is None
    assert world.tree.nodes["/brokers/topics/t"].version == 0


async def test_terms_are_in_the_audit_log_with_their_reasons(world: World) -> None:
    await world.call(Resign("maintenance"))

    assert ("resigned", "resigned: maintenance") in [(term.change, term.reason) for term in world.audit.of(TermRecord)]


async def test_endpoints_that_changed_while_the_connection_was_broken_are_noticed(world: World) -> None:
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put("/brokers/ids/1", registration(1, 9999))

    world.queue.put(Resync())
    await world.settle()

    assert [endpoint.port for endpoint in world.context.brokers[BrokerId(1)].endpoints] == [9999]
    assert world.brief(2) == ["UpdateMetadata()"]


async def test_a_failure_after_requests_were_sent_begins_a_new_term(world: World) -> None:
    """ZooKeeper is unchanged, but the event is half done: the broker would wait for its partitions for ever."""
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.forget()
    whole = world.c.replicas.handle_on

    async def broken(replicas: object, target: object, removal: object = None) -> bool:
        world.c.replicas.handle_on = whole  # type: ignore[method-assign]
        raise RuntimeError("planted")

    world.c.replicas.handle_on = broken  # type: ignore[method-assign]
    world.register(4)
    await world.settle()

    assert world.snapshot.role is Role.ACTIVE
    assert world.context.epoch == 2


async def test_a_parent_znode_that_cannot_be_created_does_not_leave_an_idle_controller_in_the_role() -> None:
    world = World()
    world.register(1)
    commit = world.zk.commit

    async def refusing(transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        refused = any(operation.path == "/isr_change_notification" for each in transactions for operation in each)
        return [Aborted(0, 0, _NO_AUTH) for _ in transactions] if refused else await commit(transactions)

    world.zk.commit = refusing  # type: ignore[method-assign]
    await world.start()

    assert "/controller" not in world.tree.nodes
    assert [type(event) for event in world.timers.fire()] == [Reelect]


async def test_a_feature_znode_that_cannot_be_understood_is_left_alone_and_the_cluster_is_led() -> None:
    world = World()
    world.register(1)
    world.tree.put("/feature", b"not json")

    await world.start()

    assert world.snapshot.role is Role.ACTIVE
    assert "/feature" in world.snapshot.quarantine
    assert world.tree.nodes["/feature"].data == b"not json"


async def test_an_epoch_that_changes_while_a_new_term_begins_does_not_leave_the_cluster_without_controller(
    world: World,
) -> None:
    """The instance still owns ``/controller`` then, so no watch on it makes the instance contend again."""
    whole = world.c.replicas.handle_on

    async def broken(replicas: object, target: object, removal: object = None) -> bool:
        world.c.replicas.handle_on = whole  # type: ignore[method-assign]
        raise RuntimeError("planted")

    world.put_topic("t", {0: [1, 2, 3]})
    world.c.replicas.handle_on = broken  # type: ignore[method-assign]
    world.zk.before_transaction[1] = lambda: world.tree.put("/controller_epoch", b"7")
    await world.settle()

    assert world.snapshot.role is Role.ACTIVE
    assert world.context.epoch == 8
