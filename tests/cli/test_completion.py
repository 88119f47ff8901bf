"""Completion in real shells: commands, flags, names from the cluster; and nothing when that is not possible."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.documents import Daemon, answering, run
from tests.cli.running import PROGRAM

needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="COMPLETION IN ZSH NOT TESTED: there is no zsh")
BASH = """
source {script}
COMP_LINE={line}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_controllerctl_completion controllerctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# A shell of its own that presses tab: zsh's completion works on a terminal only.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f
zpty -w shell 'PS1=; autoload -U compinit; compinit -D -u; setopt no_beep; unsetopt zle_bracketed_paste 2>/dev/null'
zpty -w shell 'zstyle ":completion:*" list-separator "--"; stty cols 200; source {script}; echo REA''DY'
zpty -r shell line '*READY*'
zpty -w -n shell $'{words} {last}\\t'
zpty -r shell line '*{expected}*'
print -r -- "$line"
zpty -d shell
"""


@pytest.fixture
def daemon() -> Daemon:
    """A leader."""
    return Daemon()


@pytest.fixture
def environment(tmp_path: Path, daemon: Daemon) -> Iterator[dict[str, str]]:
    """A controllerctl on the path, a cache of the test's own, and a daemon."""
    program = tmp_path / "bin" / "controllerctl"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{PROGRAM}\n")
    program.chmod(0o755)
    with answering(daemon) as url:
        yield os.environ | {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "CONTROLLERCTL_API": url,
            "HOME": str(tmp_path),
        }


def script_for(shell: str, folder: Path) -> Path:
    """Write the output of ``controllerctl completion`` to a file."""
    path = folder / f"completion.{shell}"
    path.write_text(run("completion", shell).out)
    return path


def at_last(offered: list[str], typed: str, environment: dict[str, str], folder: Path) -> list[str]:
    """Complete in bash until ``offered`` is offered: a daemon that answers too late is ignored."""
    deadline = time.monotonic() + 20
    while (found := in_bash(typed, environment, folder)) != offered and time.monotonic() < deadline:
        pass
    return found


def in_bash(typed: str, environment: dict[str, str], folder: Path) -> list[str]:
    """The completions of bash for this line, which bash splits at colons and equal signs, too."""
    words = re.findall(r"[:=]+|'[^']*'|[^ :=']+", typed) + [""] * typed.endswith(" ")
    text = BASH.format(script=script_for("bash", folder), line=shlex.quote(typed), words=shlex.join(words))
    done = subprocess.run(
        ["bash", "--norc", "-c", text], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    outcome = run("completion", shell)

    assert outcome.code == 0
    assert f"_CONTROLLERCTL_COMPLETE=complete_{shell}" in outcome.out


def test_another_shell_is_wrong_usage() -> None:
    assert run("completion", "tcsh").code == 2


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("controllerctl get parti", ["partitions"]),
        ("controllerctl get topics --topic pay", ["payments"]),
        ("controllerctl describe topic p", ["payments"]),
        ("controllerctl describe partition payments-", ["payments-7"]),
        ("controllerctl describe broker ", ["3", "5"]),
        ("controllerctl why pay", ["payments"]),
        ("controllerctl why payments-", ["payments-7"]),
        ("controllerctl why nothing", []),
        ("controllerctl --timeout=5 describe broker ", ["3", "5"]),
        ("controllerctl --reason 'a b' describe topic p", ["payments"]),
    ],
)
def test_bash_offers_commands_and_names(
    environment: dict[str, str], tmp_path: Path, typed: str, offered: list[str]
) -> None:
    assert at_last(offered, typed, environment, tmp_path) == offered


def test_bash_finds_the_command_behind_an_address(environment: dict[str, str], tmp_path: Path) -> None:
    gone = environment | {"CONTROLLERCTL_API": "http://127.0.0.1:1"}
    api = environment["CONTROLLERCTL_API"]

    assert at_last(["payments"], f"controllerctl --api {api} why pay", gone, tmp_path) == ["payments"]
    assert at_last(["3", "5"], f"controllerctl --api={api} describe broker ", gone, tmp_path) == ["3", "5"]


@needs_zsh
@pytest.mark.parametrize(("typed", "completed"), [("describe topic pay", "payments"), ("exit-c", "exit-codes")])
def test_zsh_completes_commands_and_names(
    environment: dict[str, str], tmp_path: Path, typed: str, completed: str
) -> None:
    *words, last = f"controllerctl {typed}".split(" ")
    text = ZSH.format(script=script_for("zsh", tmp_path), words=" ".join(words), last=last, expected=completed)

    command = ["zsh", "-f", "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)

    assert completed in done.stdout, done.stdout + done.stderr


def test_names_are_fetched_once_and_cached_for_some_seconds(
    daemon: Daemon, environment: dict[str, str], tmp_path: Path
) -> None:
    assert at_last(["payments"], "controllerctl why p", environment, tmp_path) == ["payments"]
    assert set(daemon.asked) == {"/v1/topics?topic=p%2A&limit=200"}
    daemon.asked.clear()

    assert in_bash("controllerctl why p", environment, tmp_path) == ["payments"]
    assert daemon.asked == []


def test_cached_names_are_readable_only_by_their_owner(environment: dict[str, str], tmp_path: Path) -> None:
    in_bash("controllerctl why p", environment, tmp_path)

    assert (tmp_path / "cache" / "controllerctl").stat().st_mode & 0o077 == 0


def test_completion_prints_no_error_without_a_daemon(environment: dict[str, str], tmp_path: Path) -> None:
    assert in_bash("controllerctl why p", environment | {"CONTROLLERCTL_API": "http://127.0.0.1:1"}, tmp_path) == []


def test_completion_gives_up_soon_on_a_daemon_that_hangs(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert in_bash("controllerctl why p", environment | {"CONTROLLERCTL_API": api}, tmp_path) == []


def test_contexts_are_offered(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "config" / "controllerctl" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[contexts.prod]\napi = "http://h:1"\n[contexts.stage]\napi = "http://h:2"\n')

    assert in_bash("controllerctl --context p", environment, tmp_path) == ["prod"]
