"""``controllerctl events``: what happens, as it happens; the connection may break and is taken up where it ended."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import completion
from cli.exit_codes import CliError, ExitCode
from cli.output import note, print_data
from cli.settings import OutputFormat, Settings, parse_duration, settings_of

if TYPE_CHECKING:
    from cli.client import Client, Query
    from cli.event_stream import Message

app: Final = typer.Typer(
    help="Follow what the controller does.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_AGAIN_S: Final = 1.0
"""Seconds before a broken connection is tried again."""


@app.callback()
def events() -> None:
    """Follow what the controller does."""


@app.command()
def tail(
    context: typer.Context,
    since: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=parse_duration, help="Begin so far back, as far as is remembered: 10m."),
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only this kind, such as term or alarm.")] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", autocompletion=completion.topics, help="Only what names this topic.")
    ] = None,
) -> None:
    """Print what happens, a line for each record, until Ctrl-C; what was missed is said.

    Examples: controllerctl events tail --since 10m · controllerctl events tail --topic payments -o jsonl
    """
    settings = settings_of(context)
    query: Query = {"since": None if since is None else f"{round(since * 1000)}ms", "kind": kind, "topic": topic}
    try:
        _follow(settings, settings.asking_client("what happens"), query)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _follow(settings: Settings, client: "Client", query: "Query") -> None:
    """Never returns: the feed has no end. :raises CliError: the first connection fails, or a later one is refused."""
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
    from cli.event_stream import messages

    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
    asked = {**query, "since": None} if last_id else query
    with client.stream("/v1/events", asked, headers) as response:
        yield from messages(response)


def _print(settings: Settings, message: "Message") -> None:
    """A record on a line; a gap beside the data, where nobody takes it for a record."""
    if not message.data:
        return
    if message.event == "gap":
        note(f"-- gap: records were missed here ({message.data})")
    elif settings.wants_json:
        print_data(settings, message.data.encode(), one_line=True)
    else:
        _print_line(settings, message.data)
    sys.stdout.flush()


def _print_line(settings: Settings, data: str) -> None:
    import msgspec

    from controllerd.status.schema.history import Happening

    happening = msgspec.json.decode(data, type=Happening)
    if settings.output is OutputFormat.NAME:
        typer.echo(happening.id)
        return
    event = f" event {happening.event_id}" if happening.event_id else ""
    wide = f" epoch {happening.controller_epoch}" if settings.output is OutputFormat.WIDE else ""
    typer.echo(f"{happening.at}{wide}{event} {happening.kind}: {happening.summary}")
