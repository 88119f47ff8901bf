"""The registration of controllerd under ``/brokers/ids``: the same on the fake and on a real server."""

import json
from collections.abc import Callable

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.errors import ControllerMoved, RefusedToLead
from controllerd.ports.results import Won
from controllerd.record.records import AlarmRecord
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Delete, Operation, SetData
from controllerd.zk.elector import Contender, ZooKeeperElector
from events.cluster import BrokerChange
from tests.fakes.zookeeper import FakeZooKeeper
from tests.zk.world import OURS, THEIRS, MonotonicClock, Peer, World, in_memory

OUR_PATH = paths.broker(BrokerId(OURS.node_id))
THEIR_PATH = paths.broker(BrokerId(THEIRS.node_id))


def entry_of(contender: Contender, *, rack: str | None = None, port: int = 9990) -> Broker:
    return Broker(BrokerId(contender.node_id), -1, (Endpoint("PLAINTEXT", "127.0.0.1", port),), rack)


async def register(peer: Peer, contender: Contender) -> None:
    assert await peer.elector.registrar.register(entry_of(contender)) is None


async def test_the_active_instance_is_registered_as_its_own_session_until_it_resigns(world: World) -> None:
    await world.ours.lead()

    await register(world.ours, OURS)

    node = await world.ours.node(OUR_PATH)
    assert node is not None
    assert node.ephemeral_owner == world.ours.zk.session_id
    written = world.ours.transactions()[-1]
    assert (written.operations, written.paths, written.fence) == (
        ["create"],
        [OUR_PATH],
        world.ours.store.writer.epoch_zk_version,
    )

    await world.ours.elector.resign()

    assert await world.ours.node(OUR_PATH) is None
    assert world.ours.transactions()[-1].paths == [paths.CONTROLLER, OUR_PATH]


