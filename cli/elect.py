"""``controllerctl elect``: preferred leaders back, or any live replica where nobody leads."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import completion
from cli.exit_codes import CliError, ExitCode
from cli.operations import Operation, run
from cli.settings import settings_of
from controllerd.core.counted import counted

if TYPE_CHECKING:
    from controllerd.status.schema.verbs import PartitionName

app: Final = typer.Typer(
    help="Elect leaders: preferred ones, or where nobody leads any live replica.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="NUMBER", min=0, help="Only this partition of the topic; repeatable."),
]
_PATH: Final = "/v1/elections"
_LOSSES: Final = (
    "records that only replicas out of reach have ARE LOST for ever, and nobody is told which",
    "a reassignment of the partition may be completed, and the replicas that it removes are deleted: cancel it first",
)


@app.command()
def preferred(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", autocompletion=completion.topics, help="This topic; repeatable."),
    ] = None,
    partition: Partitions = None,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker", metavar="ID", min=0, autocompletion=completion.brokers, help="What it is preferred for."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every partition of the cluster.")] = False,
) -> None:
    """Give leadership back to preferred replicas: the first of each assignment, where it is in sync.

    What its preferred replica leads already is left alone. Ends with 5 when some partitions have no leader that could
    be elected, and names them.

    Examples: controllerctl elect preferred --topic payments --partition 7 ·
    controllerctl elect preferred --broker 3 --dry-run
    """
    from controllerd.status.schema.verbs import ElectionRequest

    settings, topics = settings_of(context), topic or []
    _check_named(topics, partition, is_named=bool(topics) or broker is not None or every)
    named = _partitions(topics, partition)
    body = ElectionRequest(
        type="preferred",
        partitions=named,
        topics=[] if named else topics,
        broker=broker,
        all=every,
        reason=settings.reason,
    )
    run(settings, Operation(_PATH, body, "elect preferred leaders"))


@app.command()
def unclean(
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Option("--topic", metavar="NAME", autocompletion=completion.topics, help="The topic that has to go on."),
    ],
    partition: Partitions = None,
    accepts_loss: Annotated[
        bool,
        typer.Option("--i-accept-data-loss", help="Records that only the missing replicas have are gone for ever."),
    ] = False,
) -> None:
    """Let any live replica lead where nobody leads, though records may be lost; one topic at a time.

    Partitions with a live leader are left alone. It wants --i-accept-data-loss, --reason TEXT for the audit log, and
    the name of the topic typed once more, or --yes.

    Examples: controllerctl elect unclean --topic payments --partition 7 --dry-run ·
    controllerctl elect unclean --topic payments --i-accept-data-loss --reason "both disks of 5 are dead"
    """
    from controllerd.status.schema.verbs import ElectionRequest

    settings = settings_of(context)
    if not accepts_loss and not settings.dry_run:
        message = (
            "an unclean election may lose records that only the missing replicas have: "
            "look at it with --dry-run, then accept that with --i-accept-data-loss; nothing was changed"
        )
        raise CliError(ExitCode.USAGE, message)
    if not settings.reason and not settings.dry_run:
        raise CliError(ExitCode.USAGE, "say why with --reason TEXT: it is written to the audit log")
    named = _partitions([topic], partition)
    body = ElectionRequest(
        type="unclean",
        partitions=named,
        topics=[] if named else [topic],
        accept_data_loss=True,
        reason=settings.reason or "dry run",
    )
    what = f"{counted(len(named), 'partition')} of {topic}" if named else f"every partition of {topic} without a leader"
    run(settings, Operation(_PATH, body, f"unclean election of {what}", typed=topic, warnings=_LOSSES))


def _check_named(topics: list[str], partitions: list[int] | None, *, is_named: bool) -> None:
    """:raises CliError: it is not said of what, or not of which topic a partition is."""
    if partitions and len(topics) != 1:
        raise CliError(ExitCode.USAGE, "--partition needs the one --topic that it is a partition of")
    if not is_named:
        raise CliError(ExitCode.USAGE, "say of what: --topic NAME (and --partition NUMBER), --broker ID, or --all")


def _partitions(topics: list[str], numbers: list[int] | None) -> "list[PartitionName]":
    from controllerd.status.schema.verbs import PartitionName

    return [PartitionName(topic=topics[0], partition=number) for number in numbers or ()]
