"""A real daemon as operators and systemd observe it: controllerctl, health, notifications."""

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllerd.daemon.announcing import Announcer
from controllerd.daemon.node import ControllerNode
from controllerd.dev.controllers import ControllerProcess
from controllerd.identity import Identity
from controllerd.sdnotify import Notifier
from controllerd.zk import paths
from controllerd.zk.access import Create
from tests.cli.running import Outcome, controllerctl
from tests.daemon.daemons import (
    NODE,
    SHORT_MS,
    STARTS_S,
    active,
    begin,
    configuration,
    controller,
    daemon,
    flags,
    hold_as_broker,
    stopped,
)
from tests.daemon.supervisor import Supervisor
from tests.zk.world import Peer

pytestmark = pytest.mark.zookeeper

OTHER = NODE + 1
REFUSED, UNREACHABLE = 4, 69


@asynccontextmanager
async def leading(connect: str, directory: Path) -> AsyncIterator[str]:
    """An instance for which nothing is configured about brokers; its HTTP address, once it leads. Ends with SIGTERM."""
    process = await begin(*flags(connect, directory))
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), STARTS_S)).decode()
        yield line.rpartition("http ")[2].strip()
    finally:
        process.terminate()
        await process.communicate()


async def ctl(instance: ControllerProcess, *arguments: str) -> Outcome:
    """``controllerctl`` on an instance."""
    return await controllerctl("--api", f"http://{instance.http}", *arguments)


async def get(instance: ControllerProcess, path: str) -> tuple[int, dict[str, Any]]:
    """A GET of the status endpoint: its code and its JSON."""
    return await asyncio.to_thread(_get, f"http://{instance.http}{path}")


