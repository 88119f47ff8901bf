"""The units under a real systemd: started, watched, reloaded, stopped, and found in the journal."""

import json

import pytest

from tests.systemd.machine import Machine
from tests.systemd.unit import NODE, Unit
from tests.zk.world import Peer

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(180)]


async def holder(peer: Peer) -> int | None:
    """The broker id in ``/controller``, None without a controller."""
    node = await peer.node("/controller")
    return None if node is None else json.loads(node.data or b"")["brokerid"]


async def test_the_service_is_started_once_it_is_active_and_reports_its_status(unit: Unit, peer: Peer) -> None:
    await unit.start()

    assert await holder(peer) == NODE
    assert await unit.says("ActiveState") == "active"
    await unit.becomes("StatusText", "active epoch=1 partitions=0 queue=0")


async def test_the_status_counts_partitions(unit: Unit, peer: Peer) -> None:
    await unit.start()

    await peer.add_topic("payments", [[1], [1]])

    await unit.becomes("StatusText", "active epoch=1 partitions=2 queue=0")


async def test_the_service_resigns_and_stops_within_two_seconds(unit: Unit, peer: Peer) -> None:
    await unit.start()

    await unit.machine.must("systemctl", "stop", unit.service)

    assert await unit.took_to_stop() < 2
    assert await holder(peer) is None
    assert (await unit.says("Result"), await unit.says("ExecMainStatus")) == ("success", "0")


async def test_the_watchdog_restarts_the_service_when_it_hangs(unit: Unit, peer: Peer) -> None:
    await unit.start()

    await unit.machine.must("systemctl", "kill", "--kill-who=main", "--signal=SIGSTOP", unit.service)
    await unit.becomes("NRestarts", "1")
    await unit.becomes("ActiveState", "active")

    assert "Watchdog timeout" in await unit.machine.journal(f"UNIT={unit.service}")
    assert await holder(peer) == NODE
    assert (await unit.says("StatusText")).startswith("active epoch=2 ")


async def test_a_reload_keeps_process_and_role_and_uses_the_new_level(unit: Unit, peer: Peer) -> None:
    await unit.start()
    process = await unit.says("MainPID")
    await unit.configure(log_level="debug")

    await unit.machine.must("systemctl", "reload", unit.service)
    await unit.becomes("ActiveState", "active")

    assert "reloaded configuration changed={'log.level': 'debug'}" in await unit.log()
    assert await unit.says("MainPID") == process
    assert await unit.says("StatusText") == "active epoch=1 partitions=0 queue=0"
    assert await holder(peer) == NODE


async def test_a_reload_of_a_broken_file_keeps_the_old_one_and_says_why(unit: Unit) -> None:
    await unit.start()
    await unit.configure(more='audit.level = "loud"')

    await unit.machine.must("systemctl", "reload", unit.service)
    await unit.becomes("ActiveState", "active")

    log = await unit.log("PRIORITY=3")
    assert "failed to reload configuration" in log
    assert "expected one of off, summary, normal, full, got 'loud'" in log


async def test_a_wrong_configuration_is_not_tried_again(unit: Unit) -> None:
    await unit.configure(more='audit.level = "loud"')

    outcome = await unit.machine.run("systemctl", "start", unit.service)

    assert outcome.code != 0
    assert (await unit.says("ActiveState"), await unit.says("NRestarts")) == ("failed", "0")
    assert await unit.says("ExecMainStatus") == "78"


async def test_the_journal_finds_a_topic_by_its_name(unit: Unit, peer: Peer) -> None:
    await unit.start()
    for number, topic in enumerate(("payments", "orders"), 1):
        await peer.add_topic(topic, [[1]])
        await unit.becomes("StatusText", f"active epoch=1 partitions={number} queue=0")

    of_topic = (f"_SYSTEMD_UNIT={unit.service}", "KAFKA_TOPIC=payments", "CONTROLLERD_EVENT=TopicChange")
    (line,) = (await unit.machine.must("journalctl", "--output=json", *of_topic)).splitlines()
    entry = json.loads(line)

    assert (entry["CONTROLLER_EPOCH"], entry["KAFKA_PARTITION"], entry["PRIORITY"]) == ("1", "0", "6")
    assert int(entry["CONTROLLERD_EVENT_ID"]) > 0


async def test_the_admin_socket_is_served_and_outlives_the_daemon(unit: Unit) -> None:
    await unit.machine.must("systemd-sysusers")
    await unit.machine.must("systemctl", "start", unit.socket)
    address = f"unix:///run/controllerd/{unit.name}.sock"
    ask = ("/opt/controllerd/venv/bin/controllerctl", "--api", address, "status", "-o", "json")

    asked_before_it_ran = await unit.machine.must(*ask)
    await unit.machine.must("systemctl", "restart", unit.service)
    asked_after = await unit.machine.must(*ask)

    assert '"kind": "Status"' in asked_before_it_ran
    assert '"kind": "Status"' in asked_after
    assert await unit.machine.must("stat", "--format=%a %U %G", f"/run/controllerd/{unit.name}.sock") == (
        "660 root controllerd-admin\n"
    )


async def test_a_token_from_the_credential_store_is_accepted(unit: Unit) -> None:
    await unit.machine.write(f"/etc/credstore/controllerd.{unit.name}.admin-token", "b" * 64)
    await unit.configure(more='http.admin_token = "credential:admin-token"')
    await unit.start()
    resign = ("/opt/controllerd/venv/bin/controllerctl", "--api", unit.api, "--yes", "resign")

    without_token = await unit.machine.run(*resign)
    with_token = await unit.machine.run("env", f"CONTROLLERCTL_TOKEN={'b' * 64}", *resign)

    assert (without_token.code, "requires a token" in without_token.err) == (77, True)
    assert (with_token.code, "role given away" in with_token.out) == (0, True), with_token


@pytest.mark.timeout(360)
async def test_the_nightly_report_is_made_beside_the_running_daemon(unit: Unit, peer: Peer) -> None:
    await unit.machine.must("systemd-sysusers")
    await unit.start()
    await peer.add_topic("payments", [[1]])
    await unit.becomes("StatusText", "active epoch=1 partitions=1 queue=0")
    report = f"/var/lib/controllerd-replay/{unit.name}/report.html"

    for _ in range(2):  # the second run reads only new records
        outcome = await unit.machine.run(
            "systemctl", "start", f"controllerd-replay@{unit.name}.service", timeout_s=150.0
        )
        log = await unit.machine.journal(f"_SYSTEMD_UNIT=controllerd-replay@{unit.name}.service")
        assert outcome.code == 0, log

    assert await unit.machine.must("stat", "--format=%U %G %a", report) == "controllerd-replay controllerd-admin 640\n"


async def test_systemd_analyze_verify_has_no_finding(machine: Machine, unit: Unit) -> None:
    kinds = (
        "controllerd@{}.service",
        "controllerd@{}.socket",
        "controllerd-replay@{}.service",
        "controllerd-replay@{}.timer",
    )
    await machine.must("systemd-sysusers")

    outcome = await machine.run(
        "bash",
        "-c",
        'cd /usr/lib/systemd/system && for k in "$@"; do systemd-analyze verify "$k"; done',
        "verify",
        *(kind.format("") for kind in kinds),
    )

    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
