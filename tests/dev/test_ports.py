"""A reserved port belongs to the server that it was reserved for, also while that server is dead."""

import asyncio
import socket
import sys

import pytest

from controllerd.dev.ports import ANY_PORTS, LOOPBACK, Ports, ReservedPort, are_free


async def never_called(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_a_server_can_listen_again_on_a_reserved_port() -> None:
    with ReservedPort() as reserved:
        for _ in range(2):
            server = await asyncio.start_server(never_called, LOOPBACK, reserved.port)
            server.close()
            await server.wait_closed()


def test_connections_are_refused_while_the_server_is_dead() -> None:
    with ReservedPort() as reserved, pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, reserved.port), timeout=5)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port can be chosen but not held")
def test_a_reserved_port_cannot_be_bound_by_another_socket() -> None:
    with ReservedPort() as reserved, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((LOOPBACK, reserved.port))


def test_a_closed_reservation_gives_the_port_back() -> None:
    reserved = ReservedPort()
    reserved.close()
    with socket.socket() as other:
        other.bind((LOOPBACK, reserved.port))


def test_a_port_is_the_one_that_was_asked_for() -> None:
    with ReservedPort() as reserved:
        port = reserved.port
    with ReservedPort(port) as again:
        assert again.port == port


def test_ports_are_free_unless_a_server_listens_on_one() -> None:
    with ReservedPort() as reserved, socket.socket() as server:
        assert are_free([reserved.port])
        server.bind((LOOPBACK, 0))
        server.listen()
        assert not are_free([reserved.port, server.getsockname()[1]])


def test_servers_of_a_kind_have_ports_one_after_the_other() -> None:
    ports = Ports(zookeeper=2181, brokers=9092, listeners=9095, http=9191)

    assert [ports.broker(broker_id) for broker_id in (1, 2, 3)] == [9092, 9093, 9094]
    assert [ports.instance(number) for number in (0, 1)] == [(9095, 9191), (9096, 9192)]
    assert (ANY_PORTS.broker(3), ANY_PORTS.instance(1)) == (0, (0, 0))
