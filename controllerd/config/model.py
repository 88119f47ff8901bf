"""The sections and keys of the configuration, with their types, ranges and defaults."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from controllerd.core.cluster_settings import SETTINGS, RegistrationMode
from controllerd.core.model import Endpoint
from controllerd.core.reach import Reach
from controllerd.core.settings_book import Configured

Milliseconds = Annotated[int, Meta(ge=1, le=2**31 - 1)]
LongMilliseconds = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Address(NamedTuple):
    """An address to listen on. Port 0 lets the operating system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect to a socket that is bound here."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class Secret:
    """A configured secret, or the reference to it. Its text form does not reveal a secret."""

    configured: str = field(repr=False)

    @property
    def is_reference(self) -> bool:
        """Return whether it is read elsewhere: ``credential:NAME`` of systemd, or ``file:PATH``."""
        return self.configured.startswith(("credential:", "file:"))

    def __str__(self) -> str:
        return self.configured if self.is_reference else "<hidden>"


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""


class ZookeeperConfig(Section, frozen=True, kw_only=True):
    """The ensemble that holds the cluster's metadata."""

    connect: str
    """``host:port,host:port/chroot``, as in Kafka's ``zookeeper.connect``."""
    session_timeout_ms: Milliseconds = 18_000
    connection_timeout_ms: Milliseconds = 18_000
    """The wait for the first connection; by default the session timeout."""


class NodeConfig(Section, frozen=True, kw_only=True):
    """This instance."""

    id: int
    """The id, between 2000000000 and 2000000099, so that it is never a broker's id."""
    data_dir: Path
    """The directory for the instance's identity, a lock, and by default the audit log."""


class KafkaConfig(Section, frozen=True, kw_only=True):
    """This instance in the metadata of brokers, and the cluster-wide settings that a controller needs."""

    listeners: tuple[Endpoint, ...] = ()
    """The sockets to bind, each as ``NAME://host:port``."""
    advertised_listeners: tuple[Endpoint, ...] = ()
    """The addresses to advertise where they differ, each as ``NAME://host:port``."""
    inter_broker_listener_name: str = "PLAINTEXT"
    control_plane_listener_name: str | None = None
    """The listener of brokers for control requests alone, over which they also connect to their controller."""
    mode: Literal["visible", "internal", "hidden"] = "visible"
    """Which listeners are in the cluster's metadata; ``hidden`` is for protocol 2.6 and below."""
    register: RegistrationMode = "auto"
    """When the active instance registers under ``/brokers/ids``, for brokers older than 3.0."""
    inter_broker_protocol_version: str = "3.9"
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 10
    leader_imbalance_check_interval_seconds: Count = 300
    delegation_token_expiry_check_interval_ms: LongMilliseconds = 3_600_000
    num_partitions: Count = 1
    default_replication_factor: Annotated[int, Meta(ge=1, le=2**15 - 1)] = 1
    remote_log_storage_system_enable: bool = False
    """Whether brokers have tiered storage (KIP-405), so that a new topic may enable it."""
    controller_quota_window_num: Count = 11
    controller_quota_window_size_seconds: Count = 1
    """The length of a quota window; unused rate accumulates over the number of windows (KIP-599)."""
    request_timeout_ms: Milliseconds = 30_000
    controller_socket_timeout_ms: Milliseconds = 30_000

    def advertised(self, bound: Endpoint) -> Endpoint:
        """Return the advertised address of a listener; port 0 means the bound port."""
        for endpoint in self.advertised_listeners:
            if endpoint.listener == bound.listener:
                return endpoint._replace(port=endpoint.port or bound.port)
        return bound

    @property
    def controller_listener_name(self) -> str:
        """The listener for control requests. Brokers send ControlledShutdown over the inter-broker listener."""
        return self.control_plane_listener_name or self.inter_broker_listener_name

    @property
    def reach(self) -> Reach:
        """The listeners over which brokers, clients and this instance reach each other."""
        named = (self.control_plane_listener_name, self.inter_broker_listener_name)
        is_visible = self.mode == "visible"
        shown = frozenset(endpoint.listener for endpoint in self.listeners) if is_visible else frozenset()
        return Reach(tuple(name for name in named if name is not None), shown, is_visible)


