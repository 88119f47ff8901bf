"""``/v1/diff`` over real connections: an answer at once, and the comparison where it is asked after."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NamedTuple, TypeVar

import aiohttp
import msgspec
import pytest

from controllerd.errors import StoreUnavailable
from controllerd.status.reads.comparison import WAITING, Comparison, Differing, Progress
from controllerd.status.schema.common import Problem
from controllerd.status.schema.work import Comparing, DifferenceList
from tests.status.fake_controller import FakeController, serving

SAME = Comparison(differences=(), partitions=4, brokers=(1, 2))
Kind = TypeVar("Kind")


class Said(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    location: str | None
    retry_after: str | None

    def content(self, kind: type[Kind]) -> Kind:
        """The body as what it should be."""
        return msgspec.json.decode(self.body, type=kind)


class Comparer:
    """Compares for as long as the test wants, one at a time."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.began = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.was_cancelled = False
        self.error: Exception | None = None
        self._turn = asyncio.Lock()

    async def compare(self, with_brokers: bool, progress: Progress) -> Comparison:
        """Half of it; the rest once the test says so."""
        async with self._turn:
            self.asked.append(with_brokers)
            progress.expect(2.0)
            progress.enter("reading ZooKeeper", 1.0)
            progress.enter("asking broker 2 (1 of 1)", 1.0)
            self.began.set()
            try:
                await self.goes_on.wait()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
            if self.error is not None:
                raise self.error
            return SAME


@pytest.fixture
def controller() -> FakeController:
    controller = FakeController()
    controller.lead(3)
    return controller


@pytest.fixture
def comparer(controller: FakeController) -> Comparer:
    comparer = Comparer()
    controller.compare = comparer.compare
    return comparer


