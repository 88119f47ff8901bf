"""The reference of every configuration key: its meaning, type, range and default.

Types and defaults come from the model. The reference in the documentation, the man page and ``controllerctl config
explain`` are generated from this module.
"""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from controllerd.config.model import Address, Config, Secret, Section
from controllerd.core.cluster_settings import SETTINGS
from controllerd.core.model import Endpoint

LARGEST: Final = 2**31 - 1

_MEANINGS: Final = {
    "zookeeper.connect": "The ensemble and the cluster's chroot, written as in Kafka's `zookeeper.connect`.",
    "zookeeper.session_timeout_ms": "The time after which ZooKeeper ends the role of a silent instance; "
    "at least 1000. It bounds the time without a controller after a crash.",
    "zookeeper.connection_timeout_ms": "How long a start waits for the first connection before it exits with 69. "
    "The session timeout when only that one is given.",
    "node.id": "The id of this instance in metadata, 2000000000 to 2000000099, another one for each instance.",
    "node.data_dir": "Holds the instance's uuid (`instance`), a lock, the API versions that brokers served last "
    "(`api_versions.json`), their last settings (`broker_settings.json`) and, by default, the audit log; never shared. "
    "Both files name their cluster and are ignored by an instance of another one. "
    "Under systemd it defaults to the state directory.",
    "kafka.listeners": "The sockets to bind. Brokers and clients connect to the same addresses, unless "
    "`kafka.advertised_listeners` names others. `0.0.0.0` and `[::]` bind every address of the machine, port 0 any "
    "free one. Plaintext only. Required unless `kafka.mode` is `hidden`.",
    "kafka.advertised_listeners": "The addresses that brokers and clients connect to, where they differ from the "
    "bound ones, as behind NAT or in a container. The listener names are those of `kafka.listeners`; a listener that "
    "is missing here is advertised as it is bound. Port 0 stands for the port that was bound.",
    "kafka.inter_broker_listener_name": "The listener between controllerd and the brokers; must be among "
    "`kafka.listeners`, unless `kafka.mode` is `hidden`.",
    "kafka.control_plane_listener_name": "The listener between controllerd and the brokers if the brokers have this "
    "setting; must be among `kafka.listeners` likewise.",
    "kafka.mode": "The listeners on which metadata has this instance: all, the inter-broker and control plane "
    "listeners only, or none (only with a protocol version of 2.6 or below).",
    "kafka.register": "When the active instance registers under `/brokers/ids`, where brokers older than 3.0 look "
    "their controller up before a controlled shutdown: `auto` (once such a broker is known), `always` or `never`. "
    "An instance in mode `hidden` does not register.",
    "kafka.inter_broker_protocol_version": "The lowest `inter.broker.protocol.version` of the brokers, 2.0 to 3.9. "
    "Topic ids, AlterPartition and the `/feature` znode depend on it.",
    "kafka.unclean_leader_election_enable": "Default of topics for electing a leader outside the ISR.",
    "kafka.delete_topic_enable": "Whether topics may be deleted; otherwise requests are refused, and markers in "
    "`/admin/delete_topics` dropped.",
    "kafka.auto_leader_rebalance_enable": "Elect preferred replicas as leaders automatically.",
    "kafka.leader_imbalance_per_broker_percentage": "For brokers that do not lead more than this share, in percent, of "
    "the partitions that they should lead.",
    "kafka.leader_imbalance_check_interval_seconds": "Interval of the check; the first is 5 s after an election.",
    "kafka.delegation_token_expiry_check_interval_ms": "How often delegation tokens that have expired are deleted.",
    "kafka.num_partitions": "Partitions of a topic that is created without a number.",
    "kafka.default_replication_factor": "Replicas of a topic that is created without a number.",
    "kafka.remote_log_storage_system_enable": "Whether brokers have tiered storage: a topic may then be created with "
    "`remote.storage.enable`.",
    "kafka.controller_quota_window_num": "How many windows of unused rate a client may accumulate under a "
    "quota of partitions that it creates and deletes (KIP-599).",
    "kafka.controller_quota_window_size_seconds": "How long such a window is.",
    "kafka.request_timeout_ms": "How long a broker may take to answer a control request before it is sent again.",
    "kafka.controller_socket_timeout_ms": "How long a broker may take to accept a connection.",
    "http.listen": "Address of the status endpoint. Any but a loopback address needs a certificate and a token.",
    "http.socket": "An additional unix socket with mode 0660: a process that can open it needs no token, and the audit "
    "log has the user's id.",
    "http.read_token": "Token for reads: at least 16 characters, `credential:NAME` (a file in "
    "systemd's `$CREDENTIALS_DIRECTORY`) or `file:PATH`. Without it every process on this machine may read.",
    "http.admin_token": "Token for verbs and reads. With neither token every process on this machine may do "
    "everything; with the other one alone verbs are for the unix socket.",
    "http.require_reason": "Require a reason for the audit log with every verb, and not only with destructive ones.",
    "http.tls_certificate": "Serve HTTPS with this certificate (PEM, with its chain). When it changes it is read anew, "
    "like the key and the CA.",
    "http.tls_key": "The certificate's key (PEM, not encrypted).",
    "http.tls_client_ca": "Serve only clients that have a certificate of this CA (PEM); tokens are needed all the "
    "same.",
    "controller.mode": "`observe` writes nothing, does not contend for the role and opens no Kafka listener: it "
    "compares the writes of the active controller with its own decisions.",
    "controller.when_broker_holds": "What to do while a broker's own controller holds the role: wait until an operator "
    "asks for a takeover, or take it. `controllerctl takeover --remember` keeps `takeover` where nothing is set.",
    "controller.observe_interval_ms": "The shortest interval between two images of ZooKeeper in `observe`.",
    "audit.dir": "Root of the audit log; a folder per cluster and node is made in it. `audit` in `node.data_dir` when "
    "not given.",
    "audit.fsync": "When records are forced to the disk: before the event continues, regularly, or never.",
    "audit.fsync_interval_ms": "The interval, with `interval`.",
    "audit.on_failure": "When the log cannot be written: continue, count lost records and write a gap record after "
    "recovery; or give up the role and exit with 74.",
    "audit.level": "The records that are written: `summary` leaves out transactions, control requests, decisions and "
    "states of replicas; `full` adds every partition to requests and responses and every detail to events; `off` "
    "writes nothing.",
    "audit.snapshot_interval_s": "The interval of snapshots of the whole state within a term, so that a replay "
    "need not begin at its start.",
    "audit.digest_interval_s": "The interval of digests of the state, if it has changed. A digest "
    "shows whether a replay reaches the same state.",
    "audit.head_interval_s": "The interval at which the head of the log (the number and hash of its newest line) is "
    "exported, if it has changed. With an exported head, `controllerctl audit verify` detects a log that was cut off "
    "or rolled back.",
    "audit.head_file": "A file that gets the latest hundred heads, best on a disk that a user who can change the log "
    "cannot write. None when not given.",
    "audit.head_journal": "Whether each head is a line in the daemon's own log.",
    "audit.head_znode": "Whether the head is kept in ZooKeeper, in `/controllerd/audit/<node id>`; not in `observe`.",
    "audit.head_key_file": "A file with the key, at least 16 bytes, that heads are signed with (HMAC-SHA256).",
    "audit.segment_bytes": "A segment is closed and compressed at this size, before compression; at least 64 KiB.",
    "audit.segment_age_s": "A segment is also closed and compressed at this age.",
    "metrics.dialects": "The exporters whose names `/metrics` uses for Kafka's own metrics, where exporters differ; "
    "see [metrics](metrics.md).",
    "metrics.open": "Whether `/metrics` needs no token, even if all other paths do.",
    "log.level": "Least severe lines of the daemon's own log, on standard error.",
    "log.format": "`auto` is readable on a terminal and in the journal, and JSON elsewhere.",
    "log.kafka_format_dir": "A folder for `state-change.log` and `controller.log` in Kafka's own format and wording, "
    "in UTC, with a file for each hour; nothing ever deletes them. Under systemd below `/var/log/controllerd`.",
}
BROKERS_VALUE: Final = "the brokers' value"
"""The default of the settings of the cluster, which are discovered unless they are configured."""
_SAID_BY_BROKERS: Final = {setting.key for setting in SETTINGS if setting.key is not None}
MEANINGS: Final = {
    key: f"{meaning} If absent, [the brokers' value](operations.md#settings-of-the-cluster) is used."
    if key in _SAID_BY_BROKERS
    else meaning
    for key, meaning in _MEANINGS.items()
}
"""The meaning by key, as Markdown."""


