"""The clusters that commands run against: shared where a test only reads, made anew where it changes them."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.cli.matrix.calling import Call
from tests.cli.matrix.clusters import ServedCluster, opened
from tests.cli.matrix.files import Files, written_to
from tests.cli.matrix.silence import Silent, keeping_silent


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """Silence the log: the daemon runs in this process, and its log lines would mix with the output of commands."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL), cache_logger_on_first_use=False
    )


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Logs, plans and configurations that commands read."""
    return written_to(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, ServedCluster]]:
    """The clusters that commands only look at, by name; each is made once for all of them."""
    with opened() as clusters:
        yield clusters


@pytest.fixture
def call(shown: dict[str, ServedCluster], files: Files, tmp_path: Path) -> Call:
    """Runs commands; their files are written to a folder of the test."""
    return Call(shown, files, str(tmp_path / "out"))


@pytest.fixture
def silent() -> Iterator[Silent]:
    """A server that accepts requests and never answers."""
    with keeping_silent() as silent:
        yield silent
