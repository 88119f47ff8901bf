"""A booted systemd with controllerd installed in it, and a ZooKeeper server beside it on the same loopback."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from controllerd.dev.ports import ReservedPort
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.systemd.machine import Machine, why_not
from tests.systemd.unit import Unit
from tests.zk.world import THEIRS, Peer, connected

NOT_BOOTED = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One loud line where no systemd was booted."""
    if NOT_BOOTED in config.stash:
        reason = config.stash[NOT_BOOTED]
        terminalreporter.write_line(f"UNITS NOT TESTED UNDER A REAL SYSTEMD: {reason}", red=True, bold=True)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Machine]:
    """Booted once for all tests. Skips in one loud line where that cannot be."""
    if (reason := why_not()) is not None:
        pytestconfig.stash[NOT_BOOTED] = reason
        pytest.skip(f"UNITS NOT TESTED UNDER A REAL SYSTEMD: {reason}")
    running = Machine(tmp_path_factory.mktemp("machine") / "console.log")
    try:
        running.boot()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server that lives as long as the tests."""
    zookeeper = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    with asyncio.Runner() as runner:
        runner.run(zookeeper.start())
        yield zookeeper
        runner.run(zookeeper.close())


@pytest.fixture
async def unit(machine: Machine, server: EmbeddedZooKeeper, request: pytest.FixtureRequest) -> AsyncIterator[Unit]:
    """An instance of ``controllerd@`` of the test's own, configured and not started."""
    kafka, http = ReservedPort(), ReservedPort()
    name = request.node.name.removeprefix("test_")[:40]
    unit = Unit(machine, name, f"{server.connect}/systemd/{name}", kafka.port, http.port)
    await unit.configure()
    yield unit
    await machine.run("systemctl", "stop", unit.socket, unit.service)
    await machine.run("systemctl", "reset-failed", unit.service)
    kafka.close()
    http.close()


@pytest.fixture
async def peer(unit: Unit) -> AsyncIterator[Peer]:
    """Another session of the same chroot, to look and to write as brokers and tools do."""
    async with connected(unit.connect, THEIRS, timeout_ms=30_000) as running:
        yield running
