"""``GET /v1/diff``: differences between ZooKeeper, the memory of this instance and the metadata of brokers.

A comparison may take longer than a response should. It then continues, and its result is at ``/v1/diff/{id}``. A client
that requests a comparison of the same kind joins the one under way, so that there is at most one of each kind.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import uuid4

import msgspec
import structlog
from aiohttp import web

from controllerd.core.model import NO_EPOCH
from controllerd.errors import ControllerdError, NotController
from controllerd.slicer import loop_time
from controllerd.status.http.problems import Refused, problem_of, respond
from controllerd.status.http.routing import Answers, Api, Parameter, Query, answer, parse_query, route
from controllerd.status.reads.comparison import Compare, Comparison, ComparisonProgress
from controllerd.status.schema.common import Problem
from controllerd.status.schema.work import Comparing, Difference, DifferenceList
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_meta
from controllerd.views import Role

log = structlog.get_logger(__name__)

KEPT_S: Final = 600.0
MAX_KEPT: Final = 4
SHOWN: Final = 5_000
"""The number of differences in one answer. If there are more, they have a larger common cause."""
AT_ONCE_S: Final = 0.15
"""After this time, a client that waits gets the progress instead of the result."""
_ROLE_LOST: Final = "the role was lost during the comparison, so its result is not valid: try again"
_ID: Final = Parameter(name="id", kind=str, description="Id of the comparison.")
_ANSWERS: Final[Answers] = {HTTPStatus.OK: DifferenceList, HTTPStatus.ACCEPTED: Comparing}

CompareAndView = Callable[[bool, ComparisonProgress], Coroutine[Any, Any, DifferenceList]]
"""Compares, with brokers or without, reports its progress, and returns the result in the form of the HTTP API."""


class LiveComparison:
    """One comparison. It continues without a client that waits for it."""

    def __init__(
        self, compare: CompareAndView, clock: Callable[[], float], *, with_brokers: bool, term: Hashable
    ) -> None:
        """``term``: the role and term in which the memory is compared."""
        self.id: Final = uuid4().hex[:16]
        self.kind: Final = (with_brokers, term)
        self.progress: Final = ComparisonProgress(clock)
        self.ended: float | None = None
        """The time of its end, by the clock; None while it is under way."""
        self.found: DifferenceList | None = None
        self.problem: Problem | None = None
        """The problem because of which there is no result."""
        self._clock = clock
        self._began = clock()
        self._over = asyncio.Event()
        self._task: asyncio.Task[DifferenceList] | None = asyncio.create_task(
            compare(with_brokers, self.progress), name=f"comparison {self.id}"
        )
        self._task.add_done_callback(self._end)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the request."""
        return (self._clock() if self.ended is None else self.ended) - self._began

    async def wait(self, at_most_s: float) -> None:
        """Wait for its end, for at most this time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), at_most_s)

    def cancel(self) -> None:
        """Cancel it, because its result is not needed. Harmless after its end."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cancel it, and wait for its end."""
        self.cancel()
        await self._over.wait()

    def _end(self, task: "asyncio.Task[DifferenceList]") -> None:
        """Keep only the answer: the traceback of an error would keep everything that was read in memory."""
        self.ended, self._task = self._clock(), None
        if task.cancelled():
            self.problem = problem_of(NotController(_ROLE_LOST))
        elif (error := task.exception()) is not None:
            self.problem = _problem(error, self.id)
        else:
            self.found = task.result()
        self._over.set()


def _problem(error: BaseException, comparison: str) -> Problem:
    if isinstance(error, Refused):
        return error.problem
    named = error if isinstance(error, ControllerdError) else ControllerdError(f"it failed: {type(error).__name__}")
    problem = problem_of(named)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("comparison failed", comparison=comparison, exc_info=error)
    return problem


class Comparisons:
    """The comparisons under way, and the last few that ended. They are cancelled when the server stops."""

    def __init__(self, compare: CompareAndView, clock: Callable[[], float] = loop_time) -> None:
        """``clock`` returns monotonic seconds."""
        self._compare = compare
        self._clock = clock
        self._known: dict[str, LiveComparison] = {}

    def begin(self, *, with_brokers: bool, term: Hashable = None) -> LiveComparison:
        """Begin a comparison, or return one of the same kind that is under way; cancel those of other terms."""
        self._sweep()
        live = [known for known in self._known.values() if known.ended is None]
        for known in live:
            if known.kind == (with_brokers, term):
                return known
            if known.kind[1] != term:
                known.cancel()
        new = LiveComparison(self._compare, self._clock, with_brokers=with_brokers, term=term)
        self._known[new.id] = new
        return new

    def find(self, comparison_id: str) -> LiveComparison | None:
        """Return a comparison that is under way or among the last few that ended; None for any other."""
        self._sweep()
        return self._known.get(comparison_id)

    async def close(self) -> None:
        """Cancel the comparisons under way. Harmless without any."""
        for known in self._known.values():
            if known.ended is None:
                await known.close()

    def _sweep(self) -> None:
        """Remove comparisons that ended long ago, and the oldest of too many."""
        ended = sorted((known.ended, known.id) for known in self._known.values() if known.ended is not None)
        horizon, surplus = self._clock() - KEPT_S, len(ended) - MAX_KEPT
        for number, (at, comparison_id) in enumerate(ended):
            if number < surplus or at < horizon:
                del self._known[comparison_id]


