"""What a workload wrote is cut out of ZooKeeper's transaction log by time and by session."""

import pytest

from bench import layout
from bench.analyse import analyse
from bench.frames import State
from bench.observe import Spent
from bench.prepare import BenchError
from bench.run import Plan, Watched, Window
from controllerd.dev.txnlog import Logged, LoggedTransaction
from controllerd.zk import paths

CONTROLLER, SOMEBODY = 1, 2
MS = 1_000_000
REALTIME_NS = 1_000_000_000 * MS
"""The wall clock is ahead of the monotonic one by so much."""


def transaction(session: int, at_ms: int, *operations: Logged, size: int = 100) -> LoggedTransaction:
    """One that was logged so many milliseconds after the monotonic clock began."""
    return LoggedTransaction(session, at_ms, operations, REALTIME_NS // MS + at_ms, size)


ELECTED = transaction(CONTROLLER, 5, Logged("create", paths.CONTROLLER), Logged("setData", "/controller_epoch"))
CAUSED = transaction(SOMEBODY, 100, Logged("create", paths.broker(layout.VICTIM)))


def watched(*logged: LoggedTransaction) -> Watched:
    """A broker returned between 90 and 200 ms, to a cluster without partitions."""
    nothing = Spent(0, 0)
    window = Window("W2", 90 * MS, 200 * MS, REALTIME_NS, 3, nothing, nothing)
    return Watched(Plan(0, ("W2",), 0), [window], logged=[ELECTED, CAUSED, *logged])


def test_transactions_count_that_the_controller_made_meanwhile() -> None:
    sets, check = Logged("setData", "/s"), Logged("check", "/controller_epoch")
    within = transaction(CONTROLLER, 120, check, sets, sets, size=300)
    elsewhere = transaction(SOMEBODY, 120, sets)
    later = transaction(CONTROLLER, 300, sets)

    (result,) = analyse(watched(within, elsewhere, later))

    assert result.figures["zk_transactions"] == 1
    assert result.figures["zk_operations"] == 2
    assert result.figures["zk_log_bytes"] == 300


def test_the_workload_begins_with_the_transaction_that_caused_it() -> None:
    (result,) = analyse(watched())

    assert result.start_ns == 100 * MS


def test_a_workload_whose_cause_is_not_in_the_log_is_not_measured() -> None:
    one = watched()
    one.logged.remove(CAUSED)

    with pytest.raises(BenchError, match="what caused W2"):
        analyse(one)


def test_a_broker_that_was_told_something_else_makes_the_run_invalid() -> None:
    one = watched()
    one.brokers = [1]
    (tp,) = list(layout.partitions(layout.OLD, 1))[:1]
    one.states = {tp: State(1, 0, b"", 0)}

    with pytest.raises(BenchError, match="not valid: UpdateMetadata told broker 1"):
        analyse(one)
