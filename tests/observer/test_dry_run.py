"""The writes of a dry run equal the recorded writes of the built-in controller."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.core.settings_book import fixed_settings
from controllerd.errors import IllegalState
from controllerd.observer.causes import CauseKind, ObservedCause, causes
from controllerd.observer.dry_run import DryRunResult, dry_run, dry_run_failover, state_of
from controllerd.observer.dry_run_collaborators import WatchedConfiguration
from controllerd.observer.verdicts import EQUAL, PartitionVerdict, Ruling, judge
from controllerd.slicer import Slicer
from controllerd.zk import paths
from controllerd.zk.access import Znode
from controllerd.zk.image import ClusterImage
from events.cluster import BrokerChange
from tests.fakes.world import NODE_ID, ManualClock
from tests.observer.recorded import Recording, Seen

CONFIGURATION: Final = WatchedConfiguration(
    NODE_ID, "PLAINTEXT", fixed_settings(Policy(auto_leader_rebalance_enable=False)).current
)
DEATHS: Final = ("B1", "C2", "C4", "C7", "C7A", "C7B", "L1", "R4B", "U1")
"""Recordings in which a broker dies or bounces."""
OTHERS: Final = ("B2", "B3", "C1", "C3", "F1", "P1", "P2", "R6", "T1", "X1")
"""Recordings in which something else happens that shows in ZooKeeper."""


async def run_dry(seen: Seen, cause: ObservedCause) -> DryRunResult:
    if cause.is_failover:
        return await dry_run_failover(seen.before, cause.facts, CONFIGURATION, ManualClock())
    return await dry_run(seen.before, cause.facts, cause.events, CONFIGURATION, ManualClock())


def state(tp: TopicPartition, image: ClusterImage) -> LeaderAndIsr | None:
    return state_of(tp, image.nodes.get(paths.partition_state(tp)))


async def comparable(seen: Seen) -> AsyncIterator[ObservedCause]:
    for cause in await causes(seen.before, seen.after, Slicer()):
        if isinstance(cause, ObservedCause) and (cause.events or cause.is_failover):
            yield cause


@pytest.mark.parametrize("scenario", [*DEATHS, *OTHERS])
async def test_the_states_equal_the_recorded_ones(scenario: str) -> None:
    for seen in await Recording(scenario).steps():
        async for cause in comparable(seen):
            would = await run_dry(seen, cause)
            judged = cause.partitions | would.touched

            assert {tp: would.state(tp) for tp in judged} == {tp: state(tp, seen.after) for tp in judged}


@pytest.mark.parametrize("scenario", DEATHS)
async def test_every_recorded_broker_failure_is_judged_and_equal(scenario: str) -> None:
    verdicts = set()
    for seen in await Recording(scenario).steps():
        async for cause in comparable(seen):
            if cause.kind in {CauseKind.BROKER_FAILED, CauseKind.BROKER_RESTARTED}:
                verdicts |= await judged(seen, cause)

    assert verdicts == {EQUAL}


async def judged(seen: Seen, cause: ObservedCause) -> set[PartitionVerdict]:
    would = await run_dry(seen, cause)
    return {judge(state(tp, seen.before), would.state(tp), state(tp, seen.after)) for tp in cause.partitions}


async def death_in(scenario: str) -> tuple[Seen, ObservedCause]:
    """The first broker that dies in a recording."""
    for seen in await Recording(scenario).steps():
        async for cause in comparable(seen):
            if cause.kind is CauseKind.BROKER_FAILED:
                return seen, cause
    raise AssertionError(scenario)


async def test_a_controller_that_does_nothing_is_different() -> None:
    # In F3 another instance takes the role and then does nothing.
    seen, cause = await death_in("F3")

    (verdict,) = await judged(seen, cause)

    assert verdict.ruling is Ruling.DIFFERENT
    assert verdict.fields == ("leader", "leader_epoch", "isr")


async def test_the_image_is_not_changed() -> None:
    seen, cause = await death_in("C2")
    nodes, children = dict(seen.before.nodes), dict(seen.before.children)

    await run_dry(seen, cause)

    assert (seen.before.nodes, seen.before.children) == (nodes, children)


async def test_requests_that_would_be_sent_are_counted() -> None:
    seen, cause = await death_in("C2")

    would = await run_dry(seen, cause)

    assert Counter(would.requests) == Counter(sent_in_the_recording("C2"))


def sent_in_the_recording(scenario: str) -> Mapping[str, int]:
    return Counter(line.api for step in Recording(scenario).trace.steps for line in step.requests)


async def test_a_cluster_at_rest_gives_nothing_to_do() -> None:
    seen, _ = await death_in("C2")

    would = await dry_run(seen.before, {}, (BrokerChange(),), CONFIGURATION, ManualClock())

    assert (would.written, would.requests, would.alarms) == ((), {}, ())


async def test_an_unclean_election_is_reported() -> None:
    unclean = [
        (await run_dry(seen, cause)).unclean
        for seen in await Recording("U1").steps()
        async for cause in comparable(seen)
        if cause.kind is CauseKind.UNCLEAN_ALLOWED
    ]

    assert unclean == [{TopicPartition("t", 0)}]


@pytest.mark.parametrize("epoch", [None, Znode(b"many", 1, 1)], ids=["missing", "no number"])
async def test_without_a_controller_epoch_there_is_no_term_for_a_dry_run(epoch: Znode | None) -> None:
    seen, cause = await death_in("C2")

    with pytest.raises(IllegalState, match="no term for a dry run"):
        await dry_run(seen.before, {paths.CONTROLLER_EPOCH: epoch}, cause.events, CONFIGURATION, ManualClock())