class HttpConfig(Section, frozen=True, kw_only=True):
    """The status server."""

    listen: Address = Address("127.0.0.1", 9191)
    """The address. A certificate and tokens are required unless it is a loopback address."""
    socket: Path | None = None
    """An additional unix socket: a process that can open it (mode 0660) may call every verb."""
    read_token: Secret | None = None
    admin_token: Secret | None = None
    tls_certificate: Path | None = None
    """PEM with its chain. A changed certificate, key or CA is read again."""
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    """The CA of the certificates that clients must have."""
    require_reason: bool = False
    """Whether every verb requires a reason, and not only the destructive ones."""


class ControllerConfig(Section, frozen=True, kw_only=True):
    """The mode of this instance: whether and when it takes the role."""

    mode: Literal["active", "observe"] = "active"
    """``observe`` does not contend, writes nothing and opens no Kafka listener: it observes another controller."""
    when_broker_holds: Literal["standby", "takeover"] = "standby"
    """Whether this instance takes the role from a broker's own controller by itself."""
    observe_interval_ms: Milliseconds = 500
    """The shortest interval between two images of ZooKeeper in ``observe``."""


class AuditConfig(Section, frozen=True, kw_only=True):
    """The audit log."""

    dir: Path
    """The root of the audit log; by default ``audit`` in the data directory."""
    fsync: Literal["event", "interval", "off"] = "interval"
    fsync_interval_ms: Milliseconds = 200
    on_failure: Literal["degrade", "resign"] = "degrade"
    level: Literal["off", "summary", "normal", "full"] = "normal"
    """The level of records that are written."""
    snapshot_interval_s: Count = 3600
    """The interval between two snapshots within a term."""
    digest_interval_s: Count = 60
    """The interval between two digests of a changed state."""
    head_interval_s: Count = 10
    """The interval between two exports of the head: the newest line's number and hash."""
    head_file: Path | None = None
    head_journal: bool = False
    head_znode: bool = False
    head_key_file: Path | None = None
    """The file with the key that signs exported heads."""
    segment_bytes: Annotated[int, Meta(ge=64 * 1024, le=2**40)] = 64 * 1024 * 1024
    segment_age_s: Count = 3600


class LogConfig(Section, frozen=True, kw_only=True):
    """The daemon's own log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"
    kafka_format_dir: Path | None = None
    """The directory for ``state-change.log`` and ``controller.log`` in Kafka's format."""


Dialect = Literal["jmx_exporter", "confluent", "strimzi_reporter"]


class MetricsConfig(Section, frozen=True, kw_only=True):
    """The metrics at ``/metrics``."""

    dialects: tuple[Dialect, ...] = ("jmx_exporter", "confluent")
    """The exporter whose names of Kafka's own metrics are used, where exporters differ."""
    open: bool = False
    """Whether ``/metrics`` needs no token, even if all other paths do."""


DEFAULT_METRICS: Final = MetricsConfig()


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration; immutable."""

    zookeeper: ZookeeperConfig
    node: NodeConfig
    kafka: KafkaConfig
    http: HttpConfig
    controller: ControllerConfig
    audit: AuditConfig
    log: LogConfig
    metrics: MetricsConfig
    origins: Mapping[str, str]
    """The origin of the value of each ``section.key``: a file, a variable, ``flag`` or ``default``."""
    ignored: tuple[str, ...] = ()
    """The names in a broker's ``server.properties`` that a controller does not use."""

    def effective(self) -> dict[str, object]:
        """Return every key with its value and origin, in plain types, for the audit log and for operators."""
        return {key: {"value": self.plain(key), "origin": origin} for key, origin in self.origins.items()}

    @property
    def cluster_settings(self) -> dict[str, Configured]:
        """Return the settings of the cluster that are configured here, by Kafka's names."""
        keys = {setting.name: setting.key for setting in SETTINGS if setting.key is not None}
        return {
            name: Configured(_as_kafka_writes(self.value(key)), self.origins[key])
            for name, key in keys.items()
            if self.origins[key] != "default"
        }

    def value(self, key: str) -> object:
        """The value of ``section.key``."""
        section, _, name = key.partition(".")
        value: object = getattr(getattr(self, section), name)
        return value

    def plain(self, key: str) -> object:
        """The value of ``section.key`` in plain types, without a secret."""
        value = self.value(key)
        match value:
            case Path() | Address() | Secret():
                return str(value)
            case tuple():
                return [_plain_item(item) for item in value]
            case _:
                return value


def _as_kafka_writes(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain_item(item: object) -> str:
    """The text of an item of a list: a listener or a name."""
    return f"{item.listener}://{Address(item.host, item.port)}" if isinstance(item, Endpoint) else str(item)
