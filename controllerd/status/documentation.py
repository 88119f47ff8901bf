"""``/openapi.json`` and ``/docs``: what can be asked for, for programs and for people."""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from controllerd.status.openapi import JSON, Document
from controllerd.status.routing import Route
from controllerd.status.view import daemon_version

_HTML: Final = "text/html"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The page brings its own style, and asks nobody for anything."""


class DocumentationApi:
    """Describes every route, itself included."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        """``routes``: everything that is served; asked when somebody wants to know."""
        self._routes = routes
        self._document: Document | None = None
        self._page: str | None = None

    def routes(self) -> list[Route]:
        """``/openapi.json`` and ``/docs``."""
        return [
            Route(
                method="GET",
                path="/openapi.json",
                handler=self.openapi,
                summary="This description, for programs",
                answers={HTTPStatus.OK: JSON},
            ),
            Route(
                method="GET",
                path="/docs",
                handler=self.docs,
                summary="This description, for people",
                answers={HTTPStatus.OK: _HTML},
            ),
        ]

    @property
    def document(self) -> Document:
        """Made once."""
        if self._document is None:
            self._document = Document(self._routes(), daemon_version())
        return self._document

    async def openapi(self, _request: web.Request) -> web.Response:
        """OpenAPI 3.1."""
        return web.Response(body=self.document.encoded, content_type=JSON)

    async def docs(self, _request: web.Request) -> web.Response:
        """One page without scripts."""
        if self._page is None:  # away from the loop: compiling a template and filling it takes tens of milliseconds
            self._page = await asyncio.to_thread(_rendered, self.document)
        response = web.Response(text=self._page, content_type=_HTML)
        response.headers["Content-Security-Policy"] = _POLICY
        return response


def _rendered(document: Document) -> str:
    templates = Environment(
        loader=PackageLoader("controllerd.status"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return templates.get_template("docs.html.j2").render(api=document.content)
