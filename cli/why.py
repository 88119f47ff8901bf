"""``controllerctl why``: the true cause, in a few sentences, with facts and what to do next."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import completion
from cli.arguments import split_name, topic_path
from cli.connect import client_of, note_role
from cli.exit_codes import ExitCode
from cli.output import print_data
from cli.settings import OutputFormat, settings_of

if TYPE_CHECKING:
    from cli.client import ApiAnswer, Client
    from controllerd.status.schema.cluster import WhyResponse

_UNKNOWN: Final = "unknown"
"""The conditions of a topic or partition that does not exist, or that the answering instance does not know."""


def why(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC[-PARTITION]", autocompletion=completion.topics_or_partitions, help="payments, or payments-7."
        ),
    ],
) -> None:
    """Explain the state of a topic or partition: what is wrong, why, and what to do.

    Exits with status 3 if there is no such topic or partition.

    Examples: controllerctl why payments-7 · controllerctl why payments -o json
    """
    settings = settings_of(context)
    client = client_of(settings)
    answer = ask_why(client, subject)
    if settings.wants_json:
        print_data(settings, answer.body)
    elif settings.output is OutputFormat.NAME:
        typer.echo(answer.content.why.subject)
    else:
        from controllerd.explain.answers import lines

        for line in lines(answer.content.why):
            typer.echo(line)
    knows = note_role(client)
    if answer.content.why.condition == _UNKNOWN:
        raise typer.Exit(ExitCode.NOT_FOUND if knows else ExitCode.REFUSED)


def ask_why(client: "Client", subject: str) -> "ApiAnswer[WhyResponse]":
    """Ask about the partition of this name, or else the topic. :raises CliError: there is no answer."""
    from controllerd.status.schema.cluster import WhyResponse

    name = split_name(subject)
    of_partition = client.get(f"{name.path}/why", WhyResponse) if name is not None else None
    if of_partition is not None and of_partition.content.why.condition != _UNKNOWN:
        return of_partition
    of_topic = client.get(f"{topic_path(subject)}/why", WhyResponse)
    is_neither = of_topic.content.why.condition == _UNKNOWN
    return of_partition if of_partition is not None and is_neither else of_topic
