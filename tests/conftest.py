"""Fixtures of all tests: a quiet, plain log, and the gate of the tests that need the Kafka jars."""

import logging
import os
import signal
from typing import Final

import pytest
import structlog
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from controllerd.dev.kafka_jars import kafka_available


def pytest_configure() -> None:
    """Ctrl-C works in the tests and in what they start, even where a shell began them in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


JOB: Final = "tests/job/"


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file to a process, and to one process all files of the job: Spark starts once."""

    def _split_scope(self, nodeid: str) -> str:
        return JOB if nodeid.startswith(JOB) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """The scheduler of a run of more than one process."""
    return ByFile(config, log)


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


NOT_TESTED = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def kafka_jars(pytestconfig: pytest.Config) -> None:
    """Skips in one loud line where the Kafka jars cannot be had; fails instead where CONTROLLERD_REQUIRE_KAFKA=1."""
    reason = kafka_available()
    if reason is not None and os.environ.get("CONTROLLERD_REQUIRE_KAFKA") == "1":
        pytest.fail(f"CONTROLLERD_REQUIRE_KAFKA=1, but {reason}", pytrace=False)
    if reason is not None:
        pytestconfig.stash[NOT_TESTED] = reason
        pytest.skip(f"REAL KAFKA NOT TESTED: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The one loud line."""
    if NOT_TESTED in config.stash:
        terminalreporter.write_line(f"REAL KAFKA NOT TESTED: {config.stash[NOT_TESTED]}", red=True, bold=True)
