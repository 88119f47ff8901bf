"""Ctrl-C before there is a command that could be interrupted."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli.exit_codes import ExitCode

INTERRUPTED_AT = """
import signal, sys

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, AtImport())
from cli.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["cli.app", "typer", "cli.exit_codes", "cli.flags", "cli.status", "http.client"])
def test_ctrl_c_during_an_import_ends_it_with_130_and_without_a_traceback(module: str) -> None:
    program = INTERRUPTED_AT.format(module=module)

    ended = subprocess.run(
        [sys.executable, "-c", program, "status", "--api", "http://127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr, ended.stdout) == (ExitCode.INTERRUPTED, "", "")


def test_few_modules_are_imported_before_ctrl_c_is_handled() -> None:
    program = "import sys; before = set(sys.modules); import cli.__main__; print(*sorted(set(sys.modules) - before))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == ["cli", "cli.__main__"]


def test_the_installed_command_runs_this_module() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]

    assert project["scripts"]["controllerctl"] == "cli.__main__:main"
