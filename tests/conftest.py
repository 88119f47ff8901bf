"""What every test shares: a quiet, plain log."""

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """Log lines as plain text with plain tracebacks; pytest shows them when a test fails."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
