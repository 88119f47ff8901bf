"""What the pages tell people to type is there: commands and flags; and the first steps of the quick start are taken."""

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.app import app as controllerctl_app
from cli.arguments import global_flags_first
from controllerd.__main__ import app as controllerd_app
from controllerd.config.load import load_config
from tests.cli.running import controllerctl
from tests.dev.started import PATIENCE_S, command, told_until

ROOT = Path(__file__).resolve().parents[1]
QUICKSTART = ROOT / "docs" / "quickstart.md"
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("quickstart", "operations", "incidents")))
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
APPS = {"controllerctl": controllerctl_app, "controllerd": controllerd_app}


def typed(text: str) -> list[list[str]]:
    """The words of each command that a console shows, up to a pipe; without comments."""
    lines = "".join(CONSOLE.findall(text)).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    return [words[: words.index("|")] if "|" in words else words for words in commands]


def ours(text: str) -> Iterator[tuple[typer.Typer, list[str]]]:
    """Those of them that are ours, with their arguments."""
    for words in typed(text):
        name = Path(words[0]).name
        if name in APPS:
            yield APPS[name], words[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_shown_can_be_typed(page: str) -> None:
    commands = list(ours((ROOT / page).read_text("utf-8")))
    refused = []
    for app, arguments in commands:
        asked = global_flags_first(arguments) if app is controllerctl_app else arguments
        answer = CliRunner().invoke(app, [*asked, "--help"])
        if answer.exit_code != 0:
            refused.append((arguments, answer.output))

    assert commands
    assert refused == []


def test_the_configurations_of_the_quick_start_are_accepted(tmp_path: Path) -> None:
    examples = TOML.findall(QUICKSTART.read_text("utf-8"))
    for number, example in enumerate(examples):
        file = tmp_path / f"{number}.toml"
        file.write_text(example)
        load_config(file, {}, {})

    assert len(examples) == 3


def first_steps() -> list[list[str]]:
    """What is typed into the second terminal, until the broker that was killed is back."""
    _, _, rest = QUICKSTART.read_text("utf-8").partition("$ make dev")
    steps = typed(f"```console\n$ make dev{rest}")
    return steps[1 : next(number for number, words in enumerate(steps) if "tail" in words)]


@pytest.mark.zookeeper
async def test_the_first_steps_of_the_quick_start_go_as_they_are_printed(tmp_path: Path) -> None:
    async with command(tmp_path, "dev") as process:
        told = await told_until(process, "Ctrl-C")
        (address,) = re.findall(r"(http://\S+)$", told, re.MULTILINE)[:1]
        (broker,) = re.findall(r"broker 2 .*process (\d+)", told)
        said = ""
        for words in first_steps():
            if words[0] == "kill":
                os.kill(int(broker), signal.SIGKILL)
                await under_replicated(address)
                continue
            outcome = await controllerctl(*words[1:], CONTROLLERCTL_API=address)
            assert outcome.code == 0, outcome
            said += outcome.out
        os.killpg(process.pid, signal.SIGINT)
        await told_until(process, "stopping")

    assert "active: elected with controller epoch 1" in said
    assert "payments-0 is healthy, led by broker" in said
    assert "payments-1 is UNDER-REPLICATED (2 of 3 replicas in sync)" in said
    assert "broker 2 left /brokers/ids" in said


async def under_replicated(address: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        shown = ""
        while "payments-1" not in shown:
            shown = (await controllerctl("get", "partitions", "--under-replicated", CONTROLLERCTL_API=address)).out
