"""What the commands are tried on: clusters that are made once and looked at, or made anew where they are changed."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.cli.matrix.calling import Call
from tests.cli.matrix.clusters import Cluster, opened
from tests.cli.matrix.files import Files, written_to
from tests.cli.matrix.silence import Silent, keeping_silent


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """The daemon is in this very process: what it logs would be taken for the output of the command."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL), cache_logger_on_first_use=False
    )


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Logs, plans and configurations that commands read."""
    return written_to(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Cluster]]:
    """The clusters that commands only look at, by name; each is made once for all of them."""
    with opened() as clusters:
        yield clusters


@pytest.fixture
def call(shown: dict[str, Cluster], files: Files, tmp_path: Path) -> Call:
    """Calls commands; what they write goes to a folder of the test's own."""
    return Call(shown, files, str(tmp_path / "out"))


@pytest.fixture
def silent() -> Iterator[Silent]:
    """Somebody who takes requests and never says anything."""
    with keeping_silent() as silent:
        yield silent
