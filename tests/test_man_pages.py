"""The man pages are up to date with the commands and the configuration, and render without a warning."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import man_pages

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted((DOCS / "man").iterdir())


def test_the_pages_are_up_to_date() -> None:
    written = {page.name: page.read_text("utf-8") for page in PAGES}

    assert man_pages.pages() == written, "run: make docs"


def test_characters_with_a_meaning_in_roff_are_escaped() -> None:
    assert man_pages.escaped(".hidden") == "\\&.hidden"
    assert man_pages.escaped('a\\b "--flag"') == "a\\eb \\(dq\\-\\-flag\\(dq"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_renders_without_a_warning(page: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("MAN IS NOT INSTALLED: the pages are not read")
    command = ["man", "--warnings", "--encoding=UTF-8", "--local-file", str(page)]

    done = subprocess.run(command, capture_output=True, env={**os.environ, "MANWIDTH": "100"}, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"SYNOPSIS" in done.stdout or b"DESCRIPTION" in done.stdout
