"""Brokers, topics, partitions and replicas as tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cli.lists import ListDefinition, TableColumn
from cli.output import dash, human_bytes, human_duration, human_rate, ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllerd.explain.answers import Transition
    from controllerd.status.schema.cluster import BrokerItem, PartitionItem, ReplicaItem, TopicItem
    from controllerd.status.schema.config import BrokerValue, SettingItem
    from controllerd.status.schema.history import ElectionItem, Term
    from controllerd.status.schema.tasks import Task, TaskItem
    from controllerd.status.schema.work import DeletionItem, QueueItem, ReassignmentItem, RequestQueue


def broker_state(item: "BrokerItem") -> str:
    """Return the state in a word or two; the reason for which a broker is unreachable has its own column."""
    if not item.alive or item.status is None:
        return "gone"
    if item.status.shutting_down:
        return "shutting down"
    if item.status.error:
        return "unreachable"
    return "connected" if item.status.connected else "registered"


def listeners(item: "BrokerItem") -> str:
    """Return listeners as ``PLAINTEXT://kafka1:9092 SSL://kafka1:9093``."""
    known = item.status.listeners if item.status is not None else ()
    return " ".join(f"{one.name}://{one.host}:{one.port}" for one in known) or "-"


def waiting(item: "BrokerItem") -> str:
    """Return the number of waiting requests, and the age of the oldest."""
    if item.status is None or not item.status.queue_depth:
        return "-"
    return f"{item.status.queue_depth} for {human_duration(item.status.queue_oldest_age_s)}"


def topic_state(item: "TopicItem") -> str:
    """Return the state of a topic, the worst one of several."""
    if item.quarantine:
        return "quarantined"
    if item.deletion is not None:
        return "deletion halted" if item.deletion.held_up_by else "deleting"
    if item.offline:
        return "offline"
    if item.under_replicated:
        return "under-replicated"
    return "reassigning" if item.reassigning else "ok"


def isr_size(item: "PartitionItem") -> str:
    """Return the number of replicas in sync, as ``2/3``."""
    return f"{len(item.isr)}/{len(item.replicas)}"


def _registered_controller(document: Mapping[str, Any]) -> str | None:
    """Return the note that the registration of controllerd is not that of a broker."""
    registered = document.get("registered_controller")
    if registered is None:
        return None
    return f"/brokers/ids/{registered} is this controller, registered for brokers older than 3.0; it is not a broker"


def values_by_broker(values: "Sequence[BrokerValue]") -> str:
    """Return the values of brokers as ``1: true, 2: false``."""
    return ", ".join(f"{each.broker}: {each.value}" for each in values) or "-"


BROKERS: Final["ListDefinition[BrokerItem]"] = ListDefinition(
    "/v1/brokers",
    (
        TableColumn("BROKER", lambda item: str(item.id), right=True),
        TableColumn("STATE", broker_state),
        TableColumn("RACK", lambda item: dash(item.status.rack if item.status else None)),
        TableColumn("LEADERS", lambda item: str(item.leaders), right=True),
        TableColumn("PREFERRED", lambda item: str(item.preferred_leaders), right=True),
        TableColumn("REPLICAS", lambda item: str(item.replicas), right=True),
        TableColumn("OFFLINE", lambda item: str(item.offline_replicas), right=True),
        TableColumn("WAITING", waiting),
        TableColumn("LISTENERS", listeners),
        TableColumn(
            "EPOCH", lambda item: dash(item.status.broker_epoch if item.status else None), wide=True, right=True
        ),
        TableColumn("IMBALANCE", lambda item: f"{item.imbalance_percent:.1f}%", wide=True, right=True),
        TableColumn("SKEW", lambda item: f"{item.leader_skew_percent:+.1f}%", wide=True, right=True),
        TableColumn("ERROR", lambda item: dash(item.status.error if item.status else None), wide=True),
    ),
    lambda item: str(item.id),
    "no brokers",
    remark=_registered_controller,
)

