#!/usr/bin/env python3
"""Writes the configuration reference into ``operations.md`` from the model in the code, so that it cannot fall behind.

Types and defaults come from the model; what a key means to an operator is said here, and every key must have a line.
"""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from controllerd.config.kafka_names import KAFKA_NAMES
from controllerd.config.model import Address, Config, Section
from controllerd.core.model import Endpoint

OPERATIONS: Final = Path(__file__).with_name("operations.md")
BEGIN: Final = "<!-- generated:configuration -->"
END: Final = "<!-- /generated -->"

MEANINGS: Final = {
    "zookeeper.connect": "The ensemble and the cluster's chroot, written as in Kafka's `zookeeper.connect`.",
    "zookeeper.session_timeout_ms": "How long ZooKeeper keeps the role of an instance that fell silent; at least 1000. "
    "It bounds the time without a controller after a crash.",
    "zookeeper.connection_timeout_ms": "How long a start waits for the first connection before it exits with 69. "
    "The session timeout when only that one is given.",
    "node.id": "The id of this instance in metadata, 2000000000 to 2000000099, another one for each instance.",
    "node.data_dir": "Holds the instance's uuid (`instance`), a lock and, by default, the audit log; never shared. "
    "Under systemd it defaults to the state directory.",
    "kafka.listeners": "What brokers and clients connect to; binds the same host and port. Plaintext only. "
    "Required unless `kafka.mode` is `hidden`.",
    "kafka.inter_broker_listener_name": "The listener over which controllerd and the brokers talk; must be among "
    "`kafka.listeners`, unless `kafka.mode` is `hidden`.",
    "kafka.control_plane_listener_name": "The listener over which they talk instead if the brokers have this setting; "
    "must be among `kafka.listeners` likewise.",
    "kafka.mode": "Who sees this instance in metadata: on all its listeners, on the inter-broker and control plane "
    "ones only, or nowhere (only with a protocol version of 2.6 or below).",
    "kafka.inter_broker_protocol_version": "The lowest `inter.broker.protocol.version` of the brokers, 2.0 to 3.9. "
    "It decides about topic ids, AlterPartition and the `/feature` znode.",
    "kafka.unclean_leader_election_enable": "Default of topics for electing a leader outside the ISR.",
    "kafka.delete_topic_enable": "Whether topics may be deleted; otherwise requests are refused, and markers in "
    "`/admin/delete_topics` dropped.",
    "kafka.auto_leader_rebalance_enable": "Give leadership back to preferred replicas without being asked.",
    "kafka.leader_imbalance_per_broker_percentage": "For brokers that do not lead more than this share, in percent, of "
    "the partitions that they should lead.",
    "kafka.leader_imbalance_check_interval_seconds": "How often to look; the first time 5 seconds after an election.",
    "kafka.num_partitions": "Partitions of a topic that is created without a number.",
    "kafka.default_replication_factor": "Replicas of a topic that is created without a number.",
    "kafka.remote_log_storage_system_enable": "Whether brokers have tiered storage: a topic may then be created with "
    "`remote.storage.enable`.",
    "kafka.controller_quota_window_num": "How many windows of unused rate a client may save up under a "
    "quota of partitions that it creates and deletes (KIP-599).",
    "kafka.controller_quota_window_size_seconds": "How long such a window is.",
    "kafka.request_timeout_ms": "How long a broker may take to answer a control request before it is sent again.",
    "kafka.controller_socket_timeout_ms": "How long a broker may take to accept a connection.",
    "http.listen": "Address of the status endpoint.",
    "http.allow_remote_admin": "Serve takeover and resign although `http.listen` is not a loopback address. There is "
    "no authentication: put your own in front.",
    "controller.mode": "`observe` writes nothing, contends for nothing and opens no Kafka listener: it watches what "
    "the present controller does and says what it would have done itself.",
    "controller.when_broker_holds": "What to do while a broker's own controller holds the role: wait until an operator "
    "asks for a takeover, or take it. `controllerctl takeover --remember` keeps `takeover` where nothing is set.",
    "controller.observe_interval_ms": "The shortest pause between two looks at ZooKeeper in `observe`.",
    "audit.dir": "Root of the audit log; a folder per cluster and node is made in it. `audit` in `node.data_dir` when "
    "not given.",
    "audit.fsync": "When records are forced to the disk: before the event goes on, regularly, or never.",
    "audit.fsync_interval_ms": "How regularly, for `interval`.",
    "audit.on_failure": "When the log cannot be written: go on, count what is lost and write a gap record when it "
    "heals; or give the role back and exit with 74.",
    "audit.level": "How much is written: `summary` leaves out transactions, control requests, decisions and states of "
    "replicas; `full` adds every partition to requests and answers and every detail to events; `off` writes nothing.",
    "audit.snapshot_interval_s": "How often everything that is known is written anew within a term, so that a replay "
    "need not begin at its start.",
    "audit.digest_interval_s": "How often a digest of everything that is known is written when it has changed, which "
    "shows whether a replay arrives at the same.",
    "audit.head_interval_s": "How often the head of the log (the number and hash of its newest line) is exported, when "
    "it is another one. Against an exported head `controllerctl audit verify` tells a log that was cut off or rolled "
    "back.",
    "audit.head_file": "A file that gets the latest hundred heads, best on a disk that whoever can change the log "
    "cannot write. None when not given.",
    "audit.head_journal": "Whether each head is a line in the daemon's own log.",
    "audit.head_znode": "Whether the head is kept in ZooKeeper, in `/controllerd/audit/<node id>`; not in `observe`.",
    "audit.head_key_file": "A file with the key, at least 16 bytes, that heads are signed with (HMAC-SHA256).",
    "audit.segment_bytes": "A segment is closed and compressed at this size, before compression; at least 64 KiB.",
    "audit.segment_age_s": "Or at this age.",
    "log.level": "Least severe lines of the daemon's own log, on standard error.",
    "log.format": "`auto` is readable on a terminal and JSON elsewhere.",
}


