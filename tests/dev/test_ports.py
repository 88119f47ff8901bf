"""A reserved port belongs to the server that it was reserved for, also while that server is dead."""

import asyncio
import socket
import sys

import pytest

from controllerd.dev.ports import LOOPBACK, ReservedPort


async def never_called(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_a_server_can_listen_again_on_a_reserved_port() -> None:
    with ReservedPort() as reserved:
        for _ in range(2):
            server = await asyncio.start_server(never_called, LOOPBACK, reserved.port)
            server.close()
            await server.wait_closed()


def test_nobody_answers_while_the_server_is_dead() -> None:
    with ReservedPort() as reserved, pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, reserved.port), timeout=5)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port can be chosen but not held")
def test_a_reserved_port_is_refused_to_a_stranger() -> None:
    with ReservedPort() as reserved, socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((LOOPBACK, reserved.port))


def test_a_closed_reservation_gives_the_port_back() -> None:
    reserved = ReservedPort()
    reserved.close()
    with socket.socket() as stranger:
        stranger.bind((LOOPBACK, reserved.port))
