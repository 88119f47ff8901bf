"""Checks of the content of ZooKeeper: pure functions of a survey."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import critical, listed, ok, warning
from cli.output import human_duration
from controllerd.core.model import TopicPartition
from controllerd.core.text import counted
from controllerd.errors import BadZnode
from controllerd.status.schema.common import Finding
from controllerd.zk import codecs, paths
from controllerd.zk.survey import StampedZnode, Survey

SLOW_P50_MS: Final = 20.0
SLOW_P99_MS: Final = 200.0
SKEWED_MS: Final = 5_000
_FIX_WITH_SHELL: Final = "zookeeper-shell can"


def check_znodes(survey: Survey, now_ms: int) -> Iterator[Finding]:
    """Run every check of a survey."""
    yield zombie_reassignments(survey)
    yield orphan_topics(survey)
    yield duplicate_ids(survey)
    yield clock_skew(survey, now_ms)
    yield latency(survey)


def zombie_reassignments(survey: Survey) -> Finding:
    """Check for requests about missing partitions, or ones done already: built-in controllers never remove some."""
    check = "zombie-reassignments"
    node = survey.image.nodes.get(paths.REASSIGN_PARTITIONS)
    if node is None:
        return ok(check, f"there is no {paths.REASSIGN_PARTITIONS}")
    try:
        wanted = codecs.decode_reassignments(node.data)
    except BadZnode as bad:
        return critical(check, f"{bad.path} cannot be decoded: {bad.reason}", f"inspect it, then delete {bad.path}")
    missing = [str(tp) for tp in wanted if not _exists(survey, tp)]
    done = [str(tp) for tp, replicas in wanted.items() if _is_done(survey, tp, tuple(replicas))]
    if not missing and not done:
        return ok(check, f"{counted(len(wanted), 'partition')} requested, all of them existing and still to be moved")
    parts = [f"missing partitions: {listed(missing)}"] * bool(missing) + [f"done already: {listed(done)}"] * bool(done)
    hint = f"have the controller read it again (POST /v1/resync), or delete {paths.REASSIGN_PARTITIONS}"
    return warning(check, f"{paths.REASSIGN_PARTITIONS} asks for {'; '.join(parts)}", hint)


def _exists(survey: Survey, tp: TopicPartition) -> bool:
    return tp.partition in _assignments(survey, tp.topic)


def _is_done(survey: Survey, tp: TopicPartition, replicas: tuple[int, ...]) -> bool:
    assignment = _assignments(survey, tp.topic).get(tp.partition)
    return assignment is not None and assignment == replicas


def _assignments(survey: Survey, topic: str) -> dict[int, tuple[int, ...] | None]:
    """Return replicas by partition, None for a moving one; empty for a topic that is missing or cannot be decoded."""
    node = survey.image.nodes.get(paths.topic(topic))
    if node is None:
        return {}
    try:
        image = codecs.decode_topic(topic, node.data, version=node.version, czxid=node.czxid)
    except BadZnode:
        return {}
    return {
        number: None if assignment.adding or assignment.removing else tuple(assignment.replicas)
        for number, assignment in image.assignments.items()
    }


def orphan_topics(survey: Survey) -> Finding:
    """Check for configs and deletion requests of missing topics, and for topics without partitions."""
    check, image = "orphan-topics", survey.image
    topics = set(image.names(paths.BROKER_TOPICS))
    found = {
        "configs without a topic": sorted(set(survey.configured_topics) - topics),
        "deletions of missing topics": sorted(set(image.names(paths.DELETE_TOPICS)) - topics),
        "topics without partitions": [name for name in sorted(topics) if not _assignments(survey, name)],
    }
    said = [f"{what}: {listed(names)}" for what, names in found.items() if names]
    if not said:
        every = counted(len(topics), "topic")
        return ok(check, f"each of {every} has partitions; no config or deletion request is left over")
    hint = f"leftovers of interrupted deletions: {_FIX_WITH_SHELL} delete {paths.CONFIG_TOPICS}/NAME"
    return warning(check, "; ".join(said), hint)


def duplicate_ids(survey: Survey) -> Finding:
    """Check for two topics with one id, or two brokers with one address: the second never works."""
    check = "duplicate-ids"
    topics, brokers = _topics_by_id(survey), _brokers_by_address(survey)
    same = [f"topics {', '.join(names)} share the id {key}" for key, names in topics.items() if len(names) > 1]
    same += [f"brokers {', '.join(names)} share the address {key}" for key, names in brokers.items() if len(names) > 1]
    if not same:
        return ok(check, "topic ids and addresses of brokers are unique")
    return critical(check, listed(same), "find out which of them is the right one; two cannot be served")


def _topics_by_id(survey: Survey) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in survey.image.names(paths.BROKER_TOPICS):
        node = survey.image.nodes.get(paths.topic(name))
        if node is None:
            continue
        try:
            topic_id = codecs.decode_topic(name, node.data, version=node.version, czxid=node.czxid).topic_id
        except BadZnode:
            continue
        if topic_id is not None:
            found[topic_id].append(name)
    return found


def _brokers_by_address(survey: Survey) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, stamped in _registrations(survey):
        broker_id = paths.parse_broker_id(path.rsplit("/", 1)[1])
        if broker_id is None:
            continue
        try:
            broker = codecs.decode_broker(broker_id, stamped.data, 0)
        except BadZnode:
            continue
        for endpoint in broker.endpoints:
            found[f"{endpoint.host}:{endpoint.port}"].append(str(broker_id))
    return found


def _registrations(survey: Survey) -> list[tuple[str, StampedZnode]]:
    return [(path, found) for path, found in survey.stamped.items() if path.startswith(f"{paths.BROKER_IDS}/")]


def clock_skew(survey: Survey, now_ms: int) -> Finding:
    """Compare clocks: a registration has the time of its writer beside that of ZooKeeper, and none is in the future."""
    check, skewed = "clock-skew", list[str]()
    newest = max((found.modified_ms for found in survey.stamped.values()), default=0)
    if newest > now_ms + SKEWED_MS:
        skewed.append(f"ZooKeeper's clock is {human_duration((newest - now_ms) / 1000)} ahead of this machine's")
    for path, found in survey.stamped.items():
        written = _written_time(found.data)
        if written is not None and abs(written - found.created_ms) > SKEWED_MS:
            way = "ahead of" if written > found.created_ms else "behind"
            by = human_duration(abs(written - found.created_ms) / 1000)
            skewed.append(f"the clock of the writer of {path} is {by} {way} ZooKeeper")
    if not skewed:
        stamped = counted(len(survey.stamped), "znode")
        return ok(check, f"{stamped} written at the same time as by ZooKeeper's clock, within {SKEWED_MS // 1000} s")
    return warning(check, listed(skewed), "set the clocks by NTP; logs and ages cannot be compared otherwise")


def _written_time(data: bytes | None) -> int | None:
    import msgspec

    class Timed(msgspec.Struct):
        timestamp: str | int | None = None

    try:
        text = str(msgspec.json.decode(data or b"", type=Timed).timestamp)
    except msgspec.DecodeError:
        return None
    return int(text) if text.isascii() and text.isdigit() else None


def latency(survey: Survey) -> Finding:
    """Check the latency of small reads: every decision of a controller waits for some."""
    ordered = sorted(survey.read_ms)
    p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)]
    said = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms over {len(ordered)} reads"
    if p50 <= SLOW_P50_MS and p99 <= SLOW_P99_MS:
        return ok("zookeeper-latency", said)
    hint = "check ZooKeeper's disks and garbage collection, and the network"
    return warning("zookeeper-latency", f"ZooKeeper is slow: {said}", hint)
