"""Elections, takeovers, new terms and resignations: the same on the fake and on a real server."""

import asyncio
import json
from collections.abc import Sequence
from typing import cast

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.core.reach import Reach
from controllerd.errors import ControllerMoved, RefusedToLead
from controllerd.ports.results import Held, Won
from controllerd.record.records import TermRecord
from controllerd.views import Holder
from controllerd.zk import codecs, paths
from controllerd.zk.access import CheckVersion, Create, Delete, SetData, Znode, ZooKeeper
from controllerd.zk.elector import UNREADABLE, Contender, ZooKeeperElector
from events.cluster import ControllerChange, Reelect
from tests.zk.world import OURS, THEIRS, MonotonicClock, Peer, World, states_of

BROKER_HOLDS = b'{"version":2,"brokerid":3,"timestamp":"1700000000000","kraftControllerEpoch":-1}'


def contending(peer: Peer, contender: Contender) -> ZooKeeperElector:
    return ZooKeeperElector(peer.zk, peer.store.writer, contender, peer.audit, MonotonicClock())


async def test_the_first_election_of_a_cluster_has_epoch_1(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()

    assert await world.ours.elector.elect() == Won(1, 1, None)

    node, epoch = await world.ours.zk.read([paths.CONTROLLER, paths.CONTROLLER_EPOCH])
    assert node is not None
    assert epoch is not None
    assert node.ephemeral_owner == world.ours.zk.session_id
    assert epoch.data == b"1"
    assert json.loads(node.data or b"") | {"timestamp": ""} == {
        "version": 2,
        "brokerid": OURS.node_id,
        "timestamp": "",
        "kraftControllerEpoch": -1,
        "instance": OURS.instance,
    }


async def test_another_controllerd_keeps_the_role(world: World) -> None:
    await world.theirs.lead()

    held = await world.ours.elector.elect()

    assert isinstance(held, Held)
    assert (held.holder.node_id, held.holder.instance) == (THEIRS.node_id, THEIRS.instance)
    assert await world.theirs.elector.is_ours()
    assert not await world.ours.elector.is_ours()


async def test_a_takeover_leaves_no_moment_without_a_controller(world: World) -> None:
    before = await world.theirs.lead()
    world.theirs.events.all.clear()
    await world.theirs.elector.is_ours()

    won = await world.ours.elector.elect(takeover=True)

    assert isinstance(won, Won)
    assert won.epoch == before.epoch + 1
    assert won.previous is not None
    assert won.previous.instance == THEIRS.instance
    assert world.ours.transactions()[-1].operations == ["setData", "delete", "create"]
    assert len(set(world.ours.transactions()[-1].results)) == 1
    await world.theirs.saw(Reelect())
    holder = await world.theirs.elector.read_holder()
    assert holder is not None
    assert holder.instance == OURS.instance


async def test_our_own_znode_of_an_earlier_run_is_replaced_at_once_kafka_1387_and_kafka_992(world: World) -> None:
    await world.theirs.lead()

    won = await contending(world.ours, THEIRS).elect()

    assert isinstance(won, Won)
    assert won.previous is not None
    assert won.previous.instance == THEIRS.instance


async def test_a_broker_keeps_the_role_by_default(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.act(Create(paths.CONTROLLER_EPOCH, b"4"), Create(paths.CONTROLLER, BROKER_HOLDS, ephemeral=True))

    held = await world.ours.elector.elect()

    assert isinstance(held, Held)
    assert held.holder == Holder(3, None, 1_700_000_000_000)
    assert "standby" in held.reason


async def test_the_role_is_taken_from_a_broker_if_configured(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.act(Create(paths.CONTROLLER_EPOCH, b"4"), Create(paths.CONTROLLER, BROKER_HOLDS, ephemeral=True))

    won = await contending(world.ours, Contender(OURS.node_id, OURS.instance, takes_from_brokers=True)).elect()

    assert won == Won(5, 1, Holder(3, None, 1_700_000_000_000))


async def test_a_controller_znode_that_cannot_be_decoded_is_never_deleted(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.act(Create(paths.CONTROLLER_EPOCH, b"4"), Create(paths.CONTROLLER, b"\xff?", ephemeral=True))

    held = await world.ours.elector.elect(takeover=True)

    assert isinstance(held, Held)
    assert held.holder is UNREADABLE
    assert await world.ours.elector.read_holder() is UNREADABLE
    node = await world.ours.node(paths.CONTROLLER)
    assert node is not None
    assert node.data == b"\xff?"


async def test_of_two_that_race_one_wins_each_round(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    for epoch in range(1, 6):
        first, second = await asyncio.gather(world.ours.elector.elect(), world.theirs.elector.elect())
        winners = [result for result in (first, second) if isinstance(result, Won)]
        assert len(winners) == 1
        assert winners[0].epoch == epoch
        await world.ours.elector.resign()
        await world.theirs.elector.resign()


async def test_a_renewed_term_fences_writes_of_the_old_one(world: World) -> None:
    won = await world.ours.lead()

    renewed = await world.ours.elector.renew()

    assert (renewed.epoch, renewed.epoch_zk_version) == (won.epoch + 1, won.epoch_zk_version + 1)
    assert await world.ours.elector.is_ours()
    outcomes = await world.theirs.zk.commit([[CheckVersion(paths.CONTROLLER_EPOCH, won.epoch_zk_version)]])
    assert getattr(outcomes[0], "code", None) == -103


async def test_a_term_that_was_lost_cannot_be_renewed(world: World) -> None:
    await world.ours.lead()
    await world.theirs.lead()

    with pytest.raises(ControllerMoved):
        await world.ours.elector.renew()

    assert await world.theirs.elector.is_ours()


async def test_a_term_whose_epoch_another_client_raised_cannot_be_renewed_kafka_1096(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.CONTROLLER_EPOCH, b"9")
    with pytest.raises(ControllerMoved):
        await world.ours.elector.renew()


async def test_resigning_deletes_the_znode_and_ends_the_term(world: World) -> None:
    await world.ours.lead()

    await world.ours.elector.resign()

    assert await world.ours.node(paths.CONTROLLER) is None
    with pytest.raises(ControllerMoved):
        await world.ours.store.states.update_states(states_of("t", 1))


async def test_resigning_does_not_delete_the_znode_of_another_instance(world: World) -> None:
    await world.ours.lead()
    await world.theirs.lead()

    await world.ours.elector.resign()
    await world.ours.elector.resign()

    assert await world.theirs.elector.is_ours()


async def test_forgetting_the_term_ends_it_without_touching_the_znode(world: World) -> None:
    await world.ours.lead()

    world.ours.elector.forget_term()

    assert await world.ours.node(paths.CONTROLLER) is not None
    with pytest.raises(ControllerMoved):
        await world.ours.store.states.update_states(states_of("t", 1))


async def test_creation_change_and_deletion_of_the_znode_are_events(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    assert await world.ours.elector.read_holder() is None

    await world.theirs.put(paths.CONTROLLER, BROKER_HOLDS)
    await world.ours.saw(ControllerChange())
    await world.ours.elector.read_holder()
    await world.theirs.put(paths.CONTROLLER, BROKER_HOLDS)
    await world.ours.saw(ControllerChange(), times=2)
    await world.ours.elector.is_ours()
    await world.theirs.remove(paths.CONTROLLER)
    await world.ours.saw(Reelect())


@pytest.mark.parametrize(
    ("path", "data", "because"),
    [
        ("/migration", b"{}", "KRaft"),
        ("/controller", b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":5}', "KRaft"),
        ("/brokers/ids/2000000000", b"{}", "clashes"),
        ("/brokers/ids/147483647", b"{}", "clashes"),
        ("/controller_epoch", b"many", "not a number"),
    ],
)
async def test_a_cluster_that_must_not_be_led_is_refused(world: World, path: str, data: bytes, because: str) -> None:
    await world.ours.lead()
    await world.ours.elector.resign()
    await world.theirs.put(path, data)

    with pytest.raises(RefusedToLead, match=because):
        await world.ours.elector.elect(takeover=True)

    assert world.ours.audit.of(TermRecord)[-1].change == "refused"


async def test_a_missing_epoch_is_not_created_beside_a_controller(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.put(paths.CONTROLLER, BROKER_HOLDS)
    with pytest.raises(RefusedToLead, match="restore"):
        await world.ours.elector.elect(takeover=True)
    assert await world.ours.node(paths.CONTROLLER_EPOCH) is None


async def test_a_missing_epoch_is_not_created_where_partitions_have_leaders(world: World) -> None:
    await world.ours.lead()
    await world.theirs.add_topic("t", [[1, 2]])
    await world.ours.store.states.create_states(states_of("t", 1))
    await world.ours.elector.resign()
    await world.theirs.remove(paths.CONTROLLER_EPOCH)

    with pytest.raises(RefusedToLead, match="restore"):
        await world.ours.elector.elect()


async def test_a_missing_epoch_is_refused_with_the_znode_that_shows_an_earlier_controller(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.add_topic("t", [[1, 2]])
    await world.theirs.put(paths.topic_partitions("t"), b"")

    with pytest.raises(RefusedToLead, match="though /brokers/topics/t/partitions exists, which only a controller"):
        await world.ours.elector.elect()


async def test_a_missing_epoch_is_created_where_no_topic_has_partitions_yet(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.add_topic("t", [[1, 2]])

    assert (await world.ours.lead()).epoch == 1


VISIBLE = Reach(("INTERNAL",), frozenset({"INTERNAL", "CLIENTS"}), is_visible=True)


async def register(peer: Peer, broker: int, **listeners: SecurityProtocol) -> None:
    ends = tuple(Endpoint(name, "host", 9000 + at, protocol) for at, (name, protocol) in enumerate(listeners.items()))
    await peer.put(paths.broker(BrokerId(broker)), codecs.encode_broker(Broker(BrokerId(broker), 0, ends)))


@pytest.mark.parametrize("name", ["INTERNAL", "CLIENTS"])
async def test_a_cluster_whose_brokers_demand_tls_or_sasl_on_our_listener_is_refused(world: World, name: str) -> None:
    await world.ours.store.cluster.ensure_paths()
    await register(world.theirs, 2, INTERNAL=SecurityProtocol.PLAINTEXT, EXTERNAL=SecurityProtocol.SSL)
    await register(world.theirs, 3, **{name: SecurityProtocol.SASL_SSL})
    elector = contending(world.ours, Contender(OURS.node_id, OURS.instance, reach=VISIBLE))

    with pytest.raises(RefusedToLead, match=f"broker 3 asks for SASL_SSL on {name}: TLS and SASL are not supported"):
        await elector.elect(takeover=True)

    assert await world.ours.node(paths.CONTROLLER) is None


async def test_other_listeners_and_registrations_that_cannot_be_decoded_do_not_prevent_the_election(
    world: World,
) -> None:
    await world.ours.store.cluster.ensure_paths()
    await register(world.theirs, 1, INTERNAL=SecurityProtocol.PLAINTEXT, EXTERNAL=SecurityProtocol.SASL_SSL)
    await world.theirs.put(paths.broker(BrokerId(2)), b"not json")
    await world.theirs.put(f"{paths.BROKER_IDS}/two", b"")

    outcome = await contending(world.ours, Contender(OURS.node_id, OURS.instance, reach=VISIBLE)).elect()

    assert isinstance(outcome, Won)


async def test_eligibility_is_checked_without_an_election(world: World) -> None:
    await world.theirs.lead()
    await world.ours.elector.check_eligibility()
    await register(world.theirs, 3, INTERNAL=SecurityProtocol.SSL)

    with pytest.raises(RefusedToLead, match="broker 3 asks for SSL on INTERNAL"):
        await contending(world.ours, Contender(OURS.node_id, OURS.instance, reach=VISIBLE)).check_eligibility()

    assert world.ours.transactions() == []
    assert await world.theirs.elector.is_ours()


async def test_every_change_of_the_role_is_recorded(world: World) -> None:
    await world.theirs.lead()
    await world.ours.elector.elect()
    await world.ours.elector.elect(takeover=True)
    await world.ours.elector.renew()
    await world.ours.elector.resign()

    terms = world.ours.audit.of(TermRecord)

    assert [(term.change, term.controller_epoch) for term in terms] == [
        ("held", 1),
        ("elected", 2),
        ("renewed", 3),
        ("resigned", 3),
    ]
    assert terms[0].holder == f"controllerd {THEIRS.node_id}"


async def test_a_live_broker_does_not_prevent_the_election(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    broker = Broker(BrokerId(1), 0, (Endpoint("PLAINTEXT", "host", 9092),))
    await world.theirs.put(paths.broker(BrokerId(1)), codecs.encode_broker(broker))
    assert isinstance(await world.ours.elector.elect(), Won)


async def test_a_session_that_owns_the_znode_already_begins_a_new_term(world: World) -> None:
    await world.ours.lead()
    won = await world.ours.elector.elect()
    assert isinstance(won, Won)
    assert won.epoch == 2


async def test_the_next_epoch_follows_one_that_rose_without_an_election(world: World) -> None:
    await world.ours.store.cluster.ensure_paths()
    await world.theirs.act(Create(paths.CONTROLLER_EPOCH, b"0"))
    await world.theirs.act(SetData(paths.CONTROLLER_EPOCH, b"41", 0))
    await world.theirs.act(Create(paths.CONTROLLER, BROKER_HOLDS, ephemeral=True))
    await world.theirs.act(Delete(paths.CONTROLLER))
    assert await world.ours.elector.elect() == Won(42, 2, None)


class Behind:
    """A server that lags behind shows ``/controller`` as it was, and the epoch as it is."""

    def __init__(self, zk: ZooKeeper, shown: Znode) -> None:
        self._zk = zk
        self._shown: Znode | None = shown

    def __getattr__(self, name: str) -> object:
        return getattr(self._zk, name)

    async def read_and_watch(self, paths_: Sequence[str], *, absent_too: bool = False) -> list[Znode | None]:
        nodes = await self._zk.read_and_watch(paths_, absent_too=absent_too)
        if paths_ == [paths.CONTROLLER] and self._shown is not None:
            nodes, self._shown = [self._shown], None
        return nodes


async def test_a_holder_that_came_after_our_own_earlier_znode_is_not_deleted(world: World) -> None:
    """Every ``/controller`` has version 0, so only its czxid tells the one that was read from the one that is there."""
    await world.ours.lead()
    (former,) = await world.ours.zk.read([paths.CONTROLLER])
    assert former is not None
    await world.ours.elector.resign()
    await world.theirs.lead()
    behind = cast("ZooKeeper", Behind(world.ours.zk, former))
    elector = ZooKeeperElector(behind, world.ours.store.writer, OURS, world.ours.audit, MonotonicClock())

    outcome = await elector.elect()

    assert isinstance(outcome, Held)
    assert outcome.holder.instance == THEIRS.instance
    assert await world.theirs.elector.is_ours()
