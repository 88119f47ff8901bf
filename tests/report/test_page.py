"""The page: it has every table, it requests no other address, and no text of a log becomes markup."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from controllerd.record.moments import duration
from replay.report.page import embedded, page
from replay.report.views import MOST_ROWS, VIEWS, ReportView
from tests.report.sample import CLUSTER, Rows, empty, row, sample, sample_meta

VOID: Final = frozenset({"meta", "link", "input", "br", "img"})
EVIL: Final = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class ParsedPage(HTMLParser):
    """A page in parts: its attributes, the text outside of scripts and styles, and the data that its script gets."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.elements: dict[str, list[str]] = {"style": [], "script": []}
        self.data: dict[str, Any] = {}
        self._id = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._id = dict(attrs).get("id") or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script" and self._id.startswith("data-"):
            self.data[self._id.removeprefix("data-")] = json.loads(data)
        elif self.open and self.open[-1] in self.elements:
            self.elements[self.open[-1]].append(data)
        else:
            self.text += data


@pytest.fixture(scope="module")
def source() -> str:
    return page(sample(), sample_meta())


@pytest.fixture(scope="module")
def parsed(source: str) -> ParsedPage:
    return ParsedPage(source)


def decoded(payload: dict[str, Any], key: str) -> list[object]:
    """A column as the script reads it."""
    column = payload["values"][key]
    if isinstance(column, list):
        return column
    return [None if index < 0 else column["of"][index] for index in column["at"]]


def test_every_element_is_closed(parsed: ParsedPage) -> None:
    assert parsed.open == []


def test_every_id_is_there_once_and_every_link_leads_to_one(parsed: ParsedPage) -> None:
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    targets = [value for tag, name, value in parsed.attributes if tag == "a" and name == "href"]

    assert len(ids) == len(set(ids))
    assert {target.removeprefix("#") for target in targets} <= set(ids)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_value_of_a_table_is_on_the_page(parsed: ParsedPage, view: ReportView) -> None:
    rows, payload = sample()[view.name], parsed.data[view.name]

    assert rows
    assert payload["length"] == len(rows)
    for key in payload["values"].keys() - {"sign"}:
        assert decoded(payload, key) == [each[key] for each in rows]


def test_the_figures_are_on_the_page_without_any_script(parsed: ParsedPage) -> None:
    text = parsed.text.replace("\u00a0", " ")

    assert "37 partitions were without a leader for up to 4 min 12 s" in text
    for figure in (
        "1,284,331",
        duration(63_204_000),
        "BrokerChange: broker 3 died",
        "notifications-0: broker 1 was not in",
    ):
        assert figure in text
    assert text.count("✓ held") == len(sample_meta().invariants) - 2


def test_violated_invariants_come_first_the_worst_of_them_at_the_top(parsed: ParsedPage) -> None:
    _, _, section = parsed.text.partition("checked on every record: 2 violated")

    order = [section.index(words) for words in ("critical", "I-14", "error", "I-34", "violated 2 times", "I-01")]

    assert order == sorted(order)


def test_a_duration_between_bounds_has_a_sign(parsed: ParsedPage) -> None:
    windows = parsed.data["windows"]

    signs = dict(zip(decoded(windows, "topic"), decoded(windows, "sign"), strict=True))

    assert signs["notifications"] == "≥"
    assert signs["payments"] == ""


def test_the_page_names_nothing_outside_of_itself(source: str, parsed: ParsedPage) -> None:
    outside = [
        found
        for found in parsed.attributes
        if found[1] in {"src", "srcset", "href", "action", "data", "poster", "xlink:href", "style"}
        and not found[2].startswith(("#", "data:"))
    ]

    assert outside == []
    assert re.findall(r"https?://|@import|url\(", source) == []


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(parsed: ParsedPage) -> None:
    (policy,) = (value for _, name, value in parsed.attributes if name == "content" and "default-src" in value)

    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        (body,) = parsed.elements[kind]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def evil_everywhere(tables: Rows) -> Rows:
    """The same rows with markup in every text."""
    return {
        name: [
            {key: EVIL if isinstance(value, str) and key != "cluster" else value for key, value in each.items()}
            for each in rows
        ]
        for name, rows in tables.items()
    }


def test_markup_in_a_log_stays_text() -> None:
    meta = replace(sample_meta(), inputs=(EVIL,), options={EVIL: EVIL}, limits=(EVIL,))

    shown = page(evil_everywhere(sample()), meta)
    parsed = ParsedPage(shown)

    assert "<script>alert" not in shown
    assert "<img" not in shown
    assert parsed.open == []
    assert [found for found in parsed.attributes if found[1].startswith("on")] == []
    assert EVIL in parsed.text
    assert set(decoded(parsed.data["windows"], "topic")) == {EVIL}


def test_markup_in_the_name_of_a_cluster_stays_text() -> None:
    tables = {"windows": [{**each, "cluster": EVIL} for each in sample()["windows"]]}

    shown = page(tables, sample_meta())

    assert "<script>alert" not in shown
    assert EVIL in ParsedPage(shown).text


def test_data_cannot_break_out_of_its_script() -> None:
    text = "</script><!--\u2028&"

    assert not set("<>&\u2028") & set(embedded([text]))
    assert json.loads(embedded([text])) == [text]


def test_an_empty_table_says_so_in_a_sentence() -> None:
    parsed = ParsedPage(page(*empty()))

    assert parsed.data == {}
    for view in VIEWS:
        assert view.empty in parsed.text
    assert "The logs hold no record" in parsed.text
    assert "nothing was checked" in parsed.text


def test_several_clusters_have_a_column() -> None:
    tables = sample()
    tables["windows"] += [row("windows", **{**each, "cluster": "other"}) for each in sample()["windows"][:3]]

    parsed = ParsedPage(page(tables, sample_meta()))

    assert set(decoded(parsed.data["windows"], "cluster")) == {CLUSTER, "other"}
    assert parsed.data["windows"]["columns"][0]["key"] == "cluster"
    assert "Clusters other, payments-prod" in " ".join(parsed.text.split())


def test_a_page_of_fifty_thousand_windows_is_small_and_counts_the_rows_left_out(large_page: Path) -> None:
    shown = large_page.read_text()

    windows = ParsedPage(shown).data["windows"]

    assert large_page.stat().st_size < 15_000_000
    assert windows["length"] == MOST_ROWS
    assert "1,007 more were left out" in shown
    assert "lasting" in decoded(windows, "topic")
    assert min(value for value in decoded(windows, "duration_us") if isinstance(value, int)) > 900_000
