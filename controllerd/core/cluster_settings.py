"""The settings that the built-in controller takes from its own broker, and how several brokers' values merge.

The built-in controller reads these settings in its own process. A controller that is no broker asks
all live brokers (DescribeConfigs), and where they disagree no choice is right for all of them. So
each setting has a rule here:

* A switch that lets the controller delete, move or lose something counts as off as soon as it is off
  on one broker, and a threshold is taken from the broker that allows the fewest changes. An operator
  who turned a switch off on only one broker can turn it on again, but cannot take back a deletion.
* A size (how many partitions, replicas, seconds) has no safe direction. The majority's value is most
  likely the one that the operator means, because a rolling change begins with one broker. Without a
  majority the value is taken that loses less: more replicas, fewer partitions (they can be added,
  never removed), longer time-outs, smaller bursts.
* ``inter.broker.protocol.version`` is the lowest of all, because a broker understands nothing above its own
  (``settings_book.py`` says when it may change).

A release that does not know a setting behaves as with the default, so the default counts as its answer.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from controllerd.core.model import BrokerId
from controllerd.core.protocol_versions import LOWEST, ProtocolVersion, parse_broker_version
from controllerd.core.releases import NEWEST, Release

Value = bool | int | ProtocolVersion | str
Texts = Mapping[str, str]
"""The values of a broker by Kafka's name of the setting; it has every name in ``NAMES``."""


class SettingKind(Enum):
    """How the text of a setting is read."""

    SWITCH = "switch"
    NUMBER = "number"
    VERSION = "version"
    TEXT = "text"


class Merge(Enum):
    """Which value holds where brokers disagree."""

    LOWEST = "the lowest"
    HIGHEST = "the highest"
    MOST_ELSE_LOWEST = "the majority's, else the lowest"
    MOST_ELSE_HIGHEST = "the majority's, else the highest"


class Setting(NamedTuple):
    """One setting of brokers that concerns a controller."""

    name: str
    kind: SettingKind
    merge: Merge
    default: str
    """Kafka's default; a release without the setting behaves as with this value."""
    key: str | None = None
    """The key under which it may be configured here; None: it comes from brokers only."""
    cautious: str | None = None
    """The value before any broker has answered, where it is not the default."""


PROTOCOL_VERSION: Final = "inter.broker.protocol.version"
UNCLEAN: Final = "unclean.leader.election.enable"
DELETE_TOPICS: Final = "delete.topic.enable"
AUTO_REBALANCE: Final = "auto.leader.rebalance.enable"
REPLICATION_FACTOR: Final = "default.replication.factor"
PARTITIONS: Final = "num.partitions"
IMBALANCE_PERCENTAGE: Final = "leader.imbalance.per.broker.percentage"
IMBALANCE_INTERVAL: Final = "leader.imbalance.check.interval.seconds"
MIN_ISR: Final = "min.insync.replicas"
TIERED_STORAGE: Final = "remote.log.storage.system.enable"
QUOTA_SAMPLES: Final = "controller.quota.window.num"
QUOTA_SECONDS: Final = "controller.quota.window.size.seconds"
REQUEST_TIMEOUT: Final = "request.timeout.ms"
SOCKET_TIMEOUT: Final = "controller.socket.timeout.ms"
TOKEN_CHECK: Final = "delegation.token.expiry.check.interval.ms"  # noqa: S105  # the name of a setting

_SWITCH, _NUMBER, _LOWEST, _HIGHEST = SettingKind.SWITCH, SettingKind.NUMBER, Merge.LOWEST, Merge.HIGHEST
_MOST_LOW, _MOST_HIGH = Merge.MOST_ELSE_LOWEST, Merge.MOST_ELSE_HIGHEST

