"""The writes of a workload are selected from ZooKeeper's transaction log by time and by session."""

import pytest

from bench import layout
from bench.analyse import analyse
from bench.frames import State
from bench.observe import Spent
from bench.prepare import BenchError
from bench.run import ObservedRun, Plan, Window
from controllerd.dev.txnlog import Logged, LoggedTransaction
from controllerd.zk import paths

CONTROLLER, OTHER_CLIENT = 1, 2
MS = 1_000_000
REALTIME_NS = 1_000_000_000 * MS
"""The wall clock is ahead of the monotonic one by so much."""


def transaction(session: int, at_ms: int, *operations: Logged, size: int = 100) -> LoggedTransaction:
    """A transaction, logged so many milliseconds after the monotonic clock began."""
    return LoggedTransaction(session, at_ms, operations, REALTIME_NS // MS + at_ms, size)


ELECTED = transaction(CONTROLLER, 5, Logged("create", paths.CONTROLLER), Logged("setData", "/controller_epoch"))
CAUSED = transaction(OTHER_CLIENT, 100, Logged("create", paths.broker(layout.VICTIM)))


def watched(*logged: LoggedTransaction) -> ObservedRun:
    """A broker returned between 90 and 200 ms, to a cluster without partitions."""
    nothing = Spent(0, 0)
    window = Window("W2", 90 * MS, 200 * MS, REALTIME_NS, 3, nothing, nothing)
    return ObservedRun(Plan(0, ("W2",), 0), [window], logged=[ELECTED, CAUSED, *logged])


def test_only_transactions_of_the_controller_in_the_window_count() -> None:
    sets, check = Logged("setData", "/s"), Logged("check", "/controller_epoch")
    within = transaction(CONTROLLER, 120, check, sets, sets, size=300)
    elsewhere = transaction(OTHER_CLIENT, 120, sets)
    later = transaction(CONTROLLER, 300, sets)

    (result,) = analyse(watched(within, elsewhere, later))

    assert result.figures["zk_transactions"] == 1
    assert result.figures["zk_operations"] == 2
    assert result.figures["zk_log_bytes"] == 300


def test_the_workload_begins_with_the_transaction_that_caused_it() -> None:
    (result,) = analyse(watched())

    assert result.start_ns == 100 * MS


def test_a_workload_without_its_cause_in_the_log_is_refused() -> None:
    one = watched()
    one.logged.remove(CAUSED)

    with pytest.raises(BenchError, match="the cause of W2"):
        analyse(one)


def test_a_broker_that_received_other_metadata_makes_the_run_invalid() -> None:
    one = watched()
    one.brokers = [1]
    (tp,) = list(layout.partitions(layout.OLD, 1))[:1]
    one.states = {tp: State(1, 0, b"", 0)}

    with pytest.raises(BenchError, match="not valid: the last UpdateMetadata to broker 1"):
        analyse(one)
