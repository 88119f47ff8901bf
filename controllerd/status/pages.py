"""Pages of lists: cursors that stay right while the list changes, and answers that need not be sent again."""

import base64
import binascii
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from controllerd.status.problems import Refused
from controllerd.status.sources import StatusSources

Key = TypeVar("Key", bound=tuple[object, ...])

_CURSORS: Final = "ask for the first page without cursor, then with next_cursor of the page before"


def cursor_of(key: object) -> str:
    """An opaque text that stands for the last key of a page; whatever follows it in order is on the next one."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).rstrip(b"=").decode()


def key_of(cursor: str, kind: type[Key], order: str) -> Key | None:
    """What ``cursor_of`` was given, whose first item is ``order``; None for the first page.

    :raises Refused: this was no cursor of a list in this order.
    """
    if not cursor:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        key = msgspec.json.decode(text, type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_cursor", "this is no cursor of this list", _CURSORS) from error
    if key[0] != order:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_cursor", f"this is a cursor of another list: {key[0]}", _CURSORS)
    return key


def tag_of(sources: StatusSources, *extras: object) -> str:
    """An ETag: equal ones mean the same picture, of the same run of the same instance."""
    snapshot = sources.snapshot()
    parts = (sources.recent.boot, snapshot.version, snapshot.role.value, *extras)
    return f'W/"{"-".join(map(str, parts))}"'


def unchanged(request: web.Request, tag: str) -> web.Response | None:
    """The answer to a caller that has this very picture already; None for everybody else."""
    wanted = request.headers.get("If-None-Match", "")
    known = {part.strip().removeprefix("W/") for part in wanted.split(",")}
    if "*" not in known and tag.removeprefix("W/") not in known:
        return None
    return tagged(web.Response(status=HTTPStatus.NOT_MODIFIED), tag)


def tagged(response: web.Response, tag: str) -> web.Response:
    """The same with its tag; whoever keeps it asks each time whether it is still right."""
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"
    return response
