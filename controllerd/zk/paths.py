"""Every znode path in one place. Without the chroot: the ZooKeeper client adds and removes it."""

import re
from collections.abc import Iterable
from typing import Final

from controllerd.core.model import BrokerId, TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
BROKERS: Final = "/brokers"
BROKER_IDS: Final = "/brokers/ids"
BROKER_TOPICS: Final = "/brokers/topics"
BROKER_SEQUENCE: Final = "/brokers/seqid"
CONFIG: Final = "/config"
CONFIG_TOPICS: Final = "/config/topics"
CONFIG_CLIENTS: Final = "/config/clients"
CONFIG_USERS: Final = "/config/users"
CONFIG_BROKERS: Final = "/config/brokers"
CONFIG_IPS: Final = "/config/ips"
CONFIG_BROKER_DEFAULTS: Final = "/config/brokers/<default>"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_CHANGES: Final = "/delegation_token/token_changes"
DELEGATION_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"
PENDING_DELETIONS: Final = "/controllerd/owed_deletions"
"""Ours: a child per broker that must delete replicas when it is back. No broker looks at it."""
PAUSES: Final = "/controllerd/pauses"
"""Ours: the pauses of operators, which the controller respects for a while."""
THROTTLE: Final = "/controllerd/throttle"
"""Ours: the bounds that were set for reassignments, and what was there before."""
AUDIT_HEADS: Final = "/controllerd/audit"
"""Ours: a child per instance with the head of its audit log."""
CONSUMERS: Final = "/consumers"

PERSISTENT_PATHS: Final = (
    CONSUMERS,
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    CONFIG_TOPICS,
    CONFIG_CLIENTS,
    CONFIG_USERS,
    CONFIG_BROKERS,
    CONFIG_IPS,
)
"""What must exist, parents included, before a watch on children can be armed.

``/latest_producer_id_block`` is left out: no client watches it, brokers create it with null data, and brokers below 3.0
fail on empty data that is not null.
"""

_PARTITION_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(0|[1-9][0-9]*)(?:/state)?")
_MAX_INT32: Final = 2**31 - 1
_DIGITS: Final = 10


def broker(broker_id: BrokerId) -> str:
    """The registration of a broker."""
    return f"{BROKER_IDS}/{broker_id}"


def delegation_token(token_id: str) -> str:
    """Return the path of a delegation token."""
    return f"{DELEGATION_TOKENS}/{token_id}"


def topic(name: str) -> str:
    """The assignment of a topic."""
    return f"{BROKER_TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{BROKER_TOPICS}/{name}/partitions"


def partition(tp: TopicPartition) -> str:
    """The parent of a partition's state."""
    return f"{BROKER_TOPICS}/{tp.topic}/partitions/{tp.partition}"


def partition_state(tp: TopicPartition) -> str:
    """The leadership of a partition."""
    return tp.state_path


def partition_states(partitions: Iterable[TopicPartition]) -> list[str]:
    """The leaderships of many partitions."""
    return [f"{BROKER_TOPICS}/{topic}/partitions/{number}/state" for topic, number in partitions]


def delete_topic(name: str) -> str:
    """The marker that asks for the deletion of a topic."""
    return f"{DELETE_TOPICS}/{name}"


def topic_config(name: str) -> str:
    """The config overrides of a topic."""
    return f"{CONFIG_TOPICS}/{name}"


def broker_config(broker_id: BrokerId) -> str:
    """The dynamic config of a broker; ``CONFIG_BROKER_DEFAULTS`` is that of all brokers."""
    return f"{CONFIG_BROKERS}/{broker_id}"


def isr_change(child: str) -> str:
    """One notification of ISR changes."""
    return f"{ISR_CHANGES}/{child}"


def log_dir_event(child: str) -> str:
    """One notification of a failed log directory."""
    return f"{LOG_DIR_EVENTS}/{child}"


def pending_deletions(broker_id: BrokerId) -> str:
    """The replicas that a broker must delete when it is back."""
    return f"{PENDING_DELETIONS}/{broker_id}"


def audit_head(node_id: int) -> str:
    """The head of the audit log of an instance."""
    return f"{AUDIT_HEADS}/{node_id}"


def config_change(child: str) -> str:
    """One notification of a config change."""
    return f"{CONFIG_CHANGES}/{child}"


def parse_broker_id(child: str) -> BrokerId | None:
    """The broker id that a child of ``/brokers/ids`` names, or None when it is no id."""
    number = _parse_number(child)
    return BrokerId(number) if number is not None else None


def parse_partition_number(child: str) -> int | None:
    """The number that a child of a topic's ``partitions`` is, or None when it is none."""
    return _parse_number(child)


def parse_topic(path: str) -> str | None:
    """The topic of a topic, config or deletion znode, or of anything below a topic znode; None for other paths."""
    for parent in (BROKER_TOPICS, CONFIG_TOPICS, DELETE_TOPICS):
        if path.startswith(parent + "/"):
            return path[len(parent) + 1 :].split("/", 1)[0] or None
    return None


def parse_partition(path: str) -> TopicPartition | None:
    """The partition of a partition znode or of its state, or None for other paths."""
    match = _PARTITION_STATE.fullmatch(path)
    if match is None:
        return None
    number = _parse_number(match[2])
    return TopicPartition(match[1], number) if number is not None else None


def parse_sequence(child: str) -> int | None:
    """The number that ZooKeeper appended to a sequential child, or None when it has none."""
    digits = child[-10:]
    return int(digits) if len(child) > 10 and digits.isascii() and digits.isdigit() else None


def _parse_number(text: str) -> int | None:
    """A number as Kafka writes it (no sign, no leading zero), within 32 bits."""
    if len(text) > _DIGITS or not (text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        return None  # before int(), which raises for thousands of digits
    return number if (number := int(text)) <= _MAX_INT32 else None
