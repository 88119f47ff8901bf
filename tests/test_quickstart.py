"""The commands and flags of the documents exist, and the first steps of the quick start work as printed."""

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.app import application
from cli.columns import BROKERS, DELETIONS, PARTITIONS, QUEUE, REASSIGNMENTS, REQUESTS
from cli.doctor.cluster import check_all
from cli.flags import global_flags_first
from cli.lists import ListDefinition
from controllerd.__main__ import app as controllerd_app
from controllerd.config.load import load_config
from tests.cli.running import controllerctl
from tests.cli.test_doctor import FACTS
from tests.dev.started import PATIENCE_S, command, output_until

ROOT = Path(__file__).resolve().parents[1]
QUICKSTART = ROOT / "docs" / "quickstart.md"
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("quickstart", "operations", "incidents")))
SPEAKING = (*PAGES, *(f"docs/{name}.md" for name in ("audit", "http", "kafka-logs", "metrics", "replay", "security")))
"""Pages with commands in the middle of a sentence."""
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"`(controllerctl\s[^`]+)`")
SHOWN = re.compile(r"^\$ controllerctl get (\w+)[^\n]*\n([A-Z].*)$", re.MULTILINE)
CHECKED = re.compile(r"^(?:ok|warning|critical|unknown) +([\w-]+) ", re.MULTILINE)
LISTS: dict[str, ListDefinition[Any]] = {
    "partitions": PARTITIONS,
    "brokers": BROKERS,
    "deletions": DELETIONS,
    "queue": QUEUE,
    "requests": REQUESTS,
    "reassignments": REASSIGNMENTS,
}
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONTROLLERCTL = application()
APPS = {"controllerctl": CONTROLLERCTL, "controllerd": controllerd_app}


def typed(text: str) -> list[list[str]]:
    """The words of each command that a console shows, up to a pipe; without comments."""
    lines = "".join(CONSOLE.findall(text)).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    return [words[: words.index("|")] if "|" in words else words for words in commands]


def ours(text: str) -> Iterator[tuple[typer.Typer, list[str]]]:
    """The commands of ``controllerd`` and ``controllerctl``, with their arguments."""
    for words in typed(text):
        name = Path(words[0]).name
        if name in APPS:
            yield APPS[name], words[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_exists(page: str) -> None:
    commands = list(ours((ROOT / page).read_text("utf-8")))
    refused = []
    for app, arguments in commands:
        asked = global_flags_first(arguments) if app is CONTROLLERCTL else arguments
        answer = CliRunner().invoke(app, [*asked, "--help"])
        if answer.exit_code != 0:
            refused.append((arguments, answer.output))

    assert commands
    assert refused == []


def spoken(said: str) -> list[str]:
    """The arguments of a command as a sentence writes it: the first of alternatives (``run|at``), and without dots."""
    return [word.partition("|")[0] for word in shlex.split(said)[1:] if word != "..."]


@pytest.mark.parametrize("page", SPEAKING)
def test_every_command_in_a_sentence_exists(page: str) -> None:
    refused = {}
    for said in SAID.findall(BLOCK.sub("", (ROOT / page).read_text("utf-8"))):
        answer = CliRunner().invoke(CONTROLLERCTL, [*global_flags_first(spoken(said)), "--help"])
        if answer.exit_code != 0:
            refused[said] = answer.output

    assert refused == {}


def test_lists_of_a_page_have_the_printed_headings() -> None:
    shown = [found for page in PAGES for found in SHOWN.findall((ROOT / page).read_text("utf-8"))]

    assert len(shown) >= 4
    for name, heading in shown:
        printed = " ".join(column.title for column in LISTS[name].columns if not column.wide)
        assert heading.split() == printed.split(), name


def test_checks_of_a_page_are_checks_of_the_doctor() -> None:
    shown = {check for page in PAGES for check in CHECKED.findall((ROOT / page).read_text("utf-8"))}

    assert len(shown) >= 4
    assert shown <= {finding.check for finding in check_all(FACTS)}


def test_the_configurations_of_the_quick_start_are_accepted(tmp_path: Path) -> None:
    examples = TOML.findall(QUICKSTART.read_text("utf-8"))
    for number, example in enumerate(examples):
        file = tmp_path / f"{number}.toml"
        file.write_text(example)
        load_config(file, {}, {})

    assert len(examples) == 3


def first_steps() -> list[list[str]]:
    """The commands of the second terminal, until the killed broker is back."""
    _, _, rest = QUICKSTART.read_text("utf-8").partition("$ make dev")
    steps = typed(f"```console\n$ make dev{rest}")
    return steps[1 : next(number for number, words in enumerate(steps) if "tail" in words)]


@pytest.mark.zookeeper
async def test_the_first_steps_of_the_quick_start_work_as_printed(tmp_path: Path) -> None:
    async with command(tmp_path, "dev") as process:
        output = await output_until(process, "Ctrl-C")
        (address,) = re.findall(r"(http://\S+)$", output, re.MULTILINE)[:1]
        (broker,) = re.findall(r"broker 2 .*process (\d+)", output)
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
        await output_until(process, "stopping")

    assert "active: elected with controller epoch 1" in said
    assert "payments-0 is healthy, led by broker" in said
    assert "payments-1 is UNDER-REPLICATED (2 of 3 replicas in sync)" in said
    assert "broker 2 left /brokers/ids" in said


async def under_replicated(address: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        shown = ""
        while "payments-1" not in shown:
            shown = (await controllerctl("get", "partitions", "--under-replicated", CONTROLLERCTL_API=address)).out