async def test_a_registration_is_what_brokers_from_2_6_to_3_9_read(world: World) -> None:
    """``BrokerIdZNode.decode`` of each release demands version, jmx_port, endpoints, and reads the map and the rack."""
    await world.ours.lead()
    assert await world.ours.elector.registrar.register(entry_of(OURS, rack="r1")) is None

    node = await world.ours.node(OUR_PATH)

    assert node is not None
    document = json.loads(node.data or b"")
    assert document.pop("timestamp").isdigit()
    assert document == {
        "version": 4,
        "host": "127.0.0.1",
        "port": 9990,
        "jmx_port": -1,
        "endpoints": ["PLAINTEXT://127.0.0.1:9990"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "rack": "r1",
        "instance": OURS.instance,
    }


async def test_a_changed_registration_is_rewritten_and_an_equal_one_is_not(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    await register(world.ours, OURS)
    assert [write.operations for write in world.ours.transactions()].count(["create"]) >= 1
    before = len(world.ours.transactions())

    assert await world.ours.elector.registrar.register(entry_of(OURS, rack="r1")) is None

    node = await world.ours.node(OUR_PATH)
    assert node is not None
    assert codecs.decode_broker(BrokerId(OURS.node_id), node.data, 0).rack == "r1"
    assert [write.operations for write in world.ours.transactions()[before:]] == [["setData"]]


async def test_an_instance_whose_controller_znode_was_deleted_registers_no_more(world: World) -> None:
    """Our epoch is still the newest: only the check of /controller refuses."""
    await world.ours.lead()
    await world.theirs.remove(paths.CONTROLLER)

    with pytest.raises(ControllerMoved):
        await register(world.ours, OURS)

    assert await world.ours.node(OUR_PATH) is None


def interfere(world: World, *operations: Operation) -> None:
    """Another session writes right before our next transaction, so that the earlier read is outdated."""
    zk = world.ours.zk
    assert isinstance(zk, FakeZooKeeper)
    zk.before_transaction[len(zk.transactions) + 1] = lambda: zk.tree.outsider(*operations)


async def test_a_controller_znode_that_goes_after_it_was_read_refuses_the_registration() -> None:
    world = in_memory()
    await world.ours.lead()
    interfere(world, Delete(paths.CONTROLLER))

    with pytest.raises(ControllerMoved):
        await register(world.ours, OURS)

    assert await world.ours.node(OUR_PATH) is None


async def test_a_deposed_instance_registers_no_more(world: World) -> None:
    await world.ours.lead()
    await world.theirs.lead()

    with pytest.raises(ControllerMoved):
        await register(world.ours, OURS)

    assert await world.ours.node(OUR_PATH) is None


async def test_a_controller_znode_that_another_made_anew_does_not_stand_for_ours() -> None:
    """The version of its znode is 0 as well: only the check of the epoch refuses."""
    world = in_memory()
    await world.ours.lead()
    epoch = await world.ours.node(paths.CONTROLLER_EPOCH)
    assert epoch is not None
    newer = SetData(paths.CONTROLLER_EPOCH, b"99", epoch.version)
    interfere(world, Delete(paths.CONTROLLER), Create(paths.CONTROLLER, b"{}"), newer)

    with pytest.raises(ControllerMoved):
        await register(world.ours, OURS)

    assert await world.ours.node(OUR_PATH) is None


@pytest.mark.parametrize("taker", [THEIRS, OURS], ids=["a peer", "our own next process"])
async def test_a_takeover_deletes_the_old_registration_in_its_own_transaction(world: World, taker: Contender) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    elector = ZooKeeperElector(world.theirs.zk, world.theirs.store.writer, taker, world.theirs.audit, MonotonicClock())

    won = await elector.elect(takeover=True)

    assert isinstance(won, Won)
    assert world.theirs.transactions()[-1].paths == [
        paths.CONTROLLER_EPOCH,
        paths.CONTROLLER,
        OUR_PATH,
        paths.CONTROLLER,
    ]
    assert await world.ours.node(OUR_PATH) is None
    assert await elector.registrar.register(entry_of(taker)) is None
    node = await world.ours.node(paths.broker(BrokerId(taker.node_id)))
    assert node is not None
    assert node.ephemeral_owner == world.theirs.zk.session_id


async def test_a_takeover_from_a_broker_deletes_the_registration_of_an_earlier_term(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    data = b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":-1}'
    await world.theirs.act(Delete(paths.CONTROLLER), Create(paths.CONTROLLER, data, ephemeral=True))

    won = await world.theirs.elector.elect(takeover=True)

    assert isinstance(won, Won)
    assert await world.theirs.node(OUR_PATH) is None


async def test_an_election_deletes_a_registration_that_outlived_its_controller_znode(world: World) -> None:
    """An operator deleted /controller: the session of its owner lives on for a moment, and the registration with it."""
    await world.theirs.lead()
    await register(world.theirs, THEIRS)
    await world.theirs.remove(paths.CONTROLLER)

    won = await world.ours.elector.elect()

    assert isinstance(won, Won)
    assert await world.ours.node(THEIR_PATH) is None


@pytest.mark.parametrize("comes", [True, False], ids=["created", "deleted"])
async def test_an_election_decides_again_when_a_registration_comes_or_goes_meanwhile(comes: bool) -> None:
    world = in_memory()
    await world.theirs.lead()
    if not comes:
        await register(world.theirs, THEIRS)
        interfere(world, Delete(THEIR_PATH))
    else:
        data = codecs.encode_controller_registration(entry_of(THEIRS), THEIRS.instance, timestamp_ms=1)
        interfere(world, Create(THEIR_PATH, data, ephemeral=True))

    won = await world.ours.elector.elect(takeover=True)
    await world.ours.elector.registrar.remove_left_over()

    assert isinstance(won, Won)
    assert await world.ours.node(THEIR_PATH) is None


async def test_an_instance_that_lost_the_role_deletes_its_registration_without_a_term(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    await world.theirs.remove(paths.CONTROLLER)
    world.ours.elector.forget_term()

    await world.ours.elector.registrar.unregister()

    assert await world.ours.node(OUR_PATH) is None
    record = world.ours.transactions()[-1]
    assert (record.operations, record.paths, record.fence) == (["delete"], [OUR_PATH], -1)


async def test_a_registration_of_another_session_is_left_by_an_instance_without_the_role(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    successor = ZooKeeperElector(world.theirs.zk, world.theirs.store.writer, OURS, world.theirs.audit, MonotonicClock())
    await successor.elect(takeover=True)
    await successor.registrar.register(entry_of(OURS))
    world.ours.elector.forget_term()

    await world.ours.elector.registrar.unregister()

    assert await world.ours.node(OUR_PATH) is not None


async def test_resigning_succeeds_after_another_client_deleted_the_registration(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    await world.theirs.remove(OUR_PATH)

    await world.ours.elector.resign()

    assert await world.ours.node(paths.CONTROLLER) is None


async def test_a_registration_deleted_during_the_resignation_does_not_prevent_it() -> None:
    world = in_memory()
    await world.ours.lead()
    await register(world.ours, OURS)
    interfere(world, Delete(OUR_PATH))

    await world.ours.elector.resign()

    assert await world.ours.node(paths.CONTROLLER) is None
    assert await world.ours.node(OUR_PATH) is None


async def test_a_registration_that_zookeeper_refuses_to_delete_does_not_prevent_the_resignation() -> None:
    """As when an operator secures ``/brokers`` while we lead; the registration goes with the session."""
    world = in_memory()
    await world.ours.lead()
    await register(world.ours, OURS)
    zk = world.ours.zk
    assert isinstance(zk, FakeZooKeeper)
    zk.read_only.add(OUR_PATH)

    await world.ours.elector.resign()

    assert await world.ours.node(paths.CONTROLLER) is None
    assert await world.ours.node(OUR_PATH) is not None
    (alarm,) = world.ours.audit.of(AlarmRecord)
    assert (alarm.what, alarm.detail) == ("registration of controllerd cannot be deleted", f"{OUR_PATH}: NoAuth")


async def test_a_renewed_term_begins_without_a_registration(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)

    await world.ours.elector.renew()

    assert await world.ours.node(OUR_PATH) is None
    await register(world.ours, OURS)
    assert await world.ours.node(OUR_PATH) is not None


async def test_a_broker_with_our_id_is_never_overwritten_nor_deleted(world: World) -> None:
    await world.ours.lead()
    broker = codecs.encode_broker(entry_of(OURS))
    await world.theirs.act(Create(OUR_PATH, broker, ephemeral=True))

    reason = await world.ours.elector.registrar.register(entry_of(OURS))
    await world.ours.elector.registrar.remove_left_over()
    await world.ours.elector.resign()

    assert reason is not None
    assert "is the registration of a broker" in reason
    node = await world.ours.node(OUR_PATH)
    assert node is not None
    assert node.data == broker
    with pytest.raises(RefusedToLead, match="clashes"):
        await world.ours.elector.elect()


def losing(world: World, number: int) -> FakeZooKeeper:
    zk = world.ours.zk
    assert isinstance(zk, FakeZooKeeper)
    zk.lose_reply_of = {len(zk.transactions) + number}
    return zk


@pytest.mark.parametrize("act", ["register", "resign", "unregister"])
async def test_a_lost_answer_leaves_neither_a_missing_nor_a_second_registration(act: str) -> None:
    world = in_memory()
    await world.ours.lead()
    if act != "register":
        await register(world.ours, OURS)
    zk = losing(world, 1)

    steps: dict[str, Callable[[], object]] = {
        "register": lambda: world.ours.elector.registrar.register(entry_of(OURS)),
        "resign": world.ours.elector.resign,
        "unregister": world.ours.elector.registrar.unregister,
    }
    await steps[act]()  # type: ignore[misc]

    assert (OUR_PATH in zk.tree.nodes) is (act == "register")
    assert world.ours.transactions()[-1].ambiguous
    assert set(world.ours.transactions()[-1].results) == {"ok"}


async def test_registrations_of_controllerd_are_no_brokers(world: World) -> None:
    await world.ours.lead()
    await register(world.ours, OURS)
    await world.theirs.act(
        Create(paths.broker(BrokerId(1)), codecs.encode_broker(Broker(BrokerId(1), 0, entry_of(OURS).endpoints)))
    )
    await world.theirs.act(Create(paths.broker(BrokerId(2_000_000_099)), codecs.encode_broker(entry_of(OURS))))

    read = await world.ours.store.brokers.read_brokers()

    assert set(read.brokers) == {1}
    assert read.controllers == {OURS.node_id}
    assert [bad.path for bad in read.broken] == [paths.broker(BrokerId(2_000_000_099))]


async def test_creating_and_deleting_the_registration_fires_the_watch_of_brokers(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.brokers.read_brokers()
    await register(world.ours, OURS)
    await world.ours.saw(BrokerChange())
