"""All znode paths, without the chroot, which the ZooKeeper client adds and removes."""

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
"""Of controllerd: a child per absent broker with the replicas that it must delete. No broker reads it."""
PAUSES: Final = "/controllerd/pauses"
"""Of controllerd: the pauses that operators set, each until a time."""
THROTTLE: Final = "/controllerd/throttle"
"""Of controllerd: the throttle of reassignments, and the values that it replaced."""
AUDIT_HEADS: Final = "/controllerd/audit"
"""Of controllerd: a child per instance with the head of its audit log."""
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
"""The znodes that must exist, with their parents, before a watch on children can be armed.

``/latest_producer_id_block`` is not among them: no client watches it, brokers create it with null data, and brokers
below 3.0 fail on empty data that is not null.
"""

_PARTITION_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(0|[1-9][0-9]*)(?:/state)?")
_MAX_INT32: Final = 2**31 - 1
_DIGITS: Final = 10


def broker(broker_id: BrokerId) -> str:
    """Return the path of the registration of a broker."""
    return f"{BROKER_IDS}/{broker_id}"


def delegation_token(token_id: str) -> str:
    """Return the path of a delegation token."""
    return f"{DELEGATION_TOKENS}/{token_id}"


def topic(name: str) -> str:
    """Return the path of a topic, which holds its assignment."""
    return f"{BROKER_TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    """Return the path of the parent of all partitions of a topic."""
    return f"{BROKER_TOPICS}/{name}/partitions"


def partition(tp: TopicPartition) -> str:
    """Return the path of a partition, the parent of its state."""
    return f"{BROKER_TOPICS}/{tp.topic}/partitions/{tp.partition}"


def partition_state(tp: TopicPartition) -> str:
    """Return the path of the state of a partition."""
    return tp.state_path


def partition_states(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return the paths of the states of many partitions."""
    return [f"{BROKER_TOPICS}/{topic}/partitions/{number}/state" for topic, number in partitions]


def delete_topic(name: str) -> str:
    """Return the path of the marker that requests the deletion of a topic."""
    return f"{DELETE_TOPICS}/{name}"


def topic_config(name: str) -> str:
    """Return the path of the config overrides of a topic."""
    return f"{CONFIG_TOPICS}/{name}"


def broker_config(broker_id: BrokerId) -> str:
    """Return the path of the dynamic config of a broker; ``CONFIG_BROKER_DEFAULTS`` is that of all brokers."""
    return f"{CONFIG_BROKERS}/{broker_id}"


def isr_change(child: str) -> str:
    """Return the path of a notification of ISR changes."""
    return f"{ISR_CHANGES}/{child}"


def log_dir_event(child: str) -> str:
    """Return the path of a notification of a failed log directory."""
    return f"{LOG_DIR_EVENTS}/{child}"


def pending_deletions(broker_id: BrokerId) -> str:
    """Return the path of the pending replica deletions of a broker."""
    return f"{PENDING_DELETIONS}/{broker_id}"


def audit_head(node_id: int) -> str:
    """Return the path of the head of the audit log of an instance."""
    return f"{AUDIT_HEADS}/{node_id}"


def config_change(child: str) -> str:
    """Return the path of a notification of a config change."""
    return f"{CONFIG_CHANGES}/{child}"


def parse_broker_id(child: str) -> BrokerId | None:
    """Return the broker id that a child of ``/brokers/ids`` names; None if it is no id."""
    number = _parse_number(child)
    return BrokerId(number) if number is not None else None


def parse_partition_number(child: str) -> int | None:
    """Return the partition that a child of a topic's ``partitions`` names; None if it is no number."""
    return _parse_number(child)


def parse_topic(path: str) -> str | None:
    """Return the topic of a topic, config or deletion znode, or of a znode below a topic; None for other paths."""
    for parent in (BROKER_TOPICS, CONFIG_TOPICS, DELETE_TOPICS):
        if path.startswith(parent + "/"):
            return path[len(parent) + 1 :].split("/", 1)[0] or None
    return None


def parse_partition(path: str) -> TopicPartition | None:
    """Return the partition of a partition znode or of its state; None for other paths."""
    match = _PARTITION_STATE.fullmatch(path)
    if match is None:
        return None
    number = _parse_number(match[2])
    return TopicPartition(match[1], number) if number is not None else None


def parse_sequence(child: str) -> int | None:
    """Return the number that ZooKeeper appended to a sequential child; None if there is none."""
    digits = child[-10:]
    return int(digits) if len(child) > 10 and digits.isascii() and digits.isdigit() else None


def _parse_number(text: str) -> int | None:
    """Return a number that is written as Kafka does (no sign, no leading zero), within 32 bits; else None."""
    if len(text) > _DIGITS or not (text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        return None  # before int(), which raises for thousands of digits
    return number if (number := int(text)) <= _MAX_INT32 else None
