"""The active instance registers in ``/brokers/ids`` for old brokers, and no instance counts it as a broker."""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.cluster_settings import RegistrationMode
from controllerd.core.model import BrokerId
from controllerd.core.releases import Release
from controllerd.record.records import AlarmRecord
from controllerd.views import Role
from controllerd.zk import codecs
from controllerd.zk.access import Create, Delete, SetData
from events.cluster import ControllerChange, Resign, Resync, ShutdownEventThread, Takeover
from events.responses import ApiVersionsReceived
from handlers.role import begin_new_term
from tests.fakes.world import NODE_ID, World, ids

OURS = f"/brokers/ids/{NODE_ID}"
BROKER_HOLDS = json.dumps({"version": 2, "brokerid": 3, "timestamp": "1", "kraftControllerEpoch": -1}).encode()


async def receive_api_versions(world: World, releases: Mapping[int, Release]) -> None:
    """Queue the answers of brokers to ApiVersions, and handle them."""
    for broker, release in releases.items():
        epoch = world.context.epochs()[BrokerId(broker)]
        world.queue.put(ApiVersionsReceived(BrokerId(broker), epoch, release))
    await world.settle()


async def registered(world: World) -> World:
    """An active controller that is registered, because broker 1 is a 2.8."""
    await receive_api_versions(world, {1: Release(2, 8)})
    assert OURS in world.tree.nodes
    world.forget()
    return world


def rack_of(world: World) -> str | None:
    return codecs.decode_broker(BrokerId(NODE_ID), world.tree.nodes[OURS].data, 0).rack


async def test_a_live_broker_older_than_3_0_makes_the_active_instance_register(world: World) -> None:
    await receive_api_versions(world, {1: Release(3, 0), 2: Release(3, 9)})
    assert OURS not in world.tree.nodes

    await receive_api_versions(world, {3: Release(2, 8)})

    assert world.tree.nodes[OURS].ephemeral_owner == world.zk.session_id
    assert world.snapshot.registered
    assert world.context.live == set(ids(1, 2, 3))
    assert world.brief(1) == []


@pytest.mark.parametrize(
    ("register", "release", "is_registered"),
    [
        ("always", Release(3, 9), True),
        ("never", Release(2, 6), False),
        ("auto", Release(2, 6), True),
        ("auto", Release(3, 0), False),
    ],
)
async def test_the_configuration_decides(register: RegistrationMode, release: Release, is_registered: bool) -> None:
    world = World()
    world.c.local.register = register
    world.register(1)
    await world.start()

    await receive_api_versions(world, {1: release})

    assert (OURS in world.tree.nodes) is is_registered


async def test_with_always_an_instance_registers_before_any_broker_has_answered() -> None:
    world = World()
    world.c.local.register = "always"
    await world.start()

    assert OURS in world.tree.nodes


async def test_the_registration_stays_for_the_term_when_the_old_broker_stops(world: World) -> None:
    """The broker may come back, and be stopped before it has answered ApiVersions again."""
    await registered(world)

    world.die(1)
    await world.settle()

    assert OURS in world.tree.nodes


async def test_a_new_term_without_an_older_broker_begins_and_stays_without_a_registration(world: World) -> None:
    await registered(world)
    world.die(1)
    await world.settle()

    await begin_new_term(world.c, "of a test")
    await world.settle()
    await receive_api_versions(world, {2: Release(3, 9), 3: Release(3, 9)})

    assert OURS not in world.tree.nodes


async def test_the_registration_has_a_rack_if_and_only_if_all_brokers_have_one() -> None:
    world = World()
    world.register(1, rack="r1")
    world.register(2, rack="r2")
    await world.start()
    await receive_api_versions(world, {1: Release(2, 6)})
    assert rack_of(world) == "r1"

    world.register(3)
    await world.settle()
    assert rack_of(world) is None

    world.die(3)
    await world.settle()
    assert rack_of(world) == "r1"


async def test_the_registration_of_controllerd_counts_as_no_broker(world: World) -> None:
    """The registration gets no channel, no request, and no replica of new topics."""
    await registered(world)
    world.put_topic("t", {0: [1, NODE_ID, 2]})

    await world.settle()

    assert world.channels.open == set(ids(1, 2, 3))
    assert set(world.context.brokers) == set(ids(1, 2, 3))
    assert NODE_ID not in {broker for broker, _ in world.channels.sent}
    assert world.state("t")[2] == [1, 3, 2]


async def test_a_registration_that_another_client_deleted_is_created_again(world: World) -> None:
    await registered(world)

    world.tree.remove(OURS)
    await world.settle()

    assert world.tree.nodes[OURS].ephemeral_owner == world.zk.session_id


async def test_a_deleted_registration_is_created_again_when_the_old_broker_is_gone(world: World) -> None:
    """The registration stays for the whole term: the old broker may return and be stopped at once."""
    await registered(world)
    world.die(1)
    await world.settle()

    world.tree.remove(OURS)
    await world.settle()

    assert world.tree.nodes[OURS].ephemeral_owner == world.zk.session_id


async def test_resigning_deletes_the_registration_with_the_role(world: World) -> None:
    await registered(world)

    await world.call(Resign("maintenance"))

    assert OURS not in world.tree.nodes
    assert [write.path for write in world.zk.writes] == ["/controller", OURS]
    assert len(world.zk.transactions) == 1
    assert not world.snapshot.registered


