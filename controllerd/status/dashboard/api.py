"""The page for people at ``/``: what is wrong, why, and what to do next. It only reads.

The server writes the whole page, so that it is right without scripts; the script asks for it again when something
happens and puts what is new into its place. Where tokens are configured, who sends none gets a form that asks for one.
"""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.status.access import RANK
from controllerd.status.dashboard.answers import PageQuery, answer_list, answer_why
from controllerd.status.dashboard.assets import asset_routes
from controllerd.status.dashboard.picture import Gatherer, Picture
from controllerd.status.dashboard.templating import template
from controllerd.status.pages import tagged, unchanged
from controllerd.status.problems import Refused
from controllerd.status.queries import asked, parameters
from controllerd.status.reads.api import ReadApi
from controllerd.status.routing import Access, Route
from controllerd.status.sources import StatusSources
from controllerd.status.tokens import Rank
from controllerd.status.view import daemon_version

_HTML: Final = "text/html"
_POLICY: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_ASK: Final = {"WWW-Authenticate": 'Bearer realm="controllerd"'}
"""Without ``Basic``, for which a browser would show a window of its own."""


class DashboardApi:
    """One page, and the files that it needs."""

    def __init__(self, sources: StatusSources, reads: ReadApi) -> None:
        """``reads``: shares what it has counted."""
        self._reads = reads
        self._gatherer = Gatherer(sources, reads)
        self._page = template("dashboard.html.j2")
        self._locked = template("locked.html.j2")

    def routes(self) -> list[Route]:
        """``/`` and its files."""
        page = Route(
            method="GET",
            path="/",
            handler=self.page,
            summary="The page for people",
            access=Access.OPEN,
            query=parameters(PageQuery),
            answers={HTTPStatus.OK: _HTML},
        )
        return [page, *asset_routes()]

    async def page(self, request: web.Request) -> web.Response:
        """The page, or the form that asks for a token. :raises Refused: the token is not one of ours."""
        if request.get(RANK, Rank.NONE) < Rank.READ:
            if "Authorization" in request.headers:
                detail = "this token is not one of ours"
                raise Refused(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, "send another", headers=_ASK)
            return _html(self._locked.render(version=daemon_version()))
        query = asked(request, PageQuery)
        picture = await self._gatherer.picture()
        same = unchanged(request, picture.tag)
        return same if same is not None else tagged(_html(await self._render(query, picture)), picture.tag)

    async def _render(self, query: PageQuery, picture: Picture) -> str:
        why = await answer_why(self._reads, query.why.strip()) if query.why.strip() else None
        listing = await answer_list(self._reads, query.list, query.cursor) if query.list else None
        pace, parts = await self._reads.reading.pace(), list[str]()
        for part in self._page.generate(p=picture, why=why, listing=listing, asked=query, version=daemon_version()):
            parts.append(part)
            await pace.breathe()
        return "".join(parts)


def _html(text: str) -> web.Response:
    response = web.Response(text=text, content_type=_HTML)
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
