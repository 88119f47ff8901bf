"""Pages of lists: cursors that stay right while a list changes, and ETags for answers that a client has already."""

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
"""The value that rows are sorted by, then topic and number: no two rows have the same."""
UNSORTED: Final = 0
"""The value where rows are in order of topic and number."""

_HINT: Final = "ask for the first page without cursor, then with next_cursor of the page before"
_key = itemgetter(0)


class CutPage(NamedTuple, Generic[Row]):
    """A page: its rows in order, how many match over all pages, and where the next page begins."""

    rows: list[Row]
    total: int
    next_cursor: str | None


class Window(Generic[Row]):
    """Gathers one page out of very many rows: the smallest keys beyond the cursor. Rows come in any order."""

    def __init__(self, order: str, limit: int, cursor: str) -> None:
        """``order`` names the order of the rows. :raises Refused: the cursor is not one of such a list."""
        self.after: Final = _decoded(cursor, order)
        """The last key of the page before; None for the first page."""
        self.total = 0
        self._order = order
        self._limit = limit
        self._rows: list[tuple[Key, Row]] = []

    def add(self, rows: Iterable[tuple[Key, Row]]) -> None:
        """Keep the rows that may be on the page. The caller counts them, in ``total``."""
        after = self.after
        self._rows += rows if after is None else [row for row in rows if row[0] > after]
        if len(self._rows) > 2 * self._limit + 1_000:
            self._trim()

    @property
    def is_full(self) -> bool:
        """Whether rows that come later in order would be on a later page."""
        return len(self._rows) > self._limit

    def _trim(self) -> None:
        self._rows.sort(key=_key)
        del self._rows[self._limit + 1 :]

    def cut(self) -> CutPage[Row]:
        """Return the page."""
        self._trim()
        rows = self._rows[: self._limit]
        more = _encoded(self._order, rows[-1][0]) if len(self._rows) > self._limit else None
        return CutPage([row for _, row in rows], self.total, more)


def _encoded(order: str, key: Key) -> str:
    """Return the cursor behind this key, an opaque text."""
    return base64.urlsafe_b64encode(msgspec.json.encode((order, *key))).rstrip(b"=").decode()


def _decoded(cursor: str, order: str) -> Key | None:
    if not cursor:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        key = msgspec.json.decode(text, type=tuple[str, int, str, int])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_cursor", "this is no cursor of this list", _HINT) from error
    if key[0] != order:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_cursor", f"this is a cursor of another list: {key[0]}", _HINT)
    return key[1:]


def not_modified(request: web.Request, tag: str) -> web.Response | None:
    """Return the answer 304 for a client that has the content with this ETag; None for any other client."""
    wanted = request.headers.get("If-None-Match", "")
    known = {part.strip().removeprefix("W/") for part in wanted.split(",")}
    if "*" not in known and tag.removeprefix("W/") not in known:
        return None
    return with_tag(web.Response(status=HTTPStatus.NOT_MODIFIED), tag)


def with_tag(response: web.Response, tag: str) -> web.Response:
    """Give an answer its ETag; a cache asks each time whether the answer is still right."""
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"
    return response
