"""The dashboard at ``/``: the issues of the cluster, their causes, and next steps. It is read-only.

The server renders the whole page, so that it works without scripts. The script requests it again when something
happens, and replaces the parts that changed. If tokens are configured, a client without one gets a form for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Meta, structs

from controllerd.clock import iso
from controllerd.core.model import TopicPartition
from controllerd.explain.answers import CRITICAL, OK, Transition, Why
from controllerd.explain.history import transitions_of_partition, transitions_of_topic
from controllerd.explain.partition import explain_partition
from controllerd.explain.topic import explain_topic
from controllerd.status.dashboard import formatting
from controllerd.status.dashboard.formatting import Severity, command
from controllerd.status.dashboard.gathering import EVENTS, KIND_GROUPS, DashboardGatherer, DashboardState
from controllerd.status.http.access import RANK
from controllerd.status.http.credentials import Rank
from controllerd.status.http.openapi import HTML
from controllerd.status.http.paging import not_modified, with_tag
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Access, Api, Cursor, Query, Route, parse_query, route
from controllerd.status.reads.api import ReadApi
from controllerd.status.reads.events import HEARTBEAT_S
from controllerd.status.reads.filters import PartitionQuery
from controllerd.status.schema.cluster import PartitionItem
from controllerd.status.sources import StatusSources
from controllerd.status.view import daemon_version
from controllerd.views import ClusterView

PAGE: Final = 100
"""The number of items on a page of a list."""
QUIET_MS: Final = round(2.5 * HEARTBEAT_S * 1000)
"""A stream without a heartbeat for this time is dead."""
_POLICY: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_ASK: Final = {"WWW-Authenticate": 'Bearer realm="controllerd"'}
"""Without ``Basic``, for which a browser would show its own dialog."""
_ASSETS: Final = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILTERS: Final = {
    "offline": PartitionQuery(offline=True),
    "waiting": PartitionQuery(waiting=True),
    "under-replicated": PartitionQuery(under_replicated=True),
    "non-preferred": PartitionQuery(non_preferred=True),
    "reassigning": PartitionQuery(reassigning=True),
}
_SEVERITIES: Final = {OK: Severity.OK, CRITICAL: Severity.CRITICAL}
_LONGEST_PARTITION: Final = 9
"""The number of digits in the number of a partition."""

ListName = Literal["", "offline", "waiting", "under-replicated", "non-preferred", "reassigning"]


class PageQuery(Query, frozen=True, kw_only=True):
    """An explanation or a list below the overview."""

    why: Annotated[str, Meta(max_length=300, description="A topic or partition: payments, or payments-7.")] = ""
    list: Annotated[ListName, Meta(description="The partitions that are listed.")] = ""
    cursor: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationSection:
    """The explanation of one topic or partition, with its last transitions."""

    why: Why
    severity: Severity
    transitions: Sequence[Transition]
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """One page of a list of partitions."""

    name: str
    title: str
    items: Sequence[PartitionItem]
    total: int
    next_href: str
    """Empty on the last page."""
    is_first: bool
    command: str


class DashboardApi(Api):
    """The dashboard and its files."""

    def __init__(self, sources: StatusSources, reads: ReadApi) -> None:
        """``reads``: the read endpoints, whose figures are shared."""
        self._reads = reads
        self._gatherer = DashboardGatherer(sources, reads)
        self._page = _templates().get_template("dashboard.html.j2")
        self._locked = _templates().get_template("locked.html.j2")

    def routes(self) -> list[Route]:
        """Return ``/`` and the routes of its files, which are open to every client, as they contain nothing secret."""
        return [
            *super().routes(),
            *(
                Route(
                    path=f"/dashboard/{name}",
                    handler=partial(_serve_asset, *_read_asset(name), media_type),
                    summary=f"{name} of the dashboard",
                    access=Access.OPEN,
                    answers={HTTPStatus.OK: media_type},
                )
                for name, media_type in _ASSETS.items()
            ),
        ]

    @route("/", "The dashboard", HTML, query=PageQuery, access=Access.OPEN)
    async def page(self, request: web.Request) -> web.Response:
        """Answer with the page, or the form that asks for a token. :raises Refused: the token is wrong."""
        if request.get(RANK, Rank.NONE) < Rank.READ:
            if "Authorization" in request.headers:
                detail = "this token is wrong"
                raise Refused(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, "send another", headers=_ASK)
            return _html(self._locked.render(version=daemon_version()))
        query = parse_query(request, PageQuery)
        state = await self._gatherer.state()
        same = not_modified(request, state.tag)
        return same if same is not None else with_tag(_html(await self._render(query, state)), state.tag)

    async def _render(self, query: PageQuery, state: DashboardState) -> str:
        why = await explain(self._reads, query.why.strip()) if query.why.strip() else None
        listing = await list_partitions(self._reads, query.list, query.cursor) if query.list else None
        slicer, parts = await self._reads.context.slicer(), list[str]()
        for part in self._page.generate(p=state, why=why, listing=listing, asked=query, version=daemon_version()):
            parts.append(part)
            await slicer.yield_to_loop()
        return "".join(parts)


def partition_named(text: str, snapshot: ClusterView) -> TopicPartition | None:
    """Return the partition of this name, as on the command line; None for a topic."""
    topic, dash, number = text.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit() and len(number) <= _LONGEST_PARTITION):
        return None
    tp = TopicPartition(topic, int(number))
    return None if text in snapshot.topics and snapshot.partition(tp) is None else tp


async def explain(reads: ReadApi, text: str) -> ExplanationSection:
    """Explain a topic or a partition, also one that does not exist."""
    slicer = await reads.context.slicer()
    tp = partition_named(text, reads.context.sources.snapshot())
    inputs = await reads.context.inputs(tp.topic if tp is not None else text)
    if tp is not None:
        why = await slicer.run(explain_partition(inputs, tp))
        transitions = await slicer.run(transitions_of_partition(inputs.entries, tp))
    else:
        why = await slicer.run(explain_topic(inputs, text))
        transitions = await slicer.run(transitions_of_topic(inputs.entries, text))
    severity = _SEVERITIES.get(why.severity, Severity.WARNING)
    return ExplanationSection(why=why, severity=severity, transitions=transitions[::-1], command=command("why", text))


async def list_partitions(reads: ReadApi, name: str, cursor: str) -> PartitionListing:
    """Return one page of a list. :raises Refused: the cursor is not one of this list."""
    page = await reads.partitions.page(structs.replace(_FILTERS[name], limit=PAGE, cursor=cursor))
    following = urlencode({"list": name, "cursor": page.next_cursor}) if page.next_cursor else ""
    return PartitionListing(
        name=name,
        title=f"{name.capitalize()} partitions",
        items=page.items,
        total=page.total,
        next_href=f"/?{following}#list" if following else "",
        is_first=not cursor,
        command=command("get", "partitions", f"--{name}"),
    )


@cache
def _templates() -> Environment:
    """The templates, compiled once for the process."""
    made = Environment(
        loader=PackageLoader("controllerd.status.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("size", "rate", "duration", "number", "time_of_day")
    made.filters |= {"moment": iso, **{name: getattr(formatting, name) for name in names}}
    made.globals |= {"command": command, "kind_groups": KIND_GROUPS, "shown_events": EVENTS, "quiet_ms": QUIET_MS}
    for name in made.list_templates():
        made.get_template(name)  # compiled here, as it takes some milliseconds that no request should wait for
    return made


def _html(text: str) -> web.Response:
    response = web.Response(text=text, content_type=HTML)
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _read_asset(name: str) -> tuple[bytes, str]:
    """Return a file of the package with its ETag, which changes with its content."""
    content = files("controllerd.status.dashboard").joinpath("static", name).read_bytes()
    return content, f'"{blake2b(content, digest_size=12).hexdigest()}"'


async def _serve_asset(content: bytes, tag: str, media_type: str, request: web.Request) -> web.Response:
    response = web.Response(body=content, content_type=media_type, charset="utf-8")
    return not_modified(request, tag) or with_tag(response, tag)
