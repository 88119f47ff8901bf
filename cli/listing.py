"""One description of a list, six ways to print it: columns are told once, the type comes from the schema."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import typer

from cli.exit_codes import CliError, ExitCode
from cli.output import note, print_data, print_json, print_table
from cli.settings import OutputFormat, Settings

if TYPE_CHECKING:
    from cli.client import Client, Query, RoleAnswer

Item = TypeVar("Item")
_PAGE: Final = 1_000
"""Items of one request: a daemon answers with no more."""
_MANY: Final = 5_000
"""Beyond so many items it is said how far the reading has come."""


class Column(NamedTuple, Generic[Item]):
    """One column of a table; a wide one is shown with ``-o wide`` only."""

    title: str
    show: Callable[[Item], str]
    wide: bool = False
    right: bool = False


class ListOf(Protocol[Item]):
    """What every list of the schema has."""

    @property
    def items(self) -> list[Item]:
        """The items of this page."""
        ...


@dataclass(frozen=True)
class Listing(Generic[Item]):
    """What is listed, and how it looks."""

    path: str
    columns: Sequence[Column[Item]]
    name: Callable[[Item], str]
    """What ``-o name`` prints: fit for the command line."""
    nothing: str
    """What an empty table says instead, as a sentence without a full stop."""
    is_paged: bool = False
    remark: Callable[[Mapping[str, Any]], str | None] | None = None
    """Return a note below the table, from the document without its items; None if there is none."""


class Found(NamedTuple, Generic[Item]):
    """Everything that was asked for: the items, and the document as the daemon wrote it, all pages in one."""

    items: list[Item]
    body: bytes


def show_list(
    settings: Settings,
    listing: Listing[Item],
    kind: "type[ListOf[Item]]",
    query: "Query | None" = None,
    *,
    limit: int | None = None,
    one_line: bool = False,
) -> None:
    """Ask and print. :raises CliError: there is no answer."""
    client = settings.client()
    found = fetch_list(client, listing, kind, query, limit=limit)
    is_known = say_who_leads(client)
    shown = listing if is_known else replace(listing, nothing=f"{listing.nothing}, as far as is known here")
    print_found(settings, shown, found, one_line=one_line)


def fetch_list(
    client: "Client",
    listing: Listing[Item],
    kind: "type[ListOf[Item]]",
    query: "Query | None" = None,
    *,
    limit: int | None = None,
) -> Found[Item]:
    """All pages, or as many as ``limit`` items need. :raises CliError: there is no answer."""
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
        _tell_progress(len(items), getattr(answer.content, "total", 0))
    return Found(items if limit is None else items[:limit], pages[0] if len(pages) == 1 else _joined(pages))


def print_found(settings: Settings, listing: Listing[Item], found: Found[Item], *, one_line: bool = False) -> None:
    """The items in the format that was asked for; ``one_line``: they are one picture of a watch."""
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


def _print_remark(listing: Listing[Item], found: Found[Item]) -> None:
    import msgspec

    if listing.remark is None:
        return
    fields = {name: msgspec.json.decode(raw) for name, raw in _raw(found.body).items() if name != "items"}
    if (remark := listing.remark(fields)) is not None:
        note(remark)


def print_columns(settings: Settings, columns: Sequence[Column[Item]], items: Sequence[Item]) -> None:
    """A table of the columns that this width has."""
    shown = [column for column in columns if settings.output is OutputFormat.WIDE or not column.wide]
    right = frozenset(column.title for column in shown if column.right)
    rows = ([column.show(item) for column in shown] for item in items)
    print_table(settings, [column.title for column in shown], rows, right=right)


def say_who_leads(client: "Client") -> bool:
    """Say that a standby knows little; nothing, and true, where the answer comes from a leader or an observer."""
    now = client.role()
    if not _knows_cluster(now):
        note(f"this instance is no controller now ({now.role}: {now.reason}): it shows what it knows; ask who leads")
    return _knows_cluster(now)


def refuse_unknowing(client: "Client") -> None:
    """:raises CliError: this instance does not follow the cluster, so that its answer would mean nothing."""
    now = client.role()
    if not _knows_cluster(now):
        message = (
            f"this instance does not know the cluster ({now.role}: {now.reason}): "
            "name the one that leads with --api URL, or ZooKeeper with --zk HOSTS"
        )
        raise CliError(ExitCode.REFUSED, message)


def _knows_cluster(now: "RoleAnswer") -> bool:
    return now.role in {"active", "observer"}


def _joined(pages: Sequence[bytes]) -> bytes:
    """One document of many pages, with every field that a newer daemon may have put in."""
    import msgspec

    documents = [_raw(page) for page in pages]
    items = [item for document in documents for item in document["items"]]
    last_cursor = documents[-1].get("next_cursor")
    return msgspec.json.encode({**documents[0], "items": items, "next_cursor": last_cursor})


def _raw(page: bytes) -> Mapping[str, Any]:
    import msgspec

    outer = msgspec.json.decode(page, type=dict[str, msgspec.Raw])
    return {**outer, "items": msgspec.json.decode(outer["items"], type=list[msgspec.Raw])}


def _tell_progress(read: int, total: int) -> None:
    if read % _MANY == 0 and (total > _MANY or not total):
        note(f"read {read} of {total}" if total else f"read {read}")


def pictures(settings: Settings, every_s: float | None, show: Callable[[bool], None]) -> None:
    """Show it once, or again and again; ``show`` is told whether it is one of many lines."""
    if every_s is None:
        show(False)
        return
    from cli.watching import watch

    watch(settings, every_s, show)
