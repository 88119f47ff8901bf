"""The gate of the tests that need a real browser, and a report that is as large as one gets."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from replay.report.page import page
from replay.report.views import MOST_ROWS
from replay.report.writer import written
from tests.report.browser import find_chromium
from tests.report.sample import many_windows, row, sample_meta

NOT_LOOKED_AT = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def chromium_binary(pytestconfig: pytest.Config) -> str:
    """Skips in one loud line where there is no Chromium; fails instead where CONTROLLERD_REQUIRE_CHROMIUM=1."""
    binary = find_chromium()
    if binary is not None:
        return binary
    reason = "no chromium on the path; install it, or name it in CONTROLLERD_CHROMIUM"
    if os.environ.get("CONTROLLERD_REQUIRE_CHROMIUM") == "1":
        pytest.fail(f"CONTROLLERD_REQUIRE_CHROMIUM=1, but {reason}", pytrace=False)
    pytestconfig.stash[NOT_LOOKED_AT] = reason
    pytest.skip(f"PAGE NOT TESTED IN A BROWSER: {reason}")


@pytest.fixture(scope="session")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with seven windows too many, and a thousand that the engine left out before; one of them still lasts."""
    tables = many_windows(MOST_ROWS + 7)
    tables["windows"][3] = row("windows", topic="lasting", partition=0, start_ms=1)
    shown = page(tables, replace(sample_meta(), left_out={"windows": 1_000}))
    return written(tmp_path_factory.mktemp("large") / "report.html", shown.encode())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The one loud line."""
    if NOT_LOOKED_AT in config.stash:
        line = f"PAGE NOT TESTED IN A BROWSER: {config.stash[NOT_LOOKED_AT]}"
        terminalreporter.write_line(line, red=True, bold=True)
