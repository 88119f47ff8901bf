"""``controllerctl events``: the records of the daemon as they are written; a broken connection is continued."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from cli import completion
from cli.arguments import parse_duration
from cli.connect import daemon_client
from cli.exit_codes import CliError, ExitCode
from cli.output import note, print_data
from cli.settings import CliSettings, OutputFormat, settings_of

if TYPE_CHECKING:
    from cli.client import Client, Query


class Message(NamedTuple):
    """One event of a stream; ``data`` is empty for one that only sets an id."""

    event: str
    data: str
    id: str


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Yield every event when its empty line has arrived, without comments, which only keep the connection alive."""
    event, data, last_id = "message", list[str](), ""
    for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if not line:
            if data or last_id:
                yield Message(event, "\n".join(data), last_id)
            event, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                event = value
            case "data":
                data.append(value)
            case "id":
                last_id = value
            case _:
                pass


app: Final = typer.Typer(
    help="Follow the events of the controller.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_AGAIN_S: Final = 1.0
"""Seconds before a broken connection is tried again."""


@app.callback()
def events() -> None:
    """Follow the events of the controller."""


@app.command()
def tail(
    context: typer.Context,
    since: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=parse_duration, help="Begin this long ago, as far as the daemon remembers: 10m."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only records of this kind, such as term or alarm.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", autocompletion=completion.topics, help="Only records that name this topic."),
    ] = None,
) -> None:
    """Print records as they are written, one per line, until Ctrl-C; gaps are reported.

    Examples: controllerctl events tail --since 10m · controllerctl events tail --topic payments -o jsonl
    """
    settings = settings_of(context)
    query: Query = {"since": None if since is None else f"{round(since * 1000)}ms", "kind": kind, "topic": topic}
    try:
        _follow(settings, daemon_client(settings, "the feed of events"), query)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _follow(settings: CliSettings, client: "Client", query: "Query") -> None:
    """Print the feed for ever. :raises CliError: the first connection fails, or a later one is refused."""
    last_id, has_connected = "", False
    while True:
        try:
            for message in _messages(client, query, last_id):
                has_connected = True
                last_id = message.id or last_id
                _print(settings, message)
        except CliError as error:
            if not has_connected or error.code not in {ExitCode.UNREACHABLE, ExitCode.TIMED_OUT}:
                raise
            note(f"{error}; trying again")
        else:
            note("the daemon ended the feed; trying again")
        time.sleep(_AGAIN_S)


def _messages(client: "Client", query: "Query", last_id: str) -> "Iterator[Message]":

    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
    asked = {**query, "since": None} if last_id else query
    with client.stream("/v1/events", asked, headers) as response:
        yield from messages(response)


def _print(settings: CliSettings, message: "Message") -> None:
    """Print a record on a line, and a gap to standard error."""
    if not message.data:
        return
    if message.event == "gap":
        note(f"-- gap: records were missed here ({message.data})")
    elif settings.wants_json:
        print_data(settings, message.data.encode(), one_line=True)
    else:
        _print_line(settings, message.data)
    sys.stdout.flush()


def _print_line(settings: CliSettings, data: str) -> None:
    import msgspec

    from controllerd.status.schema.history import Happening

    happening = msgspec.json.decode(data, type=Happening)
    if settings.output is OutputFormat.NAME:
        typer.echo(happening.id)
        return
    event = f" event {happening.event_id}" if happening.event_id else ""
    wide = f" epoch {happening.controller_epoch}" if settings.output is OutputFormat.WIDE else ""
    typer.echo(f"{happening.at}{wide}{event} {happening.kind}: {happening.summary}")
