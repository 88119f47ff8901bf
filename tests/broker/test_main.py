"""A broker as a process of its own: started, asked, terminated, killed."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.__main__ import parse
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.dev.ports import ReservedPort
from controllerd.dev.processes import ChildProcess
from tests.broker.cluster import cluster
from tests.broker.samples import T0
from tests.broker.stub_controller import StubController
from tests.broker.zookeeper import Registrations
from wire.metadata import fetch_metadata
from wire.versions import ApiKey

SESSION_MS = 1_500


def arguments(connect: str, directory: Path, port: int) -> list[str]:
    return [
        *("--id", "7", "--zookeeper", connect, "--listener", f"PLAINTEXT://127.0.0.1:{port}"),
        *("--data-dir", str(directory / "data"), "--session-timeout-ms", str(SESSION_MS), "--rack", "r7"),
    ]


@asynccontextmanager
async def process(connect: str, directory: Path) -> AsyncIterator[tuple[ChildProcess, int]]:
    """A broker process that said that it is ready, and its port."""
    with ReservedPort() as reserved:
        command = [sys.executable, "-m", "broker", *arguments(connect, directory, reserved.port)]
        child = ChildProcess("broker 7", command, log_file=directory / "broker.log")
        async with child:
            await ready(child)
            yield child, reserved.port


async def ready(child: ChildProcess) -> None:
    async def said_so() -> bool:
        lines = [json.loads(line) for line in child.log_tail(50).splitlines() if line.startswith("{")]
        return any(line["event"] == "broker ready" for line in lines)

    await child.wait_until(said_so, timeout_s=30, what="got ready")


async def introduce(controller: StubController, registrations: Registrations) -> Broker:
    """Let the controller know the broker by its registration, and the broker the controller and one partition."""
    found = await registrations.broker(7)
    assert found is not None
    controller.brokers[7] = found
    if not controller.states:
        controller.place("t", 0, (7,))
    await controller.send_to_all()
    return found


def test_the_command_line_becomes_settings(tmp_path: Path) -> None:
    settings = parse(arguments("zk:2181/chroot", tmp_path, 9092))

    assert (settings.broker_id, settings.zookeeper, settings.rack) == (7, "zk:2181/chroot", "r7")
    assert (settings.listener, settings.session_timeout_ms) == (Endpoint("PLAINTEXT", "127.0.0.1", 9092), SESSION_MS)


@pytest.mark.parametrize("listener", ["127.0.0.1:9092", "PLAINTEXT://127.0.0.1"])
def test_a_wrong_listener_is_refused(listener: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        parse(["--id", "1", "--zookeeper", "zk:2181", "--listener", listener, "--data-dir", str(tmp_path)])


@pytest.mark.zookeeper
async def test_a_broker_process_serves_the_metadata_of_the_controller(
    connect: str, tmp_path: Path, controller: StubController, registrations: Registrations
) -> None:
    async with process(connect, tmp_path) as (_, port):
        registered = await introduce(controller, registrations)

        found = await fetch_metadata("127.0.0.1", port)

        assert (registered.rack, registered.endpoints) == ("r7", (Endpoint("PLAINTEXT", "127.0.0.1", port),))
        assert found.topics["t"].partitions[0].leader == 7
        assert found.brokers[7].rack == "r7"


@pytest.mark.zookeeper
async def test_sigterm_is_a_controlled_shutdown(
    connect: str, tmp_path: Path, controller: StubController, registrations: Registrations
) -> None:
    async with process(connect, tmp_path) as (child, _):
        registered = await introduce(controller, registrations)

        status = await child.terminate(timeout_s=20)

        asked = [(header.version, request.broker_id) for header, request in controller.of(ApiKey.CONTROLLED_SHUTDOWN)]
        assert (status, asked) == (0, [(3, BrokerId(7))])
        assert controller.of(ApiKey.CONTROLLED_SHUTDOWN)[0][1].broker_epoch == registered.epoch
        assert await registrations.broker(7) is None


@pytest.mark.zookeeper
async def test_a_paused_follower_leaves_the_isr_and_rejoins_when_it_is_resumed(
    connect: str, tmp_path: Path, controller: StubController, registrations: Registrations
) -> None:
    async with cluster(connect, tmp_path, controller, 1), process(connect, tmp_path) as (child, _):
        controller.place("t", 0, (1, 7))
        await introduce(controller, registrations)

        child.pause()
        await controller.until(lambda: controller.states[T0].isr == (1,))
        child.resume()

        await controller.until(lambda: controller.states[T0].isr == (1, 7))


@pytest.mark.zookeeper
async def test_a_killed_broker_is_gone_when_its_session_ends(
    connect: str, tmp_path: Path, registrations: Registrations
) -> None:
    async with process(connect, tmp_path) as (child, _):
        await child.kill()

        assert await registrations.broker(7) is not None
        await registrations.until(7, lambda found: found is None)


@pytest.mark.zookeeper
async def test_a_broker_restarted_after_a_crash_waits_for_its_old_registration_to_go(
    connect: str, tmp_path: Path, registrations: Registrations
) -> None:
    async with process(connect, tmp_path) as (child, _):
        before = await registrations.broker(7)
        await child.kill()

        child.start()
        await ready(child)

        after = await registrations.broker(7)
        assert before is not None
        assert after is not None
        assert after.epoch > before.epoch


@pytest.mark.zookeeper
async def test_a_broker_whose_data_belongs_to_another_does_not_start(connect: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=other\n")
    command = [sys.executable, "-m", "broker", *arguments(connect, tmp_path, 0)]

    async with ChildProcess("broker 7", command, log_file=tmp_path / "broker.log") as child:
        status = await child.wait_ended(timeout_s=20)

    assert status == 1
    assert "ForeignData" in child.log_tail()
