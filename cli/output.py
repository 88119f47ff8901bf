"""Printing: data to standard output, everything else to standard error, nothing cut off when it is not a terminal."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from cli.settings import OutputFormat, Settings
from controllerd.core.visible import visible

if TYPE_CHECKING:
    import msgspec
    from rich.table import Table

_WIDE = 10_000
_hushed = {"notes": False}


def be_quiet(*, quiet: bool) -> None:
    """From now on ``note`` says nothing, or says it again."""
    _hushed["notes"] = quiet


def note(text: str) -> None:
    """A line for people, beside the data; one that cannot be written does not make the answer fail."""
    if not _hushed["notes"]:
        with suppress(OSError):
            typer.echo(text, err=True)


def is_watched() -> bool:
    """Whether standard error is a terminal, where progress is a bar; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


# -- data --------------------------------------------------------------------------------------------------------------


def print_json(body: bytes, *, one_line: bool = False) -> None:
    """The daemon's JSON, indented unless it is one of many lines."""
    import msgspec

    typer.echo(msgspec.json.format(body, indent=-1 if one_line else 2).decode())


def print_struct(content: "msgspec.Struct") -> None:
    """A value as indented JSON."""
    import msgspec

    print_json(msgspec.json.encode(content))


def print_data(settings: Settings, body: bytes, *, one_line: bool = False) -> None:
    """One JSON document in the format that was asked for; ``one_line``: it is one picture of a watch."""
    if settings.output is OutputFormat.YAML:
        typer.echo(("---\n" if one_line else "") + _yaml(body), nl=False)
    else:
        print_json(body, one_line=one_line or settings.output is OutputFormat.JSONL)


def _yaml(body: bytes) -> str:
    """In block style, fields in the order of the JSON, a text always on one line."""
    import msgspec
    import yaml

    content = msgspec.json.decode(body)
    return str(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=_WIDE))


def print_value(settings: Settings, value: Any) -> None:
    """Anything that msgspec encodes, in the format that was asked for."""
    import msgspec

    print_data(settings, msgspec.json.encode(value))


# -- tables ------------------------------------------------------------------------------------------------------------


def print_facts(settings: Settings, facts: Iterable[tuple[str, str]]) -> None:
    """Names and values in two columns."""
    facts = [(name, visible(value)) for name, value in facts]
    if not sys.stdout.isatty():
        _print_plain(facts, (False, False))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row(Text(name, style="bold"), Text(value))
    _print(settings, table)


def print_table(
    settings: Settings, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[str] = frozenset()
) -> None:
    """Rows under headings; of the columns in ``right`` the ends are flush."""
    rows = [[visible(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        shown = [columns, *rows] if settings.headers else rows
        _print_plain(shown, [column in right for column in columns])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=settings.headers)
    for column in columns:
        # a host and port cut short are of no use
        table.add_column(column, overflow="fold", justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    _print(settings, table)


def _print_plain(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """For a pipe: aligned, one line for each row, whatever the width; much faster than for a terminal."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        )
        typer.echo("  ".join(cells).rstrip())


_STYLES = {
    "OfflinePartition": "bold red",
    "OfflineReplica": "red",
    "critical": "bold red",
    "failed": "bold red",
    "warning": "yellow",
    "unreachable": "red",
    "ok": "green",
}


def _style(cell: str) -> str:
    return _STYLES.get(cell, "")


def clear_screen() -> None:
    """Make room for the next picture of a watch."""
    typer.echo("\x1b[2J\x1b[H", nl=False)


def _print(settings: Settings, table: "Table") -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, no_color=not settings.color, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())
