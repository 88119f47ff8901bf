"""Printing: data to standard output, everything else to standard error, nothing cut off when it is not a terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from cli.settings import Settings

if TYPE_CHECKING:
    import msgspec
    from rich.table import Table

_WIDE = 10_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def print_json(body: bytes, *, one_line: bool = False) -> None:
    """The daemon's JSON, indented unless it is one of many lines."""
    import msgspec

    typer.echo(msgspec.json.format(body, indent=-1 if one_line else 2).decode())


def print_struct(content: "msgspec.Struct") -> None:
    """A value as indented JSON."""
    import msgspec

    print_json(msgspec.json.encode(content))


def print_facts(settings: Settings, facts: Iterable[tuple[str, str]]) -> None:
    """Names and values in two columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row(Text(name, style="bold"), Text(value))
    _print(settings, table)


def print_table(settings: Settings, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headings."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")  # a host and port cut short are of no use
    for row in rows:
        table.add_row(*map(Text, row))
    _print(settings, table)


def note(text: str) -> None:
    """A line for people, beside the data."""
    typer.echo(text, err=True)


def clear_screen() -> None:
    """Make room for the next picture of a watch."""
    typer.echo("\x1b[2J\x1b[H", nl=False)


def human_duration(seconds: float) -> str:
    """``12 ms``, ``1.5 s``, ``4m12s``, ``2h05m``, ``3d04h``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)}m{int(seconds % _MINUTE):02}s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)}h{int(seconds % _HOUR // _MINUTE):02}m"
    return f"{int(seconds // _DAY)}d{int(seconds % _DAY // _HOUR):02}h"


def _print(settings: Settings, table: "Table") -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDE
    console = Console(file=sys.stdout, width=width, no_color=not settings.color, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())
