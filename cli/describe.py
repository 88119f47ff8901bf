"""``controllerctl describe``: one topic, partition or broker with everything that belongs to it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from cli import completion
from cli.arguments import LARGEST_ID, parse_partition, topic_path
from cli.columns import PARTITIONS, TRANSITIONS, broker_state, listeners, topic_state
from cli.connect import client_of, note_role, refuse_without_cluster
from cli.exit_codes import CliError, ExitCode
from cli.lists import TableColumn, fetch_list, print_columns
from cli.output import dash, human_duration, ids, print_data, print_facts
from cli.settings import CliSettings, OutputFormat, settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from cli.client import ApiAnswer, Client
    from controllerd.explain.answers import Transition
    from controllerd.status.schema.cluster import (
        BrokerDetail,
        PartitionDetail,
        PendingRequest,
        TopicDetail,
    )

Detail = TypeVar("Detail")

app: Final = typer.Typer(
    help="Show one topic, partition or broker with everything that belongs to it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_PENDING: Final[tuple[TableColumn["PendingRequest"], ...]] = (
    TableColumn("BROKER", lambda item: str(item.broker), right=True),
    TableColumn("REQUEST", lambda item: item.api),
    TableColumn("PARTITIONS", lambda item: str(item.partitions), right=True),
    TableColumn("AGE", lambda item: human_duration(item.age_s), right=True),
    TableColumn("ATTEMPTS", lambda item: str(item.attempts), right=True),
    TableColumn("IS", lambda item: "in flight" if item.in_flight else "waiting"),
)


@app.command()
def topic(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=completion.topics, help="The topic.")],
) -> None:
    """Show a topic: its numbers, its partitions, and its recent changes.

    Examples: controllerctl describe topic payments · controllerctl describe topic payments -o yaml
    """
    from controllerd.status.schema.cluster import PartitionList, TopicDetail

    settings = settings_of(context)
    client = client_of(settings)
    answer = _ask(client, topic_path(name), TopicDetail)
    if not _print_data(settings, answer.body, answer.content.topic.topic):
        print_facts(settings, topic_facts(answer.content))
        found = fetch_list(client, PARTITIONS, PartitionList, {"topic": name})
        if found.items:
            typer.echo()
            print_columns(settings, PARTITIONS.columns, found.items)
        _print_transitions(settings, answer.content.transitions)
    note_role(client)


@app.command()
def partition(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC-PARTITION", autocompletion=completion.partitions, help="Partition, as in payments-7."
        ),
    ],
) -> None:
    """Show a partition: its state, its recent changes with their causes, and requests that wait for its brokers.

    Examples: controllerctl describe partition payments-7 · controllerctl describe partition payments-7 -o json
    """
    from controllerd.status.schema.cluster import PartitionDetail

    settings, wanted = settings_of(context), parse_partition(name)
    client = client_of(settings)
    answer = _ask(client, wanted.path, PartitionDetail)
    if not _print_data(settings, answer.body, name):
        print_facts(settings, partition_facts(answer.content))
        _print_pending(settings, answer.content.pending)
        _print_transitions(settings, answer.content.transitions)
    note_role(client)


@app.command()
def broker(
    context: typer.Context,
    number: Annotated[
        int,
        typer.Argument(metavar="ID", min=0, max=LARGEST_ID, autocompletion=completion.brokers, help="The broker's id."),
    ],
) -> None:
    """Show a broker: its state, its leaderships, its waiting requests, and its recent changes.

    Examples: controllerctl describe broker 3 · controllerctl describe broker 3 -o json
    """
    from controllerd.status.schema.cluster import BrokerDetail

    settings = settings_of(context)
    client = client_of(settings)
    answer = _ask(client, f"/v1/brokers/{number}", BrokerDetail)
    if not _print_data(settings, answer.body, str(number)):
        print_facts(settings, broker_facts(answer.content))
        _print_pending(settings, answer.content.pending)
        _print_transitions(settings, answer.content.transitions)
    note_role(client)


def _ask(client: "Client", path: str, kind: type[Detail]) -> "ApiAnswer[Detail]":
    """Ask for one item. :raises CliError: there is none, or the instance does not know the cluster."""
    try:
        return client.get(path, kind)
    except CliError as refusal:
        if refusal.code is ExitCode.NOT_FOUND:
            refuse_without_cluster(client)
        raise


def _print_data(settings: CliSettings, body: bytes, name: str) -> bool:
    """Print the answer if the format is one for programs; return whether it is."""
    if settings.wants_json:
        print_data(settings, body)
    elif settings.output is OutputFormat.NAME:
        typer.echo(name)
    else:
        return False
    return True


def _print_pending(settings: CliSettings, pending: "Sequence[PendingRequest]") -> None:
    if pending:
        typer.echo("\nwaiting for brokers")
        print_columns(settings, _PENDING, pending)


def _print_transitions(settings: CliSettings, transitions: "Sequence[Transition]") -> None:
    if transitions:
        typer.echo("\nrecent changes, newest last")
        print_columns(settings, TRANSITIONS, transitions)


def topic_facts(detail: "TopicDetail") -> Iterator[tuple[str, str]]:
    """Return the lines above the table of partitions."""
    found = detail.topic
    yield "topic", found.topic
    yield "id", dash(found.topic_id)
    yield "state", topic_state(found)
    yield "partitions", f"{found.partitions}, replication factor {found.replication_factor}"
    attention = {
        "offline": found.offline,
        "under-replicated": found.under_replicated,
        "not led by the preferred replica": found.non_preferred,
        "waiting for brokers": found.waiting,
        "reassigning": found.reassigning,
    }
    yield "attention", ", ".join(f"{number} {what}" for what, number in attention.items() if number) or "none needed"
    if found.deletion is not None:
        waits = f"waits for brokers {ids(found.deletion.deleting)}" if found.deletion.deleting else "in progress"
        yield "deletion", found.deletion.held_up_by or waits
    if found.quarantine:
        yield "quarantined", found.quarantine


def partition_facts(detail: "PartitionDetail") -> Iterator[tuple[str, str]]:
    """Return the lines above the tables."""
    found = detail.partition
    yield "partition", f"{found.topic}-{found.partition}"
    since = f" since {found.since}" if found.since else ""
    yield "state", f"{found.state}{since}"
    if found.last_event:
        yield "last change", f"event {found.last_event}"
    yield "leader", f"{dash(found.leader)}, preferred {dash(found.preferred)}, leader epoch {dash(found.leader_epoch)}"
    minimum = f", min.insync.replicas {found.min_isr}" if found.min_isr is not None else ""
    yield "isr", f"{ids(found.isr)}{minimum}"
    yield "replicas", ids(found.replicas)
    if found.adding or found.removing:
        yield "reassigning", f"adding {ids(found.adding)}, removing {ids(found.removing)}"
    if found.offline:
        yield "offline", f"replicas on {ids(found.offline)}"
    yield "version", f"{dash(found.zk_version)} of the state znode"
    if found.quarantine:
        yield "quarantined", found.quarantine


def broker_facts(detail: "BrokerDetail") -> Iterator[tuple[str, str]]:
    """Return the lines above the table of requests."""
    found, status = detail.broker, detail.broker.status
    yield "broker", str(found.id)
    yield "state", broker_state(found)
    if status is not None:
        yield "listeners", listeners(found)
        yield "rack", dash(status.rack)
        yield "broker epoch", str(status.broker_epoch)
        if status.error:
            yield "error", status.error
    yield "leads", f"{counted(found.leaders, 'partition')}, preferred leader of {found.preferred_leaders}"
    yield "imbalance", f"other brokers lead {found.imbalance_percent:.1f}% of the partitions it is preferred for"
    if found.alive:
        yield "skew", f"{found.leader_skew_percent:+.1f}%: its leaderships, against the mean of the live brokers"
    yield "replicas", f"{found.replicas}, {found.offline_replicas} of them offline"
