"""Tables of logs that whole controllers wrote: they agree with ZooKeeper and with the changes of the cluster."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from controllerd.core.model import BrokerId
from controllerd.record.records import DecisionRecord
from events.admin import ControlledShutdown
from replay.facts.buffer import FactBuffer
from replay.facts.engine import Row, Rows
from replay.facts.explode import explode
from replay.ingest.arrow_batches import to_batch
from replay.local.duck import duck
from tests.fakes.world import World
from tests.record import test_true_deletions as moves
from tests.record.logs import NODE, Log, stamped_log
from tests.record.test_true_elections import STORIES, Story
from tests.record.test_true_elections import played as story_played
from tests.scenarios.acts import bring_back, cluster, kill, take_over, with_topic


def facts_of(*worlds: World) -> pa.Table:
    """The logs of these controllers, each of its own node, one after the other."""
    buffer = FactBuffer()
    for number, world in enumerate(worlds):
        for line, (envelope, record) in enumerate(_log_of(world), 1):
            later = envelope.ts_ms + 10_000 * number
            placed = replace(envelope, node=NODE + number, boot=f"boot-{number}", ts_ms=later)
            explode(buffer, placed, record, file=f"{number}.jsonl", line=line)
    return pa.Table.from_batches([to_batch(buffer.take())])


def _log_of(world: World) -> Log:
    return stamped_log(world.audit.records)


def tables(*worlds: World) -> dict[str, Rows]:
    """The tables of the logs of these controllers."""
    with duck() as opened:
        opened.take(facts_of(*worlds))
        return opened.tables(["windows", "elections", "churn", "reassignments", "deletions", "terms", "quality"])


def selected(rows: Sequence[Row], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("story", STORIES)
async def test_windows_that_last_are_the_partitions_without_leader_in_zookeeper(story: Story) -> None:
    world = await story_played(story)
    found = tables(world)
    without = {topic for topic in ("t", "u") if world.state(topic)[0] < 0}
    assert {row["topic"] for row in found["windows"] if row["end_ms"] is None} == without
    decided = sum(len(record.topics) for record in world.audit.of(DecisionRecord))
    assert sum(int(str(row["partitions"])) for row in found["elections"]) == decided
    assert found["quality"] == []


async def test_a_dead_leader_is_replaced_and_a_single_replica_is_waited_for() -> None:
    world = await with_topic(await with_topic(await cluster(1, 2, 3), "t", 1, 2), "u", 1)
    await kill(world, 1)
    await bring_back(world, 1)
    await world.call(ControlledShutdown(BrokerId(1), -1))
    died = "BrokerChange: broker 1 died"
    assert selected(tables(world)["windows"], "topic", "ended_by", "leader_before", "leader_after", "cause") == [
        ("t", "leader", 1, 2, died),
        ("u", "leader", 1, 1, died),
    ]


async def test_the_next_controller_ends_windows_that_began_before_it() -> None:
    world = await with_topic(await with_topic(await cluster(1, 2), "t", 1), "u", 2)
    await kill(world, 1)
    successor = await take_over(world)
    await kill(successor, 2)
    await bring_back(successor, 1)
    found = tables(world, successor)
    assert selected(found["windows"], "topic", "start_epoch", "end_epoch", "ended_by", "start_bound", "end_bound") == [
        ("t", 1, 2, "leader", None, None),
        ("u", 2, None, None, None, None),
    ]
    assert selected(found["terms"], "epoch", "node", "how_begun", "how_ended") == [
        (1, NODE, "elected", None),
        (2, NODE + 1, "elected", None),
    ]


async def test_a_leader_that_died_between_two_controllers_is_lost_before_the_second() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    world.die(1)
    successor = await take_over(world)
    assert selected(tables(world, successor)["windows"], "start_bound", "start_epoch", "leader_after", "cause") == [
        ("not after", 2, 2, "Startup: found at the start of epoch 2")
    ]


async def test_reassignments_have_the_brokers_that_they_waited_for() -> None:
    world = await moves.cluster()
    await moves.reassign(world, 4, 2, 3)
    await moves.reassign(world, 4, 1, 2)
    await moves.reassign(world)
    await moves.reassign(world, 4, 2, 3)
    await moves.grow(world, 1, 2, 3, 4)
    found = tables(world)
    assert selected(found["reassignments"], "outcome", "adding", "removing", "waited_for") == [
        ("overridden", [4], [1], [4]),
        ("cancelled", [4], [3], [4]),
        ("completed", [4], [1], [4]),
    ]
    assert [row["caught_up_ms"] is None for row in found["reassignments"]] == [True, True, False]
    assert found["windows"] == []


async def test_a_deletion_that_waits_for_a_broker_names_it_and_is_no_window() -> None:
    world = await moves.cluster()
    world.die(3)
    await world.settle()
    await moves.delete(world)
    world.register(3)
    await world.settle()
    await moves.delete(world)
    found = tables(world)
    assert selected(found["deletions"], "topic", "halts", "blocked_by") == [
        ("t", 1, "replicas on broker 3 cannot be deleted: not online")
    ]
    assert found["deletions"][0]["ended_ms"] is not None
    assert found["windows"] == []
