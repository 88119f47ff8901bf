"""Print data to standard output, everything else to standard error; outside a terminal no line is cut off."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import typer

from cli.settings import CliSettings, OutputFormat
from controllerd.core.text import visible

if TYPE_CHECKING:
    import msgspec
    from rich.table import Table


_WIDE = 10_000
_hushed = {"notes": False}


def be_quiet(*, quiet: bool) -> None:
    """Silence ``note`` from now on, or end the silence."""
    _hushed["notes"] = quiet


def note(text: str) -> None:
    """Print a line to standard error; a failure to write it does not fail the command."""
    if not _hushed["notes"]:
        with suppress(OSError):
            typer.echo(text, err=True)


def is_watched() -> bool:
    """Return whether standard error is a terminal, where progress is a bar; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


# -- data --------------------------------------------------------------------------------------------------------------


def print_json(body: bytes, *, one_line: bool = False) -> None:
    """Print the daemon's JSON, indented unless it is one of many lines."""
    import msgspec

    typer.echo(msgspec.json.format(body, indent=-1 if one_line else 2).decode())


def print_struct(content: "msgspec.Struct") -> None:
    """Print a value as indented JSON."""
    import msgspec

    print_json(msgspec.json.encode(content))


def print_data(settings: CliSettings, body: bytes, *, one_line: bool = False) -> None:
    """Print one JSON document in the requested format; ``one_line``: it is one answer of a watch."""
    if settings.output is OutputFormat.YAML:
        typer.echo(("---\n" if one_line else "") + _yaml(body), nl=False)
    else:
        print_json(body, one_line=one_line or settings.output is OutputFormat.JSONL)


def _yaml(body: bytes) -> str:
    """Return YAML in block style, with fields in the order of the JSON, and each text on one line."""
    import msgspec
    import yaml

    content = msgspec.json.decode(body)
    return str(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=_WIDE))


def print_value(settings: CliSettings, value: Any) -> None:
    """Print a value that msgspec can encode, in the requested format."""
    import msgspec

    print_data(settings, msgspec.json.encode(value))


# -- tables ------------------------------------------------------------------------------------------------------------


def print_facts(settings: CliSettings, facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
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
    settings: CliSettings, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[str] = frozenset()
) -> None:
    """Print rows under headings; the columns in ``right`` are aligned to the right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        shown = [columns, *rows] if settings.headers else rows
        _print_plain(shown, [column in right for column in columns])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=settings.headers)
    for column in columns:
        # A shortened host and port would be useless.
        table.add_column(column, overflow="fold", justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    _print(settings, table)


def _print_plain(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """Print rows for a pipe: aligned, one line each, of any width; much faster than for a terminal."""
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
    """Clear the terminal before the next answer of a watch."""
    typer.echo("\x1b[2J\x1b[H", nl=False)


def _print(settings: CliSettings, table: "Table") -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, no_color=not settings.color, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024.0


def human_duration(seconds: float) -> str:
    """Return a duration as ``12 ms``, ``1.5 s``, ``4m12s``, ``2h05m`` or ``3d04h``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)}m{int(seconds % _MINUTE):02}s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)}h{int(seconds % _HOUR // _MINUTE):02}m"
    return f"{int(seconds // _DAY)}d{int(seconds % _DAY // _HOUR):02}h"


def human_bytes(number: float) -> str:
    """Return a size as ``512 B``, ``1.5 KiB`` or ``20 GiB``."""
    size, unit = float(number), 0
    while size >= _STEP and unit < len(_BINARY) - 1:
        size, unit = size / _STEP, unit + 1
    shown = f"{size:.0f}" if unit == 0 or size >= 10 else f"{size:.1f}"
    return f"{shown} {_BINARY[unit]}"


def human_rate(bytes_per_s: float) -> str:
    """Return a rate as ``1.5 MiB/s``."""
    return f"{human_bytes(bytes_per_s)}/s"


def ids(numbers: Sequence[int]) -> str:
    """Return ids as ``1,2,3``, or a dash for none."""
    return ",".join(map(str, numbers)) or "-"


def dash(value: object) -> str:
    """Return the value, or a dash if it is not known."""
    return "-" if value is None or value == "" else str(value)
