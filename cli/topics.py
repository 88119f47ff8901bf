"""``controllerctl topics``: create, enlarge and delete, with the flags of kafka-topics."""

from typing import Annotated, Final

import typer

from cli import completion
from cli.arguments import topic_path
from cli.exit_codes import CliError, ExitCode
from cli.operations import AtMost, OperationRequest, Wait, run
from cli.settings import settings_of

app: Final = typer.Typer(
    help="Create, enlarge and delete topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NewName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
KnownName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=completion.topics, help="Name of the topic.")]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="LIST",
        help="Brokers of each partition, the preferred leader first: 1:2:3,2:3:1.",
    ),
]


@app.command()
def create(
    context: typer.Context,
    topic: NewName,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Number of partitions; the default of the brokers otherwise."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Replicas per partition; the default of the brokers otherwise."),
    ] = None,
    replica_assignment: Assignment = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Config of the topic; repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Exit with status 0 if the topic exists.")
    ] = False,
    wait: Wait = False,
    wait_at_most: AtMost = None,
) -> None:
    """Create a topic; with --wait until each of its partitions has a leader.

    Examples: controllerctl topics create payments --partitions 12 --replication-factor 3 --wait ·
    controllerctl topics create audit --replica-assignment 1:2,2:3 --config retention.ms=3600000 --if-not-exists
    """
    from controllerd.status.schema.verbs import NewTopic

    settings = settings_of(context)
    if replica_assignment is not None and (partitions is not None or replication_factor is not None):
        message = "--replica-assignment sets the numbers of partitions and replicas: leave the other two options out"
        raise CliError(ExitCode.USAGE, message)
    body = NewTopic(
        topic=topic,
        partitions=partitions,
        replication_factor=replication_factor,
        replica_assignment=parse_assignment(replica_assignment),
        configs=_configs(config or []),
        if_not_exists=if_not_exists,
        reason=settings.reason,
    )
    run(settings, OperationRequest("/v1/topics", body, f"create topic {topic}"), wait=wait, at_most_s=wait_at_most)


@app.command()
def delete(
    context: typer.Context,
    topic: KnownName,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Exit with status 0 if there is no such topic.")
    ] = False,
    wait: Wait = False,
    wait_at_most: AtMost = None,
) -> None:
    """Delete a topic and every record in it; with --wait until its znodes and replicas are gone.

    Requires --reason TEXT for the audit log, and the name typed once more, or --yes. `controllerctl get deletions`
    shows what blocks a deletion.

    Examples: controllerctl topics delete payments-old --reason "moved to payments" --wait ·
    controllerctl topics delete payments-old --dry-run
    """
    from controllerd.status.schema.verbs import DeleteTopic

    settings = settings_of(context)
    if not settings.reason and not settings.dry_run:
        raise CliError(ExitCode.USAGE, "requires --reason TEXT, which is written to the audit log")
    operation = OperationRequest(
        f"{topic_path(topic)}/delete",
        DeleteTopic(confirm=topic, if_exists=if_exists, reason=settings.reason or "dry run"),
        f"delete topic {topic}",
        typed=topic,
        warnings=("every record of the topic is deleted for ever",),
        shows="controllerctl get deletions",
    )
    run(settings, operation, wait=wait, at_most_s=wait_at_most)


@app.command("add-partitions")
def add_partitions(
    context: typer.Context,
    topic: KnownName,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, metavar="TOTAL", help="Number of partitions after the change.")
    ],
    replica_assignment: Assignment = None,
    wait: Wait = False,
    wait_at_most: AtMost = None,
) -> None:
    """Add partitions to a topic: --partitions is the new number of all of them; with --wait until each has a leader.

    Records with a key go to other partitions from then on, and partitions cannot be taken away again.

    Examples: controllerctl topics add-partitions payments --partitions 24 --wait ·
    controllerctl topics add-partitions audit --partitions 3 --replica-assignment 3:1
    """
    from controllerd.status.schema.verbs import MorePartitions

    settings, assigned = settings_of(context), parse_assignment(replica_assignment)
    operation = OperationRequest(
        f"{topic_path(topic)}/partitions",
        MorePartitions(total=partitions, replica_assignment=assigned, reason=settings.reason),
        f"add partitions to topic {topic}, {partitions} in all",
        warnings=("records with a key go to other partitions from then on; none can be taken away again",),
    )
    run(settings, operation, wait=wait, at_most_s=wait_at_most)


def parse_assignment(text: str | None) -> list[list[int]] | None:
    """Parse Kafka's form: partitions by commas, their brokers by colons. :raises CliError: it is not of this form."""
    if text is None:
        return None
    try:
        assigned = [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        assigned = []
    if not assigned or any(broker < 0 for replicas in assigned for broker in replicas):
        message = (
            f"--replica-assignment must be like 1:2:3,2:3:1 (partitions by commas, brokers by colons), not {text!r}"
        )
        raise CliError(ExitCode.USAGE, message)
    return assigned


def _configs(given: list[str]) -> dict[str, str]:
    """Parse configs as ``NAME=VALUE``. :raises CliError: one has no name, or no equals sign."""
    found: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise CliError(ExitCode.USAGE, f"--config must be like retention.ms=3600000, not {text!r}")
        found[key.strip()] = value.strip()
    return found
