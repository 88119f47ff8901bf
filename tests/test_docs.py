"""The documents agree with the code: tables, examples, and links to existing places."""

import ast
import asyncio
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import configuration
from cli.exit_codes import MEANINGS
from controllerd.config.load import load_config
from controllerd.daemon import run
from controllerd.record.kinds import KINDS
from controllerd.record.records import BrokersRecord, EventBegin, EventEnd, PartitionStateRecord, RefusedRecord
from markers import rewritten
from tests.audit.samples import write_log

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)(?=[\s`)]|$)")
SOURCE = re.compile(r"`([\w/]+/[\w/]*\.py)`")
SHIPPED = ("controllerd", "events", "handlers", "channel_manager", "wire", "replay")
ALARMS = {"AlarmRecord", "suspect"}
"""Functions whose first argument is the text of an alarm: the record, and the guard that records its reason."""


@pytest.fixture(scope="module")
def operations() -> str:
    return (DOCS / "operations.md").read_text("utf-8")


def test_the_configuration_reference_is_up_to_date() -> None:
    page = configuration.PAGE.read_text("utf-8")
    assert page == rewritten(page, configuration.BEGIN, configuration.generated()), "run: make docs"


@pytest.mark.parametrize("page", ["no markers", "<!-- generated:x -->", "<!-- /generated --> <!-- generated:x -->"])
def test_a_page_without_both_markers_in_their_order_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no <!-- generated"):
        rewritten(page, "<!-- generated:x -->", "text")


@pytest.mark.parametrize("page", ["docs/quickstart.md", "docs/operations.md"])
def test_every_complete_example_of_a_configuration_is_accepted(page: str, tmp_path: Path) -> None:
    examples = re.findall(r"^```toml\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    whole = [example for example in examples if "zookeeper" in tomllib.loads(example)]
    assert whole
    for number, example in enumerate(whole):
        file = tmp_path / f"{number}.toml"
        file.write_text(example)
        load_config(file, {}, {})


def test_every_exit_code_of_the_daemon_is_explained(operations: str) -> None:
    codes = {value for name, value in vars(run).items() if name.startswith("EXIT_")}
    assert {code for code in codes if f"| {code} |" not in operations} == set()


def test_every_exit_code_of_controllerctl_is_explained(operations: str) -> None:
    missing = [int(code) for code, meaning in MEANINGS.items() if f"| {int(code)} | {meaning}" not in operations]
    assert missing == []


def test_every_kind_of_audit_record_is_explained(operations: str) -> None:
    assert [kind for kind in KINDS if f"`{kind}`" not in operations] == []


def alarms() -> set[str]:
    """The text of every alarm; of one that is put together, its beginning."""
    texts = [path.read_text("utf-8") for package in SHIPPED for path in (ROOT / package).rglob("*.py")]
    trees = [ast.parse(text) for text in texts if any(alarm in text for alarm in ALARMS)]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    firsts = [call.args[0] for call in calls if ast.unparse(call.func).rpartition(".")[2] in ALARMS]
    parts = [first.values[0] if isinstance(first, ast.JoinedStr) else first for first in firsts]
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_every_alarm_is_explained(operations: str) -> None:
    found = sorted(alarms())
    assert len(found) > len(ALARMS)
    assert [alarm for alarm in found if f"`{alarm}" not in operations] == []


def test_every_page_is_in_the_index() -> None:
    links = {file for _, file, _ in local_links(DOCS / "README.md")}
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"}

    assert {"adr/README.md", "man/", "../CONTRIBUTING.md"} | pages <= links


def test_every_decision_is_in_the_index() -> None:
    index = (DOCS / "adr" / "README.md").read_text("utf-8")
    pages = sorted((DOCS / "adr").glob("0*.md"))
    titles = [page.read_text("utf-8").splitlines()[0].removeprefix("# ").partition(": ") for page in pages]

    rows = [f"| [{number}]({page.name}) | {title} |" for page, (number, _, title) in zip(pages, titles, strict=True)]
    assert [row for row in rows if row not in index] == []


def test_decisions_are_numbered_one_by_one() -> None:
    numbers = [int(page.name.partition("-")[0]) for page in sorted((DOCS / "adr").glob("0*.md"))]

    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_named_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    code = re.findall(r"`[^`]+`", page.read_text("utf-8").replace("```", "`"))

    assert {target for span in code for target in TARGET.findall(span)} - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_named_module_exists(page: Path) -> None:
    named = set(SOURCE.findall(FENCED.sub("", page.read_text("utf-8"))))

    assert {path for path in named if not ((ROOT / path).exists() or (ROOT / "controllerd" / path).exists())} == set()


async def run_like_an_operator(script: str) -> str:
    """The output of a shell example of the documents."""
    shell = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=asyncio.subprocess.PIPE)
    printed, _ = await shell.communicate()
    assert shell.returncode == 0
    return printed.decode()


async def test_the_example_says_why_a_partition_was_offline(operations: str, tmp_path: Path) -> None:
    there = await write_log(
        tmp_path,
        EventBegin(25, "BrokerChange", 2, 0.1),
        BrokersRecord(gone=[1]),
        PartitionStateRecord(
            ["a", "payments"], [0, 0], ["OnlinePartition"] * 2, ["OnlinePartition", "OfflinePartition"]
        ),
        RefusedRecord("election Offline", ["payments"], [0], ["no replica is electable"]),
        EventEnd(25, "BrokerChange", "done", 1.0),
    )
    (example,) = re.findall(r"^```sh\n(.*?)^```$", operations, re.MULTILINE | re.DOTALL)
    script = re.sub(r"^\S+ - \S+", f"{shlex.quote(sys.executable)} - {shlex.quote(str(there))}", example)

    lines = (await run_like_an_operator(script)).splitlines()

    assert [line.partition("BrokerChange: ")[2] or line.partition(": ")[2] for line in lines] == [
        "brokers gone [1]",
        "partition_state {'before': 'OnlinePartition', 'after': 'OfflinePartition'}",
        "refused {'reasons': 'no replica is electable'}",
    ]


def anchors_of(page: Path) -> set[str]:
    """The anchors that a renderer makes of the headings."""
    text = FENCED.sub("", page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}


def local_links(page: Path) -> Iterator[tuple[str, str, str]]:
    """Each link to a place in this repository: as written, its file and its anchor."""
    for link in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        if "://" not in link:
            file, _, anchor = link.partition("#")
            yield link, file, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_has_a_target(page: Path) -> None:
    broken = []
    for link, file, anchor in local_links(page):
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)

    assert broken == []