def keys() -> Iterator[tuple[str, str, str]]:
    """Every key as ``section.name``, with its type and default as text, in the order of the model."""
    for section in msgspec.structs.fields(Config):
        if not (isinstance(section.type, type) and issubclass(section.type, Section)):
            continue
        for key in msgspec.structs.fields(section.type):
            name = f"{section.name}.{key.name}"
            default = BROKERS_VALUE if name in _SAID_BY_BROKERS else default_in_words(key)
            yield name, type_in_words(key.type), default


def type_in_words(kind: Any) -> str:
    """The type as text: ``text``, ``number``, a list of choices."""
    if get_origin(kind) is Annotated:
        plain, meta = get_args(kind)
        return f"{type_in_words(plain)}, {range_in_words(meta)}"
    if get_origin(kind) is Literal:
        return " \\| ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is types.UnionType:
        return " or ".join(type_in_words(part) for part in get_args(kind) if part is not types.NoneType)
    if kind == tuple[Endpoint, ...]:
        return "list of `NAME://host:port`"
    if get_origin(kind) is tuple:
        return f"list of {type_in_words(get_args(kind)[0])}"
    return {
        str: "text",
        int: "number",
        bool: "`true` \\| `false`",
        Path: "path",
        Address: "`host:port`",
        Secret: "secret",
    }[kind]


def range_in_words(meta: msgspec.Meta) -> str:
    """Return the bounds of a number, without those of 32 bits."""
    return f"at least {meta.ge}" if meta.le == LARGEST else f"{meta.ge} to {meta.le}"


def default_in_words(key: msgspec.structs.FieldInfo) -> str:
    """The default as TOML."""
    if key.required:
        return "see the meaning" if key.name == "dir" else "required"
    match key.default:
        case None | ():
            return "none"
        case bool():
            return f"`{str(key.default).lower()}`"
        case tuple() if not isinstance(key.default, Address):
            return ", ".join(f"`{choice}`" for choice in key.default)
        case _:
            return f"`{key.default}`"
