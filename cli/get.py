"""``controllerctl get``: lists of everything that a controller knows, filtered by the daemon."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from cli import columns, completion
from cli.arguments import parse_duration
from cli.connect import daemon_client
from cli.lists import ListDefinition, ListOf, repeat_shown, show_list
from cli.settings import settings_of

if TYPE_CHECKING:
    from cli.client import Query

Item = TypeVar("Item")

app: Final = typer.Typer(
    help="List brokers, topics, partitions and operations in progress.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Watch = Annotated[
    float | None,
    typer.Option("--watch", "-w", metavar="[SEC]", parser=parse_duration, help="Repeat every so many seconds."),
]
TopicGlob = Annotated[
    str | None,
    typer.Option("--topic", metavar="GLOB", autocompletion=completion.topics, help="Only topics that match."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="NUMBER", min=1, help="Maximum number of rows.")]
Sort = Annotated[str | None, typer.Option("--sort", metavar="FIELD", help="Field to sort by; -FIELD sorts descending.")]
Leader = Annotated[
    int | None,
    typer.Option(
        "--leader", metavar="ID", min=-1, autocompletion=completion.brokers, help="Only partitions led by this broker."
    ),
]
On = Annotated[
    int | None,
    typer.Option(
        "--on",
        metavar="ID",
        min=0,
        autocompletion=completion.brokers,
        help="Only partitions with a replica on this broker.",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Only partitions without a leader.")]
UnderReplicated = Annotated[bool, typer.Option("--under-replicated", help="Only partitions with an incomplete ISR.")]
Waiting = Annotated[bool, typer.Option("--waiting", help="Only new partitions that have had no leader yet.")]
AtMinIsr = Annotated[
    bool, typer.Option("--at-min-isr", help="Only partitions with an ISR of exactly min.insync.replicas.")
]
UnderMinIsr = Annotated[
    bool, typer.Option("--under-min-isr", help="Only partitions with an ISR below min.insync.replicas.")
]
Reassigning = Annotated[bool, typer.Option("--reassigning", help="Only partitions that are being reassigned.")]
NonPreferred = Annotated[
    bool, typer.Option("--non-preferred", help="Only partitions not led by their preferred leader.")
]


def _show(
    context: typer.Context,
    listing: ListDefinition[Item],
    kind: type[ListOf[Item]],
    watch: float | None = None,
    query: "Query | None" = None,
    limit: int | None = None,
) -> None:
    settings, chosen = settings_of(context), query or {}
    fitting = replace(listing, nothing=listing.nothing + _filters(chosen)) if chosen else listing
    repeat_shown(settings, watch, lambda line: show_list(settings, fitting, kind, chosen, limit=limit, one_line=line))


def _filters(query: "Query") -> str:
    """Return the filters, to follow \"no partitions\"."""
    chosen = [
        name.replace("_", "-") if value is True else f"{name} {value}"
        for name, value in query.items()
        if value is not None and value is not False and name != "sort"
    ]
    return f" ({', '.join(chosen)})" if chosen else ""


@app.command()
def brokers(context: typer.Context, watch: Watch = None) -> None:
    """List brokers: the live ones, and dead ones that an assignment still names.

    Examples: controllerctl get brokers · controllerctl get brokers -o wide
    """
    from controllerd.status.schema.cluster import BrokerList

    _show(context, columns.BROKERS, BrokerList, watch)


@app.command()
def balance(context: typer.Context, watch: Watch = None) -> None:
    """Show how leaders and replicas are spread over brokers, and how far that is from even.

    Examples: controllerctl get balance · controllerctl get balance -w 5
    """
    from controllerd.status.schema.cluster import BrokerList

    _show(context, columns.BALANCE, BrokerList, watch)


@app.command()
def topics(
    context: typer.Context,
    topic: TopicGlob = None,
    offline: Offline = False,
    under_replicated: UnderReplicated = False,
    non_preferred: NonPreferred = False,
    limit: Limit = None,
    sort: Sort = None,
    watch: Watch = None,
) -> None:
    """List topics with the numbers of their partitions that need attention.

    Examples: controllerctl get topics --topic 'pay*' · controllerctl get topics --under-replicated -o name
    """
    from controllerd.status.schema.cluster import TopicList

    query: Query = {
        "offline": offline,
        "under_replicated": under_replicated,
        "non_preferred": non_preferred,
        "topic": topic,
        "sort": sort,
    }
    _show(context, columns.TOPICS, TopicList, watch, query, limit)


