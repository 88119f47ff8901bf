"""Every command of controllerctl: its words, its output, its exit code, and its behaviour when deposed.

The behaviour against an unreachable or slow daemon is the same for all commands; test_trouble.py checks it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from controllerd.audit.heads import ExportedHead
from controllerd.planning.plans import Plan
from controllerd.status.schema.cluster import (
    BrokerDetail,
    BrokerItem,
    BrokerList,
    PartitionDetail,
    PartitionItem,
    PartitionList,
    ReplicaItem,
    ReplicaList,
    TopicDetail,
    TopicItem,
    TopicList,
    WhyResponse,
)
from controllerd.status.schema.common import Finding, FindingList
from controllerd.status.schema.config import ConfigItem, ConfigList, SettingItem, SettingList
from controllerd.status.schema.history import (
    ElectionItem,
    ElectionList,
    Happening,
    ObservationsResponse,
    Term,
    TermList,
)
from controllerd.status.schema.status import StatusResponse
from controllerd.status.schema.tasks import (
    ForgetResponse,
    ResignResponse,
    TakeoverResponse,
    Task,
    TaskList,
    TaskResponse,
)
from controllerd.status.schema.work import (
    DeletionItem,
    DeletionList,
    Difference,
    DifferenceList,
    QueueItem,
    QueueList,
    ReassignmentItem,
    ReassignmentList,
    RequestQueue,
    RequestQueueList,
)
from replay.command.state import StateAt
from replay.command.why import PartitionExplanation
from tests.cli.matrix.clusters import LEADER, SUCCESSOR
from tests.cli.matrix.shapes import Checked, Differences, Explained, Ingested, Line, Replayed, Stats, Verified, Version

NO_DAEMON: Final = ""
KNOWS_LITTLE: Final = f"standby: {SUCCESSOR} holds the role): this instance shows what it knows"
DOES_NOT_KNOW: Final = (
    4,
    f"does not know the cluster (standby: {SUCCESSOR} holds the role): name the active controller",
)
REFUSED: Final = (4, f"{SUCCESSOR} leads")
TASK_ID: Final = "[0-9a-f]{16}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One command. In words ``{log}`` and the like are files, ``{out}`` is where it may write."""

    words: str
    """How it is called to get ``code``."""
    document: Any = None
    """The type of ``-o json``; None: the output is text in every format."""
    item: Any = None
    """Of lists, the type of each line of ``-o jsonl``; None: the document on one line."""
    is_stream: bool = False
    """Whether it prints one document after the other, each of ``document``."""
    is_endless: bool = False
    """Whether the command runs until Ctrl-C."""
    names: tuple[str, ...] = ()
    """The lines of ``-o name``, as patterns."""
    heading: str = ""
    """How the headings of the table begin; none: it prints sentences or facts."""
    says: str = ""
    """A text that the table, or the sentences, contain."""
    code: int = 0
    on: str = "active"
    """The cluster that it is tried on; ``NO_DAEMON``: it reads files, or itself."""
    stuck: str = "stuck"
    """The same cluster without an event task."""
    changes: bool = False
    is_only_begun: bool = False
    """Whether it ends when the operation has begun, unless a flag asks it to wait."""
    asks_event_task: bool = False
    """Whether the event task judges the plan already."""
    deposed: tuple[int, str] = (0, KNOWS_LITTLE)
    """The exit code and some words, of an instance that led before."""
    ends: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """Further exit codes of its own, each with words that provoke it; ``@sound`` in front names the cluster."""


def verb(words: str, *says: str, **more: Any) -> Row:
    """A command that begins an operation, which answers with its task."""
    given: dict[str, Any] = {
        "document": TaskResponse,
        "names": (TASK_ID,),
        "heading": "SUBJECT",
        "says": says[0] if says else "",
        "changes": True,
        "deposed": REFUSED,
    }
    return Row(words=words, **(given | more))


