"""HTTPS: certificates of server and clients, and their renewal while the endpoint runs."""

import os
import shutil
import ssl
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from controllerd.config.model import HttpConfig
from controllerd.errors import ConfigError
from controllerd.status.http.listener import ServerTls
from tests.status.hostile.endpoint import (
    ADMIN,
    CERTIFICATES,
    FREE,
    HASTY,
    SECURE,
    Endpoint,
    ask,
    connected,
    http_request,
    opened,
    until,
)

MUTUAL = msgspec.structs.replace(SECURE, tls_client_ca=CERTIFICATES / "ca.pem")
TOKEN = {"Authorization": f"Bearer {ADMIN}"}


def client(certificate: str | None = None) -> ssl.SSLContext:
    """A client that trusts our CA only."""
    context = ssl.create_default_context(cafile=CERTIFICATES / "ca.pem")
    if certificate is not None:
        context.load_cert_chain(CERTIFICATES / f"{certificate}.pem", CERTIFICATES / f"{certificate}.key")
    return context


async def served(endpoint: Endpoint) -> str:
    """The name in the certificate of the endpoint."""
    async with connected(endpoint, client()) as connection:
        return str(connection.writer.get_extra_info("peercert")["subject"][0][0][1])


def lay_out(folder: Path, name: str) -> HttpConfig:
    """Copies of a certificate and its key under fixed names."""
    for ending in ("pem", "key"):
        shutil.copy(CERTIFICATES / f"{name}.{ending}", folder / f"now.{ending}")
        os.utime(folder / f"now.{ending}", ns=(0, len(name)))  # the clock may be too coarse to give two times
    return msgspec.structs.replace(FREE, tls_certificate=folder / "now.pem", tls_key=folder / "now.key")


async def test_requests_are_served_over_tls_and_tokens_are_needed_all_the_same() -> None:
    async with opened(SECURE) as endpoint:
        assert (await ask(endpoint, http_request("/look"), client()))[0] == 401
        assert (await ask(endpoint, http_request("/verb", "POST", headers=TOKEN), client()))[0] == 200


async def test_large_answers_and_bodies_go_through_tls() -> None:
    async with opened(SECURE) as endpoint, connected(endpoint, client()) as connection:
        connection.send(http_request("/big", headers=TOKEN))
        assert (await connection.answer())[0] == 200
        connection.send(http_request("/plan", "POST", b" " * 2**20, headers=TOKEN))
        assert (await connection.answer())[0] == 200


async def test_plain_http_is_not_served_where_tls_is_configured() -> None:
    async with opened(SECURE) as endpoint, connected(endpoint) as connection:
        connection.send(http_request())

        assert b"HTTP" not in await connection.reader.read(100)
        await until(lambda: endpoint.listener.limiter.closed["TLS handshake failed"] == 1)


async def test_a_handshake_that_does_not_end_is_cut_off_and_counted_from_its_beginning() -> None:
    async with opened(SECURE, HASTY) as endpoint, connected(endpoint) as connection:
        await until(lambda: endpoint.listener.limiter.connections == 1)

        assert await connection.is_closed()
        await until(lambda: endpoint.listener.limiter.connections == 0)


async def test_old_versions_of_tls_are_refused() -> None:
    old = client()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1

    async with opened(SECURE) as endpoint:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(endpoint, http_request(), old)


async def test_clients_need_a_certificate_where_a_ca_is_configured_and_their_name_is_known() -> None:
    async with opened(MUTUAL) as endpoint:
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await ask(endpoint, http_request(), client())
        assert (await ask(endpoint, http_request(), client("alice")))[0] == 200
        await ask(endpoint, http_request("/verb", "POST", headers=TOKEN), client("alice"))

    assert endpoint.principals == ["token:admin certificate alice"]


async def test_a_certificate_that_was_replaced_is_served_at_the_next_connection(tmp_path: Path) -> None:
    async with opened(lay_out(tmp_path, "server")) as endpoint, connected(endpoint, client()) as old:
        lay_out(tmp_path, "renewed")

        assert await served(endpoint) == "renewed"
        old.send(http_request())
        assert (await old.answer())[0] == 200


async def test_a_new_certificate_that_cannot_be_used_leaves_the_old_one_in_place(tmp_path: Path) -> None:
    async with opened(lay_out(tmp_path, "server")) as endpoint:
        shutil.copy(CERTIFICATES / "renewed.pem", tmp_path / "now.pem")  # its key is not there yet
        with capture_logs() as lines:
            assert [await served(endpoint) for _ in range(3)] == ["server"] * 3
        assert [line["next"] for line in lines if "problem" in line] == ["the old certificate stays in use"]
        with pytest.raises(ConfigError, match="belong together"):
            endpoint.listener.reload()

        lay_out(tmp_path, "renewed")
        assert await served(endpoint) == "renewed"


async def test_a_certificate_file_that_is_missing_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    async with opened(lay_out(tmp_path, "server")) as endpoint:
        (tmp_path / "now.pem").unlink()

        assert await served(endpoint) == "server"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tls_key": CERTIFICATES / "alice.key"}, "both must be PEM, readable, and belong together"),
        ({"tls_certificate": Path("/nowhere/server.pem")}, "/nowhere/server.pem"),
        ({"tls_client_ca": Path(__file__)}, "http.tls_client_ca"),
    ],
)
def test_files_that_cannot_be_used_are_a_problem_at_the_start(change: dict[str, Path], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ServerTls.configured(msgspec.structs.replace(SECURE, **change))
