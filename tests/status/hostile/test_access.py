"""Access by token, by socket, by host name and by origin."""

import base64

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from controllerd.config.model import Address, HttpConfig, Secret
from controllerd.status.http.access import AccessControl
from controllerd.status.http.credentials import Tokens
from controllerd.status.http.limits import DEFAULT_LIMITS, ConnectionLimiter
from controllerd.status.http.problems import describe_problems
from tests.status.hostile.endpoint import ADMIN, FREE, GUARDED, READ, ask, http_request, opened

ONLY_ADMIN = msgspec.structs.replace(GUARDED, read_token=None)
ONLY_READ = msgspec.structs.replace(GUARDED, admin_token=None)


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(user: str, token: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


@pytest.mark.parametrize(
    ("http", "path", "authorization", "status"),
    [
        (FREE, "/look", None, 200),
        (FREE, "/verb", None, 200),
        (FREE, "/verb", bearer("whatever"), 200),
        (GUARDED, "/livez", None, 200),
        (GUARDED, "/look", None, 401),
        (GUARDED, "/look", bearer(READ), 200),
        (GUARDED, "/look", bearer(ADMIN), 200),
        (GUARDED, "/look", basic("alice", READ), 200),
        (GUARDED, "/look", "bearer " + READ, 200),
        (GUARDED, "/look", bearer(READ[:-1]), 401),
        (GUARDED, "/look", bearer(READ + "x"), 401),
        (GUARDED, "/look", bearer(""), 401),
        (GUARDED, "/look", "Basic !!!", 401),
        (GUARDED, "/look", "Basic " + base64.b64encode(READ.encode()).decode(), 401),
        (GUARDED, "/look", "Negotiate " + READ, 401),
        (GUARDED, "/verb", None, 401),
        (GUARDED, "/verb", bearer(READ), 403),
        (GUARDED, "/verb", bearer(ADMIN), 200),
        (GUARDED, "/verb", basic("alice", ADMIN), 200),
        (GUARDED, "/verb", basic(ADMIN, "alice"), 401),
        (ONLY_ADMIN, "/look", None, 200),
        (ONLY_ADMIN, "/verb", None, 401),
        (ONLY_ADMIN, "/verb", bearer(ADMIN), 200),
        (ONLY_READ, "/look", None, 401),
        (ONLY_READ, "/look", bearer(READ), 200),
        (ONLY_READ, "/verb", bearer(READ), 403),
        (ONLY_READ, "/verb", None, 403),
    ],
)
async def test_a_token_permits_the_requests_of_its_rank(
    http: HttpConfig, path: str, authorization: str | None, status: int
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with opened(http) as endpoint:
        found, head = await ask(endpoint, http_request(path, "POST" if path == "/verb" else "GET", headers=headers))

    assert found == status
    assert (b"www-authenticate: bearer" in head.lower()) is (status == 401)


async def test_bytes_that_are_not_text_are_no_valid_token() -> None:
    async with opened(GUARDED) as endpoint:
        request = http_request("/look", headers={"Authorization": "Bearer TOKEN"}).replace(b"TOKEN", b"\xff\xfe\x80")
        assert (await ask(endpoint, request))[0] == 401


async def test_an_unknown_path_or_method_needs_no_token() -> None:
    async with opened(GUARDED) as endpoint:
        assert (await ask(endpoint, http_request("/nothing")))[0] == 404
        assert (await ask(endpoint, http_request("/look", "POST")))[0] == 405


async def test_the_principal_names_the_token_and_the_user_beside_it() -> None:
    async with opened(GUARDED) as endpoint:
        for authorization in (bearer(ADMIN), basic("alice", ADMIN)):
            await ask(endpoint, http_request("/verb", "POST", headers={"Authorization": authorization}))

    assert endpoint.principals == ["token:admin", "token:admin as alice"]


async def test_a_token_is_ignored_where_none_is_configured() -> None:
    async with opened(FREE) as endpoint:
        await ask(endpoint, http_request("/verb", "POST", headers={"Authorization": basic("root", "whatever")}))

    assert endpoint.principals == [None]


async def test_refusals_are_counted_and_logged_rarely_and_without_the_token() -> None:
    with capture_logs() as lines:
        async with opened(GUARDED) as endpoint:
            for _ in range(20):
                await ask(endpoint, http_request("/look", headers={"Authorization": bearer("guess-guess-guess-guess")}))
            await ask(endpoint, http_request("/verb", "POST", headers={"Authorization": bearer(READ)}))

        assert endpoint.listener.access is not None
        assert endpoint.listener.access.refusals == {"unauthorized": 20, "read_token": 1}
    logged = [line for line in lines if line["event"] == "access refused"]
    assert [line["code"] for line in logged] == ["unauthorized"]
    assert "guess" not in repr(lines)
    assert READ not in repr(lines)


# -- browsers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9191", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:9191", 200),
        ("[::1]:9191", 200),
        ("192.0.2.7", 200),
        ("rebound.example", 403),
        ("localhost.rebound.example", 403),
        ("127.0.0.1.rebound.example", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("path", ["/livez", "/look", "/nothing"])
async def test_a_loopback_address_serves_nothing_under_foreign_names(path: str, host: str, status: int) -> None:
    async with opened() as endpoint:
        found = (await ask(endpoint, http_request(path, host=host)))[0]

    assert found == (404 if (path, status) == ("/nothing", 200) else status)


async def test_a_request_without_a_host_header_is_served_and_one_with_two_is_refused() -> None:
    async with opened() as endpoint:
        assert (await ask(endpoint, b"GET /look HTTP/1.0\r\n\r\n"))[0] == 200
        two = b"GET /look HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example\r\n\r\n"
        assert (await ask(endpoint, two))[0] == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:9191"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://rebound.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
async def test_pages_of_other_sites_cannot_send_verbs(headers: dict[str, str], status: int) -> None:
    async with opened() as endpoint:
        found, head = await ask(endpoint, http_request("/verb", "POST", b"{}", host="localhost:9191", headers=headers))

    assert (found, len(endpoint.principals)) == (status, 1 if status == 200 else 0)
    assert b"access-control" not in head.lower()


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site"])
async def test_a_page_whose_origin_is_not_text_is_refused(name: str) -> None:
    request = http_request("/verb", "POST", b"{}", headers={name: "http://?"}).replace(b"?", b"\xff")
    async with opened() as endpoint:
        assert (await ask(endpoint, request))[0] == 403


async def test_host_names_are_compared_without_regard_to_case() -> None:
    names = frozenset({"CTL1.Example"})
    access = AccessControl(Tokens(), ConnectionLimiter(DEFAULT_LIMITS), is_local=True, names=names)
    application = web.Application(middlewares=[describe_problems, access.check])
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        for host, status in {"ctl1.example:9191": 404, "CTL1.EXAMPLE": 404, "ctl2.example": 403}.items():
            async with session.get(server.make_url("/nothing"), headers={"Host": host}) as answer:
                assert answer.status == status


async def test_no_cors_header_permits_pages_of_other_sites_to_read() -> None:
    async with opened() as endpoint:
        preflight = http_request(
            "/verb", "OPTIONS", headers={"Origin": "https://rebound.example", "Access-Control-Request-Method": "POST"}
        )
        for request in (preflight, http_request("/look", headers={"Origin": "https://rebound.example"})):
            assert b"access-control" not in (await ask(endpoint, request))[1].lower()


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_secret_never_shows() -> None:
    assert ADMIN not in f"{GUARDED!r} {GUARDED.admin_token}"
    assert str(Secret("credential:admin")) == "credential:admin"


async def test_a_public_address_requires_a_token_for_everything_but_health() -> None:
    http = msgspec.structs.replace(ONLY_ADMIN, listen=Address("0.0.0.0", 0))
    async with opened(http) as endpoint:
        assert (await ask(endpoint, http_request("/livez", host="controller.example")))[0] == 200
        assert (await ask(endpoint, http_request("/look", host="controller.example")))[0] == 401
        admin = bearer(ADMIN)
        assert (
            await ask(endpoint, http_request("/look", host="controller.example", headers={"Authorization": admin}))
        )[0] == 200
