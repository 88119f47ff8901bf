"""Values for the fields of requests: realistic ones, and ones that no client sends."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.fakes.world import NODE_ID, topic_id_of

TOPICS: Final = ("orders", "pairs", "fuzz-0", "fuzz-1", "fuzz.2", "fuzz_2", "fuzz-3", "nobody", "__consumer_offsets")
CONFIGS: Final = ("segment.ms", "cleanup.policy", "retention.ms", "min.insync.replicas", "compression.type", "no.such")
CONFIG_VALUES: Final = ("1", "compact", "delete,compact", "-1", "604800000", "gzip", "", "true")
USERS: Final = ("alice", "bob", "al ice", "<default>")
FEATURES: Final = ("metadata.version", "kraft.version", "")
HUGE_DIGITS: Final = "9" * 5_000
"""More digits than Python turns into a number."""
TEXTS: Final[Sequence[str]] = (
    "",
    ".",
    "..",
    "a/b",
    "../../controller",
    "\0",
    "a\0b",
    "%s%n{0}{}",
    "line\nfeed\r\n\x1b[31m",
    "x" * 249,
    "x" * 250,
    "x" * 1_000,
    "x" * 32_767,
    "\u00e9" * 16_383,
    "\U0001f600" * 8_191,
    "\ufeff\u202e\u0000\ufffd",
    "\u0130\u0131\u1e9e\ufb03",
    "NaN",
    "Infinity",
    "-0",
    "1e400",
    "0x10",
    "1_000",
    " 12 ",
    "\uff11\uff12",
    HUGE_DIGITS,
    "9223372036854775808",
    "null",
    "{}",
    "__cluster_metadata",
    str(NODE_ID),
)
"""Strings that no client uses and every client may send."""
_BITS: Final = {
    "int8": 8,
    "int16": 16,
    "error_code": 16,
    "int32": 32,
    "timedelta_i32": 32,
    "int64": 64,
    "timedelta_i64": 64,
    "datetime_i64": 64,
}
_COSTLY: Final = {"num_partitions": 300, "count": 300}
"""Numbers that make a request expensive in the cluster: at most this, or far beyond the limit."""


@dataclass(frozen=True)
class Facts:
    """The facts that a client could know of the cluster at the moment."""

    topics: Sequence[str] = ()
    broker_epochs: Mapping[int, int] = field(default_factory=dict)
    partition_epochs: Sequence[int] = (0,)


class Sensible:
    """Draws values as clients send them, so that requests reach the depth of the handlers."""

    def __init__(self, random: Random, facts: Facts, api_name: str) -> None:
        self._random = random
        self._facts = facts
        self._api = api_name
        self._last_broker = 1

    def __call__(self, name: str, kind: str) -> object:
        """Draws realistic values, so that requests reach the depth of the handlers."""
        match kind:
            case "string":
                return self._string(name)
            case "bool":
                return int(self._random.random() < 0.3)
            case "uuid":
                return self._topic_id()
            case "bytes" | "records":
                return self._random.randbytes(self._random.choice((1, 16, 64)))
            case "float64":
                return self._random.random()
            case "timedelta_i32" | "timedelta_i64":
                return self._random.choice((1000, 5000, 30000))
            case _:
                return self._number(name)

    def count(self, name: str) -> int:
        """How many elements an array has."""
        return self._random.choice((1, 1, 1, 2, 3))

    def _topic(self) -> str:
        return self._random.choice((*TOPICS, *self._facts.topics))

    def _topic_id(self) -> bytes:
        text = topic_id_of(self._random.choice((self._topic(), f"new {self._random.randrange(50)}")))
        return base64.urlsafe_b64decode(text + "==")

    def _string(self, name: str) -> str | None:
        pick = self._random.choice
        if "user" in name or (self._api == "ALTER_USER_SCRAM_CREDENTIALS" and name == "name"):
            return pick(USERS)
        if "feature" in name:
            return pick(FEATURES)
        if name == "value" or name.endswith("_value"):
            return pick(CONFIG_VALUES)
        if "software" in name:
            return pick(("apache-kafka-java", "3.9.1", "librdkafka"))
        if name == "transactional_id":
            return None if self._random.random() < 0.6 else "t-1"
        if name == "resource_name":
            return pick((str(NODE_ID), str(NODE_ID), "1", "orders"))
        if "config" in name or (name == "name" and self._random.random() < 0.3):
            return pick(CONFIGS)
        return self._topic()

    def _number(self, name: str) -> int:
        pick = self._random.choice
        if "broker_epoch" in name:
            return pick((self._facts.broker_epochs.get(self._last_broker, -1), -1, 7))
        if "broker" in name or "replica" in name or "isr" in name:
            self._last_broker = pick((1, 2, 3, 3, 2, 1, 9))
            return self._last_broker if name != "replication_factor" else pick((1, 2, 3, -1))
        if "replication" in name:
            return pick((1, 2, 3, -1))
        if name in _COSTLY:
            return pick((-1, 1, 2, 3, 4, 7))
        if "partition_epoch" in name:
            return pick((0, 1, 2, *self._facts.partition_epochs))
        if "resource_type" in name:
            return pick((4, 4, 2, 8))
        if "iterations" in name:
            return pick((4096, 8192))
        return pick((0, 0, 1, 1, 2))


def extreme(random: Random, name: str, kind: str, value: object) -> Any:
    """A value that the type allows and no client sends."""
    if kind == "string":
        return random.choice((*TEXTS, f"{value}{random.choice(TEXTS)}"))
    if kind in {"bytes", "records"}:
        return random.choice((b"", b"\0", bytes(70_000), random.randbytes(300), b"\xff" * 32))
    if kind == "bool":
        return 1 - (value if isinstance(value, int) else 0)
    if kind == "uuid":
        return random.choice((bytes(16), b"\xff" * 16, random.randbytes(16), bytes(15) + b"\1"))
    if kind == "float64":
        return random.choice((float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1.7e308))
    if kind in {"uint16", "uint32"}:
        return random.choice((0, 1, 2 ** int(kind[4:]) - 1))
    return _extreme_number(random, name, _BITS[kind])


def _extreme_number(random: Random, name: str, bits: int) -> int:
    highest = 2 ** (bits - 1) - 1
    numbers = (highest, -highest - 1, -1, 0, 1, -2, highest - 1, 127, 128, -129, random.randint(-highest, highest))
    found = random.choice([number for number in numbers if -highest - 1 <= number <= highest])
    most = _COSTLY.get(name)
    return found if most is None or not most < found <= 200_000 else most
