"""The HTTP endpoint, over real connections."""

import asyncio
from collections.abc import AsyncIterator
from types import MappingProxyType

import aiohttp
import msgspec
import pytest

from controllerd.config.model import Address, HttpConfig, Secret
from controllerd.core.model import BrokerId
from controllerd.errors import (
    CallFailed,
    CallRefused,
    ControllerdError,
    ControllerMoved,
    NotController,
    RefusedToLead,
    StoreUnavailable,
)
from controllerd.status.schema.common import Health
from controllerd.status.schema.status import StatusResponse
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView
from controllerd.views import Role, SessionView, WorkerView
from events.cluster import BrokerChange
from tests.status.fake_controller import INSTANCE, FakeController, serving


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
        yield session


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


async def health(http: aiohttp.ClientSession, url: str) -> tuple[int, Health]:
    async with http.get(url) as response:
        return response.status, msgspec.json.decode(await response.read(), type=Health)


# -- health ------------------------------------------------------------------------------------------------------------


async def test_an_idle_instance_is_alive_however_long_it_is_idle(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.worker = WorkerView(since_progress_s=3600.0)

    async with serving(controller) as url:
        assert (await health(http, f"{url}/livez"))[0] == 200


async def test_a_worker_that_hangs_in_an_event_is_not_alive(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.worker = WorkerView("BrokerChange", 7, running_s=45.0, since_progress_s=45.0)

    async with serving(controller) as url:
        status, answer = await health(http, f"{url}/livez")

    assert status == 503
    assert "handles BrokerChange for 45.0 s" in answer.checks[0].detail


async def test_a_long_event_that_shows_progress_is_alive(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.worker = WorkerView("Startup", 1, running_s=300.0, since_progress_s=0.5)

    async with serving(controller) as url:
        assert (await health(http, f"{url}/livez"))[0] == 200


async def test_a_worker_that_takes_nothing_is_not_alive(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.is_stalled = True
    controller.queue.put(BrokerChange())
    controller.now_s += 31
    controller.worker = WorkerView(since_progress_s=31.0)

    async with serving(controller) as url:
        assert (await health(http, f"{url}/livez"))[0] == 503


async def test_a_lost_session_makes_an_instance_unready_but_not_dead(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.session = SessionView("suspended", 1, 1)

    async with serving(controller) as url:
        assert (await health(http, f"{url}/livez"))[0] == 200
        status, answer = await health(http, f"{url}/readyz")

    assert status == 503
    assert [(check.name, check.detail) for check in answer.checks] == [("zookeeper session", "suspended")]


@pytest.mark.parametrize("role", [Role.STARTING, Role.STOPPING])
async def test_an_instance_without_a_role_is_not_ready(
    http: aiohttp.ClientSession, controller: FakeController, role: Role
) -> None:
    controller.snapshot.role = role

    async with serving(controller) as url:
        assert (await health(http, f"{url}/readyz"))[0] == 503


async def test_quarantine_and_audit_trouble_are_shown_and_leave_the_instance_ready(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.snapshot.quarantine = MappingProxyType({"/brokers/topics/broken": "not JSON"})
    controller.audit = AuditView(trouble="no space left on device")

    async with serving(controller) as url:
        status, answer = await health(http, f"{url}/readyz")

    assert (status, answer.ok, answer.degraded) == (200, True, True)
    assert [check.name for check in answer.checks] == ["quarantine", "audit log"]


async def test_verbose_readiness_lists_every_check(http: aiohttp.ClientSession, controller: FakeController) -> None:
    async with serving(controller) as url:
        _, answer = await health(http, f"{url}/readyz?verbose")

    names = [check.name for check in answer.checks]
    assert names == ["role", "zookeeper session", "event worker", "quarantine", "audit log"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("role", "controller_status", "standby_status"),
    [(Role.ACTIVE, 200, 503), (Role.STANDBY, 503, 200), (Role.STARTING, 503, 503)],
)
async def test_role_pages_answer_200_only_in_that_role(
    http: aiohttp.ClientSession,
    controller: FakeController,
    method: str,
    role: Role,
    controller_status: int,
    standby_status: int,
) -> None:
    controller.snapshot.role = role

    async with serving(controller) as url:
        async with http.request(method, f"{url}/controller") as response:
            assert response.status == controller_status
        async with http.request(method, f"{url}/standby") as response:
            assert response.status == standby_status


# -- status ------------------------------------------------------------------------------------------------------------


async def test_status_describes_the_active_instance(http: aiohttp.ClientSession, controller: FakeController) -> None:
    controller.lead(12)
    controller.worker = WorkerView("TopicChange", 9, 0.25, 0.25)

    async with serving(controller) as url, http.get(f"{url}/v1/status") as response:
        answer = msgspec.json.decode(await response.read(), type=StatusResponse)

    assert (answer.meta.cluster_id, answer.meta.controller_epoch) == ("cluster-1", 12)
    assert answer.meta.generated_at == "2023-11-14T22:17:32.000Z"
    status = answer.status
    assert (status.role, status.reason, status.instance) == ("active", "elected with epoch 12", INSTANCE)
    assert str(status.holder) == "controllerd 2000000001"
    assert (status.counts.topics, status.counts.partitions, status.counts.offline) == (2, 4, 1)
    assert [(b.id, b.broker_epoch, b.queue_depth, b.error) for b in status.brokers] == [
        (1, 101, 0, None),
        (2, 102, 3, "refused"),
    ]
    assert (status.queue.current_event, status.queue.current_number) == ("TopicChange", 9)
    assert status.zookeeper.session_id == "0x10000ab"


async def test_status_shows_how_long_events_wait(http: aiohttp.ClientSession, controller: FakeController) -> None:
    controller.is_stalled = True
    controller.queue.put(BrokerChange())
    controller.now_s += 2

    async with serving(controller) as url, http.get(f"{url}/v1/status") as response:
        queue = msgspec.json.decode(await response.read(), type=StatusResponse).status.queue

    assert (queue.depth, queue.oldest_age_s) == (1, 2.0)


async def test_status_lists_quarantined_znodes(http: aiohttp.ClientSession, controller: FakeController) -> None:
    controller.snapshot.quarantine = MappingProxyType({"/brokers/topics/broken": "not JSON"})

    async with serving(controller) as url, http.get(f"{url}/v1/status") as response:
        answer = await response.json()

    assert answer["status"]["quarantined"] == [{"path": "/brokers/topics/broken", "reason": "not JSON"}]


async def test_status_lists_deletions_and_the_brokers_that_they_wait_for(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.delete("orders", held_up_by="replicas on broker 3 cannot be deleted: not online")
    controller.delete("audit", deleting=(1, 2))
    controller.snapshot.pending_deletions = MappingProxyType({BrokerId(3): 7})

    async with serving(controller) as url, http.get(f"{url}/v1/status") as response:
        status = (await response.json())["status"]

    assert status["deletions"] == [
        {"topic": "audit", "has_begun": True, "held_up_by": None, "deleting": [1, 2]},
        {
            "topic": "orders",
            "has_begun": False,
            "held_up_by": "replicas on broker 3 cannot be deleted: not online",
            "deleting": [],
        },
    ]
    assert status["debts"] == [{"broker": 3, "replicas": 7}]


async def test_answers_are_never_cached(http: aiohttp.ClientSession, controller: FakeController) -> None:
    async with serving(controller) as url, http.get(f"{url}/v1/status") as response:
        assert response.headers["Cache-Control"] == "no-store"


# -- admin verbs -------------------------------------------------------------------------------------------------------


async def test_a_takeover_goes_through_the_queue_with_its_reason(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    async with serving(controller) as url, http.post(f"{url}/v1/takeover", json={"reason": "trial"}) as response:
        answer = await response.json()

    assert controller.reasons == ["trial"]
    assert (answer["epoch_before"], answer["epoch_after"], answer["held_by"]) == (0, 1, "broker 2 (built-in)")
    assert controller.snapshot.role is Role.ACTIVE


async def test_a_takeover_is_remembered_when_asked_for(http: aiohttp.ClientSession, controller: FakeController) -> None:
    async with serving(controller) as url:
        async with http.post(f"{url}/v1/takeover", json={}) as response:
            assert response.status == 200
        before = controller.memory.remembered
        async with http.post(f"{url}/v1/takeover", json={"remember": True}) as response:
            assert response.status == 200

    assert (before, controller.memory.remembered) == (0, 1)


async def test_a_takeover_that_cannot_be_remembered_is_refused_before_it_begins(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.memory.why_not = "controller.when_broker_holds = standby is configured (flag)"
    async with serving(controller) as url, http.post(f"{url}/v1/takeover", json={"remember": True}) as response:
        answer = await response.json(content_type=None)

    assert (response.status, answer["code"], answer["detail"]) == (409, "not_remembered", controller.memory.why_not)
    assert (controller.reasons, controller.memory.remembered) == ([], 0)


async def test_a_takeover_that_fails_is_not_remembered(http: aiohttp.ClientSession, controller: FakeController) -> None:
    controller.refusal = NotController("broker 2 leads")
    async with serving(controller) as url, http.post(f"{url}/v1/takeover", json={"remember": True}) as response:
        assert response.status == 409

    assert controller.memory.remembered == 0


async def test_a_resignation_makes_the_instance_stand_by(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.lead(3)

    async with serving(controller) as url, http.post(f"{url}/v1/resign", json={"reason": "upgrade"}) as response:
        assert response.status == 200

    assert controller.snapshot.role is Role.STANDBY


async def test_a_broker_is_forgotten_through_the_queue_when_its_id_is_repeated(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.lead(11)
    controller.delete("orders", held_up_by="replicas on broker 7 cannot be deleted: not online")

    async with (
        serving(controller) as url,
        http.post(f"{url}/v1/brokers/7/forget", json={"reason": "burnt down", "confirm": 7}) as response,
    ):
        answer = await response.json()

    assert controller.reasons == ["burnt down"]
    assert (answer["kind"], answer["broker"], answer["topics"], answer["replicas"]) == (
        "BrokerForgotten",
        7,
        ["orders"],
        3,
    )


@pytest.mark.parametrize(
    "body", [{}, {"reason": "burnt down"}, {"reason": "burnt down", "confirm": 8}, {"reason": "", "confirm": 7}]
)
async def test_no_broker_is_forgotten_without_a_reason_and_its_id_once_more(
    http: aiohttp.ClientSession, controller: FakeController, body: dict[str, object]
) -> None:
    async with serving(controller) as url, http.post(f"{url}/v1/brokers/7/forget", json=body) as response:
        answer = await response.json(content_type=None)

    assert (response.status, answer["code"], controller.reasons) == (400, "not_confirmed", [])
    assert '"confirm": 7' in answer["hint"]


@pytest.mark.parametrize("broker", ["-1", "seven", "99999999999", ""])
async def test_only_a_valid_broker_id_can_be_forgotten(
    http: aiohttp.ClientSession, controller: FakeController, broker: str
) -> None:
    async with serving(controller) as url, http.post(f"{url}/v1/brokers/{broker}/forget", json={}) as response:
        assert response.status == 404


async def test_the_reason_may_be_left_out(http: aiohttp.ClientSession, controller: FakeController) -> None:
    headers = {"Content-Type": "application/json"}
    async with serving(controller) as url, http.post(f"{url}/v1/takeover", headers=headers) as response:
        assert response.status == 200


async def test_a_standby_answers_a_resignation_with_a_problem_and_a_hint(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    async with serving(controller) as url, http.post(f"{url}/v1/resign", json={}) as response:
        assert response.content_type == "application/problem+json"
        answer = await response.json(content_type=None)

    assert (answer["status"], answer["code"], answer["kafka_error"]) == (409, "not_controller", "NOT_CONTROLLER")
    assert "/v1/status" in answer["hint"]


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (ControllerMoved("epoch 9"), 409, "fenced"),
        (RefusedToLead("secured znodes"), 409, "refused_to_lead"),
        (CallRefused("broker 3 is registered"), 409, "refused"),
        (StoreUnavailable("session lost"), 503, "zookeeper_unavailable"),
        (CallFailed("see the log"), 500, "failed"),
    ],
)
async def test_every_failure_has_a_status_and_a_code(
    http: aiohttp.ClientSession, controller: FakeController, refusal: Exception, status: int, code: str
) -> None:
    assert isinstance(refusal, ControllerdError)
    controller.refusal = refusal

    async with serving(controller) as url, http.post(f"{url}/v1/takeover", json={}) as response:
        answer = await response.json(content_type=None)

    assert (response.status, answer["code"], answer["detail"]) == (status, code, str(refusal))


async def test_a_call_that_takes_too_long_goes_on_without_its_caller(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    controller.is_stalled = True

    async with (
        serving(controller, admin_timeout_s=0.05) as url,
        http.post(f"{url}/v1/takeover", json={}) as response,
    ):
        answer = await response.json(content_type=None)

    assert (response.status, answer["code"]) == (504, "still_in_progress")
    assert len(controller.queue) == 1


async def test_admin_verbs_need_json_so_that_no_web_form_can_send_them(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    async with serving(controller) as url, http.post(f"{url}/v1/takeover", data={"reason": "x"}) as response:
        assert response.status == 415
    assert controller.reasons == []


async def test_admin_verbs_addressed_to_a_foreign_name_are_refused(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    headers = {"Host": "rebound.example"}
    async with serving(controller) as url, http.post(f"{url}/v1/resign", json={}, headers=headers) as response:
        assert response.status == 403


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"reason": 1}', b'{"raison": "x"}', b'{"reason": "' + b"x" * 501 + b'"}']
)
async def test_a_malformed_body_is_a_bad_request(
    http: aiohttp.ClientSession, controller: FakeController, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    async with serving(controller) as url, http.post(f"{url}/v1/takeover", data=body, headers=headers) as response:
        assert response.status == 400


async def test_a_huge_body_is_refused(http: aiohttp.ClientSession, controller: FakeController) -> None:
    headers = {"Content-Type": "application/json"}
    async with (
        serving(controller) as url,
        http.post(f"{url}/v1/takeover", data=b" " * 20_000, headers=headers) as response,
    ):
        assert response.status == 413


# -- unknown paths and methods -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/status"), ("GET", "/v1/takeover"), ("DELETE", "/livez")])
async def test_a_wrong_method_is_405_and_names_the_right_ones(
    http: aiohttp.ClientSession, controller: FakeController, method: str, path: str
) -> None:
    async with serving(controller) as url, http.request(method, f"{url}{path}") as response:
        assert response.status == 405
        assert response.headers["Allow"]


@pytest.mark.parametrize("path", ["/v1", "/../etc/passwd", "/v1/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//"])
async def test_unknown_paths_and_traversals_are_404(controller: FakeController, path: str) -> None:
    async with serving(controller) as url:
        answer = await raw(url, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 404")
    assert b"application/problem+json" in answer


async def test_garbage_instead_of_http_closes_the_connection_and_nothing_else(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    async with serving(controller) as url:
        answer = await raw(url, b"\x00\x01\x02\x03\r\n\r\n")

        assert b" 400 " in answer.splitlines()[0]
        assert (await health(http, f"{url}/livez"))[0] == 200


async def raw(url: str, request: bytes) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer


# -- life cycle --------------------------------------------------------------------------------------------------------


def at(port: int) -> HttpConfig:
    """The configuration of a port on loopback."""
    return HttpConfig(listen=Address("127.0.0.1", port))


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open(controller: FakeController) -> None:
    async with serving(controller) as url:
        second = StatusServer(controller.sources(), at(int(url.rpartition(":")[2])))
        with pytest.raises(OSError, match="address already in use"):
            await second.start()
        await second.close()


async def test_a_closed_server_can_be_closed_again_and_its_port_is_free(controller: FakeController) -> None:
    first = StatusServer(controller.sources(), at(0))
    port = await first.start()
    await first.close()
    await first.close()

    second = StatusServer(controller.sources(), at(port))
    assert await second.start() == port
    await second.close()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_addresses_are_known(host: str, expected: bool) -> None:
    assert Address(host, 1).is_loopback is expected


async def test_a_wrong_token_for_the_page_is_counted_like_any_other(
    http: aiohttp.ClientSession, controller: FakeController
) -> None:
    config = msgspec.structs.replace(at(0), read_token=Secret("a-read-token-of-tests"))
    server = StatusServer(controller.sources(), config)
    url = f"http://127.0.0.1:{await server.start()}/"
    try:
        for token, status in {"": 200, "a-wrong-token": 401, "a-read-token-of-tests": 200}.items():
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with http.get(url, headers=headers) as response:
                assert response.status == status
        access = server.listener.access
        assert access is not None
        assert access.refusals == {"unauthorized": 1}
    finally:
        await server.close()
