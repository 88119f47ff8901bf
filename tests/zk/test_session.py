"""Broken connections, lost sessions and lost answers, on a real server behind a proxy."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from controllerd.core.model import TopicPartition
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.errors import RefusedToLead, StoreUnavailable
from controllerd.ports.results import Conflict, Won, Written
from controllerd.record.records import SessionRecord
from controllerd.zk import paths
from controllerd.zk.access import Create
from controllerd.zk.client import ZooKeeperClient, open_store
from controllerd.zk.session import SessionState
from events.cluster import Expire, Reelect, RegisterBrokerAndReelect, Resync
from events.topics import PartitionModifications, TopicChange
from tests.fakes.audit import RecordingAudit
from tests.zk.proxy import MULTI, MULTI_READ, SET_WATCHES, ZooKeeperProxy
from tests.zk.world import OURS, THEIRS, Events, MonotonicClock, Peer, connected, states_of, until

pytestmark = pytest.mark.zookeeper

T0 = TopicPartition("t", 0)
SESSION_MS = 1_000
GET_DATA = 4


@pytest.fixture
async def ours(proxy: ZooKeeperProxy, chroot: str) -> AsyncIterator[Peer]:
    """A contender behind the proxy."""
    async with connected(proxy.connect + chroot) as peer:
        await peer.lead()
        yield peer


@pytest.fixture
async def brief(proxy: ZooKeeperProxy, chroot: str) -> AsyncIterator[Peer]:
    """A contender behind the proxy, with a short session."""
    async with connected(proxy.connect + chroot, timeout_ms=SESSION_MS) as peer:
        await peer.lead()
        yield peer


@pytest.fixture
async def patient(proxy: ZooKeeperProxy, chroot: str) -> AsyncIterator[Peer]:
    """A contender behind the proxy, whose session is long enough for a second try within it."""
    async with connected(proxy.connect + chroot, timeout_ms=6 * SESSION_MS) as peer:
        await peer.lead()
        yield peer


@pytest.fixture
async def theirs(connect: str) -> AsyncIterator[Peer]:
    """Another client, not behind the proxy."""
    async with connected(connect, THEIRS) as peer:
        yield peer


def client_of(peer: Peer) -> ZooKeeperClient:
    assert peer.client is not None
    return peer.client


def isolate(proxy: ZooKeeperProxy) -> None:
    proxy.is_open = False
    proxy.cut()


async def test_an_update_whose_answer_was_lost_is_read_back_as_written(ours: Peer, proxy: ZooKeeperProxy) -> None:
    await ours.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)
    await ours.store.states.create_states(states)

    proxy.lose_answer(MULTI)
    results = await ours.store.states.update_states(states)

    assert results == dict.fromkeys(states, Written(1))
    assert proxy.lost == 1
    node = await ours.node(paths.partition_state(T0))
    assert node is not None
    assert node.version == 1
    record = ours.transactions()[-1]
    assert (record.ambiguous, record.results, record.versions) == (True, ["ok", "ok"], [1, 1])


async def test_a_creation_whose_answer_was_lost_is_read_back_as_written(ours: Peer, proxy: ZooKeeperProxy) -> None:
    await ours.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)
    proxy.lose_answer(MULTI)
    assert await ours.store.states.create_states(states) == dict.fromkeys(states, Written(0))


async def test_a_conflict_stays_one_when_its_answer_was_lost(ours: Peer, theirs: Peer, proxy: ZooKeeperProxy) -> None:
    await ours.add_topic("t", [[1, 2], [1, 2]])
    states = states_of("t", 2)
    await ours.store.states.create_states(states)
    await theirs.put(paths.partition_state(T0), b"{}")

    proxy.lose_answer(MULTI)
    results = await ours.store.states.update_states(states)

    assert isinstance(results[T0], Conflict)
    assert results[TopicPartition("t", 1)] == Written(1)


async def test_an_election_whose_answer_was_lost_is_won(ours: Peer, proxy: ZooKeeperProxy) -> None:
    await ours.elector.resign()

    proxy.lose_answer(MULTI)
    won = await ours.elector.elect()

    assert won == Won(2, 2, None)
    assert proxy.lost == 1
    assert await ours.elector.is_ours()
    assert ours.transactions()[-1].ambiguous


async def test_a_resignation_whose_answer_was_lost_is_done(ours: Peer, proxy: ZooKeeperProxy) -> None:
    proxy.lose_answer(MULTI)
    await ours.elector.resign()
    assert await ours.node(paths.CONTROLLER) is None


@pytest.mark.parametrize("opcode", [MULTI_READ, GET_DATA, SET_WATCHES])
async def test_reads_are_repeated_when_their_answer_was_lost(ours: Peer, proxy: ZooKeeperProxy, opcode: int) -> None:
    names = [f"t{number}" for number in range(20)]
    await ours.act(*(Create(paths.topic(name), b'{"version":1,"partitions":{}}') for name in names))

    proxy.lose_answer(opcode)
    many = await ours.store.topics.read_topics(names)
    few = await ours.store.topics.read_topics(names[:2])

    assert (len(many.topics), len(few.topics), proxy.lost) == (20, 2, 1)


async def test_a_reconnect_within_the_session_enqueues_a_resync(ours: Peer, proxy: ZooKeeperProxy) -> None:
    session = client_of(ours).session
    before = session.session_id

    proxy.cut()
    await ours.saw(Resync())

    assert (session.session_id, session.generation) == (before, 1)
    assert await ours.elector.is_ours()
    states = [record.state for record in ours.audit.of(SessionRecord)]
    assert states == ["connected", "suspended", "reconnected"]


async def test_a_server_that_accepts_and_never_answers_does_not_end_the_session(
    patient: Peer, proxy: ZooKeeperProxy
) -> None:
    session = client_of(patient).session
    proxy.silent = 1
    proxy.cut()
    await patient.saw(Resync())
    assert (proxy.silent, session.generation) == (0, 1)


async def test_watches_work_again_after_the_resync_read_everything(
    ours: Peer, theirs: Peer, proxy: ZooKeeperProxy
) -> None:
    await ours.store.topics.read_topic_names()
    proxy.cut()
    await ours.saw(Resync())
    assert TopicChange() not in ours.events.all

    await ours.store.topics.read_topic_names()
    await theirs.add_topic("t", [[1]])

    await ours.saw(TopicChange())


async def test_operations_wait_while_the_session_is_suspended(ours: Peer, proxy: ZooKeeperProxy) -> None:
    session = client_of(ours).session
    isolate(proxy)
    await until(lambda: session.state is SessionState.SUSPENDED)

    reading = asyncio.create_task(ours.store.topics.read_topic_names())
    await asyncio.sleep(0)
    assert not reading.done()
    proxy.is_open = True

    assert await reading == frozenset()


async def test_a_session_out_of_reach_for_its_time_out_is_lost(brief: Peer, proxy: ZooKeeperProxy) -> None:
    session = client_of(brief).session
    seen: list[tuple[SessionState, bool]] = []
    session.when_lost(lambda: seen.append((session.state, Expire(1) in brief.events.all)))
    brief.events.put(TopicChange())
    isolate(proxy)
    await until(lambda: session.state is SessionState.SUSPENDED)

    with pytest.raises(StoreUnavailable):
        await brief.store.topics.read_topic_names()

    assert brief.events.all == [Expire(1)]
    assert seen == [(SessionState.LOST, False)]


async def test_a_new_session_is_used_only_after_expire_was_handled(
    brief: Peer, theirs: Peer, proxy: ZooKeeperProxy
) -> None:
    session = client_of(brief).session
    old = session.session_id
    isolate(proxy)
    await brief.saw(Expire(1))
    await _until_gone(theirs)
    proxy.is_open = True
    await until(lambda: session.session_id not in {0, old})
    with pytest.raises(StoreUnavailable):
        await brief.store.topics.read_topic_names()
    assert brief.events.all == [Expire(1)]

    session.expire_handled()

    assert brief.events.all == [Expire(1), RegisterBrokerAndReelect()]
    assert session.generation == 2
    assert await brief.elector.elect() == Won(2, 2, None)
    assert await brief.elector.is_ours()


async def test_a_session_that_is_declared_lost_is_used_again_as_a_new_generation(ours: Peer) -> None:
    session = client_of(ours).session
    before = session.session_id

    session.declare_lost("the process was suspended")
    with pytest.raises(StoreUnavailable):
        await ours.store.topics.read_topic_names()
    session.expire_handled()

    assert ours.events.all == [Expire(1), RegisterBrokerAndReelect()]
    assert (session.session_id, session.generation) == (before, 2)
    assert isinstance(await ours.elector.elect(), Won)


async def test_expire_may_be_handled_before_a_new_session_is_there(brief: Peer, proxy: ZooKeeperProxy) -> None:
    isolate(proxy)
    await brief.saw(Expire(1))
    client_of(brief).session.expire_handled()
    assert RegisterBrokerAndReelect() not in brief.events.all

    proxy.is_open = True

    await brief.saw(RegisterBrokerAndReelect())


async def test_transactions_in_flight_when_the_session_is_lost_are_recorded_as_unknown(
    brief: Peer, proxy: ZooKeeperProxy
) -> None:
    await brief.add_topic("t", [[1, 2]])
    proxy.held[MULTI] = asyncio.Event()
    proxy.requests.clear()
    writing = asyncio.create_task(brief.store.states.create_states(states_of("t", 1)))
    await until(lambda: MULTI in proxy.requests)
    isolate(proxy)

    with pytest.raises(StoreUnavailable):
        await writing

    record = brief.transactions()[-1]
    assert record.ambiguous
    assert set(record.results) == {"unknown"}


async def test_watches_of_an_earlier_generation_are_dropped_kafka_1578(
    brief: Peer, theirs: Peer, proxy: ZooKeeperProxy
) -> None:
    await brief.store.topics.read_topic_names()
    isolate(proxy)
    await brief.saw(Expire(1))
    await theirs.add_topic("t", [[1]])
    proxy.is_open = True
    client_of(brief).session.expire_handled()
    await brief.saw(RegisterBrokerAndReelect())

    await brief.store.topics.read_topic_names()
    await theirs.add_topic("u", [[1]])
    await brief.saw(TopicChange())

    assert brief.events.all.count(TopicChange()) == 1


async def test_a_change_between_the_read_and_the_arming_is_not_lost(
    ours: Peer, theirs: Peer, proxy: ZooKeeperProxy
) -> None:
    names = [f"t{number}" for number in range(20)]
    await theirs.act(*(Create(paths.topic(name), b'{"version":1,"partitions":{}}') for name in names))
    proxy.held[SET_WATCHES] = asyncio.Event()
    ours.events.all.clear()
    reading = asyncio.create_task(ours.store.topics.read_topics(names))
    await until(lambda: SET_WATCHES in proxy.requests)

    await theirs.add_topic("t7", [[1]])
    proxy.held[SET_WATCHES].set()
    read = await reading

    assert read.topics["t7"].assignments == {}
    await ours.saw(PartitionModifications("t7"))
    assert ours.events.all == [PartitionModifications("t7")]


async def test_a_server_without_multi_read_is_read_one_by_one(proxy: ZooKeeperProxy, chroot: str) -> None:
    proxy.unknown = {MULTI_READ}
    async with connected(proxy.connect + chroot) as peer:
        await peer.lead()
        await peer.add_topic("t", [[1, 2]] * 30)
        states = states_of("t", 30)
        await peer.store.states.create_states(states)

        assert (await peer.store.states.read_states(states)).states == states
        names = [f"t{number}" for number in range(20)]
        await peer.act(*(Create(paths.topic(name), b'{"version":1,"partitions":{}}') for name in names))
        assert len((await peer.store.topics.read_topics([*names, "gone"])).topics) == 20
        await peer.add_topic("t7", [[1]])
        await peer.saw(PartitionModifications("t7"))

    assert proxy.requests.count(MULTI_READ) == 1


async def test_one_of_several_hosts_is_enough(server_address: str, chroot: str, proxy: ZooKeeperProxy) -> None:
    proxy.is_open = False
    async with connected(f"{proxy.connect},{server_address}{chroot}") as peer:
        assert await peer.store.topics.read_topic_names() == frozenset()


async def test_servers_that_do_not_answer_are_reported(proxy: ZooKeeperProxy) -> None:
    proxy.is_open = False
    with pytest.raises(StoreUnavailable, match="answered"):
        await open_store(
            proxy.connect,
            session_timeout_ms=1_000,
            contender=OURS,
            queue=Events(),
            audit=RecordingAudit(),
            clock=MonotonicClock(),
            connect_timeout_s=0.3,
        )


async def test_closing_the_session_ends_the_role_at_once(connect: str, theirs: Peer) -> None:
    async with connected(connect) as peer:
        await peer.lead()
    assert isinstance(await theirs.elector.elect(), Won)


async def test_a_secured_cluster_is_not_led(connect: str) -> None:
    async with connected(connect) as peer:
        await peer.store.cluster.ensure_paths()
        _secure(connect, "/brokers/ids")
        with pytest.raises(RefusedToLead, match="/brokers/ids"):
            await peer.elector.elect()


async def test_the_session_outlives_a_restart_of_the_server_kafka_5473(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server, connected(server.connect + "/kafka", timeout_ms=60_000) as peer:
        await peer.lead()
        await peer.add_topic("t", [[1, 2]])
        # A connection that meets the server while it starts may be accepted and never answered: then it takes 20 s.
        await server.restart()
        await peer.saw(Resync())
        assert await peer.store.states.create_states(states_of("t", 1)) == {T0: Written(0)}
        assert await peer.elector.is_ours()


async def _until_gone(peer: Peer) -> None:
    """Until the server has expired the session that holds the role."""
    if await peer.elector.read_holder() is not None:
        await peer.saw(Reelect())


def _secure(connect: str, path: str) -> None:
    kazoo = KazooClient(connect)
    kazoo.start()
    kazoo.set_acls(path, [make_acl("world", "anyone", read=True, admin=True)])
    kazoo.stop()
    kazoo.close()


@pytest.mark.parametrize(("asked_ms", "granted_s"), [(3_600_000, 60.0), (500, 1.0), (6_000, 6.0)])
async def test_the_session_timeout_is_the_one_that_the_server_granted(
    connect: str, asked_ms: int, granted_s: float
) -> None:
    """The server of these tests grants 1 to 60 s."""
    async with connected(connect, timeout_ms=asked_ms) as peer:
        assert client_of(peer).session.timeout_s == granted_s
