"""The files of the page: a style, a script and a picture, read once from the package."""

from hashlib import blake2b
from http import HTTPStatus
from importlib.resources import files
from typing import Final, NamedTuple

from aiohttp import web

from controllerd.status.pages import tagged, unchanged
from controllerd.status.routing import Access, Route

FOLDER: Final = "/dashboard"
_TYPES: Final = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file, with its tag: a new release brings new ones."""

    content: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, name: str) -> "Asset":
        """The file of this name."""
        content = files("controllerd.status.dashboard").joinpath("static", name).read_bytes()
        return cls(content, _TYPES[name], f'"{blake2b(content, digest_size=12).hexdigest()}"')

    async def serve(self, request: web.Request) -> web.Response:
        """It, or that the browser has it already."""
        answer = web.Response(body=self.content, content_type=self.media_type, charset="utf-8")
        return unchanged(request, self.tag) or tagged(answer, self.tag)


def asset_routes() -> list[Route]:
    """Open to everybody: they say nothing about the cluster."""
    return [
        Route(
            method="GET",
            path=f"{FOLDER}/{name}",
            handler=Asset.read(name).serve,
            summary=f"{name} of the page for people",
            access=Access.OPEN,
            answers={HTTPStatus.OK: media_type},
        )
        for name, media_type in _TYPES.items()
    ]
