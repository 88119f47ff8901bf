"""Pages of lists: cursors that stay valid while a list changes, and ETags for responses that a client has already."""

import base64
import binascii
from collections.abc import Iterable
from http import HTTPStatus
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from controllerd.status.http.problems import Refused

Row = TypeVar("Row")
Key = tuple[int, str, int]
"""The sort key of a row: a value, the topic and the number. No two rows have the same key."""
UNSORTED: Final = 0
"""The first part of the key where rows are in order of topic and number."""

_HINT: Final = "request the first page without a cursor, then each page with next_cursor of the page before"
_key = itemgetter(0)


class Page(NamedTuple, Generic[Row]):
    """One page: its rows in order, the number of rows on all pages, and the cursor of the next page."""

    rows: list[Row]
    total: int
    next_cursor: str | None


class PageBuilder(Generic[Row]):
    """Collects one page out of many rows, given in any order: the rows with the smallest keys after the cursor."""

    def __init__(self, order: str, limit: int, cursor: str) -> None:
        """``order`` names the order of the rows. :raises Refused: the cursor is not one of a list in this order."""
        self.after: Final = _decoded(cursor, order)
        """The last key of the page before; None for the first page."""
        self.total = 0
        self._order = order
        self._limit = limit
        self._rows: list[tuple[Key, Row]] = []

    def add(self, rows: Iterable[tuple[Key, Row]]) -> None:
        """Keep the rows that may be on the page. The caller counts all rows in ``total``."""
        after = self.after
        self._rows += rows if after is None else [row for row in rows if row[0] > after]
        if len(self._rows) > 2 * self._limit + 1_000:
            self._trim()

    @property
    def is_full(self) -> bool:
        """Whether rows with larger keys than all rows so far would be on a later page."""
        return len(self._rows) > self._limit

    def _trim(self) -> None:
        self._rows.sort(key=_key)
        del self._rows[self._limit + 1 :]

    def build(self) -> Page[Row]:
        """Return the page."""
        self._trim()
        rows = self._rows[: self._limit]
        more = _encoded(self._order, rows[-1][0]) if len(self._rows) > self._limit else None
        return Page([row for _, row in rows], self.total, more)


def _encoded(order: str, key: Key) -> str:
    """Return the cursor of the rows after this key, an opaque text."""
    return base64.urlsafe_b64encode(msgspec.json.encode((order, *key))).rstrip(b"=").decode()


def _decoded(cursor: str, order: str) -> Key | None:
    if not cursor:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        key = msgspec.json.decode(text, type=tuple[str, int, str, int])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_cursor", "this is not a cursor of this list", _HINT) from error
    if key[0] != order:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_cursor", f"this is a cursor of another list: {key[0]}", _HINT)
    return key[1:]


def not_modified(request: web.Request, tag: str) -> web.Response | None:
    """Return the response 304 for a client that has the content with this ETag; None for any other client."""
    wanted = request.headers.get("If-None-Match", "")
    known = {part.strip().removeprefix("W/") for part in wanted.split(",")}
    if "*" not in known and tag.removeprefix("W/") not in known:
        return None
    return with_tag(web.Response(status=HTTPStatus.NOT_MODIFIED), tag)


def with_tag(response: web.Response, tag: str) -> web.Response:
    """Add the ETag to a response; a cache must revalidate the response each time."""
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"
    return response
