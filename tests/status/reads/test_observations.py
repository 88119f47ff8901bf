"""The answers of an observer over HTTP, and its refusals."""

from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest

from controllerd.status.schema.common import Health, Problem
from controllerd.status.schema.history import ObservationsResponse, ObservedState, ObservedTotal
from controllerd.status.schema.status import StatusResponse
from tests.status.fake_controller import FakeController, compared, serving


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
        yield session


@pytest.fixture
def observer() -> FakeController:
    controller = FakeController()
    controller.observe(
        compared("equal"),
        compared("different: leader", topic="audit"),
        compared("equal", number=1),
        compared("not judged", cause="the ISR changed"),
    )
    return controller


async def observations(http: aiohttp.ClientSession, url: str) -> ObservationsResponse:
    async with http.get(f"{url}/v1/observations") as response:
        assert response.status == 200
        return msgspec.json.decode(await response.read(), type=ObservationsResponse)


async def test_partitions_are_counted_by_cause_and_ruling(
    http: aiohttp.ClientSession, observer: FakeController
) -> None:
    async with serving(observer) as url:
        found = (await observations(http, url)).observations

    assert found.totals == [
        ObservedTotal(cause="broker died", ruling="different", partitions=1),
        ObservedTotal(cause="broker died", ruling="equal", partitions=2),
        ObservedTotal(cause="the ISR changed", ruling="not judged", partitions=1),
    ]


async def test_the_newest_partitions_have_their_states(http: aiohttp.ClientSession, observer: FakeController) -> None:
    async with serving(observer) as url:
        latest = (await observations(http, url)).observations.latest

    before, after = (
        ObservedState(leader=1, leader_epoch=4, isr=[1, 2]),
        ObservedState(leader=2, leader_epoch=5, isr=[2]),
    )
    assert [(row.topic, row.partition, row.verdict) for row in latest] == [
        ("orders", 0, "equal"),
        ("audit", 0, "different: leader"),
        ("orders", 1, "equal"),
        ("orders", 0, "not judged"),
    ]
    assert (latest[0].before, latest[0].would, latest[0].after) == (before, after, after)
    assert (latest[3].before, latest[3].would, latest[3].after) == (before, None, after)


async def test_limits_of_the_observation_are_always_listed(
    http: aiohttp.ClientSession, observer: FakeController
) -> None:
    async with serving(observer) as url:
        answer = await observations(http, url)

    found = answer.observations
    assert (answer.kind, answer.meta.cluster_id, answer.meta.controller_epoch) == ("Observations", "cluster-1", 7)
    assert (found.looks, found.torn, found.unsettled, found.would_refuse) == (40, 1, 2, None)
    assert (found.not_judged, found.cannot_be_seen) == (["the ISR changed", "another leader"], ["quotas"])


async def test_a_refusal_to_become_controller_is_shown(http: aiohttp.ClientSession) -> None:
    controller = FakeController()
    controller.observe(refusal="the cluster is being migrated")

    async with serving(controller) as url:
        found = (await observations(http, url)).observations

    assert found.would_refuse == "the cluster is being migrated"


async def test_an_instance_that_is_no_observer_has_no_observations(http: aiohttp.ClientSession) -> None:
    async with serving(FakeController()) as url, http.get(f"{url}/v1/observations") as response:
        problem = msgspec.json.decode(await response.read(), type=Problem)

    assert (response.status, problem.code) == (409, "not_observing")
    assert problem.hint is not None
    assert "controller.mode" in problem.hint


@pytest.mark.parametrize("verb", ["takeover", "resign", "brokers/3/forget"])
async def test_an_observer_refuses_changes(http: aiohttp.ClientSession, observer: FakeController, verb: str) -> None:
    body = {"reason": "because"} | ({"confirm": 3} if "forget" in verb else {})
    async with serving(observer) as url, http.post(f"{url}/v1/{verb}", json=body) as response:
        problem = msgspec.json.decode(await response.read(), type=Problem)

    assert (response.status, problem.code) == (409, "observer")
    assert "never takes or gives away the role" in problem.detail
    assert observer.reasons == []


async def test_an_observer_is_ready_and_neither_the_controller_nor_a_standby(
    http: aiohttp.ClientSession, observer: FakeController
) -> None:
    async with serving(observer) as url:
        async with http.get(f"{url}/readyz?verbose") as response:
            health = msgspec.json.decode(await response.read(), type=Health)
        statuses = []
        for place in ("controller", "standby"):
            async with http.get(f"{url}/{place}") as response:
                statuses.append(response.status)

    assert health.ok
    assert health.checks[0].detail == "observer: watches broker 2 (built-in)"
    assert statuses == [503, 503]


async def test_the_status_of_an_observer_counts_comparisons(
    http: aiohttp.ClientSession, observer: FakeController
) -> None:
    async with serving(observer) as url, http.get(f"{url}/v1/status") as response:
        status = msgspec.json.decode(await response.read(), type=StatusResponse).status

    assert status.role == "observer"
    assert status.observed == {"different": 1, "equal": 2, "not judged": 1}
    assert status.counts.partitions == 4


async def test_the_status_of_another_instance_counts_no_comparisons(http: aiohttp.ClientSession) -> None:
    async with serving(FakeController()) as url, http.get(f"{url}/v1/status") as response:
        status = msgspec.json.decode(await response.read(), type=StatusResponse).status

    assert status.observed is None
