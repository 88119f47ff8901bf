"""``controllerd run`` as a process: the ready line, and a start that cannot succeed."""

import asyncio
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.zk import codecs, paths
from tests.daemon.daemons import NODE, STARTS_S, active, begin, controller, controllerd, daemon, flags, until
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

READY = re.compile(
    rf"controllerd ready: node {NODE} is the active controller, epoch 1, cluster [\w-]{{22}}, "
    r"kafka PLAINTEXT://127\.0\.0\.1:(\d+), http 127\.0\.0\.1:(\d+)\n"
)
UNREACHABLE, IN_USE, CONFIG = 69, 74, 78


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_one_ready_line_is_printed_when_the_role_is_held(connect: str, peer: Peer, tmp_path: Path) -> None:
    process = await begin(*flags(connect, tmp_path))
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), STARTS_S)
    holder = await controller(peer)
    process.terminate()
    rest, _ = await process.communicate()

    assert READY.fullmatch(line.decode())
    assert rest == b""
    assert holder is not None
    assert holder.broker_id == NODE
    assert process.returncode == 0


async def test_the_ready_line_names_ports_that_are_open(connect: str, tmp_path: Path) -> None:
    process = await begin(*flags(connect, tmp_path))
    assert process.stdout is not None
    ready = READY.fullmatch((await asyncio.wait_for(process.stdout.readline(), STARTS_S)).decode())
    assert ready
    for port in ready.groups():
        _, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.close()
    process.terminate()
    await process.communicate()


async def test_the_ready_line_names_the_advertised_host_with_the_port_that_was_bound(
    connect: str, tmp_path: Path
) -> None:
    plain = flags(connect, tmp_path)
    plain[plain.index("PLAINTEXT://127.0.0.1:0")] = "PLAINTEXT://0.0.0.0:0"
    process = await begin(*plain, "--advertised-listener", "PLAINTEXT://localhost:0")
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), STARTS_S)).decode()
    ready = re.search(r"kafka PLAINTEXT://localhost:(\d+)", line)
    assert ready, line
    _, writer = await asyncio.open_connection("127.0.0.1", int(ready[1]))
    writer.close()
    process.terminate()
    await process.communicate()


async def test_a_closed_standard_output_does_not_cost_the_role(connect: str, peer: Peer, tmp_path: Path) -> None:
    process = await begin(*flags(connect, tmp_path))
    assert process.stdout is not None
    process.stdout._transport.close()  # type: ignore[attr-defined]  # the pipe of asyncio has no other way to close

    async def leads() -> bool:
        return await controller(peer) is not None

    await until(leads, within_s=STARTS_S)
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert b"failed to print ready line" in err


async def test_a_second_process_on_the_same_data_dir_is_refused_with_the_holder(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as first:
        outcome = await controllerd(*flags(connect, first.directory / "data"))

        assert outcome.code == CONFIG
        assert f"is in use by process {first.process.pid}" in outcome.err
        assert await first.is_active()


async def test_an_ensemble_that_does_not_answer_ends_the_start_with_a_sentence(silent: str, tmp_path: Path) -> None:
    env = {"CONTROLLERD__ZOOKEEPER__CONNECTION_TIMEOUT_MS": "1000"}

    outcome = await controllerd(*flags(silent, tmp_path), env=env)

    assert (outcome.code, outcome.out) == (UNREACHABLE, "")
    assert f"no ZooKeeper server of {silent} answered in 1.0 s" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_before_zookeeper_answers_ends_the_start_without_a_traceback(
    silent: str, tmp_path: Path, number: signal.Signals
) -> None:
    env = {"CONTROLLERD__ZOOKEEPER__CONNECTION_TIMEOUT_MS": "60000"}
    process = await begin(*flags(silent, tmp_path), env=env)

    async def is_waiting() -> bool:
        return (tmp_path / "instance").exists()

    await until(is_waiting, within_s=STARTS_S)
    began = time.monotonic()
    process.send_signal(number)
    _, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert time.monotonic() - began < 5
    assert b"Traceback" not in err


async def test_an_address_in_use_ends_the_start_with_a_sentence(connect: str, silent: str, tmp_path: Path) -> None:
    outcome = await controllerd(*flags(connect, tmp_path), "--http", silent)

    assert outcome.code == IN_USE
    assert "address already in use" in outcome.err
    assert "Traceback" not in outcome.err


async def test_a_cluster_that_must_not_be_led_ends_the_start_before_anything_is_opened(
    connect: str, peer: Peer, silent: str, tmp_path: Path
) -> None:
    """The address of the status endpoint is in use: to open it would end the start with another code."""
    protected = Endpoint("PLAINTEXT", "127.0.0.1", 9, SecurityProtocol.SASL_SSL)
    await peer.put(paths.broker(BrokerId(3)), codecs.encode_broker(Broker(BrokerId(3), 0, (protected,))))

    outcome = await controllerd(*flags(connect, tmp_path), "--http", silent)

    assert (outcome.code, outcome.out) == (CONFIG, "")
    assert "broker 3 asks for SASL_SSL on PLAINTEXT: TLS and SASL are not supported yet" in outcome.err
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "audit").exists()
    assert await peer.node(paths.CLUSTER_ID) is None


async def test_an_id_that_is_a_brokers_ends_the_start(connect: str, peer: Peer, tmp_path: Path) -> None:
    await peer.put(f"{paths.BROKER_IDS}/{NODE}", b"{}")

    outcome = await controllerd(*flags(connect, tmp_path))

    assert outcome.code == CONFIG
    assert f"our node id {NODE} clashes with the registered broker {NODE}" in outcome.err


async def test_a_restart_keeps_the_instance(connect: str, peer: Peer, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)
        before = await controller(peer)
        await instance.process.terminate()
        await instance.start()
        await active(instance)
        after = await controller(peer)

    assert before is not None
    assert after is not None
    assert before.instance == after.instance
