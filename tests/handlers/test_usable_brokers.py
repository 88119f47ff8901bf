"""Brokers that demand TLS or SASL, and listeners whose clients see no controller."""

import json

import pytest

from controllerd.core.model import BrokerId
from controllerd.core.reach import Reach
from controllerd.record.records import AlarmRecord
from controllerd.views import Role
from events.cluster import Reelect, Resign
from tests.fakes.world import World, ids

VISIBLE = Reach(("PLAINTEXT", "CONTROL"), frozenset({"PLAINTEXT", "CONTROL", "CLIENTS"}), is_visible=True)
NO_TALK, UNSEEN = "broker asks for TLS or SASL", "clients of a listener see no controller"
REASON = "broker 3 asks for SASL_SSL on PLAINTEXT: TLS and SASL are not supported yet"


def put(world: World, broker: int, **listeners: str) -> None:
    """Register a broker, or change its registration, with these listeners and their protocols."""
    body = {
        "version": 5,
        "host": None,
        "port": -1,
        "jmx_port": -1,
        "timestamp": "1",
        "endpoints": [f"{name}://127.0.0.1:{9000 + 10 * broker + at}" for at, name in enumerate(listeners)],
        "listener_security_protocol_map": listeners,
        "features": {},
    }
    world.tree.put(f"/brokers/ids/{broker}", json.dumps(body).encode())


def alarms(world: World, what: str) -> list[str]:
    return [alarm.detail for alarm in world.audit.of(AlarmRecord) if alarm.what == what]


@pytest.fixture
async def world() -> World:
    """Two plaintext brokers and an active controller that is visible on three listeners."""
    world = World(reach=VISIBLE)
    for broker in (1, 2):
        put(world, broker, PLAINTEXT="PLAINTEXT", CLIENTS="PLAINTEXT")
    await world.start()
    world.forget()
    return world


async def test_a_new_broker_that_demands_sasl_is_left_out_and_the_others_are_served(world: World) -> None:
    world.put_topic("t", {0: [1, 3]})

    put(world, 3, PLAINTEXT="SASL_SSL")
    await world.settle()

    assert world.context.live == set(ids(1, 2))
    assert world.channels.open == set(ids(1, 2))
    assert dict(world.snapshot.quarantine) == {"/brokers/ids/3": REASON}
    assert alarms(world, NO_TALK) == [f"/brokers/ids/3: {REASON}"]
    assert world.state("t")[:3] == (1, 0, [1])


async def test_a_broker_becomes_live_once_it_registers_with_plaintext(world: World) -> None:
    put(world, 3, PLAINTEXT="SASL_SSL")
    await world.settle()

    world.die(3)
    put(world, 3, PLAINTEXT="PLAINTEXT")
    await world.settle()

    assert world.context.live == set(ids(1, 2, 3))
    assert world.snapshot.quarantine == {}


async def test_a_broker_that_returns_with_tls_counts_as_dead(world: World) -> None:
    world.put_topic("t", {0: [2, 1]})
    await world.settle()

    world.die(2)
    put(world, 2, PLAINTEXT="SSL")
    await world.settle()

    assert world.context.live == {BrokerId(1)}
    assert world.state("t")[:3] == (1, 1, [1])


async def test_a_live_broker_keeps_its_known_endpoints_when_its_registration_demands_tls(world: World) -> None:
    known = world.context.brokers[BrokerId(2)]

    put(world, 2, PLAINTEXT="SSL")
    await world.settle()

    assert world.context.brokers[BrokerId(2)] is known
    assert "/brokers/ids/2" in world.snapshot.quarantine
    assert len(alarms(world, NO_TALK)) == 1


async def test_a_broker_with_tls_on_the_control_plane_listener_is_left_out(world: World) -> None:
    put(world, 3, PLAINTEXT="PLAINTEXT", CONTROL="SSL")
    await world.settle()

    assert world.context.live == set(ids(1, 2))


async def test_with_such_a_broker_in_the_cluster_the_next_election_is_refused(world: World) -> None:
    put(world, 3, PLAINTEXT="SASL_SSL")
    await world.call(Resign())
    world.clock.now += world.c.local.stand_by_s + 1

    world.queue.put(Reelect())
    await world.settle()

    assert (world.snapshot.role, world.snapshot.reason) == (Role.STANDBY, REASON)
    assert alarms(world, "refused to lead") == [REASON]


async def test_an_uncovered_listener_raises_one_alarm_and_is_shown_as_long_as_a_broker_has_it(world: World) -> None:
    put(world, 3, PLAINTEXT="PLAINTEXT", EXTERNAL="SASL_SSL")
    await world.settle()
    put(world, 4, PLAINTEXT="PLAINTEXT", EXTERNAL="SASL_SSL")
    await world.settle()
    shown = dict(world.snapshot.uncovered)
    for broker in (3, 4):
        world.die(broker)
    await world.settle()

    assert world.context.live == set(ids(1, 2))
    assert shown == {"EXTERNAL": "not among kafka.listeners (on broker 3, 4)"}
    assert alarms(world, UNSEEN) == ["EXTERNAL: not among kafka.listeners (on broker 3)"]
    assert world.snapshot.uncovered == {}


async def test_a_broker_with_a_tls_listener_for_clients_is_served_and_the_listener_raises_an_alarm(
    world: World,
) -> None:
    put(world, 3, PLAINTEXT="PLAINTEXT", CLIENTS="SSL")
    await world.settle()

    reason = "it asks for SSL: TLS and SASL are not supported yet (on broker 3)"
    assert world.context.live == set(ids(1, 2, 3))
    assert world.snapshot.quarantine == {}
    assert alarms(world, UNSEEN) == [f"CLIENTS: {reason}"]


async def test_a_listener_that_a_live_broker_adds_is_noticed(world: World) -> None:
    put(world, 2, PLAINTEXT="PLAINTEXT", CLIENTS="PLAINTEXT", EDGE="PLAINTEXT")
    await world.settle()

    assert alarms(world, UNSEEN) == ["EDGE: not among kafka.listeners (on broker 2)"]


async def test_a_standby_shows_no_uncovered_listener(world: World) -> None:
    put(world, 3, PLAINTEXT="PLAINTEXT", EXTERNAL="PLAINTEXT")
    await world.settle()

    await world.call(Resign())

    assert world.snapshot.uncovered == {}


async def test_an_instance_that_is_hidden_from_clients_reports_no_uncovered_listener() -> None:
    world = World(reach=Reach(("PLAINTEXT",)))
    put(world, 1, PLAINTEXT="PLAINTEXT", EXTERNAL="SASL_SSL")

    await world.start()

    assert world.snapshot.uncovered == {}
    assert world.context.live == {BrokerId(1)}
