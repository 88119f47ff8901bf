"""The man pages are what the commands and the configuration say now, and read without a warning."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted((DOCS / "man").iterdir())


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patching:
        patching.syspath_prepend(DOCS)
        spec = importlib.util.spec_from_file_location("man_pages", DOCS / "man_pages.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def test_the_pages_are_up_to_date(generator: ModuleType) -> None:
    written = {page.name: page.read_text("utf-8") for page in PAGES}

    assert generator.pages() == written, "run: make man"


def test_what_means_something_to_roff_is_escaped(generator: ModuleType) -> None:
    assert generator.escaped(".hidden") == "\\&.hidden"
    assert generator.escaped('a\\b "--flag"') == "a\\eb \\(dq\\-\\-flag\\(dq"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_reads_without_a_warning(page: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("MAN IS NOT INSTALLED: the pages are not read")
    command = ["man", "--warnings", "--encoding=UTF-8", "--local-file", str(page)]

    done = subprocess.run(command, capture_output=True, env={**os.environ, "MANWIDTH": "100"}, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"SYNOPSIS" in done.stdout or b"DESCRIPTION" in done.stdout
