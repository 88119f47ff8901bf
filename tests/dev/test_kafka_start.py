"""A broker has its whole time to come up, however long its jars take; it runs a program that never answers."""

import time
from pathlib import Path

import pytest

from controllerd.dev.cluster import resolve_jars
from controllerd.dev.kafka import KafkaBroker
from controllerd.dev.processes import DevError
from tests.dev.test_kafka_jars import FakeMaven

MAVEN_S, START_S = 1.0, 0.5


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeMaven:
    """An empty cache and a Maven that needs longer than the broker may."""
    fake = FakeMaven(tmp_path / "maven")
    monkeypatch.setenv("PATH", f"{tmp_path / 'maven'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    fake.answers_with_jars_of_the_asked_release(tmp_path)
    fake.takes(MAVEN_S)
    return fake


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Java that runs and never listens."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexec sleep 30\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))


@pytest.mark.usefixtures("maven", "java")
async def test_the_time_to_resolve_jars_does_not_count_as_start_time(tmp_path: Path) -> None:
    broker = KafkaBroker(1, "127.0.0.1:1/kafka", tmp_path / "broker", version="3.0.2")
    began = time.monotonic()
    try:
        with pytest.raises(DevError, match=r"has not answered within 0\.[45]"):
            await broker.start(timeout_s=START_S)
    finally:
        await broker.close()
    assert time.monotonic() - began >= MAVEN_S + START_S


async def test_the_jars_of_each_release_are_resolved_once_before_anything_starts(maven: FakeMaven) -> None:
    messages: list[str] = []
    await resolve_jars(["2.8.2", "2.8.2", "2.8.2"], messages.append)
    assert maven.calls == 1
    assert "Apache Kafka 2.8.2" in messages[0]