class DiffQuery(Query, frozen=True, kw_only=True):
    """The query of a comparison."""

    brokers: Annotated[bool, msgspec.Meta(description="Whether to compare the metadata of brokers as well.")] = True


class DiffApi(Api):
    """The endpoints that begin and show comparisons."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources
        self._comparisons = Comparisons(self._compare)

    async def close(self) -> None:
        """Cancel the comparisons under way. Harmless without any."""
        await self._comparisons.close()

    @route(
        "/v1/diff",
        "Differences between ZooKeeper, the memory of this instance and the metadata of brokers",
        _ANSWERS,
        query=DiffQuery,
    )
    async def diff(self, request: web.Request) -> web.Response:
        """Begin a comparison or join the one under way, and wait for it for a moment.

        :raises NotController: this instance does not know the cluster.
        """
        self._require_knowledge()
        comparison = self._comparisons.begin(with_brokers=parse_query(request, DiffQuery).brokers, term=self._term)
        await comparison.wait(AT_ONCE_S)
        return self._answer(comparison)

    @route("/v1/diff/{id}", "Progress or result of a comparison", _ANSWERS, _ID)
    async def comparison(self, request: web.Request) -> web.Response:
        """Answer with one comparison.

        :raises Refused: it is not known. :raises NotController: this instance does not know the cluster.
        """
        self._require_knowledge()
        comparison = self._comparisons.find(request.match_info["id"])
        if comparison is None:
            kept = f"the last {MAX_KEPT} are kept, for {KEPT_S / 60:g} minutes after their end"
            detail = f"there is no comparison {request.match_info['id']!r}: {kept}"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_comparison", detail, "GET /v1/diff begins another")
        return self._answer(comparison)

    def _answer(self, comparison: LiveComparison) -> web.Response:
        """Return the result, or the progress with the path to ask again."""
        if comparison.problem is not None:
            return respond(comparison.problem)
        if comparison.found is not None:
            return answer(comparison.found)
        progress = comparison.progress
        content = Comparing(
            meta=view_meta(self._sources),
            id=comparison.id,
            stage=progress.stage,
            percent=None if progress.percent is None else round(progress.percent, 1),
            elapsed_s=round(comparison.elapsed_s, 3),
            eta_seconds=None if progress.eta_s is None else round(progress.eta_s, 1),
        )
        response = answer(content, HTTPStatus.ACCEPTED)
        response.headers.update({"Location": f"/v1/diff/{comparison.id}", "Retry-After": "1"})
        return response

    async def _compare(self, with_brokers: bool, progress: ComparisonProgress) -> DifferenceList:
        """:raises NotController: the role was lost meanwhile, and with it the memory that was compared."""
        compare, term = self._require_knowledge(), self._term
        compared = await compare(with_brokers, progress)
        self._require_knowledge()
        if self._term != term:
            raise NotController(_ROLE_LOST)
        return DifferenceList(
            meta=view_meta(self._sources),
            items=[Difference(**each._asdict()) for each in compared.differences[:SHOWN]],
            compared=compared.partitions,
            brokers=list(compared.brokers),
            notes=_notes(compared),
        )

    @property
    def _term(self) -> tuple[Role, int]:
        """The role and term of the memory; the memory of an observer is kept across the terms of other controllers."""
        snapshot = self._sources.snapshot()
        return snapshot.role, snapshot.controller_epoch if snapshot.is_active else NO_EPOCH

    def _require_knowledge(self) -> Compare:
        snapshot, compare = self._sources.snapshot(), self._sources.compare
        if compare is None:
            detail = "this instance has nothing to compare ZooKeeper with"
            raise Refused(HTTPStatus.CONFLICT, "nothing_to_compare", detail, "ask the active controller")
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        return compare


def _notes(compared: Comparison) -> list[str]:
    notes = [f"broker {broker} was not compared: {why}" for broker, why in sorted(compared.unanswered.items())]
    if len(compared.differences) > SHOWN:
        notes.append(f"{len(compared.differences)} differences, of which the first {SHOWN} are shown")
    return notes
