"""Kafka's own clients send odd requests, and have to understand every answer.

kio may read an answer that librdkafka cannot decode. Such an answer is a local error of librdkafka,
and a refusal of the controller is an error of the broker.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, Final

from confluent_kafka import (
    ElectionType,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.fuzz.target import Target, target
from tests.fuzz.values import CONFIG_VALUES, CONFIGS, HUGE_DIGITS, TEXTS

PATIENCE_S: Final = 60
SENT: Final = [text for text in TEXTS if text and "\0" not in text and len(text) < 30_000]
"""The texts that librdkafka sends: its strings end at a zero byte."""
ODD: Final[list[Mapping[str, str]]] = [
    *({name: value} for name in CONFIGS for value in (*CONFIG_VALUES, HUGE_DIGITS, "\uff11", "NaN", "1_000")),
    {text: text for text in SENT[:12]},
]
_LONGEST_QUERY: Final = 512
"""librdkafka has no topic object for a longer name."""
_KNOWN_TO_ALL: Final = range(200)
"""Codes of Kafka's errors; local ones are below zero."""
_NEVER_SENT: Final = (-186,)
"""librdkafka refuses an argument by itself."""


@asynccontextmanager
async def alone() -> AsyncIterator[Target]:
    """A target whose brokers take no connection, so that clients ask the controller alone."""
    async with target() as under_test:
        async with under_test.client() as client:
            await client.ask(18, 3)
        await under_test.put_in_order()
        for stub in under_test._stubs.values():
            await stub.close()
        yield under_test
        under_test._check_silence()
        assert "internal error" not in under_test.server.stats().hang_ups


def address(under_test: Target) -> str:
    endpoint = under_test.server.advertised[0]
    return f"{endpoint.host}:{endpoint.port}"


def codes(futures: Mapping[Any, "Future[object]"]) -> list[int]:
    """The result of each future: 0, the error of the broker, or the client's own."""
    return [_code(future) for future in futures.values()]


def _code(future: "Future[object]") -> int:
    error = future.exception(PATIENCE_S)
    if error is None:
        return 0
    assert isinstance(error, KafkaException), error
    return int(error.args[0].code())


async def test_librdkafka_understands_what_becomes_of_odd_topics() -> None:
    async with alone() as under_test:
        admin = AdminClient({"bootstrap.servers": address(under_test), "log_level": 0})

        def ask() -> list[int]:
            named = [NewTopic(text, 1, 1) for text in SENT]
            configured = [NewTopic(f"c{n}", 1, 1, config=dict(each)) for n, each in enumerate(ODD)]
            placed = [
                NewTopic(f"p{n}", len(lists), replica_assignment=lists)
                for n, lists in enumerate([[[9]], [[1], [1, 2]], [[2**31 - 1]], [[1, 1]], [[1, 2, 3]] * 50])
            ]
            counted = [NewTopic("n0", 300, 1), NewTopic("n1", 1, 10_000), NewTopic("n2", -1, -1)]
            found = []
            for topics in (named, configured, placed, counted):
                found += codes(admin.create_topics(topics, operation_timeout=5))
            found += codes(admin.create_topics(named, validate_only=True))
            found += codes(
                admin.create_partitions([*(NewPartitions(text, 5) for text in SENT), NewPartitions("orders", 1)])
            )
            found += codes(admin.create_partitions([NewPartitions("orders", 5, [[9], [9, 9]])]))
            return found + codes(admin.delete_topics([*SENT, "pairs", "nobody"], operation_timeout=5))

        found = await asyncio.to_thread(ask)
        assert [code for code in found if code not in _KNOWN_TO_ALL and code not in _NEVER_SENT] == []
        assert {0, 17, 3, 40, 38, 37} <= set(found)


async def test_librdkafka_understands_every_other_answer() -> None:
    async with alone() as under_test:
        admin = AdminClient({"bootstrap.servers": address(under_test), "log_level": 0})

        def ask() -> list[int]:
            found = []
            for text in (text for text in SENT if len(text) < _LONGEST_QUERY):
                listed = admin.list_topics(text, timeout=PATIENCE_S)
                found += [row.error.code() for row in listed.topics.values() if row.error is not None]
            wanted = [TopicPartition(text, number) for text in SENT for number in (0, 2**31 - 1)]
            elected = admin.elect_leaders(ElectionType.UNCLEAN, wanted).result(PATIENCE_S)
            found += [error.code() for error in elected.values() if error is not None]
            assert admin.describe_cluster().result(PATIENCE_S).controller is not None
            return found

        found = await asyncio.to_thread(ask)
        assert [code for code in found if code not in _KNOWN_TO_ALL] == []
        assert {3, 17} <= set(found)


async def test_librdkafka_understands_what_becomes_of_odd_users() -> None:
    async with alone() as under_test:
        admin = AdminClient({"bootstrap.servers": address(under_test), "log_level": 0})

        def ask() -> list[int]:
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            weak = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 1)
            rows: list[UserScramCredentialAlteration] = [
                *(UserScramCredentialUpsertion(text, info, b"p", b"s") for text in SENT),
                UserScramCredentialUpsertion("weak", weak, b"p", b"s"),
            ]
            found = codes(admin.alter_user_scram_credentials(rows))
            mechanism = ScramMechanism.SCRAM_SHA_512
            rows = [UserScramCredentialDeletion(text, mechanism) for text in SENT]
            return found + codes(admin.alter_user_scram_credentials(rows))

        found = await asyncio.to_thread(ask)
        assert [code for code in found if code not in _KNOWN_TO_ALL] == []
        assert {0, 91} <= set(found)
