"""``controllerctl status`` against the real status server."""

import asyncio
import json
import signal
from types import MappingProxyType

import msgspec
import pytest

from cli.output import human_duration
from controllerd.core.intents import PauseView
from controllerd.core.model import BrokerId
from controllerd.record.records import EventEnd
from controllerd.status.schema.status import StatusResponse
from controllerd.status.sources import AuditView
from controllerd.views import SessionView, WorkerView
from controllerd.zk.elector import UNREADABLE
from events.cluster import BrokerChange
from tests.cli.running import controllerctl, start
from tests.status.fake_controller import FakeController, serving


async def test_status_names_the_controller_and_each_problem() -> None:
    controller = FakeController()
    controller.lead(12)

    async with serving(controller) as url:
        outcome = await controllerctl("status", "--api", url)

    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert "this instance  active: elected with epoch 12" in lines
    assert any(
        "controllerd 2000000001, controller epoch 12, since 2023-11-14T22:13:20.000Z (4m12s)" in x for x in lines
    )
    assert any("4 of 2 topics: 1 offline, 2 under-replicated, 2 not led by the preferred" in x for x in lines)
    assert "2       102    PLAINTEXT://kafka2:9092  r1    3      1.5 s   unreachable: refused" in lines


async def test_status_lists_dead_brokers_with_advice() -> None:
    controller = FakeController()
    controller.lead(12)

    async with serving(controller) as url:
        outcome = await controllerctl("status", "--api", url)

    table = outcome.out.partition("\n\n")[2].splitlines()
    assert table[3].split(maxsplit=6) == ["3", "-", "-", "-", "-", "-", "not registered, holds replicas"]
    assert [line.split()[0] for line in table[1:4]] == ["1", "2", "3"]
    assert table[-1] == f"next: controllerctl --api {url} doctor says what is wrong and what to do"


async def test_without_a_session_the_controller_is_unknown() -> None:
    controller = FakeController(session=SessionView("lost", 1, 1))
    controller.snapshot.holder = None
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "controller     not known: this instance has no ZooKeeper session\n" in outcome.out


async def test_wide_status_shows_the_last_events_as_well() -> None:
    controller = FakeController()
    controller.lead(12)
    controller.recent.record(
        EventEnd(7, "TopicChange", "done", 12.0), EventEnd(8, "BrokerChange", "error", 4.0, "boom")
    )

    async with serving(controller) as url:
        narrow, wide = (
            await controllerctl("--api", url, "status"),
            await controllerctl("--api", url, "status", "-o", "wide"),
        )

    heading, *events = [line.split(maxsplit=1) for line in wide.out.rpartition("\n\n")[2].splitlines()]
    assert heading == ["ENDED", "EVENT         TOOK   OUTCOME"]
    assert [line for _, line in events] == ["BrokerChange  4 ms   boom", "TopicChange   12 ms  done"]
    assert "TopicChange" not in narrow.out


async def test_a_standby_names_the_active_controller() -> None:
    async with serving(FakeController()) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "standby: broker 2 (built-in) holds the role" in outcome.out
    assert "controller     broker 2 (built-in), since" in outcome.out
    assert "partitions     loaded by the active controller only" in outcome.out


async def test_a_holder_that_cannot_be_parsed_is_shown_as_no_broker() -> None:
    controller = FakeController()
    controller.snapshot.holder = UNREADABLE
    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "controller     an unknown process (/controller is unreadable)\n" in outcome.out


async def test_status_shows_the_event_in_work_quarantine_and_audit_trouble() -> None:
    controller = FakeController(worker=WorkerView("TopicChange", 3, 0.25, 0.25), is_stalled=True)
    controller.audit = AuditView(10, 2, "no space left on device")
    controller.snapshot.quarantine = MappingProxyType({"/brokers/topics/broken": "not JSON"})
    controller.queue.put(BrokerChange())
    controller.now_s += 5

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "1 wait, the oldest for 5.0 s, TopicChange in progress for 250 ms" in outcome.out
    assert "10 records, 2 lost, in trouble: no space left on device" in outcome.out
    assert "/brokers/topics/broken: not JSON" in outcome.out


async def test_status_shows_on_which_listeners_clients_see_no_controller() -> None:
    controller = FakeController()
    controller.lead(12)
    controller.snapshot.uncovered = MappingProxyType({"EXTERNAL": "not among kafka.listeners (on broker 1, 2)"})

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "no controller  for clients on EXTERNAL: not among kafka.listeners (on broker 1, 2)" in outcome.out


async def test_status_and_the_list_of_brokers_say_that_this_instance_is_registered() -> None:
    controller = FakeController()
    controller.lead(12)
    controller.snapshot.registered = True

    async with serving(controller) as url:
        status = await controllerctl("--api", url, "status")
        brokers = await controllerctl("--api", url, "get", "brokers")
        document = await controllerctl("--api", url, "get", "brokers", "-o", "json")

    node_id = controller.snapshot.node_id
    assert f"registered as /brokers/ids/{node_id} for brokers older than 3.0" in status.out
    assert f"/brokers/ids/{node_id} is this controller, registered for brokers older than 3.0" in brokers.err
    assert json.loads(document.out)["registered_controller"] == node_id


async def test_status_shows_each_pause_with_its_end_and_its_author() -> None:
    controller = FakeController()
    controller.lead(12)
    controller.snapshot.pauses = MappingProxyType({"deletions": PauseView(1_700_000_000_000, "backup", "User:eve")})

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "paused         deletions until 2023-11-14T22:13:20.000Z, by User:eve: backup" in outcome.out


async def test_status_shows_what_each_deletion_waits_for_and_the_replicas_still_to_delete() -> None:
    controller = FakeController()
    controller.lead(12)
    controller.delete("audit", deleting=(1, 2))
    controller.delete("orders", held_up_by="replicas on broker 3 cannot be deleted: not online")
    controller.snapshot.pending_deletions = MappingProxyType({BrokerId(3): 7})

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "deleting       audit: waits for the answer of 1, 2" in outcome.out
    assert "deleting       orders: replicas on broker 3 cannot be deleted: not online" in outcome.out
    assert "to delete      7 unassigned replicas on broker 3" in outcome.out


async def test_status_lists_ten_deletions_and_counts_the_others() -> None:
    controller = FakeController()
    controller.lead(12)
    for number in range(13):
        controller.delete(f"t{number:02}")

    async with serving(controller) as url:
        outcome = await controllerctl("--api", url, "status")

    assert "t09: in progress" in outcome.out
    assert "t10" not in outcome.out
    assert "and 3 more topics" in outcome.out


async def test_json_is_the_schema_of_the_daemon() -> None:
    async with serving(FakeController()) as url:
        outcome = await controllerctl("status", "-o", "json", CONTROLLERCTL_API=url)

    assert msgspec.json.decode(outcome.out, type=StatusResponse).status.role == "standby"


async def test_a_watch_prints_lines_of_json_until_it_is_interrupted() -> None:
    async with serving(FakeController()) as url:
        process = await start("--api", url, "status", "-w", "20ms")
        assert process.stdout is not None
        for _ in range(2):
            line = await asyncio.wait_for(process.stdout.readline(), 30)
            assert msgspec.json.decode(line, type=StatusResponse).kind == "Status"
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == 130


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0124, "12 ms"), (1.5, "1.5 s"), (252, "4m12s"), (7500, "2h05m"), (273_600, "3d04h")],
)
def test_durations_are_readable(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown
