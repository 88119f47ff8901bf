"""``controllerctl elect``: preferred leaders, or any live replica of partitions without a leader."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import completion
from cli.exit_codes import CliError, ExitCode
from cli.operations import OperationRequest, run
from cli.settings import settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from controllerd.status.schema.verbs import PartitionName

app: Final = typer.Typer(
    help="Elect leaders: preferred ones, or any live replica where a partition has no leader.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="NUMBER", min=0, help="Partition of the topic; repeatable."),
]
_PATH: Final = "/v1/elections"
_LOSSES: Final = (
    "records that only unavailable replicas have ARE LOST for ever, without a list of them",
    "a reassignment of the partition may be completed, and the replicas that it removes are deleted: cancel it first",
)


@app.command()
def preferred(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", autocompletion=completion.topics, help="Topic; repeatable."),
    ] = None,
    partition: Partitions = None,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker",
            metavar="ID",
            min=0,
            autocompletion=completion.brokers,
            help="Partitions that this broker is the preferred leader of.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every partition of the cluster.")] = False,
) -> None:
    """Elect the preferred replicas as leaders: the first of each assignment, where it is in sync.

    Partitions led by their preferred replica do not change. Exits with status 5 if some partitions have no leader to
    elect, and names them.

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
    run(settings, OperationRequest(_PATH, body, "elect preferred leaders"))


@app.command()
def unclean(
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Option(
            "--topic", metavar="NAME", autocompletion=completion.topics, help="Topic whose partitions need a leader."
        ),
    ],
    partition: Partitions = None,
    accepts_loss: Annotated[
        bool,
        typer.Option("--i-accept-data-loss", help="Accept that records which only the missing replicas have are lost."),
    ] = False,
) -> None:
    """Elect any live replica where a partition has no leader, though records may be lost; one topic at a time.

    Partitions with a live leader do not change. Requires --i-accept-data-loss, --reason TEXT for the audit log, and the
    name of the topic typed once more, or --yes.

    Examples: controllerctl elect unclean --topic payments --partition 7 --dry-run ·
    controllerctl elect unclean --topic payments --i-accept-data-loss --reason "both disks of 5 are dead"
    """
    from controllerd.status.schema.verbs import ElectionRequest

    settings = settings_of(context)
    if not accepts_loss and not settings.dry_run:
        message = (
            "an unclean election may lose records that only the missing replicas have: "
            "check it with --dry-run, then accept it with --i-accept-data-loss; nothing was changed"
        )
        raise CliError(ExitCode.USAGE, message)
    if not settings.reason and not settings.dry_run:
        raise CliError(ExitCode.USAGE, "requires --reason TEXT, which is written to the audit log")
    named = _partitions([topic], partition)
    body = ElectionRequest(
        type="unclean",
        partitions=named,
        topics=[] if named else [topic],
        accept_data_loss=True,
        reason=settings.reason or "dry run",
    )
    what = f"{counted(len(named), 'partition')} of {topic}" if named else f"every partition of {topic} without a leader"
    run(settings, OperationRequest(_PATH, body, f"unclean election of {what}", typed=topic, warnings=_LOSSES))


def _check_named(topics: list[str], partitions: list[int] | None, *, is_named: bool) -> None:
    """Check that partitions are named. :raises CliError: nothing is named, or the topic of a partition is not."""
    if partitions and len(topics) != 1:
        raise CliError(ExitCode.USAGE, "--partition needs the one --topic that it is a partition of")
    if not is_named:
        raise CliError(ExitCode.USAGE, "name --topic NAME (and --partition NUMBER), --broker ID, or --all")


def _partitions(topics: list[str], numbers: list[int] | None) -> "list[PartitionName]":
    from controllerd.status.schema.verbs import PartitionName

    return [PartitionName(topic=topics[0], partition=number) for number in numbers or ()]
