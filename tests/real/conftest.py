"""Every test here needs real brokers."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def real_brokers(kafka_jars: None) -> None:
    """Without the published jars nothing here runs."""
