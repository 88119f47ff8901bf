"""The tests of this folder need real brokers."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def real_brokers(kafka_jars: None) -> None:
    """Skip the tests of this folder without the published jars."""