def _get(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


# -- controllerctl -----------------------------------------------------------------------------------------------------


async def test_status_shows_the_active_controller(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)

        table, document = await ctl(instance, "status"), await ctl(instance, "status", "-o", "json")

    assert (table.code, document.code) == (0, 0)
    assert f"controllerd {NODE}, controller epoch 1" in table.out
    status: Any = document.json()["status"]
    assert (status["role"], status["node_id"]) == ("active", NODE)


async def test_a_takeover_moves_the_role_from_one_instance_to_the_other(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path / "a") as first, daemon(connect, tmp_path / "b", OTHER) as second:
        await active(first)

        outcome = await ctl(second, "takeover", "--yes", "--reason", "first trial")

        assert outcome.code == 0
        assert outcome.out.startswith(f"role taken from controllerd {NODE} in ")
        assert outcome.out.endswith("controller epoch 1 -> 2\n")
        holder = await controller(peer)
        assert holder is not None
        assert holder.broker_id == OTHER
        assert (await second.role(), await first.role()) == ("active", "standby")


async def test_a_takeover_from_a_broker_is_what_standby_waits_for(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        outcome = await ctl(instance, "takeover", "--yes")

        assert outcome.code == 0
        assert outcome.out.startswith("role taken from broker 1 (built-in) in ")
        assert await instance.is_active()


async def test_a_takeover_of_the_own_role_changes_nothing(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)

        outcome = await ctl(instance, "takeover", "--yes")

    assert outcome.code == 0
    assert outcome.out == f"nothing to do: controllerd {NODE} holds the role already, with controller epoch 1\n"


async def test_a_resignation_gives_the_role_to_the_standby(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path / "a") as first, daemon(connect, tmp_path / "b", OTHER) as second:
        await active(first)

        outcome = await ctl(first, "resign", "--yes", "--reason", "kernel upgrade")
        await active(second)

        assert outcome.code == 0
        assert "role given away in " in outcome.out
        assert await first.role() == "standby"


async def test_a_standby_has_nothing_to_resign(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        outcome = await ctl(instance, "resign", "--yes")

    assert (outcome.code, outcome.out) == (
        0,
        "nothing to do: this instance stands by, broker 1 (built-in) holds the role\n",
    )


async def test_a_takeover_of_a_cluster_that_must_not_be_led_is_refused(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        await peer.put("/migration", b"{}")

        outcome = await ctl(instance, "takeover", "--yes")

    assert outcome.code == REFUSED
    assert "being migrated to KRaft" in outcome.err


async def test_a_takeover_from_an_unreadable_holder_is_refused(connect: str, peer: Peer, tmp_path: Path) -> None:
    await peer.put(paths.CONTROLLER_EPOCH, b"3")
    await peer.act(Create(paths.CONTROLLER, b"?", ephemeral=True))
    async with daemon(connect, tmp_path) as instance:
        outcome = await ctl(instance, "takeover", "--yes")

    assert outcome.code == REFUSED
    assert "/controller cannot be decoded, so this instance never deletes it" in outcome.err


async def test_a_stopped_instance_leaves_the_role_to_a_broker_and_returns_when_asked(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)
        await stopped(instance)
        await hold_as_broker(peer)
        await instance.start()
        fallen_back = await instance.role()

        outcome = await ctl(instance, "takeover", "--yes")

        assert fallen_back == "standby"
        assert outcome.out.startswith("role taken from broker 1 (built-in) in ")
        assert outcome.out.endswith("controller epoch 7 -> 8\n")
        assert await instance.is_active()


async def test_a_remembered_takeover_takes_the_role_from_brokers_after_a_restart(
    connect: str, peer: Peer, tmp_path: Path
) -> None:
    async with leading(connect, tmp_path) as http:
        outcome = await controllerctl("--api", f"http://{http}", "takeover", "--remember", "--yes")
    await hold_as_broker(peer)

    async with leading(connect, tmp_path):
        holder = await controller(peer)

    assert outcome.code == 0
    assert holder is not None
    assert holder.broker_id == NODE


async def test_nothing_is_remembered_against_the_configuration(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path, when_broker_holds="standby") as instance:
        outcome = await ctl(instance, "takeover", "--remember", "--yes")

    assert outcome.code == REFUSED
    assert "controller.when_broker_holds = standby is configured (flag)" in outcome.err


async def test_a_missing_daemon_is_reported_in_a_sentence(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await instance.process.kill()

        outcome = await ctl(instance, "status")

    assert outcome.code == UNREACHABLE
    assert "start controllerd" in outcome.err


# -- health ------------------------------------------------------------------------------------------------------------


async def test_an_active_instance_is_alive_and_ready(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)
        answers = [await get(instance, path) for path in ("/livez", "/readyz", "/controller")]

    assert [code for code, _ in answers] == [200, 200, 200]
    assert answers[1][1] == {"ok": True, "degraded": False, "checks": []}


async def test_a_standby_is_ready_and_not_the_controller(connect: str, peer: Peer, tmp_path: Path) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path) as instance:
        codes = [(await get(instance, path))[0] for path in ("/livez", "/readyz", "/controller", "/standby")]

    assert codes == [200, 200, 503, 200]


async def test_the_status_has_session_audit_and_queue(connect: str, tmp_path: Path) -> None:
    async with daemon(connect, tmp_path) as instance:
        await active(instance)
        code, answer = await get(instance, "/v1/status")

    status = answer["status"]
    assert (code, answer["apiVersion"], answer["kind"]) == (200, "v1", "Status")
    assert status["zookeeper"]["state"] == "connected"
    assert status["audit"]["records_written"] > 0
    assert (status["audit"]["records_lost"], status["queue"]["depth"]) == (0, 0)


# -- systemd -----------------------------------------------------------------------------------------------------------


async def test_systemd_receives_ready_then_the_watchdog_then_stopping(
    connect: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path, session_ms=SHORT_MS) as instance:
        await supervisor.receive("READY=1")
        assert "STATUS=active epoch=1 partitions=0 queue=" in supervisor.received[-1]
        await supervisor.receive("WATCHDOG=1")
        status, _ = await stopped(instance)
        await supervisor.receive("STOPPING=1")

    assert status == 0


async def test_systemd_receives_ready_from_a_standby_and_its_new_role_later(
    connect: str, peer: Peer, supervisor: Supervisor, tmp_path: Path
) -> None:
    await hold_as_broker(peer)
    async with daemon(connect, tmp_path):
        await supervisor.receive("READY=1")
        assert "STATUS=standby epoch=0 (broker 1 (built-in) holds the role" in supervisor.received[-1]
        await peer.remove("/controller")
        await supervisor.receive("STATUS=active epoch=8 partitions=0 queue=0")

    assert sum("READY=1" in datagram for datagram in supervisor.received) == 1


async def test_systemd_receives_the_beginning_and_the_end_of_a_reload(
    connect: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    async with daemon(connect, tmp_path, session_ms=SHORT_MS) as instance:
        await supervisor.receive("READY=1")
        os.kill(instance.process.pid, signal.SIGHUP)
        await supervisor.receive("RELOADING=1")
        assert "\nMONOTONIC_USEC=" in supervisor.received[-1]
        await supervisor.receive("READY=1")

        assert await instance.is_active()


async def test_systemd_gives_more_time_to_a_start_that_progresses(
    connect: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    """A node without a notification is loading; this one never becomes ready."""
    announcer = Announcer(Notifier(supervisor.address))
    node = ControllerNode(
        configuration(connect, tmp_path, session_ms=SHORT_MS), Identity("an instance", tmp_path, None)
    )

    announcer.beat(node)

    await supervisor.receive("EXTEND_TIMEOUT_USEC=60000000")
    node.instance.timers.clear()
