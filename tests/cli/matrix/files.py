"""The files that commands read without a daemon: audit logs whole and damaged, plans, configurations."""

import json
from pathlib import Path
from typing import NamedTuple

from tests.cli.documents import run
from tests.cli.test_config import GOOD
from tests.cli.test_replay_run import broken_log, lose_a_line
from tests.record.logs import good_log
from tests.replay.command.lives import outage, written


class Files(NamedTuple):
    """Paths, by the names under which the table of commands knows them."""

    log: str
    """``payments-7`` is without a leader for a minute."""
    whole: str
    """No invariant is violated."""
    broken: str
    """One is."""
    damaged: str
    """A line is missing."""
    empty: str
    facts: str
    """The facts that were ingested from ``whole``."""
    plan: str
    unknown_plan: str
    mixed_plan: str
    good: str
    bad: str
    contexts: str
    """Its current context expects another cluster."""


def written_to(folder: Path) -> Files:
    """All of them, below this folder."""
    whole, damaged = folder / "whole", folder / "damaged"
    written(good_log(), whole)
    lose_a_line(written(good_log(), damaged))
    (folder / "empty").mkdir()
    facts = folder / "facts"
    assert run("replay", "ingest", str(whole), "--out", str(facts)).code == 0
    return Files(
        log=str(written(outage().log, folder / "prod" / "2000000000")),
        whole=str(whole),
        broken=str(written(broken_log(), folder / "broken")),
        damaged=str(damaged),
        empty=str(folder / "empty"),
        facts=str(facts),
        plan=_plan(folder / "plan.json", ("t", 0, [3, 2])),
        unknown_plan=_plan(folder / "unknown.json", ("nowhere", 0, [1])),
        mixed_plan=_plan(folder / "mixed.json", ("t", 0, [3, 2]), ("nowhere", 0, [1])),
        good=_text(folder / "good.toml", GOOD.format(folder=folder)),
        bad=_text(folder / "bad.toml", "[node]\nid = 1\n"),
        contexts=_text(folder / "contexts.toml", _OTHER_CLUSTER),
    )


_OTHER_CLUSTER = """
current = "prod"
[contexts.prod]
expected_cluster_id = "another"
"""


def _plan(path: Path, *moves: tuple[str, int, list[int]]) -> str:
    rows = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in moves]
    return _text(path, json.dumps({"version": 1, "partitions": rows}))


def _text(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)