BALANCE: Final["ListDefinition[BrokerItem]"] = ListDefinition(
    "/v1/brokers",
    (
        TableColumn("BROKER", lambda item: str(item.id), right=True),
        TableColumn("RACK", lambda item: dash(item.status.rack if item.status else None)),
        TableColumn("STATE", broker_state),
        TableColumn("LEADERS", lambda item: str(item.leaders), right=True),
        TableColumn("SKEW", lambda item: f"{item.leader_skew_percent:+.1f}%", right=True),
        TableColumn("PREFERRED", lambda item: str(item.preferred_leaders), right=True),
        TableColumn("IMBALANCE", lambda item: f"{item.imbalance_percent:.1f}%", right=True),
        TableColumn("REPLICAS", lambda item: str(item.replicas), right=True),
    ),
    lambda item: str(item.id),
    "no brokers",
)

TOPICS: Final["ListDefinition[TopicItem]"] = ListDefinition(
    "/v1/topics",
    (
        TableColumn("TOPIC", lambda item: item.topic),
        TableColumn("PARTITIONS", lambda item: str(item.partitions), right=True),
        TableColumn("RF", lambda item: str(item.replication_factor), right=True),
        TableColumn("OFFLINE", lambda item: str(item.offline), right=True),
        TableColumn("UNDER-REPL", lambda item: str(item.under_replicated), right=True),
        TableColumn("NON-PREF", lambda item: str(item.non_preferred), right=True),
        TableColumn("STATE", topic_state),
        TableColumn("WAITING", lambda item: str(item.waiting), wide=True, right=True),
        TableColumn("REASSIGNING", lambda item: str(item.reassigning), wide=True, right=True),
        TableColumn("TOPIC ID", lambda item: dash(item.topic_id), wide=True),
        TableColumn(
            "WHY", lambda item: dash(item.quarantine or (item.deletion and item.deletion.held_up_by)), wide=True
        ),
    ),
    lambda item: item.topic,
    "no topics",
    is_paged=True,
)

