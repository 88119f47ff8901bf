"""The log check of every scenario works: a log with one missing record does not pass."""

from pathlib import Path
from typing import Final

import pytest

from controllerd.record.records import (
    AssignmentRecord,
    BrokersRecord,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    TopicsForgotten,
    TopicsRecord,
)
from tests.fakes.world import World
from tests.scenarios.acts import alter_isr, bring_back, cluster, kill, take_over, with_topic
from tests.scenarios.nodes import Rig
from tests.scenarios.witness import MEANT, are_meant, differences, findings, folded, observed, read_logs

SCENARIOS: Final = Path(__file__).parent


async def story() -> World:
    """Create topics, delete one, and let a leader die and return."""
    world = await cluster(1, 2)
    for topic in ("t", "u"):
        await with_topic(world, topic, 1, 2)
    await kill(world, 1)
    await bring_back(world, 1)
    await alter_isr(world, "t", 2, 1)
    world.tree.remove("/brokers/topics/u")
    return await world.settle()


async def test_a_log_that_is_whole_passes() -> None:
    assert await findings([await story()]) == []


@pytest.mark.parametrize(
    "kind",
    [
        AssignmentRecord,
        BrokersRecord,
        LeadershipRecord,
        PartitionStateRecord,
        TopicsForgotten,
        TopicsRecord,
    ],
)
async def test_a_log_without_one_record_does_not_pass(kind: type[Record], witness: list[World]) -> None:
    world = await story()
    lost = next(record for record in reversed(world.audit.whole) if isinstance(record, kind))
    at = world.audit.whole.index(lost)

    del world.audit.whole[at]

    assert await findings([world])
    world.audit.whole.insert(at, lost)
    assert await findings(witness) == []


async def test_a_state_of_another_writer_without_a_record_does_not_pass(witness: list[World]) -> None:
    world = await story()
    path = "/brokers/topics/t/partitions/0/state"
    node, world.zk.on_watch = world.tree.nodes[path], lambda _path, _fired: None
    assert node.data is not None

    world.tree.put(path, node.data.replace(b'"leader":2', b'"leader":1'))

    assert [line.split(" has the ")[0] for line in await findings([world])] == ["partition t-0"]
    witness.clear()


async def test_the_logs_of_two_controllers_are_one_story() -> None:
    world = await story()
    successor = await take_over(world)
    await kill(successor, 2)

    assert await findings([world, successor]) == []
    assert await findings([successor, world]) == []


async def test_the_log_of_a_node_without_one_record_does_not_pass(rig: Rig) -> None:
    async with rig.brokers(1, 2), rig.node():
        await rig.peer.add_topic("t", [[1, 2]])
        await rig.led_by("t", 1)
        await rig.die(1)
        await rig.led_by("t", 2)
    (log,), damages = read_logs(rig.directory)
    seen = await observed(rig.peer.store)
    assert (damages, differences(folded([log]), seen)) == ([], [])

    last = max(at for at, (_, record) in enumerate(log) if isinstance(record, LeadershipRecord))
    found = differences(folded([log[:last] + log[last + 1 :]]), seen)

    assert [line.split(" has the ")[0] for line in found] == ["partition t-0"]


@pytest.mark.parametrize("scenario", MEANT)
def test_every_exception_is_a_scenario_that_there_is(scenario: str) -> None:
    assert any(f"def {scenario}(" in path.read_text("utf-8") for path in SCENARIOS.glob("test_*.py"))
    assert not are_meant([], scenario)
    assert not are_meant(["something else"], scenario)