async def test_stopping_deletes_the_registration_with_the_role(world: World) -> None:
    await registered(world)

    world.queue.put(ShutdownEventThread())
    await world.settle()

    assert OURS not in world.tree.nodes
    assert len(world.zk.transactions) == 1


async def test_the_registration_is_deleted_when_a_broker_takes_the_controller_znode_an_operator_deleted(
    world: World,
) -> None:
    """The session of the instance lives on then, and its ephemeral registration with it."""
    await registered(world)
    epoch = world.context.epoch

    world.tree.outsider(SetData("/controller_epoch", str(epoch + 1).encode(), -1))
    world.tree.nodes["/controller"] = world.tree.nodes["/controller"]._replace(
        data=BROKER_HOLDS, ephemeral_owner=77, czxid=world.tree.zxid
    )
    world.queue.put(ControllerChange())
    await world.settle()

    assert world.snapshot.role is Role.STANDBY
    assert OURS not in world.tree.nodes
    assert not world.snapshot.registered


async def test_an_instance_that_wins_the_deleted_controller_znode_again_registers_anew(world: World) -> None:
    await registered(world)
    before = world.tree.nodes[OURS].czxid

    world.tree.remove("/controller")
    await world.settle()
    await receive_api_versions(world, {1: Release(2, 8)})

    assert world.snapshot.role is Role.ACTIVE
    assert world.tree.nodes[OURS].czxid > before


async def test_a_broker_that_wins_the_deleted_controller_znode_leaves_the_instance_unregistered(world: World) -> None:
    await registered(world)
    broker = Create("/controller", BROKER_HOLDS, ephemeral=True)
    raised = SetData("/controller_epoch", str(world.context.epoch + 1).encode(), -1)

    world.tree.remove("/controller")
    world.tree.outsider(broker, raised)
    await world.settle()

    assert world.snapshot.role is Role.STANDBY
    assert OURS not in world.tree.nodes


async def test_the_registration_is_deleted_when_the_role_was_lost_during_a_broken_connection(world: World) -> None:
    await registered(world)
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.remove("/controller")
    world.tree.outsider(
        Create("/controller", BROKER_HOLDS, ephemeral=True),
        SetData("/controller_epoch", str(world.context.epoch + 1).encode(), -1),
    )

    world.queue.put(Resync())
    await world.settle()

    assert OURS not in world.tree.nodes


async def test_a_peer_that_takes_over_deletes_our_registration_and_makes_its_own(world: World) -> None:
    await registered(world)
    peer = World(tree=world.tree, session_id=2, node_id=NODE_ID + 1, instance="5c0ffee0-0000-4000-8000-000000000002")
    await peer.start()

    await peer.call(Takeover("test"))
    assert OURS not in world.tree.nodes
    await world.settle()
    await receive_api_versions(peer, {2: Release(2, 6)})

    assert world.snapshot.role is Role.STANDBY
    assert f"/brokers/ids/{NODE_ID + 1}" in world.tree.nodes
    assert set(peer.context.brokers) == set(ids(1, 2, 3))


async def test_a_registration_that_a_controller_left_behind_is_deleted_when_brokers_are_read(world: World) -> None:
    """A server that lagged hid the registration from the election."""
    left = f"/brokers/ids/{NODE_ID + 1}"
    entry = world.c.local.our_entry()
    assert entry is not None
    world.tree.put(left, codecs.encode_controller_registration(entry, "of an earlier term", timestamp_ms=1))

    await world.settle()

    assert left not in world.tree.nodes


async def test_a_registration_of_another_session_under_the_same_id_is_not_taken_for_our_own(world: World) -> None:
    """Simulated seed 13976: the other one replaces a deleted registration before the deletion is noticed."""
    await registered(world)
    entry = world.c.local.our_entry()
    assert entry is not None

    world.tree.outsider(Delete(OURS, -1))
    world.tree.put(OURS, codecs.encode_controller_registration(entry, "of an earlier term", timestamp_ms=1))
    await world.settle()

    assert world.tree.nodes[OURS].ephemeral_owner == world.zk.session_id
    assert world.snapshot.registered


async def test_a_broker_with_an_id_of_the_controllerd_range_is_left_out_with_an_alarm(world: World) -> None:
    world.register(NODE_ID + 5)

    await world.settle()

    assert set(world.context.brokers) == set(ids(1, 2, 3))
    assert f"/brokers/ids/{NODE_ID + 5}" in world.snapshot.quarantine
    assert f"/brokers/ids/{NODE_ID + 5}" in world.tree.nodes


async def test_a_broker_with_the_id_of_the_instance_is_an_alarm_and_the_term_continues(world: World) -> None:
    world.register(NODE_ID)

    await receive_api_versions(world, {1: Release(2, 7)})

    alarms = [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == "controllerd cannot be registered"]
    assert alarms == [f"{OURS} is the registration of a broker; choose another node.id"]
    assert world.snapshot.role is Role.ACTIVE
    assert not world.snapshot.registered


async def test_the_registration_of_an_expired_session_is_replaced_in_the_next_session(world: World) -> None:
    """The instance gave up the earlier session before the server expired it, so its registration still exists."""
    await registered(world)
    successor = World(tree=world.tree, session_id=2)

    await successor.start()
    assert OURS not in world.tree.nodes
    await receive_api_versions(successor, {1: Release(2, 8)})

    assert successor.snapshot.role is Role.ACTIVE
    assert world.tree.nodes[OURS].ephemeral_owner == 2