class Caller:
    """Asks one server."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def get(self, path: str) -> Said:
        async with self._http.get(path, allow_redirects=False) as response:
            headers = response.headers
            return Said(response.status, await response.read(), headers.get("Location"), headers.get("Retry-After"))

    async def begin(self) -> str:
        """Begin a comparison that lasts; where it is asked after."""
        said = await self.get("/v1/diff")
        assert (said.status, said.location is not None) == (HTTPStatus.ACCEPTED, True)
        return said.location or ""

    async def outcome(self, path: str) -> Said:
        """Ask after it until it has ended."""
        async with asyncio.timeout(10):
            said = await self.get(path)
            while said.status == HTTPStatus.ACCEPTED:
                said = await self.get(said.location or "")
        return said


@pytest.fixture
async def caller(controller: FakeController, comparer: Comparer) -> AsyncIterator[Caller]:
    async with serving(controller) as url, aiohttp.ClientSession(url) as http:
        yield Caller(http)


async def test_what_is_compared_at_once_is_answered_at_once(comparer: Comparer, caller: Caller) -> None:
    comparer.goes_on.set()

    said = await caller.get("/v1/diff?brokers=false")

    assert (said.status, said.location, comparer.asked) == (HTTPStatus.OK, None, [False])
    assert said.content(DifferenceList).compared == 4


async def test_what_takes_longer_is_asked_after(comparer: Comparer, caller: Caller) -> None:
    said = await caller.get("/v1/diff")
    now = said.content(Comparing)

    assert (said.status, said.location, said.retry_after) == (HTTPStatus.ACCEPTED, f"/v1/diff/{now.id}", "1")
    assert (now.stage, now.percent) == ("asking broker 2 (1 of 1)", 50.0)
    assert now.elapsed_s > 0
    comparer.goes_on.set()
    assert (await caller.outcome(f"/v1/diff/{now.id}")).content(DifferenceList).brokers == [1, 2]


async def test_an_outcome_is_the_same_however_often_it_is_asked_for(comparer: Comparer, caller: Caller) -> None:
    path = await caller.begin()
    comparer.goes_on.set()

    assert await caller.outcome(path) == await caller.get(path)


async def test_who_asks_for_the_same_shares_it_and_who_asks_for_another_waits(
    comparer: Comparer, caller: Caller
) -> None:
    path = await caller.begin()

    same, other = await asyncio.gather(caller.get("/v1/diff?brokers=true"), caller.get("/v1/diff?brokers=false"))

    assert (same.location, comparer.asked) == (path, [True])
    assert (other.content(Comparing).stage, other.content(Comparing).percent) == (WAITING, None)
    comparer.goes_on.set()
    await caller.outcome(other.location or "")
    assert comparer.asked == [True, False]


async def test_an_error_is_what_everybody_is_answered_with(comparer: Comparer, caller: Caller) -> None:
    path = await caller.begin()
    comparer.error = StoreUnavailable("no session")
    comparer.goes_on.set()

    for said in (await caller.outcome(path), await caller.get(path)):
        problem = said.content(Problem)
        assert (problem.status, problem.code, problem.detail) == (503, "zookeeper_unavailable", "no session")


async def test_a_defect_is_named_and_nobody_waits_for_ever(
    comparer: Comparer, caller: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await caller.begin()
    comparer.error = KeyError("t-0")
    comparer.goes_on.set()

    problem = (await caller.outcome(path)).content(Problem)

    assert (problem.status, problem.code, problem.hint) == (500, "failed", "the cause is in the log of the daemon")
    assert "comparison failed" in capsys.readouterr().out


async def test_what_is_not_known_is_said_with_what_to_do(caller: Caller) -> None:
    problem = (await caller.get("/v1/diff/0123456789abcdef")).content(Problem)

    assert (problem.status, problem.code) == (404, "unknown_comparison")
    assert "there is no comparison '0123456789abcdef'" in problem.detail
    assert problem.hint == "GET /v1/diff begins another"


async def test_who_loses_the_role_meanwhile_says_so(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    path = await caller.begin()
    controller.stand_by("broker 2 (built-in) holds the role")

    for said in (await caller.get(path), await caller.get("/v1/diff")):
        problem = said.content(Problem)
        assert (problem.status, problem.code) == (409, "not_controller")
        assert "broker 2 (built-in) leads" in problem.detail
    assert comparer.asked == [True]


async def test_what_was_compared_over_two_terms_means_nothing(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    path = await caller.begin()
    controller.stand_by("a moment")
    controller.lead(5)
    comparer.goes_on.set()

    problem = (await caller.outcome(path)).content(Problem)

    assert (problem.status, problem.code) == (409, "not_controller")
    assert "the role was lost while it was compared" in problem.detail


async def test_who_asks_in_a_new_term_gets_a_comparison_of_that_term(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    stale = await caller.begin()
    controller.lead(5)

    path = await caller.begin()
    comparer.goes_on.set()

    assert (await caller.outcome(path)).status == HTTPStatus.OK
    assert (await caller.outcome(stale)).content(Problem).code == "not_controller"


async def test_an_observer_compares_across_the_terms_of_others(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    controller.observe()
    path = await caller.begin()
    controller.snapshot.controller_epoch += 1
    comparer.goes_on.set()

    assert (await caller.outcome(path)).status == HTTPStatus.OK


async def test_what_is_under_way_ends_with_the_server(controller: FakeController, comparer: Comparer) -> None:
    async with serving(controller) as url, aiohttp.ClientSession(url) as http:
        await Caller(http).begin()

    assert comparer.was_cancelled


async def test_very_many_differences_are_counted_and_cut_off(controller: FakeController) -> None:
    async def compare(_with_brokers: bool, _progress: Progress) -> Comparison:
        differences = tuple(Differing(f"t-{number}", "leader", "1", "2") for number in range(6_000))
        return Comparison(differences=differences, partitions=6_000, brokers=())

    controller.compare = compare
    async with serving(controller) as url, aiohttp.ClientSession(url) as http:
        found = (await Caller(http).outcome("/v1/diff")).content(DifferenceList)

    assert (len(found.items), found.notes) == (5_000, ["6000 differences, of which the first 5000 are shown"])