@app.command()
def partitions(
    context: typer.Context,
    topic: TopicGlob = None,
    offline: Offline = False,
    waiting: Waiting = False,
    under_replicated: UnderReplicated = False,
    at_min_isr: AtMinIsr = False,
    under_min_isr: UnderMinIsr = False,
    non_preferred: NonPreferred = False,
    reassigning: Reassigning = False,
    leader: Leader = None,
    on: On = None,
    limit: Limit = None,
    sort: Sort = None,
    watch: Watch = None,
) -> None:
    """List partitions, all or only some; the filters have the names of kafka-topics.

    Examples: controllerctl get partitions --offline · controllerctl get partitions --on 3 --non-preferred -o name
    """
    from controllerd.status.schema.cluster import PartitionList

    query: Query = {
        "offline": offline,
        "under_replicated": under_replicated,
        "waiting": waiting,
        "at_min_isr": at_min_isr,
        "under_min_isr": under_min_isr,
        "non_preferred": non_preferred,
        "reassigning": reassigning,
        "leader": leader,
        "on": on,
        "topic": topic,
        "sort": sort,
    }
    _show(context, columns.PARTITIONS, PartitionList, watch, query, limit)


@app.command()
def replicas(
    context: typer.Context,
    topic: TopicGlob = None,
    offline: Annotated[bool, typer.Option("--offline", help="Only replicas that are not online.")] = False,
    on: On = None,
    limit: Limit = None,
    watch: Watch = None,
) -> None:
    """List replicas with their state, by Kafka's names.

    Examples: controllerctl get replicas --on 3 --offline · controllerctl get replicas --topic payments
    """
    from controllerd.status.schema.cluster import ReplicaList

    query: Query = {"offline": offline, "on": on, "topic": topic}
    _show(context, columns.REPLICAS, ReplicaList, watch, query, limit)


@app.command()
def queue(context: typer.Context, watch: Watch = None) -> None:
    """Show the event in progress, the events that wait, and the latest that ended.

    Examples: controllerctl get queue · controllerctl get queue -w
    """
    from controllerd.status.schema.work import QueueList

    daemon_client(settings_of(context), "the queue of events")
    _show(context, columns.QUEUE, QueueList, watch)


@app.command()
def requests(
    context: typer.Context,
    broker: Annotated[
        int | None,
        typer.Option(metavar="ID", min=0, autocompletion=completion.brokers, help="Only requests to this broker."),
    ] = None,
    watch: Watch = None,
) -> None:
    """Show the control requests that wait for each broker, and the results of the last ones.

    Examples: controllerctl get requests · controllerctl get requests --broker 3 -o wide
    """
    from controllerd.status.schema.work import RequestQueueList

    daemon_client(settings_of(context), "requests to brokers")
    _show(context, columns.REQUESTS, RequestQueueList, watch, {"broker": broker})


@app.command()
def reassignments(context: typer.Context, topic: TopicGlob = None, limit: Limit = None, watch: Watch = None) -> None:
    """Show the partitions that move: their progress, the time left, and the reasons of waits.

    Examples: controllerctl get reassignments -w · controllerctl get reassignments --topic 'pay*' -o wide
    """
    from controllerd.status.schema.work import ReassignmentList

    _show(context, columns.REASSIGNMENTS, ReassignmentList, watch, {"topic": topic}, limit)


@app.command()
def deletions(context: typer.Context, watch: Watch = None) -> None:
    """Show the topics to be deleted, and what blocks their deletion.

    Examples: controllerctl get deletions · controllerctl get deletions -o wide
    """
    from controllerd.status.schema.work import DeletionList

    _show(context, columns.DELETIONS, DeletionList, watch)


@app.command()
def elections(context: typer.Context, watch: Watch = None) -> None:
    """Show recent elections; failed ones with their cause.

    Examples: controllerctl get elections · controllerctl get elections -o jsonl
    """
    from controllerd.status.schema.history import ElectionList

    daemon_client(settings_of(context), "elections")
    _show(context, columns.ELECTIONS, ElectionList, watch)


@app.command()
def settings(context: typer.Context, watch: Watch = None) -> None:
    """List settings of the cluster with the values in use, where each is from, and which brokers say something else.

    FROM is the file, variable or flag that configures the setting for this instance, or: brokers (all say this),
    majority or safer (brokers disagree), waiting (no answer of a registered broker is known), cache (earlier answers of
    brokers), dynamic (a dynamic configuration overrides it), zookeeper (the protocol version that its content needs),
    default (no broker has ever answered). -o wide adds what each broker says, and the problem that an alarm names. The
    exit status is 0 also where brokers disagree; `controllerctl doctor` warns of that.

    Examples: controllerctl get settings · controllerctl get settings -o wide
    """
    from controllerd.status.schema.config import SettingList

    _show(context, columns.SETTINGS, SettingList, watch)


@app.command()
def tasks(context: typer.Context, watch: Watch = None) -> None:
    """Show the operations of operators: the running ones, and the ones that ended within the last hour.

    Examples: controllerctl get tasks · controllerctl get tasks -o wide
    """
    from controllerd.status.schema.tasks import TaskList

    daemon_client(settings_of(context), "what operators asked for")
    _show(context, columns.TASKS, TaskList, watch)


@app.command()
def history(context: typer.Context, watch: Watch = None) -> None:
    """Show the controllers of the past, as far as this instance has observed.

    Examples: controllerctl get history · controllerctl get history -o json
    """
    from controllerd.status.schema.history import TermList

    _show(context, columns.TERMS, TermList, watch)
