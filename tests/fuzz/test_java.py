"""Kafka's own Java client reads a sample of answers to fuzzed requests as it reads the answers of brokers."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from controllerd.api.catalog import NATIVE
from controllerd.dev.kafka_jars import class_path
from controllerd.dev.processes import FAST_START_FLAGS, find_java
from tests.fuzz.frames import advertised
from tests.fuzz.judge import is_brokers
from tests.fuzz.run import FuzzRun
from tests.fuzz.target import target
from wire.framing import peek_request

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

FRAMES: Final = 4_000
OF_EACH: Final = 12
"""How many answers of each API and version are read; errors would be in the texts and the numbers."""


@pytest.fixture(scope="module")
def java(kafka_jars: None) -> Iterator[Any]:
    """A Java virtual machine with Kafka's client library."""
    flags = ["-Xmx256m", *FAST_START_FLAGS]
    gateway = JavaGateway.launch_gateway(
        classpath=class_path(), java_path=find_java(), javaopts=flags, die_on_exit=True
    )
    yield gateway.jvm
    gateway.shutdown()


def read_by(java: Any, request: bytes, answer: bytes) -> str:
    """The client's error for an answer that it cannot read, or not to its end."""
    requests, wrap = java.org.apache.kafka.common.requests, java.java.nio.ByteBuffer.wrap
    content = wrap(answer)
    try:
        requests.AbstractResponse.parseResponse(content, requests.RequestHeader.parse(wrap(request)))
    except Py4JJavaError as error:
        return str(error.java_exception)
    return f"{content.remaining()} bytes were not read" if content.remaining() else ""


@pytest.fixture(scope="module")
def sample() -> list[tuple[bytes, bytes]]:
    """Requests and our answers to them, some of each version."""
    return asyncio.run(_sample())


async def _sample() -> list[tuple[bytes, bytes]]:
    found: defaultdict[tuple[int, int], dict[int, tuple[bytes, bytes]]] = defaultdict(dict)

    def keep(request: bytes, answer: bytes) -> None:
        key, version = peek_request(request)[:2]
        if version in NATIVE.get(key, ()) and not is_brokers(key, answer) and len(found[key, version]) < OF_EACH:
            found[key, version].setdefault(len(answer), (request, answer))

    async with target() as under_test:
        run, batch = FuzzRun(under_test, 77, keep), 0
        while run.figures.frames < FRAMES or not set(advertised()) <= found.keys():
            await run.batch(batch)
            batch += 1
    return [pair for pairs in found.values() for pair in pairs.values()]


def test_kafkas_own_client_reads_every_answer_of_a_sample_to_its_end(
    java: Any, sample: list[tuple[bytes, bytes]]
) -> None:
    problems = [(peek_request(asked), text) for asked, got in sample if (text := read_by(java, asked, got))]

    assert problems == []
    assert len(sample) > 5 * len(advertised())


def test_what_kafkas_own_client_cannot_read_is_seen(java: Any, sample: list[tuple[bytes, bytes]]) -> None:
    for request, answer in sample[:20]:
        assert read_by(java, request, b"\x7f" + answer[1:])  # another correlation id
        assert read_by(java, request, answer[:-1]) or len(answer) < 6
        assert read_by(java, request, answer + b"\0")
