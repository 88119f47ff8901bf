"""The report of a real incident agrees with the records of the producers."""

import asyncio
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from markers import rewritten
from tests.cli.running import controllerctl
from tests.real.incident import FRAGILE, GIVES_UP_S, VICTIM, Failures, Incident, incident
from tests.report.browser import find_chromium
from tests.report.screenshot import screenshots

SEEN: Final = "CONTROLLERD_INCIDENT_SEEN"
"""If set to 1, the table and the screenshots of this run become those of the documentation."""
DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
TALLEST: Final = 1_800
"""The height of the screenshots in pixels."""
SESSION_MS, SLACK_MS = 6_000, 3_000
"""A broker's session timeout, after which its failure shows; and the inaccuracy of clocks and clients."""
CLIENT_MS: Final = 5_000
"""The time in which a refused client finds the new leader."""
ORPHANS: Final = {("payments", partition) for partition, (broker,) in FRAGILE.items() if broker == VICTIM}

pytestmark = [pytest.mark.kafka, pytest.mark.real, pytest.mark.timeout(400)]


async def test_the_report_of_a_broker_that_was_down_for_a_minute_agrees_with_the_producers(tmp_path: Path) -> None:
    out = tmp_path / "report"
    async with incident(tmp_path / "cluster") as seen:
        ended = await controllerctl("replay", "run", *map(str, seen.logs), "--out", str(out))
    assert ended.code == 0, ended.err
    written = await asyncio.to_thread((out / "report.json").read_text)
    tables: dict[str, list[dict[str, Any]]] = json.loads(written)["tables"]
    lines = [*orphans_agree(tables["windows"], seen), *replicated_agree(tables["isr_changes"], tables["windows"], seen)]
    print("\n".join(lines))
    assert tables["violations"] == []
    if os.environ.get(SEEN) == "1":
        binary = find_chromium()
        assert binary is not None, "no Chromium for the screenshots"
        shots = await screenshots(binary, (out / "report.html").as_uri(), tallest=TALLEST)
        await asyncio.to_thread(publish, table(lines), shots)


def publish(text: str, shots: dict[str, bytes]) -> None:
    """Write the table and the screenshots of the documentation."""
    page = DOCS / "replay.md"
    page.write_text(rewritten(page.read_text("utf-8"), "<!-- generated:incident -->", text), "utf-8")
    for name, screenshot in shots.items():
        (DOCS / name).write_bytes(screenshot)


def orphans_agree(windows: list[dict[str, Any]], seen: Incident) -> list[str]:
    """Check partitions whose only replica was on the broker: they have no leader until it returns."""
    long = {(row["topic"], row["partition"]): row for row in windows if row["duration_us"] > SLACK_MS * 1000}
    assert long.keys() == ORPHANS
    assert {tp for tp in seen.failures if tp[0] == "payments"} == ORPHANS
    return [_orphan(tp, long[tp], seen.failures[tp], seen.killed_ms) for tp in sorted(ORPHANS)]


def _orphan(tp: tuple[str, int], window: dict[str, Any], failed: Failures, killed_ms: int) -> str:
    start, end, again = window["start_ms"], window["end_ms"], failed.acknowledged_again_ms
    assert again is not None
    assert -GIVES_UP_S * 1000 - SLACK_MS <= failed.first_sent_ms - killed_ms <= SLACK_MS
    assert 0 <= start - killed_ms <= SESSION_MS + SLACK_MS
    assert -SLACK_MS <= again - end <= CLIENT_MS
    assert failed.last_sent_ms <= end + CLIENT_MS
    return (
        f"| {tp[0]}-{tp[1]} | {(end - start) / 1000:.1f} s | {failed.count:,} |"
        f" {(start - failed.first_sent_ms) / 1000:.1f} s later | {(again - end) / 1000:.1f} s later |"
    )


def replicated_agree(changes: list[dict[str, Any]], windows: list[dict[str, Any]], seen: Incident) -> list[str]:
    """Check partitions with other replicas: records fail until the dead broker is out of the ISR."""
    shrunk = defaultdict[tuple[str, int], int](int)
    for row in changes:
        if row["topic"] == "orders" and VICTIM in row["before"] and VICTIM not in row["after"]:
            shrunk[row["topic"], row["partition"]] = row["ts_ms"]
    failed = {tp: one for tp, one in seen.failures.items() if tp[0] == "orders"}
    assert failed.keys() <= shrunk.keys()
    for tp, one in failed.items():
        assert one.acknowledged_again_ms is not None
        assert one.first_sent_ms >= seen.killed_ms - GIVES_UP_S * 1000 - SLACK_MS
        assert -SLACK_MS <= one.acknowledged_again_ms - shrunk[tp] <= CLIENT_MS
    rows = sorted(failed.items())
    return [
        f"| {tp[0]}-{tp[1]} | {_gap(windows, tp)} | {one.count:,} | - | {_after(one, shrunk[tp])} |" for tp, one in rows
    ]


def _gap(windows: list[dict[str, Any]], tp: tuple[str, int]) -> str:
    longest = max((row["duration_us"] for row in windows if (row["topic"], row["partition"]) == tp), default=0)
    return f"{longest / 1000:.1f} ms" if longest else "never"


def _after(failed: Failures, shrunk_ms: int) -> str:
    assert failed.acknowledged_again_ms is not None
    return f"{(failed.acknowledged_again_ms - shrunk_ms) / 1000:.1f} s after the ISR shrank"


def table(lines: list[str]) -> str:
    """The table of the documentation with the figures of this run."""
    head = (
        "| Partition | Without a leader (report) | Failed (producer) | The window begins, after the first that failed |"
        " Acknowledged again, after its end |\n| --- | --- | --- | --- | --- |\n"
    )
    return head + "\n".join(lines)
