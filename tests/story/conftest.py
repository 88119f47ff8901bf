"""Real brokers need the published jars; without them these tests skip in one loud line, in CI they fail."""

import os

import pytest

from controllerd.dev.kafka_jars import kafka_available


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    reason = kafka_available()
    if reason is None:
        return
    if os.environ.get("CONTROLLERD_REQUIRE_KAFKA") == "1":
        pytest.fail(f"CONTROLLERD_REQUIRE_KAFKA=1, but {reason}")
    pytest.skip(f"REAL BROKERS NOT TESTED: {reason}")
