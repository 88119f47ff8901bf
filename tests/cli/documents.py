"""A daemon that serves the documents it is given, by path; each document fills every column of its table."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec

from cli.app import main
from controllerd.explain.answers import Cause, Transition, Why
from controllerd.status.schema.cluster import (
    BrokerDetail,
    BrokerItem,
    BrokerList,
    PartitionDetail,
    PartitionItem,
    PartitionList,
    PendingRequest,
    ReplicaItem,
    ReplicaList,
    TopicDetail,
    TopicItem,
    TopicList,
    WhyResponse,
)
from controllerd.status.schema.common import Meta, Problem
from controllerd.status.schema.history import ElectionItem, ElectionList, Term, TermList
from controllerd.status.schema.status import BrokerStatus, DeletionStatus, ListenerStatus
from controllerd.status.schema.tasks import Task, TaskList
from controllerd.status.schema.work import (
    DeletionBlocker,
    DeletionItem,
    DeletionList,
    QueueItem,
    QueueList,
    ReassignmentItem,
    ReassignmentList,
    ReplicaProgress,
    RequestQueue,
    RequestQueueList,
)
from tests.cli.running import Outcome

AT, AT_MS = "2026-01-31T03:14:00.000Z", 1_769_829_240_000
META = Meta(cluster_id="cluster-1", controller_epoch=12, seq=99, generated_at=AT)
STATUS = BrokerStatus(
    id=3,
    broker_epoch=103,
    rack="r1",
    listeners=[ListenerStatus(name="PLAINTEXT", host="kafka3", port=9092, security_protocol="PLAINTEXT")],
    shutting_down=False,
    connected=True,
    queue_depth=2,
    queue_oldest_age_s=1.5,
    error=None,
)
BROKER = BrokerItem(
    id=3,
    alive=True,
    status=STATUS,
    leaders=10,
    preferred_leaders=12,
    replicas=30,
    offline_replicas=0,
    imbalance_percent=16.7,
    leader_skew_percent=-4.0,
)
GONE = msgspec.structs.replace(BROKER, id=5, alive=False, status=None, leaders=0, offline_replicas=30)
DELETION = DeletionStatus(topic="old", has_begun=True, held_up_by="offline replicas", deleting=[3])
TOPIC = TopicItem(
    topic="payments",
    topic_id="AAAAAAAAAAAAAAAAAAAAAA",
    partitions=8,
    replication_factor=3,
    offline=1,
    under_replicated=2,
    non_preferred=3,
    waiting=0,
    reassigning=1,
)
PARTITION = PartitionItem(
    topic="payments",
    partition=7,
    state="OfflinePartition",
    leader=-1,
    leader_epoch=42,
    isr=(5,),
    replicas=(5, 3, 6),
    adding=(6,),
    removing=(),
    offline=(5,),
    zk_version=88,
    preferred=5,
    min_isr=2,
    since=AT,
    last_event=88121,
)
TRANSITION = Transition(
    at=AT, at_ms=AT_MS, event_id=88121, event="BrokerChange", what="leader", was="5", now="nobody", reason="no replica"
)
PENDING = PendingRequest(broker=3, api="LeaderAndIsr", partitions=40, age_s=0.25, attempts=1, in_flight=True)
WHY = Why(
    subject="payments-7",
    condition="offline",
    severity="critical",
    headline="payments-7 is OFFLINE for 4m12s",
    since=AT,
    causes=[Cause(code="broker-dead", sentence="broker 5 left /brokers/ids", broker=5)],
    facts=["replicas 5,3,6   isr 5   leader -1"],
    next=["bring broker 5 back"],
)
TASK = Task(
    id="t1",
    verb="reassign",
    state="running",
    asked_by="unix:0",
    reason="new rack",
    began=AT,
    began_ms=AT_MS,
    ended=None,
    percent=42.0,
    eta_seconds=190.0,
    message="12 of 40 partitions moved",
    items=[],
    items_total=40,
)

DOCUMENTS: dict[str, msgspec.Struct] = {
    "/v1/brokers": BrokerList(meta=META, items=[BROKER, GONE]),
    "/v1/brokers/3": BrokerDetail(meta=META, broker=BROKER, pending=[PENDING], transitions=[TRANSITION]),
    "/v1/topics": TopicList(meta=META, items=[TOPIC], total=1),
    "/v1/topics/payments": TopicDetail(meta=META, topic=TOPIC, transitions=[TRANSITION]),
    "/v1/partitions": PartitionList(meta=META, items=[PARTITION], total=1),
    "/v1/partitions/payments/7": PartitionDetail(
        meta=META, partition=PARTITION, transitions=[TRANSITION], pending=[PENDING]
    ),
    "/v1/partitions/payments/7/why": WhyResponse(meta=META, why=WHY, partition=PARTITION, transitions=[TRANSITION]),
    "/v1/partitions/payments/8/why": WhyResponse(
        meta=META,
        why=msgspec.structs.replace(WHY, subject="payments-8", condition="unknown"),
        partition=None,
        transitions=[],
    ),
    "/v1/partitions/gone/3/why": WhyResponse(
        meta=META,
        why=msgspec.structs.replace(
            WHY, subject="gone-3", condition="unknown", headline="topic gone has no partition 3"
        ),
        partition=None,
        transitions=[],
    ),
    "/v1/topics/gone-3/why": WhyResponse(
        meta=META,
        why=msgspec.structs.replace(WHY, subject="gone-3", condition="unknown", headline="there is no topic gone-3"),
        partition=None,
        transitions=[],
    ),
    "/v1/topics/payments-8/why": WhyResponse(
        meta=META,
        why=msgspec.structs.replace(WHY, subject="payments-8", headline="payments-8 is a topic"),
        partition=None,
        transitions=[],
    ),
    "/v1/replicas": ReplicaList(
        meta=META,
        items=[
            ReplicaItem(
                topic="payments",
                partition=7,
                broker=5,
                state="OfflineReplica",
                is_leader=False,
                in_isr=True,
                is_online=False,
                role="replica",
            )
        ],
        total=1,
    ),
    "/v1/queue": QueueList(
        meta=META,
        items=[
            QueueItem(event_id=9, event="TopicChange", state=3, phase="running", wait_ms=1.5, run_ms=20.0),
            QueueItem(event_id=10, event="IsrChange", state=9, phase="waiting", wait_ms=7000.0, run_ms=None),
        ],
        depth=1,
    ),
    "/v1/requests": RequestQueueList(
        meta=META,
        items=[
            RequestQueue(
                broker=3,
                connected=True,
                depth=2,
                bytes_waiting=2048,
                oldest_age_s=1.5,
                in_flight="LeaderAndIsr",
                attempts=1,
                last_sent=AT,
                last_answered=None,
                error=None,
                waiting=[PENDING],
            )
        ],
    ),
    "/v1/reassignments": ReassignmentList(
        meta=META,
        items=[
            ReassignmentItem(
                topic="payments",
                partition=7,
                replicas=[5, 3, 6],
                adding=[6],
                removing=[5],
                target=[3, 6],
                age_s=90.0,
                percent=42.0,
                bytes_left=5 * 1024**3,
                bytes_per_s=50e6,
                eta_seconds=107.0,
                throttle_bytes_per_s=50_000_000,
                blocker="waits for replica 6 to get in sync",
                progress=[ReplicaProgress(broker=6, in_isr=False, bytes=1024, lag_bytes=5 * 1024**3)],
            )
        ],
        total=1,
    ),
    "/v1/deletions": DeletionList(
        meta=META,
        items=[
            DeletionItem(
                deletion=DELETION,
                replicas_by_state={"ReplicaDeletionStarted": 2},
                blockers=[DeletionBlocker(broker=5, replicas=2, state="ReplicaDeletionIneligible", why="not online")],
                age_s=400.0,
            )
        ],
    ),
    "/v1/elections": ElectionList(
        meta=META,
        items=[
            ElectionItem(
                at=AT,
                at_ms=AT_MS,
                event_id=88121,
                topic="payments",
                partition=7,
                strategy="OfflinePartitionLeaderElection",
                trigger="BrokerChange",
                was=5,
                leader=None,
                unclean=False,
                cause="no eligible replica",
            )
        ],
    ),
    "/v1/history": TermList(
        meta=META,
        items=[
            Term(controller_epoch=12, holder="controllerd 1", began=AT, began_ms=AT_MS, ended=None, reason="elected")
        ],
    ),
    "/v1/tasks": TaskList(meta=META, items=[TASK]),
}


@dataclass
class Daemon:
    """The documents that the daemon serves, and the requests that it received."""

    documents: dict[str, msgspec.Struct] = field(default_factory=lambda: dict(DOCUMENTS))
    problem: Problem | None = None
    """The answer to every request, if there is one."""
    role: str = "active"
    asked: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    """The idempotency keys of the POST requests."""

    def answer(self, target: str) -> tuple[int, bytes]:
        """The status code and the body."""
        url = urlsplit(target)
        if self.problem is not None:
            return self.problem.status, msgspec.json.encode(self.problem)
        if url.path == "/controller":
            body = {"role": self.role, "reason": "broker 2 (built-in) leads", "controller_epoch": 12}
            return (200 if self.role == "active" else 503), msgspec.json.encode(body)
        document = self.documents.get(url.path)
        if document is None:
            missing = Problem(title="Not Found", status=404, detail=f"{url.path} is not there", code="not_found")
            return 404, msgspec.json.encode(missing)
        return 200, msgspec.json.encode(_page(document, parse_qs(url.query)))


def _page(document: msgspec.Struct, query: dict[str, list[str]]) -> msgspec.Struct:
    """The page that limit and cursor select, of a document with pages."""
    if not hasattr(document, "next_cursor"):
        return document
    start, limit = int(query.get("cursor", ["0"])[0]), int(query.get("limit", ["1000"])[0])
    items = document.items[start : start + limit]  # type: ignore[attr-defined]  # every list that has a cursor has items
    following = start + limit if start + limit < document.total else None  # type: ignore[attr-defined]
    return msgspec.structs.replace(document, items=items, next_cursor=None if following is None else str(following))


def handler_of(daemon: Daemon) -> type[BaseHTTPRequestHandler]:
    """The HTTP handler that answers requests from this daemon's documents."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            daemon.asked.append(self.path)
            daemon.tokens.append(self.headers["Authorization"])
            status, body = daemon.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            daemon.keys.append(self.headers["Idempotency-Key"])
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
            """Nothing beside the test's own output."""

    return Handler


@contextmanager
def answering(daemon: Daemon) -> Iterator[str]:
    """The daemon on a port of the system's choice, in a thread of its own; its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_of(daemon)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def run(*arguments: str) -> Outcome:
    """``controllerctl`` within this process, which starts much faster; no terminal."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code: object = main(arguments)
        except SystemExit as ended:
            code = ended.code
    return Outcome(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())
