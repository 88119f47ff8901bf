"""The three formats of the log: terminal, JSON lines, systemd's journal."""

import json
import logging
import os
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import structlog

from controllerd.logs import configure_logging


class TerminalStream(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_file_gets_json_lines_with_level_time_and_fields() -> None:
    out = StringIO()
    configure_logging("info", stream=out, env={})

    structlog.get_logger().info("brokers changed", new=[1, 2])

    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["new"]) == ("brokers changed", "info", [1, 2])
    assert line["timestamp"].endswith("Z")


def test_a_repeated_line_of_a_library_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    configure_logging("info", stream=out, env={})
    kazoo, now = logging.getLogger("kazoo.client"), [1_700_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    for passed in (0.0, 0.3, 0.3, 60.0):
        now[0] += passed
        kazoo.warning("Connection dropped: %s", "refused")
    kazoo.warning("Connection dropped: %s", "no route")

    said = [json.loads(line)["event"] for line in out.getvalue().splitlines()]
    assert said == ["Connection dropped: refused"] * 2 + ["Connection dropped: no route"]


def test_an_exception_is_one_json_line() -> None:
    out = StringIO()
    configure_logging("info", stream=out, env={})

    try:
        int("broken")
    except ValueError:
        structlog.get_logger().exception("event failed")

    assert "ValueError: invalid literal" in json.loads(out.getvalue())["exception"]


def test_a_terminal_gets_readable_lines() -> None:
    out = TerminalStream()
    configure_logging("info", stream=out, env={"NO_COLOR": "1"})

    structlog.get_logger().info("brokers changed", new=1)

    assert "brokers changed" in out.getvalue()
    assert "new=1" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_json_is_kept_on_a_terminal_when_it_is_asked_for() -> None:
    out = TerminalStream()
    configure_logging("info", "json", stream=out, env={})

    structlog.get_logger().info("ready")

    assert json.loads(out.getvalue())["event"] == "ready"


def test_lines_below_the_level_are_dropped() -> None:
    out = StringIO()
    configure_logging("warning", stream=out, env={})

    structlog.get_logger().info("too quiet")

    assert out.getvalue() == ""


def test_the_journal_gets_a_priority_before_each_line(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w+") as journal:
        status = os.fstat(journal.fileno())
        configure_logging("info", stream=journal, env={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})

        structlog.get_logger().info("ready")
        structlog.get_logger().error("event failed")
        logging.getLogger("kazoo.client").warning("connection dropped")

        journal.seek(0)
        assert [line[:4] for line in journal] == ["<6>{", "<3>{", "<4>{"]


def test_another_stream_than_the_journals_gets_no_priority() -> None:
    out = StringIO()
    configure_logging("info", stream=out, env={"JOURNAL_STREAM": "8:1234"})

    structlog.get_logger().info("ready")

    assert out.getvalue().startswith("{")


def test_warnings_of_libraries_are_logged_and_their_info_lines_are_not() -> None:
    out = StringIO()
    configure_logging("info", stream=out, env={})

    logging.getLogger("kazoo.client").info("connecting")
    logging.getLogger("kazoo.client").warning("connection dropped")

    line = json.loads(out.getvalue())
    assert (line["event"], line["logger"], line["level"]) == ("connection dropped", "kazoo.client", "warning")
