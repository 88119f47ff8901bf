"""The page about metrics, the dashboard and the alert rules name existing metrics only, and the page names all."""

import json
import re
from pathlib import Path

import pytest

from cli.app import main as controllerctl
from markers import rewritten
from metric_reference import BEGIN, PAGE, families, generated

ROOT = Path(__file__).resolve().parents[1]
DOCS, DASHBOARDS = ROOT / "docs", ROOT / "dashboards"
NAME = re.compile(r"\b(?:controllerd|kafka_controller)_[a-z0-9_]+")
COMMAND = re.compile(r"controllerctl ([a-z]+)(?: ([A-Z/-]+))?")
RUNBOOK = re.compile(r"docs/([a-z]+\.md)#([a-z-]+)")


def test_the_list_is_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert text == rewritten(text, BEGIN, generated()), "run: make docs"


def served() -> set[str]:
    """Every name of a series."""
    names = {metric.name for metric in families()}
    suffixes = ("", "_total", "_bucket", "_count", "_sum")
    return {name + suffix for name in names for suffix in suffixes}


@pytest.mark.parametrize("file", ["controllerd.json", "alerts.yml"])
def test_only_existing_metrics_are_queried(file: str) -> None:
    asked = set(NAME.findall((DASHBOARDS / file).read_text("utf-8")))

    assert len(asked) > 10
    assert asked - served() == set()


@pytest.mark.parametrize("file", ["controllerd.json", "alerts.yml"])
def test_every_advised_command_is_one_of_controllerctl(file: str) -> None:
    advised = set(COMMAND.findall((DASHBOARDS / file).read_text("utf-8")))

    assert advised
    assert {subject for verb, subject in advised if verb == "why"} <= {"TOPIC-PARTITION"}
    for verb, _ in sorted(advised):
        with pytest.raises(SystemExit) as ended:
            controllerctl([verb, "--help"])
        assert ended.value.code == 0, verb


def test_a_broker_as_controller_beside_an_observer_raises_no_alert() -> None:
    """Prometheus would count the zeros of instances that do not lead, and the broker is often scraped elsewhere."""
    rules = (DASHBOARDS / "alerts.yml").read_text("utf-8")
    no_controller = rules.partition("ControllerdNoActiveController")[2].partition("- alert:")[0]

    assert "unless on (env) max by (env) (controllerd_foreign_controller_seconds) > 0" in no_controller


def test_panels_do_not_overlap_and_have_titles() -> None:
    panels = json.loads((DASHBOARDS / "controllerd.json").read_text("utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_each_alert_links_to_an_existing_runbook_section() -> None:
    rules = (DASHBOARDS / "alerts.yml").read_text("utf-8")
    runbooks = RUNBOOK.findall(rules)

    assert len(runbooks) == rules.count("- alert:") == rules.count("description:") == rules.count("severity:")
    for file, anchor in runbooks:
        headings = re.findall(r"^#+ (.+)$", (DOCS / file).read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
