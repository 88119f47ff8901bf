"""Requests for the other APIs of the controller, in the order in which they are sent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from tests.real.comparison.asking import (
    CREATE,
    DELETE,
    DESCRIBE_SCRAM,
    ELECT,
    FEATURES,
    GROW,
    LIST_MOVES,
    MOVE,
    PRODUCER_IDS,
    QUOTAS,
    SCRAM,
    SET_CONFIGS,
    Ask,
    ms,
)
from tests.real.comparison.creations import ORDERS, OUR_ID, topic

GONE, STUCK, LIMPING, MOVED, ABSENT = (f"cmp-PHASE-{name}" for name in ("gone", "stuck", "limping", "moved", "absent"))
AWAY, ALONE = "cmp-PHASE-away", "cmp-PHASE-alone"
LEADERLESS: Final = "cmp-PHASE-nobody"
UNKNOWN: Final = "cmp-PHASE-unknown"
STRANGE_ID: Final = UUID("77777777-7777-7777-7777-777777777777")
LIMITED, PROBE = "cmp-PHASE-limited", "cmp-PHASE-probe"
_SALT, _SECRET = b"saltsaltsalt", b"s" * 32

# -- deletions and growth ----------------------------------------------------------------------------------------------


def delete(key: str, *names: str, version: int = 6, timeout: int = 15_000) -> Ask:
    """A DeleteTopics by name, in the format of the version."""
    rows = [{"name": name, "topic_id": None} for name in names]
    values = {"topics": rows, "topic_names": names, "timeout": ms(timeout)}
    return Ask(f"delete {key}", DELETE, version, values)


def deletions() -> Iterator[Ask]:
    """Deletions of unknown and of existing topics."""
    for version in range(1, 7):
        yield delete(f"unknown v{version}", UNKNOWN, version=version)
    yield delete("bad names", "", ".", "a b")
    yield delete("nothing")
    yield delete("twice", UNKNOWN, UNKNOWN)
    yield delete("twice by an older version", UNKNOWN, UNKNOWN, version=4)
    rows: dict[str, Sequence[Mapping[str, object]]] = {
        "by an unknown id": [{"name": None, "topic_id": STRANGE_ID}],
        "by both": [{"name": ORDERS, "topic_id": STRANGE_ID}],
        "by both beside another": [{"name": ORDERS, "topic_id": STRANGE_ID}, {"name": UNKNOWN, "topic_id": None}],
        "by neither": [{"name": None, "topic_id": None}],
        "by an unknown id twice": [{"name": None, "topic_id": STRANGE_ID}] * 2,
    }
    for key, topics in rows.items():
        yield Ask(f"delete {key}", DELETE, 6, {"topics": topics, "timeout": ms(15_000)})
    yield delete("two, one unknown", GONE, UNKNOWN)
    yield delete("again", GONE)
    yield delete("timeout 0", "cmp-PHASE-v2", timeout=0)
    yield delete("timeout -1", "cmp-PHASE-v3", timeout=-1, version=3)
    yield delete("what never ends", LIMPING, timeout=15_000)
    yield delete("what never ends, again", LIMPING, timeout=15_000)
    yield grow("what is being deleted", LIMPING, 5)
    yield elect("what is being deleted", {LIMPING: [0]})
    yield move("what is being deleted", {LIMPING: [1, 2]})
    values = {"topics": [topic(LIMPING)], "timeout": ms(1_000), "validate_only": True}
    yield Ask("create what is being deleted", CREATE, 7, values)


def grow(
    key: str,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    *,
    version: int = 3,
    validate: bool = False,
    timeout: int = 15_000,
) -> Ask:
    """A CreatePartitions for one topic."""
    given = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
    rows = [{"name": name, "count": count, "assignments": given}]
    return Ask(f"grow {key}", GROW, version, {"topics": rows, "timeout": ms(timeout), "validate_only": validate})


def growth() -> Iterator[Ask]:
    """Row L10 of scenarios.md, each case with and without ``validate_only``, and further cases."""
    cases: dict[str, tuple[str, int, Sequence[Sequence[int]] | None]] = {
        "decrease": (ORDERS, 2, None),
        "to zero": (ORDERS, 0, None),
        "to less than zero": (ORDERS, -1, None),
        "no-op": (ORDERS, 3, None),
        "no-op by hand": (ORDERS, 3, []),
        "too few lists": (ORDERS, 5, [[1, 2]]),
        "too many lists": (ORDERS, 4, [[1, 2], [2, 3]]),
        "no lists": (ORDERS, 5, []),
        "duplicate": (ORDERS, 4, [[1, 1]]),
        "duplicate in the second": (ORDERS, 5, [[1, 2], [3, 3]]),
        "unequal": (ORDERS, 5, [[1, 2], [3]]),
        "other factor": (ORDERS, 4, [[1, 2, 3]]),
        "other factors": (ORDERS, 6, [[1], [1, 2, 3], [1, 2]]),
        "unknown broker": (ORDERS, 4, [[1, 77]]),
        "unknown brokers": (ORDERS, 5, [[77, 1], [78, 77]]),
        "negative broker": (ORDERS, 4, [[1, -1]]),
        "ours": (ORDERS, 4, [[1, OUR_ID]]),
        "empty": (ORDERS, 4, [[]]),
        "empty in the second": (ORDERS, 5, [[1, 2], []]),
        "unknown topic": (UNKNOWN, 5, None),
        "bad name": ("a b", 5, None),
        "no name": ("", 5, None),
        "reassigned": (STUCK, 5, None),
        "reassigned, decrease": (STUCK, 0, None),
    }
    for key, (name, count, assignments) in cases.items():
        for validate in (True, False):
            yield grow(f"{key}{' validated' if validate else ''}", name, count, assignments, validate=validate)
    for version in range(4):
        yield grow(f"v{version} refused", ORDERS, 1, version=version)
        yield grow(f"v{version} validated", ORDERS, 9, version=version, validate=True)
        yield grow(f"v{version} done", f"cmp-PHASE-v{4 + version % 4}", 3, version=version)
    yield grow("by hand", ORDERS, 4, [[2, 1]])
    yield grow("timeout 0", ORDERS, 5, timeout=0)
    yield grow("beside one without a leader", LEADERLESS, 2, [[1]], timeout=2_000)
    yield grow("timeout 0 validated", ORDERS, 9, timeout=0, validate=True)
    twice = [{"name": ORDERS, "count": count, "assignments": None} for count in (7, 8)]
    other = {"name": UNKNOWN, "count": 1, "assignments": None}
    values = {"topics": [*twice, other], "timeout": ms(1_000), "validate_only": True}
    yield Ask("grow twice", GROW, 3, values)


# -- elections and reassignments ---------------------------------------------------------------------------------------


def elect(
    key: str, partitions: Mapping[str, Sequence[int]] | None, kind: int = 0, version: int = 2, timeout: int = 15_000
) -> Ask:
    """An ElectLeaders for preferred (0) or unclean (1) leaders."""
    rows = None if partitions is None else [{"topic": name, "partitions": ids} for name, ids in partitions.items()]
    values = {"election_type": kind, "topic_partitions": rows, "timeout": ms(timeout)}
    return Ask(f"elect {key}", ELECT, version, values)


def elections() -> Iterator[Ask]:
    """Elections while all brokers are live."""
    for version in range(3):
        yield elect(f"not needed v{version}", {ORDERS: [0, 1]}, version=version)
        yield elect(f"unknown v{version}", {UNKNOWN: [0], ORDERS: [99, -1]}, version=version)
    yield elect("unclean not needed", {ORDERS: [0]}, 1)
    yield elect("unclean unknown", {UNKNOWN: [0]}, 1)
    for kind in (2, -1, 127):
        yield elect(f"of kind {kind}", {ORDERS: [0]}, kind)
    yield elect("nothing", {})
    yield elect("no partition of a topic", {ORDERS: []})
    yield elect("a partition twice", {ORDERS: [0, 0]})
    yield elect("preferred unknown to all", {ABSENT: [0]})
    yield elect("what moved, and what there is not", {MOVED: [0], UNKNOWN: [3], ORDERS: [0]})
    yield elect("what moved, again", {MOVED: [0]})


def elections_while_away() -> Iterator[Ask]:
    """Elections while broker 3 is down: -alone is on it only, -away 0 prefers it, -away 1 does not."""
    yield elect("preferred dead", {ALONE: [0], AWAY: [0, 1]})
    yield elect("unclean without anybody", {ALONE: [0]}, 1)
    yield elect("unclean where somebody leads", {AWAY: [0, 1]}, 1)
    yield elect("preferred dead v0", {ALONE: [0], AWAY: [0]}, version=0)
    yield elect("preferred dead timeout 0", {AWAY: [0]}, timeout=0)
    yield move("to the dead", {ORDERS: [1, 3]})
    yield move("away from the dead", {AWAY: [1]}, partition=1)
    yield grow("onto the dead", ORDERS, 9, [[1, 3]] * 4, validate=True)
    rows = [topic("cmp-PHASE-wide", 1, 3), {**topic("cmp-PHASE-far", -1, -1, {0: [3]})}]
    yield Ask("create with too few", CREATE, 7, {"topics": rows, "timeout": ms(300), "validate_only": True})


def move(key: str, targets: Mapping[str, Sequence[int] | None], partition: int = 0, timeout: int = 15_000) -> Ask:
    """Reassign the one partition of each topic; None cancels."""
    rows = [
        {"name": name, "partitions": [{"partition_index": partition, "replicas": ids}]} for name, ids in targets.items()
    ]
    return Ask(f"move {key}", MOVE, 0, {"topics": rows, "timeout": ms(timeout)})


def moves() -> Iterator[Ask]:
    """Reassignments with valid and with invalid targets."""
    cases: dict[str, Sequence[int]] = {
        "empty": [],
        "duplicate": [1, 1],
        "duplicates": [1, 2, 1, 2],
        "negative": [-1],
        "negative among": [1, -5],
        "unknown": [77],
        "unknown among": [1, 77],
        "two unknown": [78, 77],
        "ours": [1, OUR_ID],
        "negative duplicate": [-1, -1],
        "huge": [2_147_483_647],
    }
    for key, target in cases.items():
        yield move(key, {ORDERS: target})
    yield move("unknown topic", {UNKNOWN: [1]})
    yield move("unknown topic, bad target", {UNKNOWN: [1, 1]})
    yield move("unknown partition", {ORDERS: [1]}, partition=99)
    yield move("negative partition", {ORDERS: [1]}, partition=-1)
    yield move("bad name", {"a b": [1], "": [1]})
    yield move("cancel nothing", {ORDERS: None})
    yield move("cancel unknown", {UNKNOWN: None})
    yield move("nothing", {})
    yield move("good and bad", {ORDERS: [2, 1], UNKNOWN: [1], ABSENT: [1, 1]})
    yield move("the same again", {ORDERS: [2, 1]})
    yield move("timeout 0", {ORDERS: [1, 2]}, timeout=0)
    row = [{"partition_index": 0, "replicas": [1, 2]}]
    twice = [{"name": ORDERS, "partitions": [*row, *row]}, {"name": UNKNOWN, "partitions": [*row, *row]}]
    yield Ask("move the same twice", MOVE, 0, {"topics": twice, "timeout": ms(5_000)})
    other = [{"partition_index": 0, "replicas": [9, 9]}]
    yield Ask("move otherwise twice", MOVE, 0, {"topics": [{"name": UNKNOWN, "partitions": [*row, *other]}]})
    yield Ask("move no partition", MOVE, 0, {"topics": [{"name": ORDERS, "partitions": []}]})
    yield listed("one under way", {STUCK: [0]})
    yield listed("idle", {ORDERS: [0, 1]})
    yield listed("unknown", {UNKNOWN: [0], ORDERS: [99]})
    yield listed("no partition", {STUCK: []})
    yield listed("nothing", {})


def listed(key: str, partitions: Mapping[str, Sequence[int]]) -> Ask:
    """ListPartitionReassignments."""
    rows = [{"name": name, "partition_indexes": ids} for name, ids in partitions.items()]
    return Ask(f"list {key}", LIST_MOVES, 0, {"topics": rows, "timeout": ms(5_000)})


def stuck_moves() -> Iterator[Ask]:
    """The reassignment that a throttle keeps under way."""
    yield move("begin", {STUCK: [2]})
    yield move("begin again", {STUCK: [2]})
    yield listed("begun", {STUCK: [0]})


def unstuck_moves() -> Iterator[Ask]:
    """The end of the throttled reassignment."""
    yield move("cancel", {STUCK: None})
    yield move("cancel again", {STUCK: None})
    yield listed("cancelled", {STUCK: [0]})


# -- users, features, ids, configurations ------------------------------------------------------------------------------


def scram(
    key: str, sets: Sequence[Mapping[str, object]] = (), removes: Sequence[tuple[str, int]] = (), **others: object
) -> Ask:
    """AlterUserScramCredentials."""
    gone = [{"name": name, "mechanism": mechanism} for name, mechanism in removes]
    return Ask(f"scram {key}", SCRAM, 0, {"upsertions": sets, "deletions": gone, **others})


def credential(
    user: str = "cmp-PHASE-user",
    mechanism: int = 1,
    iterations: int = 4_096,
    salt: bytes = _SALT,
    salted: bytes = _SECRET,
) -> dict[str, object]:
    """A credential to set."""
    who = {"name": user, "mechanism": mechanism, "iterations": iterations}
    return {**who, "salt": salt, "salted_password": salted}


def users() -> Iterator[Ask]:
    """Valid and invalid credentials."""
    user = "cmp-PHASE-user"
    cases: dict[str, list[dict[str, object]]] = {
        "few iterations": [credential(iterations=4_095)],
        "no iterations": [credential(iterations=0)],
        "many iterations": [credential(iterations=16_385)],
        "nobody": [credential("")],
        "mechanism 0": [credential(mechanism=0)],
        "mechanism 3": [credential(mechanism=3)],
        "no password": [credential(salted=b"")],
        "twice": [credential(), credential()],
        "bad and twice": [credential(iterations=1), credential()],
        "two problems": [credential(iterations=1, mechanism=9)],
    }
    for key, sets in cases.items():
        yield scram(key, sets)
    yield scram("remove what is not", removes=[(user, 1)])
    yield scram("remove from nobody", removes=[("", 1)])
    yield scram("remove mechanism 0", removes=[(user, 0)])
    yield scram("remove mechanism 9", removes=[(user, 9)])
    yield scram("remove twice", removes=[(user, 1), (user, 1)])
    yield scram("set and remove", [credential()], [(user, 1)])
    yield scram("nothing")
    yield scram("set two, one bad", [credential(), credential("cmp-PHASE-other", iterations=1)])
    yield scram("set the other", [credential(mechanism=2)])
    yield Ask("scram describe", DESCRIBE_SCRAM, 0, {"users": [{"name": user}]})
    yield Ask("scram describe unknown", DESCRIBE_SCRAM, 0, {"users": [{"name": "cmp-PHASE-unknown"}]})
    yield scram("remove", removes=[(user, 1)])
    yield scram("remove again", removes=[(user, 1)])
    yield scram("no salt", [credential("cmp-PHASE-plain", salt=b"")])
    yield scram("odd name", [credential("cmp PHASE=ü,*")])


def features() -> Iterator[Ask]:
    """UpdateFeatures, of which ZooKeeper mode supports none."""
    cases: dict[str, list[tuple[str, int, int]]] = {
        "unknown": [("cmp.feature", 1, 1)],
        "no name": [("", 1, 1)],
        "level 0": [("cmp.feature", 0, 1)],
        "level -1": [("cmp.feature", -1, 1)],
        "delete": [("cmp.feature", 0, 2)],
        "downgrade": [("cmp.feature", 1, 2)],
        "unsafe downgrade": [("cmp.feature", 1, 3)],
        "kind 0": [("cmp.feature", 1, 0)],
        "kind 9": [("cmp.feature", 1, 9)],
        "metadata version": [("metadata.version", 19, 1)],
        "two": [("cmp.feature", 1, 1), ("other.feature", 0, 2)],
        "twice": [("cmp.feature", 1, 1), ("cmp.feature", 2, 1)],
        "none": [],
    }
    for key, rows in cases.items():
        updates = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in rows]
        yield Ask(f"features {key}", FEATURES, 1, {"feature_updates": updates, "validate_only": False})
    older = [{"feature": "cmp.feature", "max_version_level": 0, "allow_downgrade": flag} for flag in (False,)]
    yield Ask("features v0", FEATURES, 0, {"feature_updates": older})
    allowed = [{"feature": "cmp.feature", "max_version_level": 0, "allow_downgrade": True}]
    yield Ask("features v0 delete", FEATURES, 0, {"feature_updates": allowed})
    yield Ask("features v0 raise", FEATURES, 0, {"feature_updates": [{**allowed[0], "max_version_level": 3}]})


def ids_and_configs() -> Iterator[Ask]:
    """Producer ids for unregistered brokers, and configurations, which controllerd relays to a broker."""
    for broker, epoch in [(1, 0), (77, 5), (-1, -1)]:
        yield Ask(f"ids {broker} {epoch}", PRODUCER_IDS, 0, {"broker_id": broker, "broker_epoch": epoch})
    cases: dict[str, tuple[int, str, str, str | None]] = {
        "topic": (2, ORDERS, "retention.ms", "x"),
        "unknown topic": (2, UNKNOWN, "retention.ms", "1"),
        "unknown name": (2, ORDERS, "no.such.config", "1"),
        "null": (2, ORDERS, "retention.ms", None),
        "bad topic": (2, "a b", "retention.ms", "1"),
        "kind 77": (77, ORDERS, "retention.ms", "1"),
        "good": (2, ORDERS, "retention.ms", "77777777"),
    }
    for key, (kind, name, config, value) in cases.items():
        entry = {"name": config, "config_operation": 0, "value": value}
        rows = [{"resource_type": kind, "resource_name": name, "configs": [entry]}]
        yield Ask(f"configs {key}", SET_CONFIGS, 1, {"resources": rows, "validate_only": False})


# -- quotas, and nodes that do not lead --------------------------------------------------------------------------------


def limit(client: str) -> Ask:
    """A quota of little more than one partition per ten seconds."""
    entity = [{"entity_type": "client-id", "entity_name": client}]
    ops = [{"key": "controller_mutation_rate", "value": 0.1, "remove": False}]
    values = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
    return Ask(f"quota of {client.rpartition('-')[2]}", QUOTAS, 1, values)


def probe(number: int) -> Ask:
    """A request that is refused as soon as the controller knows the quotas."""
    rows = [topic(f"cmp-PHASE-probe-{number}-{part}", 1, 1) for part in range(4)]
    values = {"topics": rows, "timeout": ms(5_000), "validate_only": False}
    return Ask(f"probe {number}", CREATE, 7, values, PROBE)


def quotas() -> Iterator[Ask]:
    """Row L12: requests that are refused, throttled and accepted once the quota is exceeded."""
    plan = [
        _limited("strict at first", 7, topic("cmp-PHASE-q1", 5, 1)),
        _limited("strict", 7, topic("cmp-PHASE-q2"), topic("cmp-PHASE-q3", 3, 1)),
        _limited("strict beside a bad one", 6, topic("a b"), topic("cmp-PHASE-q2")),
        _limited("validated", 7, topic("cmp-PHASE-q2"), validate=True),
        _limited("permissive", 5, topic("cmp-PHASE-q4", 2, 1)),
        grow("quota strict", ORDERS, 20, version=3),
        grow("quota validated", ORDERS, 20, version=3, validate=True),
        grow("quota permissive", "cmp-PHASE-q4", 3, version=2),
        grow("quota decrease", ORDERS, 1, version=3),
        delete("quota strict", "cmp-PHASE-q1", version=6),
        delete("quota strict unknown", UNKNOWN, "cmp-PHASE-q1", version=5),
        delete("quota permissive", "cmp-PHASE-q4", version=4),
    ]
    return (ask._replace(client=LIMITED) for ask in plan)


def _limited(key: str, version: int, *topics: Mapping[str, object], validate: bool = False) -> Ask:
    values = {"topics": topics, "timeout": ms(15_000), "validate_only": validate}
    return Ask(f"create quota {key}", CREATE, version, values)


def passive() -> Iterator[Ask]:
    """Row L11, and the same for the other APIs: a node that is not the controller refuses every request."""
    row = [{"partition_index": 0, "replicas": [1]}]
    update = [{"feature": "cmp.feature", "max_version_level": 1, "upgrade_type": 1}]
    create = {"topics": [topic("cmp-PHASE-p"), topic("a b")], "timeout": ms(5_000), "validate_only": False}
    plan = [
        *(Ask(f"create v{version}", CREATE, version, create) for version in (2, 5, 7)),
        *(delete(f"v{version}", ORDERS, UNKNOWN, version=version) for version in (1, 5, 6)),
        Ask("delete by id", DELETE, 6, {"topics": [{"name": None, "topic_id": STRANGE_ID}], "timeout": ms(5_000)}),
        *(grow(f"v{version}", ORDERS, 9, version=version) for version in (0, 3)),
        *(elect(f"v{version}", {ORDERS: [0], UNKNOWN: [1]}, version=version) for version in range(3)),
        elect("all", None),
        elect("all v0", None, version=0),
        Ask("move", MOVE, 0, {"topics": [{"name": ORDERS, "partitions": row}], "timeout": ms(5_000)}),
        listed("one", {ORDERS: [0]}),
        scram("set", [credential(), credential("", iterations=1)]),
        Ask("features", FEATURES, 1, {"feature_updates": update, "validate_only": False}),
        Ask("ids", PRODUCER_IDS, 0, {"broker_id": 1, "broker_epoch": 0}),
    ]
    return (ask._replace(id=f"passive {ask.id}", passive=True) for ask in plan)
