"""What somebody asks the page for: why something is as it is, and lists of partitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from msgspec import Meta, structs

from controllerd.core.model import TopicPartition
from controllerd.explain.answers import CRITICAL, OK, Transition, Why
from controllerd.explain.history import transitions_of_partition, transitions_of_topic
from controllerd.explain.partition import explain_partition
from controllerd.explain.topic import explain_topic
from controllerd.status.dashboard.commands import command
from controllerd.status.dashboard.levels import Level
from controllerd.status.queries import Cursor, Query
from controllerd.status.reads.api import ReadApi
from controllerd.status.reads.filters import PartitionQuery
from controllerd.status.schema.cluster import PartitionItem
from controllerd.views import ClusterView

_FILTERS: Final = {
    "offline": PartitionQuery(offline=True),
    "waiting": PartitionQuery(waiting=True),
    "under-replicated": PartitionQuery(under_replicated=True),
    "non-preferred": PartitionQuery(non_preferred=True),
    "reassigning": PartitionQuery(reassigning=True),
}
ListName = Literal["", "offline", "waiting", "under-replicated", "non-preferred", "reassigning"]
PAGE: Final = 100
_LEVELS: Final = {OK: Level.GOOD, CRITICAL: Level.BAD}
_LONGEST_PARTITION: Final = 9
"""Digits of the number of a partition."""


class PageQuery(Query, frozen=True, kw_only=True):
    """What stands behind the question mark."""

    why: Annotated[str, Meta(max_length=300, description="A topic or partition: payments, or payments-7.")] = ""
    list: Annotated[ListName, Meta(description="The partitions that are listed.")] = ""
    cursor: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyAnswer:
    """Why one topic or partition is as it is."""

    why: Why
    level: Level
    transitions: Sequence[Transition]
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One page of a list."""

    name: str
    title: str
    items: Sequence[PartitionItem]
    total: int
    next_href: str
    """Empty on the last page."""
    is_first: bool
    command: str


def partition_named(text: str, snapshot: ClusterView) -> TopicPartition | None:
    """The partition that is meant, as on the command line; None for a topic: one of that name, or no such partition."""
    topic, dash, number = text.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit() and len(number) <= _LONGEST_PARTITION):
        return None
    tp = TopicPartition(topic, int(number))
    return None if text in snapshot.topics and snapshot.partition(tp) is None else tp


async def answer_why(reads: ReadApi, text: str) -> WhyAnswer:
    """Also of what does not exist: then that is the answer."""
    pace = await reads.reading.pace()
    tp = partition_named(text, reads.reading.sources.snapshot())
    inputs = await reads.settings.inputs([tp.topic if tp is not None else text])
    if tp is not None:
        why = await pace.run(explain_partition(inputs, tp))
        transitions = await pace.run(transitions_of_partition(inputs.entries, tp))
    else:
        why = await pace.run(explain_topic(inputs, text))
        transitions = await pace.run(transitions_of_topic(inputs.entries, text))
    level = _LEVELS.get(why.severity, Level.WARN)
    return WhyAnswer(why=why, level=level, transitions=transitions[::-1], command=command("why", text))


async def answer_list(reads: ReadApi, name: str, cursor: str) -> Listing:
    """:raises Refused: the cursor is not one of this list."""
    page = await reads.partitions.page(structs.replace(_FILTERS[name], limit=PAGE, cursor=cursor))
    following = urlencode({"list": name, "cursor": page.next_cursor}) if page.next_cursor else ""
    return Listing(
        name=name,
        title=f"{name.capitalize()} partitions",
        items=page.items,
        total=page.total,
        next_href=f"/?{following}#list" if following else "",
        is_first=not cursor,
        command=command("get", "partitions", f"--{name}"),
    )
