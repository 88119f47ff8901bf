"""Requests for CreateTopics: chosen ones, and those generated from the tables of names and configurations."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controllerd.core.topic_configs import TOPIC_CONFIGS, ConfigType
from tests.real.comparison.asking import CREATE, Ask, ms

ORDERS: Final = "cmp-PHASE-orders"
NEW: Final = "cmp-PHASE-new"
OUR_ID: Final = 2_000_000_000
_SEED: Final = 20_150_905
_LETTERS: Final = "abcXYZ019._- /\\:,;#%&*()[]{}<>|\"'`~!?@$^=+\t\n\r\0äßéñ中文字😀"

BAD_NAMES: Final[Mapping[str, str]] = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "three dots": "...",
    "249": "n" * 249,
    "250": "n" * 250,
    "long": "n" * 5_000,
    "space": "a b",
    "umlaut": "bücher",
    "slash": "a/b",
    "backslash": "a\\b",
    "colon": "a:b",
    "comma": "a,b",
    "newline": "ab\n",
    "zero": "a\0b",
    "chinese": "订单",
    "249 emoji units": "😀" * 124,
    "250 emoji units": "😀" * 125,
    "cluster metadata": "__cluster_metadata",
    "internal": "__PHASE_internal",
    "exists": ORDERS,
    "collides": "cmp-PHASE-dotted_x",
    "collides by two": "cmp-PHASE_twice.y",
    "collides with itself": "cmp-PHASE-dotted.x",
    "collides not": "cmp_PHASE_orders",
    "only dash": "-",
    "only underscore": "_",
}
BAD_TEXTS: Final[Mapping[ConfigType, Sequence[str]]] = {
    ConfigType.INT: ("", "x", "1.5", "99999999999", "-1", "-2", "0", "23", " 7 ", "+5", "0x10"),
    ConfigType.LONG: ("", "x", "1e3", "9223372036854775808", "-1", "-3", "0", " 86400000 "),
    ConfigType.DOUBLE: ("", "x", "1.5", "-0.1", "0.5f", "NaN", "1e-5", "Infinity"),
    ConfigType.BOOLEAN: ("", "yes", "1", "TRUE", " false "),
    ConfigType.LIST: ("", "x", "compact,x", "compact,,delete", "1:2", "1:2,x", "*", " 1:2 , 3:4 "),
    ConfigType.STRING: ("", "x", "gzip", "GZIP", "CreateTime", "2.8", "3.9-IV0", "4.1", "0.9"),
}


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> dict[str, object]:
    """A row of the request; with assignments the counts are left out unless they are given."""
    rows = [{"partition_index": p, "broker_ids": ids} for p, ids in (assignments or {}).items()]
    given = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": rows,
        "configs": given,
    }


def placed(name: str, **assignments: Sequence[int]) -> dict[str, object]:
    """A topic with explicit assignments: ``p0=[1, 2]``."""
    return topic(name, -1, -1, {int(key[1:]): ids for key, ids in assignments.items()})


def create(key: str, *topics: Mapping[str, object], version: int = 7, timeout: int = 15_000) -> Ask:
    """A request that creates the topics."""
    values = {"topics": topics, "timeout": ms(timeout), "validate_only": False}
    return Ask(f"create {key}", CREATE, version, values)


def check(key: str, *topics: Mapping[str, object], version: int = 7) -> Ask:
    """A request that only validates the topics."""
    values = {"topics": topics, "timeout": ms(15_000), "validate_only": True}
    return Ask(f"create {key}", CREATE, version, values)


def beginning() -> list[Ask]:
    """The topics that the other requests name; one of them can never have a leader."""
    return [
        create("orders", placed(ORDERS, p0=[1, 2], p1=[2, 3], p2=[3, 1])),
        create("dotted", topic("cmp-PHASE-dotted.x", 1, 1)),
        create("twice", topic("cmp-PHASE.twice_y", 1, 1)),
        create("moved", placed("cmp-PHASE-moved", p0=[1, 2])),
        create("absent", placed("cmp-PHASE-absent", p0=[9, 1])),
        create("limping", placed("cmp-PHASE-limping", p0=[1, 9])),
        create("nobody", placed("cmp-PHASE-nobody", p0=[9]), timeout=300),
        create("stuck", placed("cmp-PHASE-stuck", p0=[1]), topic("cmp-PHASE-gone", 2, 1)),
        create("away", placed("cmp-PHASE-away", p0=[3, 1], p1=[1, 3]), placed("cmp-PHASE-alone", p0=[3])),
    ]


def names() -> Iterator[Ask]:
    """Invalid topic names, and names that collide with those of other topics."""
    for key, name in BAD_NAMES.items():
        yield check(f"name {key}", topic(name))
    draw = random.Random(_SEED)
    for number in range(25):
        name = "".join(draw.choice(_LETTERS) for _ in range(draw.randint(1, 12)))
        yield check(f"name generated {number}", topic(name))
    yield check("name twice", topic(NEW), topic(NEW), topic("cmp-PHASE-other"))
    yield check("name twice and bad", topic("a b"), topic("a b"))
    yield check("collide in one request", topic("cmp.PHASE.pair"), topic("cmp_PHASE_pair"))
    yield create("collide in one request in earnest", topic("cmp.PHASE.duo"), topic("cmp_PHASE_duo"))
    yield check("nothing")


def counts() -> Iterator[Ask]:
    """Numbers of partitions and replicas."""
    for partitions, factor in [
        (0, 1),
        (-2, 1),
        (-1, 1),
        (1, 0),
        (1, -2),
        (1, -1),
        (1, 4),
        (1, 32_767),
        (0, 0),
        (-1, -1),
    ]:
        yield check(f"counts {partitions} {factor}", topic(NEW, partitions, factor))
    yield check("counts bad and name bad", topic("a b", 0, 1))
    yield check("counts bad and config bad", topic(NEW, 0, 1, configs={"x": "y"}))
    yield check("counts bad and exists", topic(ORDERS, 0, 9))
    yield check("one bad of three", topic(NEW), topic("cmp-PHASE-b", 1, 9), topic("cmp-PHASE-c", 3, 3))


def manual() -> Iterator[Ask]:
    """Explicit assignments."""
    cases: dict[str, dict[int, list[int]]] = {
        "unequal": {0: [1, 2], 1: [3]},
        "duplicate": {0: [1, 1]},
        "duplicates": {0: [1, 2], 1: [3, 3], 2: [2, 2]},
        "from one": {1: [1], 2: [2]},
        "gap": {0: [1], 2: [2]},
        "negative partition": {-1: [1], 0: [2]},
        "negative broker": {0: [-1, 1]},
        "unknown broker": {0: [1, 77]},
        "only unknown brokers": {0: [77, 78]},
        "no replicas": {0: []},
        "no replicas in one": {0: [1], 1: []},
        "ours": {0: [1, OUR_ID]},
        "unequal and duplicate": {0: [1, 1], 1: [2]},
    }
    for key, assignments in cases.items():
        yield check(f"manual {key}", topic(NEW, -1, -1, assignments))
    yield check("manual and partitions", topic(NEW, 2, -1, {0: [1]}))
    yield check("manual and factor", topic(NEW, -1, 2, {0: [1]}))
    yield check("manual and both", topic(NEW, 1, 1, {0: [1]}))
    yield check("manual bad and name bad", topic("a b", -1, -1, {0: [1, 1]}))
    repeated = {**topic(NEW, -1, -1), "assignments": [{"partition_index": 0, "broker_ids": [b]} for b in (1, 2)]}
    yield check("manual partition twice", repeated)


def configs() -> Iterator[Ask]:
    """Every configuration with values that its type, or its range, does not allow."""
    for name, rule in TOPIC_CONFIGS.items():
        for number, text in enumerate(BAD_TEXTS[rule.type]):
            yield check(f"config {name} {number}", topic(NEW, configs={name: text}))
    cases: dict[str, dict[str, str | None]] = {
        "unknown": {"no.such.config": "1"},
        "unknown and bad": {"no.such.config": "1", "retention.ms": "x"},
        "null": {"retention.ms": None},
        "nulls": {"retention.ms": None, "flush.ms": None},
        "null of unknown": {"no.such.config": None},
        "empty name": {"": "1"},
        "two bad": {"segment.bytes": "1", "segment.ms": "0"},
        "lags": {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        "remote storage": {"remote.storage.enable": "true"},
        "remote copy": {"remote.log.copy.disable": "true"},
        "remote both": {"remote.log.copy.disable": "true", "remote.log.delete.on.disable": "true"},
        "local without remote": {"local.retention.ms": "1000", "retention.ms": "10"},
        "good ones": {"retention.ms": "1000", "cleanup.policy": "compact,delete", "min.insync.replicas": "2"},
    }
    for key, given in cases.items():
        yield check(f"configs {key}", topic(NEW, configs=given))
    twice = {**topic(NEW), "configs": [{"name": "retention.ms", "value": value} for value in ("1", "2")]}
    yield check("configs twice", twice)


def versions() -> Iterator[Ask]:
    """Each version with valid and invalid topics, and time-outs of zero and less."""
    for version in range(2, 8):
        yield check(f"v{version} refused", topic(NEW, 1, 9), topic(ORDERS), version=version)
        yield check(f"v{version} validated", topic(NEW, 2, 2, configs={"retention.ms": "5"}), version=version)
        made = topic(f"cmp-PHASE-v{version}", 2, 2, configs={"retention.ms": "1000"})
        yield create(f"v{version} made", made, version=version)
    for timeout in (0, -1):
        yield create(f"timeout {timeout}", topic(f"cmp-PHASE-late{timeout}"), timeout=timeout)
        late = check(f"validated timeout {timeout}", topic(NEW), topic("a b"))
        yield late._replace(values={**late.values, "timeout": ms(timeout)})


def creations() -> list[Ask]:
    """All requests for CreateTopics."""
    return [ask for asks in (names, counts, manual, configs, versions) for ask in asks()]
