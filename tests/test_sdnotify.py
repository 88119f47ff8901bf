"""The notify protocol of systemd, against a real datagram socket."""

import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from controllerd.sdnotify import Notifier


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    # The name of a unix socket is short: bind it relative to the folder.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("notify")
        listening.settimeout(5)
        yield listening


def test_ready_carries_the_status(systemd: socket.socket) -> None:
    Notifier("notify").ready("active epoch=12")

    assert systemd.recv(4096) == b"READY=1\nSTATUS=active epoch=12"


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (lambda n: n.status("standby\nREADY=1"), b"STATUS=standby READY=1"),
        (lambda n: n.watchdog(), b"WATCHDOG=1"),
        (lambda n: n.stopping(), b"STOPPING=1"),
        (lambda n: n.extend_timeout(2.5), b"EXTEND_TIMEOUT_USEC=2500000"),
    ],
)
def test_each_message_is_one_datagram(systemd: socket.socket, send: object, message: bytes) -> None:
    assert callable(send)
    send(Notifier("notify"))

    assert systemd.recv(4096) == message


def test_a_reload_carries_the_moment_of_its_beginning(systemd: socket.socket) -> None:
    before = time.monotonic_ns() // 1000

    Notifier("notify").reloading()

    first, second = systemd.recv(4096).decode().splitlines()
    assert first == "RELOADING=1"
    assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_an_abstract_name_works_too() -> None:
    name = f"controllerd-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(5)

        Notifier.from_env({"NOTIFY_SOCKET": f"@{name}"}).watchdog()

        assert listening.recv(4096) == b"WATCHDOG=1"


@pytest.mark.parametrize("env", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_systemd_nothing_happens(env: dict[str, str]) -> None:
    with capture_logs() as lines:
        Notifier.from_env(env).ready("active")

    assert lines == []


def test_a_socket_that_is_gone_is_logged_and_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with capture_logs() as lines:
        Notifier("gone").watchdog()

    assert [line["event"] for line in lines] == ["failed to notify systemd"]


def test_the_watchdog_is_fed_twice_in_the_time_that_systemd_allows() -> None:
    env = {"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": str(os.getpid())}

    assert Notifier.from_env(env).watchdog_interval_s == 7.5


@pytest.mark.parametrize(
    "env", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}]
)
def test_no_watchdog_when_systemd_does_not_watch_us(env: dict[str, str]) -> None:
    assert Notifier.from_env(env).watchdog_interval_s is None
