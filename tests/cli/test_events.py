"""``controllerctl events tail`` on the daemon's own feed."""

import asyncio
import signal
from asyncio.subprocess import Process

import msgspec
import pytest

from cli.events import Message, messages
from controllerd.record.records import ConfigRecord
from controllerd.status.schema.history import Happening
from tests.cli.running import controllerctl, outcome_of, start
from tests.status.fake_controller import FakeController, serving


async def line_of(process: Process) -> str:
    """The next line of standard output."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode()


async def interrupted(process: Process) -> tuple[int, str]:
    """The exit code after Ctrl-C, and the output."""
    process.send_signal(signal.SIGINT)
    outcome = await outcome_of(process)
    return outcome.code, outcome.err


@pytest.fixture
def controller() -> FakeController:
    """A leader of which one record is remembered."""
    controller = FakeController()
    controller.lead(12)
    controller.recent.record(ConfigRecord({"node.id": "1"}))
    return controller


async def test_past_and_new_events_are_printed_until_ctrl_c(controller: FakeController) -> None:
    async with serving(controller) as url:
        process = await start("events", "tail", "--since", "10m", "--api", url)
        first = await line_of(process)
        controller.recent.record(ConfigRecord({"node.id": "2"}))
        second = await line_of(process)
        code, _ = await interrupted(process)

    assert [" config: " in line for line in (first, second)] == [True, True]
    assert code == 130


async def test_each_record_is_a_line_of_json_in_the_schema(controller: FakeController) -> None:
    async with serving(controller) as url:
        process = await start("events", "tail", "--since", "10m", "-o", "jsonl", "--api", url)
        happening = msgspec.json.decode(await line_of(process), type=Happening)
        await interrupted(process)

    assert happening.kind == "config"


async def test_a_broken_feed_is_resumed_where_it_ended() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        happening = Happening(
            id=f"b.{len(heads)}",
            at="",
            at_ms=0,
            event_id=0,
            controller_epoch=1,
            kind="term",
            summary="",
            topics=[],
            partitions=0,
        )
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        if len(heads) > 1:
            writer.write(b'event: gap\ndata: {"after": "b.1"}\n\n')
        writer.write(b": alive\n\nid: b.%d\ndata: %s\n\n" % (len(heads), msgspec.json.encode(happening)))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        process = await start("events", "tail", "--since", "1m", "--api", url, "-o", "name")
        lines = [await line_of(process), await line_of(process)]
        code, said = await interrupted(process)

    assert (code, lines) == (130, ["b.1\n", "b.2\n"])
    assert "since=60000ms" in heads[0]
    assert "Last-Event-ID: b.1" in heads[1]
    assert "since" not in heads[1]
    assert 'gap: records were missed here ({"after": "b.1"})' in said


async def test_an_unreachable_daemon_ends_the_feed() -> None:
    assert (await controllerctl("events", "tail", "--api", "http://127.0.0.1:1")).code == 69


async def test_an_unknown_kind_is_wrong_usage(controller: FakeController) -> None:
    async with serving(controller) as url:
        outcome = await controllerctl("events", "tail", "--kind", "nonsense", "--api", url)

    assert outcome.code == 2
    assert "nonsense" in outcome.err


def test_comments_end_no_event_and_data_lines_are_joined() -> None:
    found = list(messages([b": hello\n", b"\n", b"event: gap\n", b"data: a\r\n", b"data:b\n", b"id: 7\n", b"\n"]))

    assert found == [Message("gap", "a\nb", "7")]
