"""The journal's native protocol, against a real datagram socket."""

import array
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from controllerd.journal import SystemdJournal, encoded
from controllerd.logs import configure_logging


@pytest.fixture
def journald(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    # The name of a unix socket is short: bind it relative to the folder.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("journal")
        listening.settimeout(5)
        yield listening


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(datagram: bytes) -> list[str]:
    """The fields of an entry without line breaks in it."""
    return datagram.decode().splitlines()


def test_a_value_with_a_line_break_goes_with_its_length() -> None:
    assert encoded([("MESSAGE", "a\nb"), ("PRIORITY", "6")]) == b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\nPRIORITY=6\n"


def test_fields_may_repeat(journald: socket.socket) -> None:
    journal = SystemdJournal(Path("journal"))
    journal.send([("KAFKA_TOPIC", "a"), ("KAFKA_TOPIC", "b")])
    journal.close()

    assert journald.recv(4096) == b"KAFKA_TOPIC=a\nKAFKA_TOPIC=b\n"


def test_a_long_entry_goes_as_a_sealed_file(journald: socket.socket) -> None:
    text = "x" * 4_000_000
    journal = SystemdJournal(Path("journal"))
    journal.send([("MESSAGE", text)])
    journal.close()

    data, ancillary, _, _ = journald.recvmsg(16, socket.CMSG_SPACE(4))
    file = array.array("i", ancillary[0][2])[0]
    try:
        assert data == b""
        assert os.pread(file, 5_000_000, 0) == f"MESSAGE={text}\n".encode()
        with pytest.raises(PermissionError):
            os.write(file, b"more")
    finally:
        os.close(file)


def journal_stream(path: Path) -> tuple[Path, dict[str, str]]:
    """A stream that systemd says is its journal's."""
    path.touch()
    status = path.stat()
    return path, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}


def test_a_line_is_an_entry_with_searchable_fields(journald: socket.socket, tmp_path: Path) -> None:
    file, env = journal_stream(tmp_path / "stderr")
    with file.open("w") as stderr:
        configure_logging("info", stream=stderr, env=env, journal=Path("journal"))

        structlog.get_logger().warning("event", event_id=25, epoch=7, topics=["a", "b"], brokers=3, broker=1)

    assert lines(journald.recv(4096)) == [
        "MESSAGE=event event_id=25 epoch=7 topics=['a', 'b'] brokers=3 broker=1",
        "PRIORITY=4",
        "SYSLOG_IDENTIFIER=controllerd",
        "CONTROLLERD_EVENT_ID=25",
        "CONTROLLER_EPOCH=7",
        "KAFKA_TOPIC=a",
        "KAFKA_TOPIC=b",
        "KAFKA_BROKER=1",
    ]
    assert file.read_text() == ""


def test_text_from_clients_cannot_forge_a_line(journald: socket.socket, tmp_path: Path) -> None:
    file, env = journal_stream(tmp_path / "stderr")
    with file.open("w") as stderr:
        configure_logging("info", stream=stderr, env=env, journal=Path("journal"))

        structlog.get_logger().info("operation", reason="why\nresigned:\x1b[2J")

    assert lines(journald.recv(4096))[0] == r"MESSAGE=operation reason='why\nresigned:\x1b[2J'"


def test_json_stays_json_where_it_is_asked_for(journald: socket.socket, tmp_path: Path) -> None:
    file, env = journal_stream(tmp_path / "stderr")
    with file.open("w") as stderr:
        configure_logging("info", "json", stream=stderr, env=env, journal=Path("journal"))

        structlog.get_logger().info("ready")

    assert lines(journald.recv(4096))[0].startswith('MESSAGE={"event": "ready"')


def test_a_traceback_is_part_of_the_message(journald: socket.socket, tmp_path: Path) -> None:
    file, env = journal_stream(tmp_path / "stderr")
    with file.open("w") as stderr:
        configure_logging("info", stream=stderr, env=env, journal=Path("journal"))
        try:
            int("broken")
        except ValueError:
            structlog.get_logger().exception("event failed")

    entry = journald.recv(65536)
    assert entry.startswith(b"MESSAGE\n")
    assert b"event failed\nTraceback" in entry


def test_lines_of_libraries_go_to_the_journal_too(journald: socket.socket, tmp_path: Path) -> None:
    file, env = journal_stream(tmp_path / "stderr")
    with file.open("w") as stderr:
        configure_logging("info", stream=stderr, env=env, journal=Path("journal"))
        logging.getLogger("kazoo.client").warning("connection dropped")

    assert lines(journald.recv(4096))[:2] == ["MESSAGE=connection dropped logger=kazoo.client", "PRIORITY=4"]
    assert file.read_text() == ""


def test_an_entry_that_the_journal_refuses_is_a_line_with_a_priority(journald: socket.socket, tmp_path: Path) -> None:
    file, env = journal_stream(tmp_path / "stderr")
    with file.open("w") as stderr:
        configure_logging("info", stream=stderr, env=env, journal=Path("journal"))
        Path("journal").unlink()

        structlog.get_logger().error("event failed")

    assert file.read_text().startswith('<3>{"event": "event failed"')
