"""The files of a report: the page, JSON, Markdown for a ticket, and Parquet."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from replay.facts.tables import BY_NAME, TABLES
from replay.report.markdown import code, markdown, name, plain
from replay.report.summary import verdict
from replay.report.writer import write_parquet, write_report
from tests.report.sample import empty, sample, sample_meta


def test_a_report_is_three_files_and_no_draft(tmp_path: Path) -> None:
    paths = write_report(sample(), sample_meta(), tmp_path / "new" / "report")

    assert [path.name for path in paths] == ["report.html", "report.json", "report.md"]
    assert sorted(paths) == sorted(paths[0].parent.iterdir())


def test_the_json_has_every_row_of_every_table(tmp_path: Path) -> None:
    write_report(sample(), sample_meta(), tmp_path)

    report = json.loads((tmp_path / "report.json").read_text())

    assert report["tables"] == sample()
    assert report["verdict"] == {"sentence": verdict(sample(), sample_meta()).sentence, "level": "bad"}
    assert report["meta"]["records"] == 1_284_331
    assert report["meta"]["inputs"] == ["/var/lib/controllerd/audit/payments-prod"]


def test_parquet_gives_back_the_rows_it_was_given(tmp_path: Path) -> None:
    paths = write_parquet(sample(), tmp_path)

    assert [path.stem for path in paths] == [table.name for table in TABLES]
    for path in paths:
        assert pq.read_table(path).to_pylist() == sample()[path.stem]


def test_an_empty_table_keeps_its_columns_in_parquet(tmp_path: Path) -> None:
    (path,) = write_parquet({"windows": []}, tmp_path)

    assert pq.read_schema(path).names == [column.name for column in BY_NAME["windows"].columns]
    assert list(tmp_path.iterdir()) == [path]


def test_a_ticket_has_windows_causes_violations_and_gaps() -> None:
    text = markdown(sample(), sample_meta())

    assert f"**{verdict(sample(), sample_meta()).sentence}**" in text
    assert "| `fraud-scores-6` | 2026-01-31T04:35:48.000Z | still lasts |" in text
    assert "| `notifications-0` | 2026-01-31T03:14:07.213Z | ≥ 63.2 s |" in text
    assert "33 more are in report.json." in text
    assert "- -0.001 s: **broker 3 is gone** (cause)" in text
    assert "| I-34 | error |" in text
    assert "| gap | 120 | 00000012.jsonl | the disk was full for 4.1 s |" in text


def test_a_ticket_of_an_empty_log_says_that_it_is_empty() -> None:
    text = markdown(*empty())

    assert "There is nothing to report" in text
    assert "every partition had a leader all the time" in text
    assert "Not checked." in text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "&lt;script&gt;"),
        ("two\nlines", "two lines"),
        ("[x](y)", "\\[x\\](y)"),
        ("see https://evil.example", "see https\\://evil.example"),
        ("www.evil.example", "www\\.evil.example"),
        ("@everyone #1", "\\@everyone \\#1"),
    ],
)
def test_text_of_a_log_is_no_markup_in_a_ticket(written: str, shown: str) -> None:
    assert plain(written) == shown
    assert plain(written) in markdown({"windows": [{**sample()["windows"][0], "cause": written}]}, sample_meta())


def test_names_and_commands_are_code() -> None:
    assert name("orders_v2-7") == "`orders_v2-7`"
    assert name("a`b") == "a\\`b"
    assert code("x `y` z") == "`` x `y` z ``"
