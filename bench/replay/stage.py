"""``python -m bench.replay.stage``: one stage of a replay in a process of its own, so that its memory is its own."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from replay.facts.engine import Engine, Inputs
from replay.facts.tables import BY_NAME
from replay.ingest.ledger import Ledger
from replay.local.engine import LocalEngine
from replay.local.log_tables import LOG_TABLES, PARTITIONS, VIOLATIONS

_QUERIED: Final = [name for name in BY_NAME if name not in LOG_TABLES]


def _engine(name: str) -> Engine:
    if name == "local":
        return LocalEngine()
    from replay.job.engine import SparkEngine

    return SparkEngine()


def _ingest(engine: Engine, log: str, out: str) -> str:
    result = engine.ingest(Inputs((log,)), out)
    if result.problems:
        raise ValueError(f"{result.problems} problems in a log that has none")
    return f"{result.facts} facts"


def _fold(engine: Engine, _log: str, out: str) -> str:
    return f"{len(engine.tables(out, [PARTITIONS])[PARTITIONS])} partitions"


def _judge(engine: Engine, _log: str, out: str) -> str:
    violations = engine.tables(out, [VIOLATIONS])[VIOLATIONS]
    if violations:
        raise ValueError(f"a log without violations is reported to violate {violations[0]['id']}")
    return "no violation"


def _tables(engine: Engine, _log: str, out: str) -> str:
    return f"{sum(map(len, engine.tables(out, _QUERIED).values()))} rows"


STAGES: Final[Mapping[str, Callable[[Engine, str, str], str]]] = {
    "ingest": _ingest,
    "fold": _fold,
    "judge": _judge,
    "tables": _tables,
}
"""The stages in the order in which they depend on each other."""
_LOG: Final = "log"
_FACTS: Final = "Parquet"


def reads(stage: str, engine: str) -> str:
    """Return the input of a stage: the log, or the Parquet that ingest made of it.

    Spark folds Parquet, and the local engine folds segments. Both check invariants in segments, which hold the order.
    """
    if stage == "tables" or (stage, engine) == ("fold", "spark"):
        return _FACTS
    return _LOG


def main() -> None:
    """Run the stage that the command line names; the last line of the output holds its times and its result."""
    stage, engine_name, log, out = sys.argv[1:]
    start = time.perf_counter()
    engine = _engine(engine_name)
    begin = time.perf_counter()
    result = STAGES[stage](engine, log, out)
    seconds = time.perf_counter() - begin
    engine.close()
    with Ledger(Path(out)) as ledger:
        lines = ledger.segment_lines
    print(json.dumps({"start": begin - start, "seconds": seconds, "lines": lines, "result": result}))


if __name__ == "__main__":
    main()
