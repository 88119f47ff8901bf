"""``controllerctl`` on stock brokers: reassignments under a throttle, elections, topics, a drain.

The controller runs in the test's own process, so that the test can wait for its state.
"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from controllerd.core.model import TopicPartition
from controllerd.daemon.node import ControllerNode
from controllerd.dev.cluster import open_cluster
from tests.cli.running import Outcome, controllerctl
from tests.real.operator import Operator
from tests.real.scene import SMALL_FETCHES
from tests.real.test_operators_verbs import configs, leading, operating, produce
from tests.zk.world import until

pytestmark = [pytest.mark.kafka, pytest.mark.real, pytest.mark.timeout(300)]

T: Final = TopicPartition("t", 0)
AS_CONFIGURED: Final = {"auto.leader.rebalance.enable": "false"}
"""The configuration of the controller, so that no broker differs from it."""
OURS: Final = {"min.insync.replicas": "1"}


class Terminal:
    """Runs commands as an operator types them, and checks their exit status."""

    def __init__(self, node: ControllerNode) -> None:
        self.node = node
        self._api = f"http://127.0.0.1:{node.http_port}"

    async def types(self, *words: str, code: int = 0) -> Outcome:
        """Run the command with ``--yes``."""
        outcome = await controllerctl(*words, "--yes", "--api", self._api)
        print(f"$ controllerctl {' '.join(words)}: {outcome.code}\n{outcome.err}{outcome.out}")
        assert outcome.code == code, outcome
        return outcome

    async def reads(self, *words: str) -> Any:
        """Run a command, and return the JSON that it prints."""
        return json.loads((await self.types(*words, "-o", "json")).out)


async def moved_under_a_throttle(terminal: Terminal, operator: Operator, folder: Path) -> None:
    """A plan moves the replica off broker 2; it is applied to its end, and the throttle is removed."""
    plan = folder / "plan.json"
    await terminal.types("reassign", "plan", "--topics", "t", "--from", "2", "--to", "1,3", "-f", str(plan))
    moved = await terminal.types(
        "reassign", "apply", "-f", str(plan), "--throttle", "1MB", "--wait", "--reason", "broker 2 retires"
    )

    assert "reassignments: done" in moved.out
    assert "at most 1,000,000 bytes/s for each broker" in moved.err
    view = terminal.node.snapshot.partition(T)
    assert view is not None
    assert view.assignment.replicas == (1, 3)
    await until(lambda: terminal.node.snapshot.throttle is None)
    assert await configs(operator) == [{}, {}, {}, OURS]
    assert (await terminal.types("reassign", "status")).out == "no partition is being reassigned\n"


async def elected_and_back(terminal: Terminal) -> None:
    """A drained broker leads no partition, and later its preferred partitions again."""
    drained = await terminal.types("drain", "broker", "1", "--leaders-only", "--reason", "a test")
    assert "leader 1 -> 3" in drained.out
    await terminal.types("resume", "drain-1")
    elected = await terminal.types("elect", "preferred", "--topic", "t", "--partition", "0")
    assert "leader 3 -> 1" in elected.out
    assert "not-needed" in (await terminal.types("elect", "preferred", "--topic", "t")).out


async def created_and_deleted(terminal: Terminal, operator: Operator) -> None:
    """A topic is known to brokers when the command to create it ends, and gone when the command to delete it ends."""
    await terminal.types("topics", "create", "new", "--partitions", "3", "--replication-factor", "2", "--wait")
    await terminal.types("topics", "add-partitions", "new", "--partitions", "5", "--wait")
    assert len(await operator.children("/brokers/topics/new/partitions")) == 5
    await terminal.types("topics", "delete", "new", "--wait", "--reason", "a test")
    assert not await operator.exists("/brokers/topics/new")
    assert not await operator.exists("/admin/delete_topics/new")


async def clean(terminal: Terminal) -> None:
    """``diff`` finds no difference between controller, brokers and ZooKeeper, and ``doctor`` finds no problem."""
    compared = await terminal.reads("diff")
    assert (compared["items"], compared["brokers"], compared["notes"]) == ([], [1, 2, 3], [])
    assert compared["compared"] >= 1
    await terminal.types("doctor")


async def seen_by_diff(terminal: Terminal, operator: Operator) -> None:
    """A state that another client wrote is a difference, until the controller reads ZooKeeper again."""
    path = "/brokers/topics/t/partitions/0/state"
    state = await operator.read(path)
    await operator.write(path, state | {"leader_epoch": state["leader_epoch"] + 1})
    found = json.loads((await terminal.types("diff", "-o", "json", code=1)).out)
    assert ("t-0", "leader epoch") in {(item["subject"], item["field"]) for item in found["items"]}


async def test_the_commands_of_an_operator_change_the_cluster(tmp_path: Path) -> None:
    overrides = dict.fromkeys((1, 2, 3), SMALL_FETCHES | AS_CONFIGURED)
    async with (
        open_cluster("kafka", tmp_path, print, instances=0, overrides=overrides) as cluster,
        leading(cluster, tmp_path / "controllerd") as node,
        operating(cluster) as operator,
    ):
        terminal = Terminal(node)
        await cluster.observer.create_topic("t", {0: [1, 2]}, OURS)
        await until(lambda: (at := node.snapshot.partition(T)) is not None and at.leadership is not None)
        await asyncio.to_thread(produce, cluster.bootstrap)
        await moved_under_a_throttle(terminal, operator, tmp_path)
        await elected_and_back(terminal)
        await created_and_deleted(terminal, operator)
        await clean(terminal)
        await seen_by_diff(terminal, operator)
