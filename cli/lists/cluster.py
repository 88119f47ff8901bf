"""Brokers, topics, partitions and replicas as tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cli.listing import Column, Listing
from cli.units import dash, human_duration, ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllerd.status.schema.cluster import BrokerItem, PartitionItem, ReplicaItem, TopicItem
    from controllerd.status.schema.config import BrokerValue, SettingItem


def broker_state(item: "BrokerItem") -> str:
    """In a word or two; why it is unreachable stands in a column of its own."""
    if not item.alive or item.status is None:
        return "gone"
    if item.status.shutting_down:
        return "shutting down"
    if item.status.error:
        return "unreachable"
    return "connected" if item.status.connected else "registered"


def listeners(item: "BrokerItem") -> str:
    """``PLAINTEXT://kafka1:9092 SSL://kafka1:9093``."""
    known = item.status.listeners if item.status is not None else ()
    return " ".join(f"{one.name}://{one.host}:{one.port}" for one in known) or "-"


def waiting(item: "BrokerItem") -> str:
    """How many requests wait for it, and since when."""
    if item.status is None or not item.status.queue_depth:
        return "-"
    return f"{item.status.queue_depth} for {human_duration(item.status.queue_oldest_age_s)}"


def topic_state(item: "TopicItem") -> str:
    """What is the matter with a topic, the worst first."""
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
    """``2/3`` replicas are in sync."""
    return f"{len(item.isr)}/{len(item.replicas)}"


def _registered_controller(document: Mapping[str, Any]) -> str | None:
    """Return the note that the registration of controllerd is not that of a broker."""
    registered = document.get("registered_controller")
    if registered is None:
        return None
    return f"/brokers/ids/{registered} is this controller, registered for brokers older than 3.0; it is not a broker"


def told(values: "Sequence[BrokerValue]") -> str:
    """Return the values of brokers as ``1: true, 2: false``."""
    return ", ".join(f"{each.broker}: {each.value}" for each in values) or "-"


BROKERS: Final["Listing[BrokerItem]"] = Listing(
    "/v1/brokers",
    (
        Column("BROKER", lambda item: str(item.id), right=True),
        Column("STATE", broker_state),
        Column("RACK", lambda item: dash(item.status.rack if item.status else None)),
        Column("LEADERS", lambda item: str(item.leaders), right=True),
        Column("PREFERRED", lambda item: str(item.preferred_leaders), right=True),
        Column("REPLICAS", lambda item: str(item.replicas), right=True),
        Column("OFFLINE", lambda item: str(item.offline_replicas), right=True),
        Column("WAITING", waiting),
        Column("LISTENERS", listeners),
        Column("EPOCH", lambda item: dash(item.status.broker_epoch if item.status else None), wide=True, right=True),
        Column("IMBALANCE", lambda item: f"{item.imbalance_percent:.1f}%", wide=True, right=True),
        Column("SKEW", lambda item: f"{item.leader_skew_percent:+.1f}%", wide=True, right=True),
        Column("ERROR", lambda item: dash(item.status.error if item.status else None), wide=True),
    ),
    lambda item: str(item.id),
    "no brokers",
    remark=_registered_controller,
)

BALANCE: Final["Listing[BrokerItem]"] = Listing(
    "/v1/brokers",
    (
        Column("BROKER", lambda item: str(item.id), right=True),
        Column("RACK", lambda item: dash(item.status.rack if item.status else None)),
        Column("STATE", broker_state),
        Column("LEADERS", lambda item: str(item.leaders), right=True),
        Column("SKEW", lambda item: f"{item.leader_skew_percent:+.1f}%", right=True),
        Column("PREFERRED", lambda item: str(item.preferred_leaders), right=True),
        Column("IMBALANCE", lambda item: f"{item.imbalance_percent:.1f}%", right=True),
        Column("REPLICAS", lambda item: str(item.replicas), right=True),
    ),
    lambda item: str(item.id),
    "no brokers",
)

TOPICS: Final["Listing[TopicItem]"] = Listing(
    "/v1/topics",
    (
        Column("TOPIC", lambda item: item.topic),
        Column("PARTITIONS", lambda item: str(item.partitions), right=True),
        Column("RF", lambda item: str(item.replication_factor), right=True),
        Column("OFFLINE", lambda item: str(item.offline), right=True),
        Column("UNDER-REPL", lambda item: str(item.under_replicated), right=True),
        Column("NON-PREF", lambda item: str(item.non_preferred), right=True),
        Column("STATE", topic_state),
        Column("WAITING", lambda item: str(item.waiting), wide=True, right=True),
        Column("REASSIGNING", lambda item: str(item.reassigning), wide=True, right=True),
        Column("TOPIC ID", lambda item: dash(item.topic_id), wide=True),
        Column("WHY", lambda item: dash(item.quarantine or (item.deletion and item.deletion.held_up_by)), wide=True),
    ),
    lambda item: item.topic,
    "no topics",
    is_paged=True,
)

PARTITIONS: Final["Listing[PartitionItem]"] = Listing(
    "/v1/partitions",
    (
        Column("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        Column("STATE", lambda item: item.state),
        Column("LEADER", lambda item: dash(item.leader), right=True),
        Column("PREFERRED", lambda item: dash(item.preferred), right=True),
        Column("ISR", lambda item: ids(item.isr)),
        Column("REPLICAS", lambda item: ids(item.replicas)),
        Column("OFFLINE", lambda item: ids(item.offline)),
        Column("LEADER SINCE", lambda item: dash(item.since)),
        Column("EPOCH", lambda item: dash(item.leader_epoch), wide=True, right=True),
        Column("VERSION", lambda item: dash(item.zk_version), wide=True, right=True),
        Column("IN SYNC", isr_size, wide=True),
        Column("MIN ISR", lambda item: dash(item.min_isr), wide=True, right=True),
        Column("ADDING", lambda item: ids(item.adding), wide=True),
        Column("REMOVING", lambda item: ids(item.removing), wide=True),
        Column("EVENT", lambda item: dash(item.last_event), wide=True, right=True),
        Column("QUARANTINE", lambda item: dash(item.quarantine), wide=True),
    ),
    lambda item: f"{item.topic}-{item.partition}",
    "no partitions",
    is_paged=True,
)

REPLICAS: Final["Listing[ReplicaItem]"] = Listing(
    "/v1/replicas",
    (
        Column("PARTITION", lambda item: f"{item.topic}-{item.partition}"),
        Column("BROKER", lambda item: str(item.broker), right=True),
        Column("STATE", lambda item: item.state),
        Column("ROLE", lambda item: item.role),
        Column("LEADER", lambda item: "leader" if item.is_leader else "-"),
        Column("ISR", lambda item: "in" if item.in_isr else "out"),
        Column("BROKER IS", lambda item: "online" if item.is_online else "offline"),
    ),
    lambda item: f"{item.topic}-{item.partition}-{item.broker}",
    "no replicas",
    is_paged=True,
)

SETTINGS: Final["Listing[SettingItem]"] = Listing(
    "/v1/settings",
    (
        Column("SETTING", lambda item: item.setting),
        Column("VALUE", lambda item: item.value),
        Column("FROM", lambda item: item.origin or item.source),
        Column("DIFFERING", lambda item: told(item.differing)),
        Column("BROKERS", lambda item: told(item.brokers), wide=True),
        Column("PROBLEM", lambda item: dash(item.problem), wide=True),
    ),
    lambda item: item.setting,
    "no settings: this instance asks no broker",
)