def generated() -> str:
    """The text between the markers. :raises KeyError: a key of the model has no meaning here, or the reverse."""
    rows = [f"| `{key}` | {kind} | {default} | {MEANINGS[key]}{in_kafka(key)} |" for key, kind, default in keys()]
    if len(rows) != len(MEANINGS):
        raise KeyError(*(MEANINGS.keys() - {key for key, _, _ in keys()}))
    return "\n".join(["| Key | Type | Default | Meaning |", "|---|---|---|---|", *rows])


def in_kafka(key: str) -> str:
    """Kafka's name, under which operators look for the key."""
    return f" Kafka: `{KAFKA_NAMES[key]}`." if key in KAFKA_NAMES else ""


def keys() -> Iterator[tuple[str, str, str]]:
    """Every key as ``section.name`` with its type and default in words, in the order of the model."""
    for section in msgspec.structs.fields(Config):
        if not (isinstance(section.type, type) and issubclass(section.type, Section)):
            continue
        for key in msgspec.structs.fields(section.type):
            yield f"{section.name}.{key.name}", type_in_words(key.type), default_in_words(key)


def type_in_words(kind: Any) -> str:
    """``text``, ``number``, a choice ... as a reader of TOML thinks of it."""
    if get_origin(kind) is Annotated:
        return type_in_words(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " \\| ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is types.UnionType:
        return " or ".join(type_in_words(part) for part in get_args(kind) if part is not types.NoneType)
    if kind == tuple[Endpoint, ...]:
        return "list of `NAME://host:port`"
    return {str: "text", int: "number", bool: "`true` \\| `false`", Path: "path", Address: "`host:port`"}[kind]


def default_in_words(key: msgspec.structs.FieldInfo) -> str:
    """The default as TOML would say it."""
    if key.required:
        return "see the meaning" if key.name == "dir" else "required"
    match key.default:
        case None | ():
            return "none"
        case bool():
            return f"`{str(key.default).lower()}`"
        case _:
            return f"`{key.default}`"


def rewritten(page: str) -> str:
    """The page with a fresh table between its markers; ``ValueError`` when it does not have both markers."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} or no {END}")
    return f"{head}{BEGIN}\n\n{generated()}\n\n{END}{tail}"


if __name__ == "__main__":
    OPERATIONS.write_text(rewritten(OPERATIONS.read_text("utf-8")), "utf-8")
