"""Every topic config of the Kafka releases from 2.6 to 3.9: type, default, allowed values, from which release to which.

The tables are generated from the releases' own ``LogConfig`` by ``python -m tests.releases.topic_configs``.
"""

from typing import Final, NamedTuple


class TopicConfigRow(NamedTuple):
    """One config as the releases from ``since`` to ``until`` define it; None and empty tuples do not restrict it.

    ``values`` are the allowed values of a string, ``elements`` the allowed elements of a list.
    ``validator`` names a rule that is code (``topic_configs.py``). ``setting`` is the broker setting
    that holds if a topic does not set the config. A config with ``is_internal`` is shown only if a
    topic sets it, and then as the text that was written.
    """

    name: str
    type: str
    since: tuple[int, int]
    until: tuple[int, int]
    default: str
    setting: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    values: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()
    validator: str | None = None
    is_internal: bool = False


class FormatVersions(NamedTuple):
    """The latest ``message.format.version`` that a release accepts: with a step (``-IV``), and without one."""

    step: str
    name: str


TOPIC_CONFIG_ROWS: Final = (
    TopicConfigRow("segment.bytes", "INT", (2, 6), (3, 9), "1073741824", setting="log.segment.bytes", minimum=14),
    TopicConfigRow("segment.ms", "LONG", (2, 6), (3, 9), "604800000", setting="log.roll.ms", minimum=1),
    TopicConfigRow("segment.jitter.ms", "LONG", (2, 6), (3, 9), "0", setting="log.roll.jitter.ms", minimum=0),
    TopicConfigRow(
        "segment.index.bytes", "INT", (2, 6), (3, 2), "10485760", setting="log.index.size.max.bytes", minimum=0
    ),
    TopicConfigRow(
        "segment.index.bytes", "INT", (3, 3), (3, 9), "10485760", setting="log.index.size.max.bytes", minimum=4
    ),
    TopicConfigRow(
        "flush.messages",
        "LONG",
        (2, 6),
        (3, 2),
        "9223372036854775807",
        setting="log.flush.interval.messages",
        minimum=0,
    ),
    TopicConfigRow(
        "flush.messages",
        "LONG",
        (3, 3),
        (3, 9),
        "9223372036854775807",
        setting="log.flush.interval.messages",
        minimum=1,
    ),
    TopicConfigRow(
        "flush.ms", "LONG", (2, 6), (3, 9), "9223372036854775807", setting="log.flush.interval.ms", minimum=0
    ),
    TopicConfigRow("retention.bytes", "LONG", (2, 6), (3, 9), "-1", setting="log.retention.bytes"),
    TopicConfigRow("retention.ms", "LONG", (2, 6), (3, 9), "604800000", setting="log.retention.ms", minimum=-1),
    TopicConfigRow("max.message.bytes", "INT", (2, 6), (3, 9), "1048588", setting="message.max.bytes", minimum=0),
    TopicConfigRow(
        "index.interval.bytes", "INT", (2, 6), (3, 9), "4096", setting="log.index.interval.bytes", minimum=0
    ),
    TopicConfigRow(
        "delete.retention.ms", "LONG", (2, 6), (3, 9), "86400000", setting="log.cleaner.delete.retention.ms", minimum=0
    ),
    TopicConfigRow(
        "min.compaction.lag.ms", "LONG", (2, 6), (3, 9), "0", setting="log.cleaner.min.compaction.lag.ms", minimum=0
    ),
    TopicConfigRow(
        "max.compaction.lag.ms",
        "LONG",
        (2, 6),
        (3, 9),
        "9223372036854775807",
        setting="log.cleaner.max.compaction.lag.ms",
        minimum=1,
    ),
    TopicConfigRow(
        "file.delete.delay.ms", "LONG", (2, 6), (3, 9), "60000", setting="log.segment.delete.delay.ms", minimum=0
    ),
    TopicConfigRow(
        "min.cleanable.dirty.ratio",
        "DOUBLE",
        (2, 6),
        (3, 9),
        "0.5",
        setting="log.cleaner.min.cleanable.ratio",
        minimum=0,
        maximum=1,
    ),
    TopicConfigRow(
        "cleanup.policy", "LIST", (2, 6), (3, 9), "delete", setting="log.cleanup.policy", elements=("compact", "delete")
    ),
    TopicConfigRow(
        "unclean.leader.election.enable", "BOOLEAN", (2, 6), (3, 9), "false", setting="unclean.leader.election.enable"
    ),
    TopicConfigRow("min.insync.replicas", "INT", (2, 6), (3, 9), "1", setting="min.insync.replicas", minimum=1),
    TopicConfigRow(
        "compression.type",
        "STRING",
        (2, 6),
        (3, 9),
        "producer",
        setting="compression.type",
        values=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    TopicConfigRow(
        "compression.gzip.level",
        "INT",
        (3, 8),
        (3, 9),
        "-1",
        setting="compression.gzip.level",
        validator="[1,...,9] or -1",
    ),
    TopicConfigRow(
        "compression.lz4.level", "INT", (3, 8), (3, 9), "9", setting="compression.lz4.level", minimum=1, maximum=17
    ),
    TopicConfigRow(
        "compression.zstd.level",
        "INT",
        (3, 8),
        (3, 9),
        "3",
        setting="compression.zstd.level",
        minimum=-131072,
        maximum=22,
    ),
    TopicConfigRow("preallocate", "BOOLEAN", (2, 6), (3, 9), "false", setting="log.preallocate"),
    TopicConfigRow(
        "message.format.version",
        "STRING",
        (2, 6),
        (2, 6),
        "2.6-IV0",
        setting="log.message.format.version",
        validator="ApiVersionValidator",
    ),
    TopicConfigRow(
        "message.format.version",
        "STRING",
        (2, 7),
        (2, 7),
        "2.7-IV2",
        setting="log.message.format.version",
        validator="ApiVersionValidator",
    ),
    TopicConfigRow(
        "message.format.version",
        "STRING",
        (2, 8),
        (2, 8),
        "2.8-IV1",
        setting="log.message.format.version",
        validator="ApiVersionValidator",
    ),
    TopicConfigRow(
        "message.format.version",
        "STRING",
        (3, 0),
        (3, 2),
        "3.0-IV1",
        setting="log.message.format.version",
        validator="ApiVersionValidator",
    ),
    TopicConfigRow(
        "message.format.version",
        "STRING",
        (3, 3),
        (3, 9),
        "3.0-IV1",
        setting="log.message.format.version",
        validator="MetadataVersionValidator",
    ),
    TopicConfigRow(
        "message.timestamp.type",
        "STRING",
        (2, 6),
        (3, 9),
        "CreateTime",
        setting="log.message.timestamp.type",
        values=("CreateTime", "LogAppendTime"),
    ),
    TopicConfigRow(
        "message.timestamp.difference.max.ms",
        "LONG",
        (2, 6),
        (3, 9),
        "9223372036854775807",
        setting="log.message.timestamp.difference.max.ms",
        minimum=0,
    ),
    TopicConfigRow(
        "message.timestamp.before.max.ms",
        "LONG",
        (3, 6),
        (3, 9),
        "9223372036854775807",
        setting="log.message.timestamp.before.max.ms",
        minimum=0,
    ),
    TopicConfigRow(
        "message.timestamp.after.max.ms",
        "LONG",
        (3, 6),
        (3, 9),
        "9223372036854775807",
        setting="log.message.timestamp.after.max.ms",
        minimum=0,
    ),
    TopicConfigRow(
        "leader.replication.throttled.replicas", "LIST", (2, 6), (3, 9), "", validator="ThrottledReplicaListValidator"
    ),
    TopicConfigRow(
        "follower.replication.throttled.replicas", "LIST", (2, 6), (3, 9), "", validator="ThrottledReplicaListValidator"
    ),
    TopicConfigRow(
        "message.downconversion.enable", "BOOLEAN", (2, 6), (3, 9), "true", setting="log.message.downconversion.enable"
    ),
    TopicConfigRow("remote.storage.enable", "BOOLEAN", (3, 0), (3, 5), "false", is_internal=True),
    TopicConfigRow("remote.storage.enable", "BOOLEAN", (3, 6), (3, 9), "false"),
    TopicConfigRow("local.retention.ms", "LONG", (3, 0), (3, 5), "-2", minimum=-2, is_internal=True),
    TopicConfigRow("local.retention.ms", "LONG", (3, 6), (3, 9), "-2", setting="log.local.retention.ms", minimum=-2),
    TopicConfigRow("local.retention.bytes", "LONG", (3, 0), (3, 5), "-2", minimum=-2, is_internal=True),
    TopicConfigRow(
        "local.retention.bytes", "LONG", (3, 6), (3, 9), "-2", setting="log.local.retention.bytes", minimum=-2
    ),
    TopicConfigRow("remote.log.copy.disable", "BOOLEAN", (3, 9), (3, 9), "false"),
    TopicConfigRow("remote.log.delete.on.disable", "BOOLEAN", (3, 9), (3, 9), "false"),
)
"""The configs in the order in which Kafka checks their values."""

FORMAT_VERSIONS: Final = (
    "0.8.0",
    "0.8.1",
    "0.8.2",
    "0.9.0",
    "0.10.0-IV0",
    "0.10.0-IV1",
    "0.10.1-IV0",
    "0.10.1-IV1",
    "0.10.1-IV2",
    "0.10.2-IV0",
    "0.11.0-IV0",
    "0.11.0-IV1",
    "0.11.0-IV2",
    "1.0-IV0",
    "1.1-IV0",
    "2.0-IV0",
    "2.0-IV1",
    "2.1-IV0",
    "2.1-IV1",
    "2.1-IV2",
    "2.2-IV0",
    "2.2-IV1",
    "2.3-IV0",
    "2.3-IV1",
    "2.4-IV0",
    "2.4-IV1",
    "2.5-IV0",
    "2.6-IV0",
    "2.7-IV0",
    "2.7-IV1",
    "2.7-IV2",
    "2.8-IV0",
    "2.8-IV1",
    "3.0-IV0",
    "3.0-IV1",
    "3.1-IV0",
    "3.2-IV0",
    "3.3-IV0",
    "3.3-IV1",
    "3.3-IV2",
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
)
"""Every version that 3.9 knows, the oldest first; an older release knows the first of them."""

LATEST_FORMAT_VERSIONS: Final = {
    (2, 6): FormatVersions("2.6-IV0", "2.6"),
    (2, 7): FormatVersions("2.7-IV2", "2.7"),
    (2, 8): FormatVersions("2.8-IV1", "2.8"),
    (3, 0): FormatVersions("3.0-IV1", "3.0"),
    (3, 1): FormatVersions("3.1-IV0", "3.1"),
    (3, 2): FormatVersions("3.2-IV0", "3.2"),
    (3, 3): FormatVersions("3.3-IV3", "3.3"),
    (3, 4): FormatVersions("3.4-IV0", "3.4"),
    (3, 5): FormatVersions("3.5-IV2", "3.5"),
    (3, 6): FormatVersions("3.6-IV2", "3.6"),
    (3, 7): FormatVersions("3.8-IV0", "3.7"),
    (3, 8): FormatVersions("3.9-IV0", "3.8"),
    (3, 9): FormatVersions("4.0-IV1", "3.9"),
}
