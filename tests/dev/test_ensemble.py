"""The embedded ensemble is a real one: it elects, survives the death of one server, and stops without a majority."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from controllerd.dev.ensemble import EmbeddedEnsemble

pytestmark = [pytest.mark.zookeeper, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedEnsemble]:
    """Three servers for all tests."""
    async with EmbeddedEnsemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def ensemble(servers: EmbeddedEnsemble) -> AsyncIterator[EmbeddedEnsemble]:
    """The servers; those that a test killed are started again."""
    yield servers
    for server in servers.servers.values():
        if not server.process.running:
            server.launch()
    await servers.wait_serving(*servers.servers)


@pytest.fixture
def client(ensemble: EmbeddedEnsemble) -> Iterator[KazooClient]:
    """A session of the ensemble."""
    client = KazooClient(ensemble.connect, timeout=10.0)
    client.start()
    yield client
    client.stop()
    client.close()


async def test_a_session_outlives_the_server_that_it_was_connected_to(
    ensemble: EmbeddedEnsemble, client: KazooClient
) -> None:
    session = client._session_id
    before = await ensemble.serves(session)
    await ensemble.servers[before].kill()

    assert await ensemble.serves(session) != before
    assert client.exists("/") is not None
    assert client._session_id == session


async def test_a_leader_that_dies_has_a_successor(ensemble: EmbeddedEnsemble) -> None:
    before = await ensemble.leader()
    await ensemble.servers[before].kill()

    assert await ensemble.leader() != before


async def test_one_of_three_servers_alone_does_not_serve(ensemble: EmbeddedEnsemble) -> None:
    alone, *others = ensemble.servers.values()
    for server in others:
        await server.kill()

    async def is_silent() -> bool:
        return not await alone.serving()

    await alone.process.wait_until(is_silent, timeout_s=20, what="stopped to serve")


async def test_written_data_outlives_a_restart_of_all_servers(ensemble: EmbeddedEnsemble) -> None:
    client = KazooClient(ensemble.connect, timeout=10.0)
    client.start()
    client.create("/kept", b"yes")
    client.stop()
    client.close()
    before = ensemble.connect
    await ensemble.restart()
    assert ensemble.connect == before
    client = KazooClient(ensemble.connect, timeout=10.0)
    client.start()
    assert client.get("/kept")[0] == b"yes"
    client.stop()
    client.close()
