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
        self._encoded = b""
        self._page = ""

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

    async def openapi(self, _request: web.Request) -> web.Response:
        """OpenAPI 3.1."""
        self._encoded = self._encoded or await asyncio.to_thread(lambda: self._described().encoded)
        return web.Response(body=self._encoded, content_type=JSON)

    async def docs(self, _request: web.Request) -> web.Response:
        """One page without scripts."""
        self._page = self._page or await asyncio.to_thread(lambda: _rendered(self._described()))
        response = web.Response(text=self._page, content_type=_HTML)
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    def _described(self) -> Document:
        """Made once, away from the loop: that, and compiling and filling a template, takes tens of milliseconds."""
        if self._document is None:
            self._document = Document(self._routes(), daemon_version())
        return self._document


def _rendered(document: Document) -> str:
    templates = Environment(
        loader=PackageLoader("controllerd.status"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return templates.get_template("docs.html.j2").render(api=document.content)
