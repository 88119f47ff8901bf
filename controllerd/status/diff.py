"""``GET /v1/diff``: what ZooKeeper, this instance's memory and brokers' metadata do not say alike.

That may take longer than an answer should: then it goes on, and is asked after at ``/v1/diff/{id}``.
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from aiohttp import web

from controllerd.core.model import NO_EPOCH
from controllerd.errors import NotController
from controllerd.status.answers import answer
from controllerd.status.comparison import Compare, Comparison, Progress
from controllerd.status.comparison_book import KEPT_S, MAX_KEPT, ROLE_LOST, ComparisonBook, LiveComparison
from controllerd.status.problems import Refused, respond
from controllerd.status.queries import Query, asked, parameters
from controllerd.status.routing import Parameter, Route
from controllerd.status.schema.work import Comparing, Difference, DifferenceList
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_meta
from controllerd.views import Role

SHOWN: Final = 5_000
"""Differences of one answer: where there are more, something larger is wrong than any of them."""
AT_ONCE_S: Final = 0.15
"""So long a caller waits for the end before he is told how far it is."""
_ID: Final = Parameter(name="id", kind=str, description="Id of the comparison.", required=True)
_ANSWERS: Final[Mapping[int, type[msgspec.Struct]]] = MappingProxyType(
    {HTTPStatus.OK: DifferenceList, HTTPStatus.ACCEPTED: Comparing}
)


class DiffQuery(Query, frozen=True, kw_only=True):
    """What to compare."""

    brokers: Annotated[bool, msgspec.Meta(description="Whether brokers are asked for their metadata, too.")] = True


class DiffApi:
    """Comparing, and asking after it."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources
        self._book = ComparisonBook(self._compare)

    def routes(self) -> list[Route]:
        """``/v1/diff``, and each comparison below it."""
        return [
            Route(
                method="GET",
                path="/v1/diff",
                handler=self.diff,
                summary="What ZooKeeper, this instance's memory and brokers' metadata do not say alike",
                query=parameters(DiffQuery),
                answers=_ANSWERS,
            ),
            Route(
                method="GET",
                path="/v1/diff/{id}",
                handler=self.comparison,
                summary="How far a comparison has come, and what it found",
                path_parameters=(_ID,),
                answers=_ANSWERS,
            ),
        ]

    async def close(self) -> None:
        """End what is under way. Harmless when nothing is."""
        await self._book.close()

    async def diff(self, request: web.Request) -> web.Response:
        """Begin a comparison or join the one under way, and wait for it for a moment.

        :raises NotController: this instance does not know the cluster.
        """
        self._refuse_unknowing()
        comparison = self._book.begin(with_brokers=asked(request, DiffQuery).brokers, term=self._term)
        await comparison.wait(AT_ONCE_S)
        return self._answer(comparison)

    async def comparison(self, request: web.Request) -> web.Response:
        """One comparison, as it is now. :raises Refused: it is not known. :raises NotController: as above."""
        self._refuse_unknowing()
        comparison = self._book.find(request.match_info["id"])
        if comparison is None:
            kept = f"the last {MAX_KEPT} are kept, for {KEPT_S / 60:g} minutes after their end"
            detail = f"there is no comparison {request.match_info['id']!r}: {kept}"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_comparison", detail, "GET /v1/diff begins another")
        return self._answer(comparison)

    def _answer(self, comparison: LiveComparison) -> web.Response:
        """What was found, once it is; else how far it is, and where to ask again."""
        if comparison.problem is not None:
            return respond(comparison.problem)
        if comparison.found is not None:
            return answer(comparison.found)
        response = answer(self._comparing(comparison), HTTPStatus.ACCEPTED)
        response.headers.update({"Location": f"/v1/diff/{comparison.id}", "Retry-After": "1"})
        return response

    def _comparing(self, comparison: LiveComparison) -> Comparing:
        progress = comparison.progress
        return Comparing(
            meta=view_meta(self._sources),
            id=comparison.id,
            stage=progress.stage,
            percent=_rounded(progress.percent),
            elapsed_s=round(comparison.elapsed_s, 3),
            eta_seconds=_rounded(progress.eta_s),
        )

    async def _compare(self, with_brokers: bool, progress: Progress) -> DifferenceList:
        """:raises NotController: the role was lost meanwhile, and with it the memory that was compared."""
        compare, term = self._refuse_unknowing(), self._term
        compared = await compare(with_brokers, progress)
        self._refuse_unknowing()
        if self._term != term:
            raise NotController(ROLE_LOST)
        return DifferenceList(
            meta=view_meta(self._sources),
            items=[Difference(**each._asdict()) for each in compared.differences[:SHOWN]],
            compared=compared.partitions,
            brokers=list(compared.brokers),
            notes=_notes(compared),
        )

    @property
    def _term(self) -> tuple[Role, int]:
        """Whose memory is compared; that of an observer outlives the terms of those that it watches."""
        snapshot = self._sources.snapshot()
        return snapshot.role, snapshot.controller_epoch if snapshot.is_active else NO_EPOCH

    def _refuse_unknowing(self) -> Compare:
        snapshot, compare = self._sources.snapshot(), self._sources.compare
        if compare is None:
            detail = "this instance has nothing to compare ZooKeeper with"
            raise Refused(HTTPStatus.CONFLICT, "nothing_to_compare", detail, "ask the daemon that leads")
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        return compare


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _notes(compared: Comparison) -> list[str]:
    notes = [f"broker {broker} was not compared: {why}" for broker, why in sorted(compared.untold.items())]
    if len(compared.differences) > SHOWN:
        notes.append(f"{len(compared.differences)} differences, of which the first {SHOWN} are shown")
    return notes
