"""One page out of very many rows, gathered in slices: the smallest keys beyond the cursor, and how many rows match."""

from collections.abc import Iterable
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

from controllerd.status.pages import cursor_of, key_of

Row = TypeVar("Row")

Key = tuple[int, str, int]
"""The value that rows are sorted by, then topic and number: no two rows have the same."""
NAMED_ONLY: Final = 0
"""The value where rows are in order of topic and number."""

_key = itemgetter(0)


class Cut(NamedTuple, Generic[Row]):
    """A page: its rows in order, how many match over all pages, and where the next page begins."""

    rows: list[Row]
    total: int
    next_cursor: str | None


class Window(Generic[Row]):
    """Takes rows in any order and keeps those of one page."""

    def __init__(self, order: str, limit: int, cursor: str) -> None:
        """``order`` names what the rows are sorted by. :raises Refused: the cursor is not one of such a list."""
        given = key_of(cursor, tuple[str, int, str, int], order)
        self.after: Final[Key | None] = None if given is None else given[1:]
        """The last key of the page before; None for the first page."""
        self.total = 0
        self._order = order
        self._limit = limit
        self._rows: list[tuple[Key, Row]] = []

    def add(self, rows: Iterable[tuple[Key, Row]]) -> None:
        """Keep those that may be on the page. They are counted by whoever calls, in ``total``."""
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

    def cut(self) -> Cut[Row]:
        """The page."""
        self._trim()
        rows = self._rows[: self._limit]
        more = cursor_of((self._order, *rows[-1][0])) if len(self._rows) > self._limit else None
        return Cut([row for _, row in rows], self.total, more)
