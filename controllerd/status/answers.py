"""Answers that are not problems: JSON of the schema's types."""

from http import HTTPStatus

import msgspec
from aiohttp import web


def answer(content: msgspec.Struct, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """One of the schema's types as JSON."""
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")