PARTITIONS: Final["ListDefinition[PartitionItem]"] = ListDefinition(
    "/v1/partitions",
    (
        TableColumn("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        TableColumn("STATE", lambda item: item.state),
        TableColumn("LEADER", lambda item: dash(item.leader), right=True),
        TableColumn("PREFERRED", lambda item: dash(item.preferred), right=True),
        TableColumn("ISR", lambda item: ids(item.isr)),
        TableColumn("REPLICAS", lambda item: ids(item.replicas)),
        TableColumn("OFFLINE", lambda item: ids(item.offline)),
        TableColumn("LEADER SINCE", lambda item: dash(item.since)),
        TableColumn("EPOCH", lambda item: dash(item.leader_epoch), wide=True, right=True),
        TableColumn("VERSION", lambda item: dash(item.zk_version), wide=True, right=True),
        TableColumn("IN SYNC", isr_size, wide=True),
        TableColumn("MIN ISR", lambda item: dash(item.min_isr), wide=True, right=True),
        TableColumn("ADDING", lambda item: ids(item.adding), wide=True),
        TableColumn("REMOVING", lambda item: ids(item.removing), wide=True),
        TableColumn("EVENT", lambda item: dash(item.last_event), wide=True, right=True),
        TableColumn("QUARANTINE", lambda item: dash(item.quarantine), wide=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "no partitions",
    is_paged=True,
)

REPLICAS: Final["ListDefinition[ReplicaItem]"] = ListDefinition(
    "/v1/replicas",
    (
        TableColumn("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        TableColumn("BROKER", lambda item: str(item.broker), right=True),
        TableColumn("STATE", lambda item: item.state),
        TableColumn("ROLE", lambda item: item.role),
        TableColumn("LEADER", lambda item: "leader" if item.is_leader else "-"),
        TableColumn("ISR", lambda item: "in" if item.in_isr else "out"),
        TableColumn("BROKER IS", lambda item: "online" if item.is_online else "offline"),
    ),
    lambda item: f"{item.topic}-{item.partition}-{item.broker}",
    "no replicas",
    is_paged=True,
)

SETTINGS: Final["ListDefinition[SettingItem]"] = ListDefinition(
    "/v1/settings",
    (
        TableColumn("SETTING", lambda item: item.setting),
        TableColumn("VALUE", lambda item: item.value),
        TableColumn("FROM", lambda item: item.origin or item.source),
        TableColumn("DIFFERING", lambda item: values_by_broker(item.differing)),
        TableColumn("BROKERS", lambda item: values_by_broker(item.brokers), wide=True),
        TableColumn("PROBLEM", lambda item: dash(item.problem), wide=True),
    ),
    lambda item: item.setting,
    "no settings: this instance asks no broker for them",
)


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else human_duration(seconds)


def _size(number: int | None) -> str:
    return "-" if number is None else human_bytes(number)


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else human_rate(bytes_per_s)


def _percent(percent: float | None) -> str:
    return "-" if percent is None else f"{percent:.1f}%"


def _milliseconds(ms: float | None) -> str:
    return "-" if ms is None else human_duration(ms / 1000)


def _blockers(item: "DeletionItem") -> str:
    reason = item.deletion.held_up_by
    named = "; ".join(f"broker {one.broker} ({one.replicas} {one.state}): {one.why}" for one in item.blockers)
    return dash(named or reason)


def _by_state(item: "DeletionItem") -> str:
    return ", ".join(f"{number} {state}" for state, number in item.replicas_by_state.items()) or "-"


def _progress(item: "ReassignmentItem") -> str:
    """Return how far each added replica is behind."""
    return (
        ", ".join(
            f"{one.broker}: {'in sync' if one.in_isr else f'{_size(one.lag_bytes)} behind'}" for one in item.progress
        )
        or "-"
    )


QUEUE: Final["ListDefinition[QueueItem]"] = ListDefinition(
    "/v1/queue",
    (
        TableColumn("EVENT", lambda item: str(item.event_id), right=True),
        TableColumn("TYPE", lambda item: item.event),
        TableColumn("PHASE", lambda item: item.phase),
        TableColumn("WAITED", lambda item: _milliseconds(item.wait_ms), right=True),
        TableColumn("RAN", lambda item: _milliseconds(item.run_ms), right=True),
        TableColumn("OUTCOME", lambda item: dash(item.error or item.outcome)),
        TableColumn("STATE", lambda item: str(item.state), wide=True, right=True),
        TableColumn("DETAIL", lambda item: dash(item.detail), wide=True),
    ),
    lambda item: str(item.event_id),
    "no waiting and no recent events",
)

REQUESTS: Final["ListDefinition[RequestQueue]"] = ListDefinition(
    "/v1/requests",
    (
        TableColumn("BROKER", lambda item: str(item.broker), right=True),
        TableColumn("CONNECTED", lambda item: "yes" if item.connected else "no"),
        TableColumn("WAITING", lambda item: str(item.depth), right=True),
        TableColumn("OLDEST", lambda item: _duration(item.oldest_age_s) if item.depth else "-", right=True),
        TableColumn("IN FLIGHT", lambda item: dash(item.in_flight)),
        TableColumn("ATTEMPTS", lambda item: str(item.attempts), right=True),
        TableColumn("BYTES", lambda item: _size(item.bytes_waiting), right=True),
        TableColumn("ERROR", lambda item: dash(item.error)),
        TableColumn("LAST SENT", lambda item: dash(item.last_sent), wide=True),
        TableColumn("LAST ANSWERED", lambda item: dash(item.last_answered), wide=True),
    ),
    lambda item: str(item.broker),
    "no connections to brokers",
)

REASSIGNMENTS: Final["ListDefinition[ReassignmentItem]"] = ListDefinition(
    "/v1/reassignments",
    (
        TableColumn("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        TableColumn("ADDING", lambda item: ids(item.adding)),
        TableColumn("REMOVING", lambda item: ids(item.removing)),
        TableColumn("DONE", lambda item: _percent(item.percent), right=True),
        TableColumn("LEFT", lambda item: _size(item.bytes_left), right=True),
        TableColumn("RATE", lambda item: _rate(item.bytes_per_s), right=True),
        TableColumn("ETA", lambda item: _duration(item.eta_seconds), right=True),
        TableColumn("AGE", lambda item: _duration(item.age_s), right=True),
        TableColumn("WAITS FOR", lambda item: dash(item.blocker)),
        TableColumn("REPLICAS", lambda item: ids(item.replicas), wide=True),
        TableColumn("TARGET", lambda item: ids(item.target), wide=True),
        TableColumn("THROTTLE", lambda item: _rate(item.throttle_bytes_per_s), wide=True, right=True),
        TableColumn("PROGRESS", _progress, wide=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "no partition is being reassigned",
    is_paged=True,
)

DELETIONS: Final["ListDefinition[DeletionItem]"] = ListDefinition(
    "/v1/deletions",
    (
        TableColumn("TOPIC", lambda item: item.deletion.topic),
        TableColumn("BEGUN", lambda item: "yes" if item.deletion.has_begun else "no"),
        TableColumn("AGE", lambda item: _duration(item.age_s), right=True),
        TableColumn("WAITS FOR BROKERS", lambda item: ids(item.deletion.deleting)),
        TableColumn("HELD UP BY", lambda item: dash(item.deletion.held_up_by)),
        TableColumn("REPLICAS", _by_state, wide=True),
        TableColumn("BLOCKERS", _blockers, wide=True),
    ),
    lambda item: item.deletion.topic,
    "no topic is being deleted",
)

ELECTIONS: Final["ListDefinition[ElectionItem]"] = ListDefinition(
    "/v1/elections",
    (
        TableColumn("AT", lambda item: item.at),
        TableColumn("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        TableColumn("STRATEGY", lambda item: item.strategy),
        TableColumn("TRIGGER", lambda item: item.trigger),
        TableColumn("WAS", lambda item: str(item.was), right=True),
        TableColumn("LEADER", lambda item: "failed" if item.leader is None else str(item.leader), right=True),
        TableColumn("UNCLEAN", lambda item: "DATA LOSS" if item.unclean else "-"),
        TableColumn("CAUSE", lambda item: dash(item.cause)),
        TableColumn("EVENT", lambda item: str(item.event_id), wide=True, right=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "no recent elections",
)

TERMS: Final["ListDefinition[Term]"] = ListDefinition(
    "/v1/history",
    (
        TableColumn("EPOCH", lambda item: dash(item.controller_epoch), right=True),
        TableColumn("HOLDER", lambda item: item.holder),
        TableColumn("BEGAN", lambda item: item.began),
        TableColumn("ENDED", lambda item: dash(item.ended)),
        TableColumn("REASON", lambda item: dash(item.reason)),
    ),
    lambda item: dash(item.controller_epoch),
    "no terms were observed",
)

TASKS: Final["ListDefinition[Task]"] = ListDefinition(
    "/v1/tasks",
    (
        TableColumn("TASK", lambda item: item.id),
        TableColumn("VERB", lambda item: item.verb),
        TableColumn("STATE", lambda item: item.state),
        TableColumn("DONE", lambda item: _percent(item.percent), right=True),
        TableColumn("ETA", lambda item: _duration(item.eta_seconds), right=True),
        TableColumn("BEGAN", lambda item: item.began),
        TableColumn("MESSAGE", lambda item: dash(item.message)),
        TableColumn("ENDED", lambda item: dash(item.ended), wide=True),
        TableColumn("ASKED BY", lambda item: dash(item.asked_by), wide=True),
        TableColumn("REASON", lambda item: dash(item.reason), wide=True),
    ),
    lambda item: item.id,
    "no running operations, and none that ended within the last hour",
)

TASK_ITEMS: Final[tuple[TableColumn["TaskItem"], ...]] = (
    TableColumn("SUBJECT", lambda item: item.subject),
    TableColumn("STATE", lambda item: item.state),
    TableColumn("DETAIL", lambda item: dash(item.detail)),
    TableColumn("ERROR", lambda item: dash(item.kafka_error)),
)

TRANSITIONS: Final[tuple[TableColumn["Transition"], ...]] = (
    TableColumn("AT", lambda item: item.at),
    TableColumn("EVENT", lambda item: f"{item.event_id} {item.event}"),
    TableColumn("WHAT", lambda item: item.what),
    TableColumn("WAS", lambda item: dash(item.was)),
    TableColumn("NOW", lambda item: dash(item.now)),
    TableColumn("REASON", lambda item: dash(item.reason)),
)