SETTINGS: Final = (
    Setting(PROTOCOL_VERSION, SettingKind.VERSION, _LOWEST, LOWEST, "kafka.inter_broker_protocol_version"),
    Setting(AUTO_REBALANCE, _SWITCH, _LOWEST, "true", "kafka.auto_leader_rebalance_enable", cautious="false"),
    Setting(QUOTA_SAMPLES, _NUMBER, _MOST_LOW, "11", "kafka.controller_quota_window_num"),
    Setting(QUOTA_SECONDS, _NUMBER, _MOST_LOW, "1", "kafka.controller_quota_window_size_seconds"),
    Setting(SOCKET_TIMEOUT, _NUMBER, _MOST_HIGH, "30000", "kafka.controller_socket_timeout_ms"),
    Setting(REPLICATION_FACTOR, _NUMBER, _MOST_HIGH, "1", "kafka.default_replication_factor"),
    Setting(TOKEN_CHECK, _NUMBER, _MOST_HIGH, "3600000", "kafka.delegation_token_expiry_check_interval_ms"),
    Setting(DELETE_TOPICS, _SWITCH, _LOWEST, "true", "kafka.delete_topic_enable", cautious="false"),
    Setting(IMBALANCE_INTERVAL, _NUMBER, _HIGHEST, "300", "kafka.leader_imbalance_check_interval_seconds"),
    Setting(IMBALANCE_PERCENTAGE, _NUMBER, _HIGHEST, "10", "kafka.leader_imbalance_per_broker_percentage"),
    Setting(MIN_ISR, _NUMBER, _HIGHEST, "1"),
    Setting(PARTITIONS, _NUMBER, _MOST_LOW, "1", "kafka.num_partitions"),
    Setting(TIERED_STORAGE, _SWITCH, _LOWEST, "false", "kafka.remote_log_storage_system_enable"),
    Setting(REQUEST_TIMEOUT, _NUMBER, _MOST_HIGH, "30000", "kafka.request_timeout_ms"),
    Setting(UNCLEAN, _SWITCH, _LOWEST, "false", "kafka.unclean_leader_election_enable"),
)
"""The settings that concern the cluster, without those that concern one process (sockets, listeners, its session).

They come from ``KafkaController``, ``ControllerChannelManager``, ``PartitionStateMachine``,
``TopicDeletionManager``, ``ZkAdminManager``, ``AutoTopicCreationManager``,
``ControllerMutationQuotaManager`` and ``DelegationTokenManager`` of 2.6 to 3.9. Brokers are asked
for the defaults of topic configurations only when a call needs them (``topic_defaults.py``).
"""

MUST_BE_FALSE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zookeeper.set.acl": "znodes with ACLs are not supported: controllerd would create open ones beside them",
        "zookeeper.metadata.migration.enable": (
            "a cluster that migrates to KRaft is led by the built-in controller only"
        ),
    }
)
MUST_BE_ABSENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "authorizer.class.name": (
            "ACLs are not enforced: every client of controllerd's listeners could change the cluster"
        ),
        "create.topic.policy.class.name": "the policy is a Java class: topics that it refuses would be created",
        "alter.config.policy.class.name": (
            "the policy is a Java class: configurations that it refuses would be accepted"
        ),
    }
)
"""Settings of brokers with which this controller must not lead, each with the reason."""

NAMES: Final = (*(setting.name for setting in SETTINGS), *MUST_BE_FALSE, *MUST_BE_ABSENT)
"""The settings that brokers are asked for."""
BY_NAME: Final[Mapping[str, Setting]] = MappingProxyType({setting.name: setting for setting in SETTINGS})
AN_AUTHORIZER: Final = "an authorizer that does not let this controller read the broker's settings"
"""Used as the class name if a broker answers DescribeConfigs with CLUSTER_AUTHORIZATION_FAILED."""


def understood(answered: Mapping[str, str | None]) -> dict[str, str]:
    """Return a broker's answer, completed by the defaults of settings without a value.

    :raises ValueError: a value cannot be parsed.
    """
    texts = {name: (answered.get(name) or "").strip() for name in NAMES}
    for setting in SETTINGS:
        texts[setting.name] = texts[setting.name] or setting.default
        read(setting, texts[setting.name])
    return texts


def read(setting: Setting, text: str) -> Value:
    """Return the value of a text, for comparisons. :raises ValueError: it cannot be parsed."""
    match setting.kind:
        case SettingKind.SWITCH if text.lower() in {"true", "false"}:
            return text.lower() == "true"
        case SettingKind.NUMBER:
            return int(text)
        case SettingKind.VERSION:
            return parse_broker_version(text)
        case SettingKind.TEXT:
            return text
        case _:
            raise ValueError(f"{setting.name}: {text!r} is neither true nor false")


