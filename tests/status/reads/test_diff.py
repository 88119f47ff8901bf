"""``/v1/diff`` over real connections: results at once, progress, and results of longer comparisons."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import NamedTuple, TypeVar

import aiohttp
import msgspec
import pytest

from controllerd.errors import StoreUnavailable
from controllerd.status.reads.comparison import WAITING, Comparison, ComparisonProgress, Differing
from controllerd.status.schema.common import Problem
from controllerd.status.schema.work import Comparing, DifferenceList
from tests.status.fake_controller import FakeController, serving

SAME = Comparison(differences=(), partitions=4, brokers=(1, 2))
Kind = TypeVar("Kind")


class DiffAnswer(NamedTuple):
    """An answer of the server."""

    status: int
    body: bytes
    location: str | None
    retry_after: str | None

    def content(self, kind: type[Kind]) -> Kind:
        """Return the decoded body."""
        return msgspec.json.decode(self.body, type=kind)


class Comparer:
    """Compares until the test lets it end, one comparison at a time."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_cancelled = False
        self.error: Exception | None = None
        self._turn = asyncio.Lock()

    async def compare(self, with_brokers: bool, progress: ComparisonProgress) -> Comparison:
        """Do half of the work, and the rest once the test allows it."""
        async with self._turn:
            self.asked.append(with_brokers)
            progress.expect(2.0)
            progress.enter("reading ZooKeeper", 1.0)
            progress.enter("asking broker 2 (1 of 1)", 1.0)
            self.began.set()
            try:
                await self.may_end.wait()
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
    """A client of one server."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def get(self, path: str) -> DiffAnswer:
        async with self._http.get(path, allow_redirects=False) as response:
            headers = response.headers
            return DiffAnswer(
                response.status, await response.read(), headers.get("Location"), headers.get("Retry-After")
            )

    async def begin(self) -> str:
        """Begin a long comparison, and return its path."""
        answer = await self.get("/v1/diff")
        assert (answer.status, answer.location is not None) == (HTTPStatus.ACCEPTED, True)
        return answer.location or ""

    async def outcome(self, path: str) -> DiffAnswer:
        """Request a comparison until it has ended."""
        async with asyncio.timeout(10):
            answer = await self.get(path)
            while answer.status == HTTPStatus.ACCEPTED:
                answer = await self.get(answer.location or "")
        return answer


@pytest.fixture
async def caller(controller: FakeController, comparer: Comparer) -> AsyncIterator[Caller]:
    async with serving(controller) as url, aiohttp.ClientSession(url) as http:
        yield Caller(http)


async def test_the_result_of_a_short_comparison_comes_at_once(comparer: Comparer, caller: Caller) -> None:
    comparer.may_end.set()

    answer = await caller.get("/v1/diff?brokers=false")

    assert (answer.status, answer.location, comparer.asked) == (HTTPStatus.OK, None, [False])
    assert answer.content(DifferenceList).compared == 4


async def test_a_long_comparison_has_its_own_path(comparer: Comparer, caller: Caller) -> None:
    answer = await caller.get("/v1/diff")
    now = answer.content(Comparing)

    assert (answer.status, answer.location, answer.retry_after) == (HTTPStatus.ACCEPTED, f"/v1/diff/{now.id}", "1")
    assert (now.stage, now.percent) == ("asking broker 2 (1 of 1)", 50.0)
    assert now.elapsed_s > 0
    comparer.may_end.set()
    assert (await caller.outcome(f"/v1/diff/{now.id}")).content(DifferenceList).brokers == [1, 2]


async def test_the_result_of_a_comparison_does_not_change(comparer: Comparer, caller: Caller) -> None:
    path = await caller.begin()
    comparer.may_end.set()

    assert await caller.outcome(path) == await caller.get(path)


async def test_a_comparison_of_the_same_kind_is_joined_and_another_kind_waits(
    comparer: Comparer, caller: Caller
) -> None:
    path = await caller.begin()

    same, other = await asyncio.gather(caller.get("/v1/diff?brokers=true"), caller.get("/v1/diff?brokers=false"))

    assert (same.location, comparer.asked) == (path, [True])
    assert (other.content(Comparing).stage, other.content(Comparing).percent) == (WAITING, None)
    comparer.may_end.set()
    await caller.outcome(other.location or "")
    assert comparer.asked == [True, False]


async def test_an_error_is_the_answer_to_every_request(comparer: Comparer, caller: Caller) -> None:
    path = await caller.begin()
    comparer.error = StoreUnavailable("no session")
    comparer.may_end.set()

    for answer in (await caller.outcome(path), await caller.get(path)):
        problem = answer.content(Problem)
        assert (problem.status, problem.code, problem.detail) == (503, "zookeeper_unavailable", "no session")


async def test_an_unexpected_error_ends_the_comparison(
    comparer: Comparer, caller: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await caller.begin()
    comparer.error = KeyError("t-0")
    comparer.may_end.set()

    problem = (await caller.outcome(path)).content(Problem)

    assert (problem.status, problem.code, problem.hint) == (500, "failed", "the cause is in the log of the daemon")
    assert "comparison failed" in capsys.readouterr().out


async def test_an_unknown_comparison_is_refused_with_a_hint(caller: Caller) -> None:
    problem = (await caller.get("/v1/diff/0123456789abcdef")).content(Problem)

    assert (problem.status, problem.code) == (404, "unknown_comparison")
    assert "there is no comparison '0123456789abcdef'" in problem.detail
    assert problem.hint == "GET /v1/diff begins another"


async def test_a_lost_role_is_the_answer(controller: FakeController, comparer: Comparer, caller: Caller) -> None:
    path = await caller.begin()
    controller.stand_by("broker 2 (built-in) holds the role")

    for answer in (await caller.get(path), await caller.get("/v1/diff")):
        problem = answer.content(Problem)
        assert (problem.status, problem.code) == (409, "not_controller")
        assert "broker 2 (built-in) leads" in problem.detail
    assert comparer.asked == [True]


async def test_a_comparison_across_two_terms_is_refused(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    path = await caller.begin()
    controller.stand_by("a moment")
    controller.lead(5)
    comparer.may_end.set()

    problem = (await caller.outcome(path)).content(Problem)

    assert (problem.status, problem.code) == (409, "not_controller")
    assert "the role was lost during the comparison" in problem.detail


async def test_a_request_in_a_new_term_begins_a_new_comparison(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    stale = await caller.begin()
    controller.lead(5)

    path = await caller.begin()
    comparer.may_end.set()

    assert (await caller.outcome(path)).status == HTTPStatus.OK
    assert (await caller.outcome(stale)).content(Problem).code == "not_controller"


async def test_an_observer_compares_across_the_terms_of_others(
    controller: FakeController, comparer: Comparer, caller: Caller
) -> None:
    controller.observe()
    path = await caller.begin()
    controller.snapshot.controller_epoch += 1
    comparer.may_end.set()

    assert (await caller.outcome(path)).status == HTTPStatus.OK


async def test_a_comparison_under_way_is_cancelled_with_the_server(
    controller: FakeController, comparer: Comparer
) -> None:
    async with serving(controller) as url, aiohttp.ClientSession(url) as http:
        await Caller(http).begin()

    assert comparer.was_cancelled


async def test_very_many_differences_are_counted_and_truncated(controller: FakeController) -> None:
    async def compare(_with_brokers: bool, _progress: ComparisonProgress) -> Comparison:
        differences = tuple(Differing(f"t-{number}", "leader", "1", "2") for number in range(6_000))
        return Comparison(differences=differences, partitions=6_000, brokers=())

    controller.compare = compare
    async with serving(controller) as url, aiohttp.ClientSession(url) as http:
        found = (await Caller(http).outcome("/v1/diff")).content(DifferenceList)

    assert (len(found.items), found.notes) == (5_000, ["6000 differences, of which the first 5000 are shown"])
