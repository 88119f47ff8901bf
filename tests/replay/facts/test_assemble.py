"""Facts fold to the same cluster state as the records that they were made of."""

from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from controllerd.core.context import ControllerContext
from controllerd.machines.recorded import journal_records
from controllerd.record.fold import apply
from controllerd.record.records import GapRecord, LeadershipRecord, SessionRecord, TermRecord
from controllerd.record.state import ClusterState
from replay.facts.assemble import FOLDED_KINDS, assemble
from replay.facts.buffer import Columns, FactBuffer
from replay.facts.explode import explode
from tests.audit.samples import ONE_OF_EACH
from tests.fakes.world import World
from tests.handlers import test_faults as faults
from tests.record.logs import Log, good_log, log_of, stamped_log
from tests.record.test_fold import MUTATIONS, mutate

ROLE: Final = (SessionRecord("connected", -5, 1), TermRecord("elected", 7, 12, "us", "nobody held it"))


def facts_of(log: Log) -> Columns:
    """The facts of a log."""
    buffer = FactBuffer()
    for line, (envelope, record) in enumerate(log, 1):
        explode(buffer, envelope, record, file="file", line=line)
    return buffer.take()


def folded(log: Log) -> ClusterState:
    """The cluster state after the records of a log."""
    state = ClusterState()
    for envelope, record in log:
        apply(state, envelope, record)
    return state


def part(columns: Columns, start: int, stop: int | None) -> Columns:
    """Some of the rows."""
    return {name: values[start:stop] for name, values in columns.items()}


@settings(deadline=None)
@given(st.lists(MUTATIONS, max_size=40), st.integers(0, 80))
def test_facts_fold_to_the_state_of_their_records_wherever_they_are_cut(
    mutations: list[tuple[str, ...]], cut: int
) -> None:
    context = ControllerContext()
    for mutation in mutations:
        mutate(context, *mutation)
    log = log_of([*ROLE, *journal_records(context.take_changes())])
    facts = facts_of(log)
    parts = [*assemble(part(facts, 0, cut)), *assemble(part(facts, cut, None))]
    assert folded(parts) == folded(log)


async def test_the_facts_of_a_true_log_fold_to_the_same_at_every_record() -> None:
    world = await faults.story(World(), faults.expire_after, faults.TRANSACTIONS[0])
    log = stamped_log(world.audit.records)
    assembled = {envelope.seq: record for envelope, record in assemble(facts_of(log))}
    state, again = ClusterState(), ClusterState()
    for envelope, record in log:
        apply(state, envelope, record)
        apply(again, envelope, assembled.get(envelope.seq, record))
        assert again == state
    assert state.topics


def test_records_that_a_fold_needs_come_back_as_they_were() -> None:
    log = log_of(ONE_OF_EACH)
    wanted = [record for _, record in log if record.kind in FOLDED_KINDS]
    assert [record for _, record in assemble(facts_of(log))] == wanted
    assert len(wanted) >= 14


def test_facts_of_a_gap_leave_a_state_that_is_not_whole() -> None:
    log = log_of([*(record for _, record in good_log()), GapRecord(3, 90, 92, "disk full")])
    assert folded(good_log()).is_whole
    assert not folded(list(assemble(facts_of(log)))).is_whole


def test_the_envelope_comes_back_with_its_record() -> None:
    log = good_log()
    places = {(e.cluster, e.node, e.boot, e.seq, e.epoch, e.ts_ms, e.mono_ns, e.kind) for e, _ in log}
    found = {
        (e.cluster, e.node, e.boot, e.seq, e.epoch, e.ts_ms, e.mono_ns, e.kind) for e, _ in assemble(facts_of(log))
    }
    assert found <= places
    assert len(found) > 5


def test_no_facts_assemble_to_no_record() -> None:
    assert list(assemble({"cluster": [], "seq": [], "node": [], "boot": []})) == []


def test_clusters_that_number_their_records_alike_do_not_mix() -> None:
    leads = LeadershipRecord(["t"], [0], [1], [0], [[1]], [1], [0], [0])
    buffer = FactBuffer()
    for cluster in ("one", "two"):
        [(envelope, record)] = log_of([leads])
        explode(buffer, replace(envelope, cluster=cluster), record, file="file", line=1)
    found = [(envelope.cluster, record) for envelope, record in assemble(buffer.take())]
    assert found == [("one", leads), ("two", leads)]
