"""The unix socket, and sockets that systemd opened."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from controllerd.status.http.credentials import peer_of
from controllerd.status.http.listener import open_sockets
from tests.status.hostile.endpoint import FREE, GUARDED, RawConnection, ask, http_request, opened


@asynccontextmanager
async def through(path: Path) -> AsyncIterator[RawConnection]:
    """A connection to a unix socket."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_users_of_the_unix_socket_need_no_token(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    async with opened(msgspec.structs.replace(GUARDED, socket=path)) as endpoint, through(path) as connection:
        connection.send(http_request("/verb", "POST"))
        assert (await connection.answer())[0] == 200
        assert (await ask(endpoint, http_request("/verb", "POST")))[0] == 401


async def test_the_unix_socket_accepts_any_host_name(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    async with opened(msgspec.structs.replace(FREE, socket=path)) as endpoint, through(path) as connection:
        connection.send(http_request("/look", host="controllerd"))
        assert (await connection.answer())[0] == 200
        assert (await ask(endpoint, http_request("/look", host="controllerd")))[0] == 403


async def test_the_operating_system_identifies_the_user_of_the_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    async with opened(msgspec.structs.replace(FREE, socket=path)), through(path) as connection:
        peer = peer_of(connection.writer.transport)

    assert (peer.user_id, peer.process, str(peer)) == (os.getuid(), os.getpid(), f"uid {os.getuid()}")


async def test_only_the_user_and_the_group_may_open_the_socket_and_the_daemon_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    async with opened(msgspec.structs.replace(FREE, socket=path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660

    assert not path.exists()


async def test_the_socket_file_of_a_killed_daemon_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    http = msgspec.structs.replace(FREE, socket=tmp_path / "admin.sock")
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(str(http.socket))

    async with opened(http):
        with pytest.raises(OSError, match="another process listens"):
            async with opened(http):
                pass
        assert http.socket is not None
        assert http.socket.exists()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("precious")

    with pytest.raises(OSError, match="is no socket"):
        open_sockets(msgspec.structs.replace(FREE, socket=path), {})
    assert path.read_text() == "precious"


def test_an_error_about_a_missing_folder_names_the_configuration_key(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"http\.socket"):
        open_sockets(msgspec.structs.replace(FREE, socket=tmp_path / "nowhere" / "s"), {})


# -- systemd -----------------------------------------------------------------------------------------------------------

SERVER = """
import asyncio, os, sys
from controllerd.errors import ConfigError
from tests.status.hostile.endpoint import FREE, opened

async def main():
    os.environ["LISTEN_PID"] = sys.argv[1] if len(sys.argv) > 1 else str(os.getpid())
    try:
        async with opened(FREE, environment=os.environ) as endpoint:
            print(endpoint.port, flush=True)
            await asyncio.to_thread(sys.stdin.read)
    except ConfigError as error:
        print(error, flush=True)

asyncio.run(main())
"""
_FIRST_FD = 3


@contextmanager
def activated(*sockets: socket.socket, pid: str | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that gets these sockets as systemd gives them, and the line that it prints."""
    command = [sys.executable, "-c", SERVER, *([pid] if pid else [])]
    # As systemd does between fork and exec: the sockets become 3, 4 ... of the new process.
    shift = " ".join(f"{_FIRST_FD + n}<&{given.fileno()}" for n, given in enumerate(sockets))
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" {shift}', "bash", *command],
        env={**os.environ, "LISTEN_FDS": str(len(sockets))},
        pass_fds=[given.fileno() for given in sockets],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.communicate("")


def listening(family: socket.AddressFamily, address: tuple[str, int] | str) -> socket.socket:
    """A listening socket, as for ListenStream= of a unit."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(address)
    made.listen()
    return made


def answered(client: socket.socket) -> bytes:
    """Send a verb, and return the status line of the answer."""
    client.sendall(http_request("/verb", "POST", headers={"Connection": "close"}))
    return client.makefile("rb").readline()


def test_sockets_that_systemd_opened_are_served_instead_of_the_configured_ones(tmp_path: Path) -> None:
    path = str(tmp_path / "activated.sock")
    with (
        listening(socket.AF_INET, ("127.0.0.1", 0)) as tcp,
        listening(socket.AF_UNIX, path) as unix,
        activated(tcp, unix) as (_, port),
    ):
        assert int(port) == tcp.getsockname()[1]
        with socket.create_connection(tcp.getsockname()) as client:
            assert answered(client) == b"HTTP/1.1 200 OK\r\n"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            assert answered(client) == b"HTTP/1.1 200 OK\r\n"

    assert Path(path).exists(), "it belongs to systemd"


def test_sockets_that_are_meant_for_another_process_are_left_alone(tmp_path: Path) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as tcp, activated(tcp, pid="1") as (_, port):
        assert int(port) != tcp.getsockname()[1]


def test_a_public_socket_from_systemd_is_refused_without_tls_and_tokens() -> None:
    with listening(socket.AF_INET, ("0.0.0.0", 0)) as tcp, activated(tcp) as (_, said):
        assert said.startswith("ListenStream=0.0.0.0:")
        assert "needs TLS (http.tls_certificate, http.tls_key) and a token" in said


def test_a_socket_that_does_not_listen_is_refused() -> None:
    with socket.socket() as idle, activated(idle) as (_, said):
        assert "needs ListenStream=" in said
