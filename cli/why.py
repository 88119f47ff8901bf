"""``controllerctl why``: the true cause, in a few sentences, with facts and what to do next."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import completion
from cli.exit_codes import CliError, ExitCode
from cli.listing import say_who_leads
from cli.naming import split_name, topic_path
from cli.output import print_data
from cli.settings import OutputFormat, settings_of

if TYPE_CHECKING:
    from cli.client import Answer, Client
    from controllerd.status.schema.why import WhyResponse


def why(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(metavar="TOPIC[-PARTITION]", autocompletion=completion.topics, help="payments, or payments-7."),
    ],
) -> None:
    """Say what is the matter with a topic or partition, why, and what helps.

    Examples: controllerctl why payments-7 · controllerctl why payments -o json
    """
    settings = settings_of(context)
    client = settings.client()
    answer = ask_why(client, subject)
    if settings.wants_json:
        print_data(settings, answer.body)
    elif settings.output is OutputFormat.NAME:
        typer.echo(answer.content.why.subject)
    else:
        from controllerd.status.explain.lines import lines

        for line in lines(answer.content.why):
            typer.echo(line)
    say_who_leads(client)


def ask_why(client: "Client", subject: str) -> "Answer[WhyResponse]":
    """About the partition of this name, or else the topic. :raises CliError: there is neither."""
    from controllerd.status.schema.why import WhyResponse

    name = split_name(subject)
    if name is not None:
        try:
            return client.get(f"{name.path}/why", WhyResponse)
        except CliError as refusal:
            if refusal.code is not ExitCode.NOT_FOUND:
                raise
            not_found = refusal
    else:
        not_found = None
    try:
        return client.get(f"{topic_path(subject)}/why", WhyResponse)
    except CliError as refusal:
        if refusal.code is ExitCode.NOT_FOUND and not_found is not None:
            raise not_found from None  # there is no topic of that name either: the partition was meant
        raise