ROWS: Final[Mapping[str, Row]] = {
    # -- looking -------------------------------------------------------------------------------------------------------
    "status": Row(
        words="status",
        document=StatusResponse,
        names=(LEADER,),
        heading="BROKER",
        says="old: replicas on broker 4 cannot be deleted: not online",
        deposed=(0, f"standby: {SUCCESSOR} holds the role"),
    ),
    "why": Row(
        words="why dark-0",
        document=WhyResponse,
        names=("dark-0",),
        says="broker 4 left /brokers/ids",
        deposed=(4, f"ask {SUCCESSOR}"),
        ends={3: "why nowhere"},
    ),
    "doctor": Row(
        words="doctor",
        document=FindingList,
        item=Finding,
        names=("[a-z-]+",),
        heading="VERDICT",
        says="why dark-0",
        code=1,
        deposed=(0, "standby"),
        ends={0: "@sound doctor"},
    ),
    "diff": Row(
        words="diff",
        document=DifferenceList,
        item=Difference,
        names=("t-0",),
        heading="SUBJECT",
        code=1,
        deposed=(4, SUCCESSOR),
        ends={0: "@sound diff", 66: "diff --at 1769828400000 --at 1769832000000 {empty}"},
    ),
    "observations": Row(
        words="observations --check",
        document=ObservationsResponse,
        names=("orders-0", "audit-3"),
        heading="CAUSE",
        says="different: leader",
        code=1,
        on="observer",
        deposed=(4, "is not an observer"),
        ends={0: "observations", 4: "@active observations"},
    ),
    "get brokers": Row(
        words="get brokers", document=BrokerList, item=BrokerItem, names=("1", "2", "3", "4"), heading="BROKER"
    ),
    "get balance": Row(
        words="get balance", document=BrokerList, item=BrokerItem, names=("1", "2", "3", "4"), heading="BROKER"
    ),
    "get topics": Row(
        words="get topics",
        document=TopicList,
        item=TopicItem,
        names=("dark", "lone", "moving", "old", "t", "wide"),
        heading="TOPIC",
        says="deletion halted",
    ),
    "get partitions": Row(
        words="get partitions --offline",
        document=PartitionList,
        item=PartitionItem,
        names=("dark-0",),
        heading="PARTITION",
        says="OfflinePartition",
    ),
    "get replicas": Row(
        words="get replicas --on 3",
        document=ReplicaList,
        item=ReplicaItem,
        names=("moving-0-3", "wide-0-3"),
        heading="PARTITION",
    ),
    "get queue": Row(
        words="get queue", document=QueueList, item=QueueItem, names=(r"\d+",), heading="EVENT", says="done"
    ),
    "get requests": Row(
        words="get requests --broker 2", document=RequestQueueList, item=RequestQueue, names=("2",), heading="BROKER"
    ),
    "get reassignments": Row(
        words="get reassignments",
        document=ReassignmentList,
        item=ReassignmentItem,
        names=("moving-0",),
        heading="PARTITION",
        says="broker 3 not in the ISR yet",
    ),
    "get deletions": Row(
        words="get deletions",
        document=DeletionList,
        item=DeletionItem,
        names=("old",),
        heading="TOPIC",
        says="replicas on broker 4 cannot be deleted",
    ),
    "get elections": Row(
        words="get elections",
        document=ElectionList,
        item=ElectionItem,
        names=(r"(dark|wide|old|lone|moving|t)-\d",),
        heading="AT",
        says="no replica is electable",
    ),
    "get tasks": Row(words="get tasks", document=TaskList, item=Task, names=(TASK_ID,), heading="TASK", says="resync"),
    "get settings": Row(
        words="get settings",
        document=SettingList,
        item=SettingItem,
        names=(r"[a-z.]+",),
        heading="SETTING",
        says="default.replication.factor",
    ),
    "get history": Row(words="get history", document=TermList, item=Term, names=("1",), heading="EPOCH", says=LEADER),
    "describe topic": Row(
        words="describe topic t",
        document=TopicDetail,
        names=("t",),
        heading="PARTITION",
        deposed=DOES_NOT_KNOW,
        ends={3: "describe topic nowhere"},
    ),
    "describe partition": Row(
        words="describe partition dark-0",
        document=PartitionDetail,
        names=("dark-0",),
        heading="AT",
        says="OfflinePartition",
        deposed=DOES_NOT_KNOW,
        ends={3: "describe partition t-99"},
    ),
    "describe broker": Row(
        words="describe broker 4",
        document=BrokerDetail,
        names=("4",),
        heading="AT",
        says="gone",
        deposed=DOES_NOT_KNOW,
        ends={3: "describe broker 99"},
    ),
    "events tail": Row(
        words="events tail --since 10m --kind term",
        document=Happening,
        is_stream=True,
        is_endless=True,
        names=(r"[0-9a-f]{12}\.\d+",),
        says="term 1: elected",
        code=130,
        deposed=(130, "fenced"),
    ),
    "config show": Row(
        words="config show",
        document=ConfigList,
        item=ConfigItem,
        names=("log.level", "node.id"),
        heading="KEY",
        deposed=(0, "prod.toml"),
    ),
    # -- changing ------------------------------------------------------------------------------------------------------
    "takeover": Row(
        words="takeover",
        document=TakeoverResponse,
        names=(LEADER,),
        says="controller epoch 2 -> 3",
        on="deposed",
        stuck="stalled",
        changes=True,
        deposed=(0, f"role taken from {SUCCESSOR}"),
        ends={4: "@deposed takeover --from broker"},
    ),
    "resign": Row(
        words="resign",
        document=ResignResponse,
        names=(SUCCESSOR,),
        says=f"{SUCCESSOR} is the controller",
        changes=True,
        deposed=(0, f"nothing to do: this instance stands by, {SUCCESSOR} holds the role"),
    ),
    "reassign plan": Row(
        words="reassign plan --topics t --from 1",
        document=Plan,
        names=("t-0", "t-1", "t-2"),
        heading="PARTITION",
        deposed=REFUSED,
    ),
    "reassign apply": verb(
        "reassign apply -f {plan} --additional",
        "t-0",
        is_only_begun=True,
        ends={
            2: "reassign apply -f {empty}/none.json",
            3: "reassign apply -f {unknown_plan} --additional",
            4: "reassign apply -f {plan}",
            5: "reassign apply -f {mixed_plan} --additional --dry-run",
            124: "reassign apply -f {plan} --additional --wait-at-most 1ms",
        },
    ),
    "reassign cancel": verb(
        "reassign cancel moving-0", "moving-0", ends={3: "reassign cancel nowhere-0", 4: "reassign cancel t-0"}
    ),
    "reassign status": Row(
        words="reassign status",
        document=ReassignmentList,
        item=ReassignmentItem,
        names=("moving-0",),
        heading="PARTITION",
        code=6,
        deposed=DOES_NOT_KNOW,
        ends={0: "@sound reassign status", 124: "reassign status --wait-at-most 1ms"},
    ),
    "elect preferred": verb(
        "elect preferred --topic wide",
        "leader 1 -> 3",
        ends={
            3: "elect preferred --topic nowhere",
            4: "elect preferred --topic dark",
            5: "elect preferred --all",
        },
    ),
    "elect unclean": verb(
        "elect unclean --topic dark --i-accept-data-loss --reason drill",
        "leader -1 -> 2",
        ends={3: "elect unclean --topic nowhere --i-accept-data-loss --reason drill"},
    ),
    "topics create": verb(
        "topics create new --partitions 1 --replication-factor 2",
        "new",
        is_only_begun=True,
        asks_event_task=True,
        ends={4: "topics create t"},
    ),
    "topics delete": verb(
        "topics delete lone --reason drill",
        "lone",
        is_only_begun=True,
        ends={3: "topics delete nowhere --reason drill"},
    ),
    "topics add-partitions": verb(
        "topics add-partitions lone --partitions 2",
        "lone",
        is_only_begun=True,
        asks_event_task=True,
        ends={3: "topics add-partitions nowhere --partitions 2", 4: "topics add-partitions t --partitions 1"},
    ),
    "drain broker": verb("drain broker 1", "leader 1 -> ", code=5, ends={0: "drain broker 2", 4: "drain broker 4"}),
    "pause": verb("pause deletions --for 90s", "deletions"),
    "resume": verb("resume auto-rebalance", "auto-rebalance"),
    "resync": verb("resync", "read again"),
    "brokers forget": Row(
        words="brokers forget 4 --reason drill",
        document=ForgetResponse,
        names=("4",),
        says="broker 4 forgotten",
        changes=True,
        deposed=REFUSED,
        ends={4: "brokers forget 1 --reason drill"},
    ),
    # -- without a daemon ----------------------------------------------------------------------------------------------
    "config check": Row(
        words="config check {good}",
        document=Checked,
        names=(r".*/good\.toml",),
        says="is valid",
        on=NO_DAEMON,
        ends={78: "config check {bad}"},
    ),
    "config explain": Row(
        words="config explain zookeeper.session_timeout_ms",
        document=Explained,
        names=("zookeeper.session_timeout_ms",),
        says="CONTROLLERD__ZOOKEEPER__SESSION_TIMEOUT_MS",
        on=NO_DAEMON,
        ends={3: "config explain nonsense"},
    ),
    "audit verify": Row(
        words="audit verify {damaged}",
        document=Verified,
        names=(r".*\.jsonl",),
        heading="HARM",
        code=65,
        on=NO_DAEMON,
        ends={0: "audit verify {whole}", 66: "audit verify {empty}"},
    ),
    "audit head": Row(
        words="audit head {log}",
        document=ExportedHead,
        names=("[0-9a-f]{64}",),
        says='"hash"',
        on=NO_DAEMON,
        ends={66: "audit head {empty}"},
    ),
    "audit tail": Row(
        words="audit tail {log}",
        document=Line,
        is_stream=True,
        names=(r"boot\.\d+",),
        says="seq",
        on=NO_DAEMON,
        ends={66: "audit tail {empty}"},
    ),
    "audit cat": Row(
        words="audit cat {log} --topic payments",
        document=Line,
        is_stream=True,
        names=(r"boot\.\d+",),
        says="seq",
        on=NO_DAEMON,
        ends={66: "audit cat {empty}"},
    ),
    "audit stats": Row(
        words="audit stats {log}",
        document=Stats,
        names=("[a-z_]+",),
        heading="KIND",
        on=NO_DAEMON,
        ends={66: "audit stats {empty}"},
    ),
    "audit schema": Row(
        words="audit schema", document=dict[str, Any], names=("[a-z_]+",), says="$schema", on=NO_DAEMON
    ),
    "replay run": Row(
        words="replay run {whole} --out {out}",
        document=Replayed,
        names=(".*/report.html", ".*/report.json", ".*/report.md"),
        says="no invariant violated",
        on=NO_DAEMON,
        ends={
            1: "replay run {broken} --out {out}",
            65: "replay run {damaged} --out {out}",
            66: "replay run {empty} --out {out}",
        },
    ),
    "replay ingest": Row(
        words="replay ingest {whole} --out {out}",
        document=Ingested,
        names=(".*/out",),
        says="facts",
        on=NO_DAEMON,
        ends={66: "replay ingest {empty} --out {out}"},
    ),
    "replay report": Row(
        words="replay report {facts}",
        document=Replayed,
        names=(".*/report.html", ".*/report.json", ".*/report.md"),
        says="no invariant violated",
        on=NO_DAEMON,
        ends={66: "replay report {empty}"},
    ),
    "replay why": Row(
        words="replay why payments-7 --at 2026-01-31T03:14:00Z {log}",
        document=PartitionExplanation,
        names=("payments-7",),
        says="Broker 5, its leader, left the cluster",
        on=NO_DAEMON,
        ends={
            3: "replay why orders-0 --at 2026-01-31T03:14:00Z {log}",
            66: "replay why payments-7 --at 2026-01-31T03:14:00Z {empty}",
        },
    ),
    "replay at": Row(
        words="replay at --time 2026-01-31T03:14:00Z {log}",
        document=StateAt,
        names=("payments-7",),
        heading="PARTITION",
        on=NO_DAEMON,
        ends={3: "replay at --epoch 99 {log}", 66: "replay at {empty}"},
    ),
    "replay diff": Row(
        words="replay diff --at 2026-01-31T03:00:00Z --at 2026-01-31T03:14:00Z {log}",
        document=Differences,
        names=("(payments-7|broker 5)",),
        heading="SUBJECT",
        code=1,
        on=NO_DAEMON,
        ends={
            0: "replay diff --at 2026-01-31T03:14:00Z --at 2026-01-31T03:14:00Z {log}",
            66: "replay diff --at 2026-01-31T03:00:00Z --at 2026-01-31T03:14:00Z {empty}",
        },
    ),
    "completion": Row(words="completion bash", says="_CONTROLLERCTL_COMPLETE=complete_bash", on=NO_DAEMON),
    "exit-codes": Row(
        words="exit-codes", document=dict[str, str], names=(r"\d+",), heading="CODE", says="124", on=NO_DAEMON
    ),
    "version": Row(words="version", document=Version, names=(r"\d+\.\d+\.\d+",), says="controllerctl ", on=NO_DAEMON),
}
