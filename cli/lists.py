"""Lists: one definition each, printed in six formats; the columns are here, the types come from the schema."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import typer

from cli.connect import client_of, note_role
from cli.exit_codes import CliError, ExitCode
from cli.output import clear_screen, note, print_data, print_json, print_table
from cli.settings import CliSettings, OutputFormat

if TYPE_CHECKING:
    from cli.client import Client, Query


Item = TypeVar("Item")
_PAGE: Final = 1_000
"""Items per request: a daemon answers with no more."""
_MANY: Final = 5_000
"""Beyond this number of items the progress is printed."""


class TableColumn(NamedTuple, Generic[Item]):
    """One column of a table; a wide one is shown with ``-o wide`` only."""

    title: str
    show: Callable[[Item], str]
    wide: bool = False
    right: bool = False


class ListOf(Protocol[Item]):
    """A list of the schema."""

    @property
    def items(self) -> list[Item]:
        """The items of this page."""
        ...


@dataclass(frozen=True)
class ListDefinition(Generic[Item]):
    """A list: its path, its columns, and the names of its items."""

    path: str
    columns: Sequence[TableColumn[Item]]
    name: Callable[[Item], str]
    """The name that ``-o name`` prints, fit for the command line."""
    nothing: str
    """The sentence, without a full stop, that is printed for an empty list."""
    is_paged: bool = False
    remark: Callable[[Mapping[str, Any]], str | None] | None = None
    """Return a note below the table, from the document without its items; None if there is none."""


class FetchedList(NamedTuple, Generic[Item]):
    """The items, and the document as the daemon wrote it, all pages in one."""

    items: list[Item]
    body: bytes


def show_list(
    settings: CliSettings,
    listing: ListDefinition[Item],
    kind: "type[ListOf[Item]]",
    query: "Query | None" = None,
    *,
    limit: int | None = None,
    one_line: bool = False,
) -> None:
    """Fetch a list and print it. :raises CliError: there is no answer."""
    client = client_of(settings)
    found = fetch_list(client, listing, kind, query, limit=limit)
    is_known = note_role(client)
    shown = listing if is_known else replace(listing, nothing=f"{listing.nothing}, as far as is known here")
    print_found(settings, shown, found, one_line=one_line)


def fetch_list(
    client: "Client",
    listing: ListDefinition[Item],
    kind: "type[ListOf[Item]]",
    query: "Query | None" = None,
    *,
    limit: int | None = None,
) -> FetchedList[Item]:
    """Fetch all pages, or as many as ``limit`` items need. :raises CliError: there is no answer."""
    pages: list[bytes] = []
    items: list[Item] = []
    asked: dict[str, str | int | bool | None] = dict(query or {})
    while True:
        if listing.is_paged:
            asked["limit"] = _PAGE if limit is None else min(limit - len(items), _PAGE)
        answer = client.get(listing.path, kind, asked)
        pages.append(answer.body)
        items += answer.content.items
        asked["cursor"] = getattr(answer.content, "next_cursor", None)
        if asked["cursor"] is None or (limit is not None and len(items) >= limit):
            break
        _print_progress(len(items), getattr(answer.content, "total", 0))
    return FetchedList(items if limit is None else items[:limit], pages[0] if len(pages) == 1 else _joined(pages))


def print_found(
    settings: CliSettings, listing: ListDefinition[Item], found: FetchedList[Item], *, one_line: bool = False
) -> None:
    """Print the items in the chosen format; ``one_line``: they are one answer of a watch."""
    if one_line:
        print_data(settings, found.body, one_line=True)
        return
    match settings.output:
        case OutputFormat.JSONL:
            for item in _raw(found.body)["items"]:
                print_json(bytes(item), one_line=True)
        case OutputFormat.JSON | OutputFormat.YAML:
            print_data(settings, found.body)
        case OutputFormat.NAME:
            for one in found.items:
                typer.echo(listing.name(one))
        case OutputFormat.TABLE | OutputFormat.WIDE if found.items:
            print_columns(settings, listing.columns, found.items)
            _print_remark(listing, found)
        case OutputFormat.TABLE | OutputFormat.WIDE:
            typer.echo(listing.nothing)


def _print_remark(listing: ListDefinition[Item], found: FetchedList[Item]) -> None:
    import msgspec

    if listing.remark is None:
        return
    fields = {name: msgspec.json.decode(raw) for name, raw in _raw(found.body).items() if name != "items"}
    if (remark := listing.remark(fields)) is not None:
        note(remark)


def print_columns(settings: CliSettings, columns: Sequence[TableColumn[Item]], items: Sequence[Item]) -> None:
    """Print a table; wide columns with ``-o wide`` only."""
    shown = [column for column in columns if settings.output is OutputFormat.WIDE or not column.wide]
    right = frozenset(column.title for column in shown if column.right)
    rows = ([column.show(item) for column in shown] for item in items)
    print_table(settings, [column.title for column in shown], rows, right=right)


def _joined(pages: Sequence[bytes]) -> bytes:
    """Join pages into one document, with the unknown fields of a newer daemon."""
    import msgspec

    documents = [_raw(page) for page in pages]
    items = [item for document in documents for item in document["items"]]
    last_cursor = documents[-1].get("next_cursor")
    return msgspec.json.encode({**documents[0], "items": items, "next_cursor": last_cursor})


def _raw(page: bytes) -> Mapping[str, Any]:
    import msgspec

    outer = msgspec.json.decode(page, type=dict[str, msgspec.Raw])
    return {**outer, "items": msgspec.json.decode(outer["items"], type=list[msgspec.Raw])}


def _print_progress(read: int, total: int) -> None:
    if read % _MANY == 0 and (total > _MANY or not total):
        note(f"read {read} of {total}" if total else f"read {read}")


def repeat_shown(settings: CliSettings, every_s: float | None, show: Callable[[bool], None]) -> None:
    """Call ``show`` once, or every ``every_s`` seconds; its argument says whether to print one line of many."""
    if every_s is None:
        show(False)
        return

    watch(settings, every_s, show)


def watch(settings: CliSettings, every_s: float, show: Callable[[bool], None]) -> None:
    """Call ``show`` every ``every_s`` seconds; its argument says whether to print one line of many.

    While the daemon is unreachable, the watch continues.

    :raises typer.Exit: Ctrl-C. :raises CliError: any other failure.
    """
    try:
        while True:
            if settings.redraws:
                clear_screen()
            try:
                show(not settings.redraws)
            except CliError as error:
                if error.code is not ExitCode.UNREACHABLE:
                    raise
                note(str(error))  # A watch continues after a restart of the daemon.
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt as stop:
        raise typer.Exit(ExitCode.INTERRUPTED) from stop
