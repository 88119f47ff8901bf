"""``GET /v1/diff``: what ZooKeeper, this instance's memory and brokers' metadata do not say alike."""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from aiohttp import web

from controllerd.errors import NotController
from controllerd.snapshot import Role
from controllerd.status.answers import answer
from controllerd.status.comparison import Comparison
from controllerd.status.problems import Refused
from controllerd.status.queries import Query, asked, parameters
from controllerd.status.routing import Route
from controllerd.status.schema.work import Difference, DifferenceList
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_meta

SHOWN: Final = 5_000
"""Differences of one answer: where there are more, something larger is wrong than any of them."""


class DiffQuery(Query, frozen=True, kw_only=True):
    """What to compare."""

    brokers: Annotated[bool, msgspec.Meta(description="Whether brokers are asked for their metadata, too.")] = True


class DiffApi:
    """Comparing, while the caller waits."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources

    def routes(self) -> list[Route]:
        """``/v1/diff``."""
        return [
            Route(
                method="GET",
                path="/v1/diff",
                handler=self.diff,
                summary="What ZooKeeper, this instance's memory and brokers' metadata do not say alike",
                query=parameters(DiffQuery),
                answers={HTTPStatus.OK: DifferenceList},
            )
        ]

    async def diff(self, request: web.Request) -> web.Response:
        """Compare now, twice where anything differs. :raises NotController: this instance does not know the cluster."""
        snapshot, compare = self._sources.snapshot(), self._sources.compare
        if compare is None:
            detail = "this instance has nothing to compare ZooKeeper with"
            raise Refused(HTTPStatus.CONFLICT, "nothing_to_compare", detail, "ask the daemon that leads")
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        compared = await compare(asked(request, DiffQuery).brokers)
        items = [Difference(**each._asdict()) for each in compared.differences[:SHOWN]]
        return answer(
            DifferenceList(
                meta=view_meta(self._sources),
                items=items,
                compared=compared.partitions,
                brokers=list(compared.brokers),
                notes=_notes(compared),
            )
        )


def _notes(compared: Comparison) -> list[str]:
    notes = [f"broker {broker} was not compared: {why}" for broker, why in sorted(compared.untold.items())]
    if len(compared.differences) > SHOWN:
        notes.append(f"{len(compared.differences)} differences, of which the first {SHOWN} are shown")
    return notes
