"""The first bytes of clients of other protocols: browsers, TLS and SSH clients, scanners, ZooKeeper's."""

import ssl
import struct
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Final

_HTTP_2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
_PROXY_2: Final = b"\r\n\r\n\0\r\nQUIT\n" + bytes.fromhex("2111000c7f0000017f000001d431237f")
_SSL_2: Final = bytes.fromhex("802e0100020015000000100700c0030080")
_POSTGRES: Final = struct.pack(">ii", 8, 80877103)
_ZOOKEEPER: Final = struct.pack(">iiqiqi", 44, 0, 0, 30_000, 0, 16) + bytes(16)
_GREETINGS: Final[Sequence[bytes]] = (
    b"GET / HTTP/1.1\r\nHost: controller\r\n\r\n",
    b"POST /api HTTP/1.1\r\nContent-Length: 4\r\n\r\n\0\0\0\0",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"ruok",
    b"\n",
    b"\0",
    _HTTP_2,
    _PROXY_2,
    _SSL_2,
    _POSTGRES,
    _ZOOKEEPER,
)


@cache
def client_hello() -> bytes:
    """The first message of a TLS client."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="controller")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake with nobody succeeded")


def _bare_sasl(random: Random) -> bytes:
    """A token without a header, as before KIP-152."""
    token = b"\0user\0" + random.randbytes(random.choice((1, 8, 40)))
    return struct.pack(">i", len(token)) + token


def _noise(random: Random) -> bytes:
    return random.randbytes(random.choice((1, 3, 4, 7, 64, 4_000)))


def foreign_bytes(random: Random) -> bytes:
    """Draw the bytes of one such client."""
    return random.choice((*_GREETINGS, _bare_sasl(random), _noise(random), client_hello()))
