"""``controllerd demo`` and ``dev``: their refusals, and that Ctrl-C leaves nothing behind."""

import asyncio
import os
import re
import signal
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from controllerd.dev.commands import USUAL_PORTS, choose_ports, run_demo, run_dev
from controllerd.dev.ports import ANY_PORTS, LOOPBACK
from tests.dev.started import PATIENCE_S, command, output_until


def test_brokers_of_an_unknown_kind_are_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo("nonsense", tmp_path, tmp_path / "summary.json") == 2
    assert run_dev("nonsense", 1, tmp_path) == 2
    assert capsys.readouterr().err == "controllerd: --brokers is embedded or kafka, not nonsense\n" * 2


def test_an_unknown_release_is_wrong_usage_and_the_known_ones_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo("kafka", tmp_path, tmp_path / "summary.json", "2.5.1") == 2
    assert run_dev("kafka", 1, tmp_path, "2.5.1") == 2
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith("controllerd: --kafka-version: 2.5.1 is no known release of Apache Kafka")
        assert "2.6.3" in line
        assert "3.9.1" in line


def test_a_release_of_embedded_brokers_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_dev("embedded", 1, tmp_path, "2.8.2") == 2
    assert capsys.readouterr().err == "controllerd: --kafka-version requires --brokers kafka\n"


def test_a_summary_that_could_not_be_written_is_refused_before_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo("embedded", tmp_path, tmp_path / "nowhere" / "summary.json") == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_port_in_use_is_named_and_no_usual_port_is_used() -> None:
    output: list[str] = []
    with ExitStack() as stack:
        with suppress(OSError):  # another process has it, which is as good
            stack.enter_context(socket.create_server((LOOPBACK, USUAL_PORTS.http)))
        ports = choose_ports(1, output.append)

    assert ports == ANY_PORTS
    assert f"port {USUAL_PORTS.http}" in output[0]
    assert "reach ANOTHER cluster" in output[1]


def left_in(folder: Path) -> list[Path]:
    """The files that a command with this folder did not remove."""
    return list(folder.iterdir())


async def listens(port: int) -> bool:
    """Whether a server accepts connections on the port."""
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


async def test_without_java_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    async with command(tmp_path, "demo") as process:
        output = await output_until(process, "controllerd: no Java found")

        assert "set JAVA_HOME" in output
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 1
    assert left_in(tmp_path) == []


@pytest.mark.zookeeper
@pytest.mark.parametrize(
    ("name", "phrase", "status"), [("dev", "Ctrl-C", 0), ("demo", "> kill the broker", 130)], ids=["dev", "demo"]
)
async def test_ctrl_c_stops_every_process(tmp_path: Path, name: str, phrase: str, status: int) -> None:
    async with command(tmp_path, name) as process:
        output = await output_until(process, phrase)
        # A terminal signals the whole group.
        os.killpg(process.pid, signal.SIGINT)

        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == status

    assert [port for port in map(int, re.findall(rf"{re.escape(LOOPBACK)}:(\d+)", output)) if await listens(port)] == []
    assert left_in(tmp_path) == []
