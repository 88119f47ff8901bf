"""Requests to two controllers of one cluster, and their answers in a form that can be compared.

``PHASE`` in a text stands for a word of the same length that differs between the two rounds. So both rounds begin with
the same topics and users, although the second one finds the topics and users of the first.
"""

import asyncio
import tomllib
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from controllerd.dev.ports import LOOPBACK
from tests.api.cluster import new_request
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.kio_codec import decode_entity, encode_entity, response_type

PHASE: Final = "PHASE"
ROUNDS: Final = ("roun1", "roun2")
PATIENCE_S: Final = 20.0
NO_ANSWER, HUNG_UP = "answer = none in time", "answer = none, hung up"
_CODE: Final = "error_code"
_SHOWN: Final = 6
CREATE, DELETE, GROW, ELECT, MOVE, LIST_MOVES = 19, 20, 37, 43, 45, 46
DESCRIBE_SCRAM, SCRAM, FEATURES, PRODUCER_IDS, SET_CONFIGS, QUOTAS = 50, 51, 57, 67, 44, 49

Values = Mapping[str, object]


class Ask(NamedTuple):
    """One request; ``passive`` ones go to a node that is not the controller."""

    id: str
    api: int
    version: int
    values: Values
    client: str = "operator"
    passive: bool = False


def ms(milliseconds: int) -> i32Timedelta:
    """A time-out as kio has it."""
    return i32Timedelta.parse(timedelta(milliseconds=milliseconds))


async def answer_of(port: int, api: int, version: int, values: Values, *, client: str = "operator") -> Any:
    """The answer of the listener on this port to one request.

    :raises TimeoutError: nothing. :raises OSError, WireError: there is no usable answer.
    """
    request = encode_entity(new_request(api, version, values))
    connection = await KafkaConnection.connect(LOOPBACK, port, client, request_timeout_s=PATIENCE_S)
    try:
        body = await connection.request(api, version, request)
    finally:
        await connection.close()
    return decode_entity(response_type(api, version), body)


async def asked(ask: Ask, port: int, phase: str) -> list[str]:
    """The answer line by line, without values that differ from answer to answer."""
    values, client = worded(ask.values, phase), ask.client.replace(PHASE, phase)
    try:
        said = await answer_of(port, ask.api, ask.version, values, client=client)
    except TimeoutError:
        return [NO_ANSWER]
    except (OSError, WireError):
        return [HUNG_UP]
    return [line.replace(phase, PHASE) for line in lines("", said)]


def worded(value: Any, phase: str) -> Any:
    """The same value with the word of this round in every text."""
    if isinstance(value, str):
        return value.replace(PHASE, phase)
    if isinstance(value, Mapping):
        return {key: worded(inner, phase) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return tuple(worded(inner, phase) for inner in value)
    return value


def lines(path: str, value: object) -> Iterator[str]:
    """Every leaf as ``path = value``; rows are sorted by their content, since their order means nothing.

    Plain values keep their order: the first of a list of replicas is the preferred one.
    """
    if is_dataclass(value):
        for field in fields(value):
            yield from lines(f"{path}.{field.name}" if path else field.name, getattr(value, field.name))
    elif isinstance(value, tuple) and all(is_dataclass(row) for row in value) and value:
        for row in sorted((list(lines("", row)) for row in value), key=str):
            yield from (f"{path}[{_name(row)}].{line}" for line in row if not line.startswith(_NAMES))
    elif path.endswith("throttle_time"):
        yield f"{path} = {'some' if value else 'none'}"
    else:
        yield f"{path} = {_shown(value)}"


_NAMES: Final = ("name = ", "topic = ", "user = ", "partition_index = ", "partition_id = ", "feature = ")


def _name(row: list[str]) -> str:
    return next((line.partition(" = ")[2] for line in row if line.startswith(_NAMES)), "")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, ErrorCode | IntEnum):
        return value.name
    return "an id" if isinstance(value, uuid.UUID) else repr(value) if isinstance(value, str) else str(value)


async def asked_all(asks: Sequence[Ask], port: int, passive: int, phase: str) -> dict[str, list[str]]:
    """All answers by the id of the request; requests are sent one after the other."""
    answers: dict[str, list[str]] = {}
    for ask in asks:
        assert ask.id not in answers, f"{ask.id} is asked twice"
        answers[ask.id] = await asked(ask, passive if ask.passive else port, phase)
        await asyncio.sleep(0)
    return answers


def errors(answer: Sequence[str]) -> list[str]:
    """The names of all errors in an answer; none for an answer without an error."""
    return [_value(line) for line in answer if _field(line) == _CODE and _value(line) != ErrorCode.none.name]


def _codes(said: Sequence[str]) -> set[str]:
    return {_value(line) for line in said if _field(line) == _CODE}


def _field(line: str) -> str:
    """``error_code`` of ``topics['x'].error_code = none``; a text may hold anything, also such a path."""
    return line.partition(" = ")[0].rpartition(".")[2]


def _value(line: str) -> str:
    return line.partition(" = ")[2]


class Difference(NamedTuple):
    """A request with different answers: the lines that only one controller answered, and those of the other."""

    id: str
    built_in: list[str]
    controllerd: list[str]

    def __str__(self) -> str:
        parts = (("built-in", self.built_in), ("controllerd", self.controllerd))
        return f"{self.id}\n" + "\n".join(f"    {side}: {line}" for side, said in parts for line in said[:_SHOWN])

    @property
    def fields(self) -> set[str]:
        """The names of the fields that differ."""
        return {_field(line) for line in (*self.built_in, *self.controllerd)}


def differences(built_in: Mapping[str, list[str]], controllerd: Mapping[str, list[str]]) -> list[Difference]:
    """The different answers, in the order of the requests; a line that occurs more often in one answer counts too."""
    found = []
    for key, theirs in built_in.items():
        ours = controllerd[key]
        if theirs != ours:
            only_theirs, only_ours = Counter(theirs) - Counter(ours), Counter(ours) - Counter(theirs)
            found.append(Difference(key, list(only_theirs.elements()), list(only_ours.elements())))
    return found


TABLE: Final = Path(__file__).with_name("differences.toml")


class Justified(NamedTuple):
    """A row of ``differences.toml``: these requests may differ in these fields, for a reason.

    With ``built_in`` and ``controllerd`` the errors that differ are exactly these.
    """

    asks: list[str]
    fields: list[str]
    why: str
    built_in: str = ""
    controllerd: str = ""

    def covers(self, difference: Difference) -> bool:
        """Whether the row is about this request, and covers all fields that differ."""
        if not any(fnmatchcase(difference.id, pattern) for pattern in self.asks):
            return False
        sides = (self.built_in, difference.built_in), (self.controllerd, difference.controllerd)
        has_its_errors = all(not error or _codes(said) <= {error} for error, said in sides)
        return has_its_errors and difference.fields != set() and difference.fields <= set(self.fields)

    def unused(self, found: Sequence[Difference]) -> list[str]:
        """The requests and fields of the row for which there is no difference."""
        covered = [difference for difference in found if self.covers(difference)]
        seen = set[str]().union(*(difference.fields for difference in covered))
        asks = [ask for ask in self.asks if not any(fnmatchcase(difference.id, ask) for difference in covered)]
        return [*asks, *(f"{self.asks[0]}: {field}" for field in self.fields if covered and field not in seen)]


def justified() -> list[Justified]:
    """The table of allowed differences."""
    return [Justified(**row) for row in tomllib.loads(TABLE.read_text("utf-8")).get("difference", [])]