def is_same(setting: Setting, one: str, other: str) -> bool:
    """Whether two texts mean the same value, as 3.9 and 3.9-IV0 do."""
    return one == other or read(setting, one) == read(setting, other)


def merged(setting: Setting, answers: Mapping[BrokerId, str]) -> str:
    """Return the value to use for these answers of brokers; ``answers`` is not empty."""
    by_value = {read(setting, text): text for _, text in sorted(answers.items())}
    return by_value[_chosen(setting, [read(setting, text) for text in answers.values()])]


def _chosen(setting: Setting, values: list[Value]) -> Value:
    if setting.merge in {Merge.MOST_ELSE_LOWEST, Merge.MOST_ELSE_HIGHEST}:
        ((most, count),) = Counter(values).most_common(1)
        if 2 * count > len(values):
            return most
    lowest = setting.merge in {Merge.LOWEST, Merge.MOST_ELSE_LOWEST}
    return (min if lowest else max)(values)


def is_safe_off(setting: Setting) -> bool:
    """Whether the setting is a switch that does less when it is turned off."""
    return setting.kind is SettingKind.SWITCH and setting.merge is Merge.LOWEST


def refusal(answered: Mapping[BrokerId, Texts], gone: Mapping[BrokerId, Texts] = MappingProxyType({})) -> str | None:
    """Return why this controller must not lead a cluster with these settings; None if it may.

    The setting of one broker is enough. A broker enforces its rules on every client that reaches it,
    and a client must not be able to do through this controller what that broker would refuse. The last
    answers of brokers that are ``gone`` count as well: their rules are in force again as soon as they
    are back, and the cluster must not be open to all clients while such a broker restarts.
    """
    for broker, texts in [*sorted(answered.items()), *sorted(gone.items())]:
        if (found := forbidden(texts)) is not None:
            name, reason = found
            state = ", by its last answer" if broker in gone else ""
            return f"{name} (broker {broker}{state}): {reason}"
    return None


def forbidden(texts: Texts) -> tuple[str, str] | None:
    """Return the first setting of a broker with which this controller must not lead, and the reason."""
    for name, value in texts.items():
        if name in MUST_BE_FALSE and value.lower() not in {"", "false"}:
            return name, MUST_BE_FALSE[name]
        if name in MUST_BE_ABSENT and value:
            return name, MUST_BE_ABSENT[name]
    return None


RegistrationMode = Literal["auto", "always", "never"]
"""``kafka.register``: when the active instance registers under ``/brokers/ids``."""


class Policy(NamedTuple):
    """Kafka's settings by the names that operators know, with Kafka's defaults."""

    delete_topic_enable: bool = True
    """``delete.topic.enable``: without it, requests to delete a topic are dropped."""
    auto_leader_rebalance_enable: bool = True
    """``auto.leader.rebalance.enable``."""
    leader_imbalance_per_broker_percentage: int = 10
    """``leader.imbalance.per.broker.percentage``: more than this share of a broker's partitions led by others."""
    leader_imbalance_check_interval_s: float = 300.0
    """``leader.imbalance.check.interval.seconds``; the first check comes 5 s after the election."""
    delegation_token_expiry_check_interval_s: float = 3_600.0
    """``delegation.token.expiry.check.interval.ms``: the time between two checks for expired tokens."""
    num_partitions: int = 1
    """``num.partitions``, for topics created without a count."""
    default_replication_factor: int = 1
    """``default.replication.factor``, for topics created without one."""
    tiered_storage: bool = False
    """``remote.log.storage.system.enable``: new topics may have ``remote.storage.enable``."""
    protocol_release: Release = NEWEST
    """The release of ``inter.broker.protocol.version``: every broker is of this release or of a newer one."""
    unknown: frozenset[str] = frozenset()
    """The settings, by Kafka's names, that neither this configuration nor any broker has named. Their values are
    Kafka's defaults, or the values that change the least, and changes that cannot be undone wait."""


KAFKAS_DEFAULTS: Final = Policy()
