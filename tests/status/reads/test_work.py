"""``/v1/reassignments`` and ``/v1/deletions``: progress, and reasons for a wait."""

from types import MappingProxyType

import pytest

from controllerd.core.model import (
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)
from controllerd.core.replica_sizes import ReplicaSize, SizesView
from controllerd.record.records import DeletionRecord, ReassignmentRecord
from controllerd.status.reads.reassignments import copy_progress
from controllerd.status.schema.work import DeletionList, ReassignmentList
from controllerd.views import DeletionView, PartitionView
from tests.status.fake_controller import FakeController
from tests.status.reads.conftest import Client

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def put_move(controller: FakeController, leader: int, isr: tuple[BrokerId, ...], added: BrokerId) -> None:
    """A partition that moves from broker 1 to another one."""
    assignment = ReplicaAssignment((added, ONE), adding=(added,), removing=(ONE,))
    leadership = LeaderAndIsr(BrokerId(leader), 4, isr, 7, 9)
    controller.put_topic("moving", PartitionView(5, PartitionState.ONLINE, assignment, leadership, ()))


@pytest.mark.parametrize(
    ("leader", "isr", "added", "blocker"),
    [
        (1, (ONE,), TWO, "broker 2 not in the ISR yet: copying"),
        (1, (ONE,), THREE, "broker 3 is not alive"),
        (-1, (ONE,), TWO, "the partition has no leader, so nothing can be copied"),
        (1, (ONE, TWO), TWO, None),
    ],
)
async def test_a_reassignment_has_the_reason_for_its_wait(
    client: Client, controller: FakeController, leader: int, isr: tuple[BrokerId, ...], added: BrokerId, blocker: str
) -> None:
    put_move(controller, leader, isr, added)
    controller.recent.record(ReassignmentRecord("begun", ["moving"], [5]))

    answer = await client.get("/v1/reassignments", ReassignmentList)

    (item,) = answer.items
    assert (item.topic, item.partition, item.target, item.blocker) == ("moving", 5, [added], blocker)
    assert (item.age_s, item.percent, answer.total) == (0.0, None, 1)
    assert [(each.broker, each.in_isr) for each in item.progress] == [(added, added in isr)]


def sizes_on(**sizes: tuple[int, int, float | None]) -> SizesView:
    """The sizes on brokers ``b1`` and ``b2``: bytes, lag and rate."""
    replicas = {BrokerId(int(name[1:])): ReplicaSize(size, lag, 0.0, rate) for name, (size, lag, rate) in sizes.items()}
    return SizesView({TopicPartition("moving", 5): replicas})


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (sizes_on(), (None, None, None, None)),
        (sizes_on(b2=(300, 7, 10.0)), (None, None, None, None)),
        (sizes_on(b1=(1000, 0, 0.0), b2=(300, 7, None)), (30.0, 700, None, None)),
        (sizes_on(b1=(1000, 0, 0.0), b2=(300, 7, 10.0)), (30.0, 700, 10.0, 70.0)),
        (sizes_on(b1=(1000, 0, 20.0), b2=(300, 7, 10.0)), (30.0, 700, 10.0, None)),
        (sizes_on(b1=(1000, 0, 0.0), b2=(900, 0, 0.0)), (90.0, 100, 0.0, None)),
        (sizes_on(b1=(1000, 0, 0.0), b2=(1000, 0, 0.0)), (100.0, 0, 0.0, 0.0)),
    ],
)
def test_the_progress_needs_the_answers_of_brokers(sizes: SizesView, expected: tuple[object, ...]) -> None:
    assignment = ReplicaAssignment((TWO, ONE), adding=(TWO,), removing=(ONE,))
    view = PartitionView(5, PartitionState.ONLINE, assignment, LeaderAndIsr(ONE, 4, (ONE,), 7, 9), ())

    assert tuple(copy_progress(TopicPartition("moving", 5), view, sizes)) == expected


async def test_without_reassignments_the_list_is_empty(client: Client) -> None:
    answer = await client.get("/v1/reassignments", ReassignmentList)

    assert (answer.items, answer.total) == ([], 0)


async def test_a_deletion_names_the_brokers_that_it_waits_for(client: Client, controller: FakeController) -> None:
    replicas = {
        (ONE, ReplicaState.DELETION_SUCCESSFUL): 2,
        (TWO, ReplicaState.DELETION_STARTED): 2,
        (THREE, ReplicaState.OFFLINE): 1,
    }
    held_up = "replicas on broker 3 cannot be deleted: not online"
    view = DeletionView(True, held_up, (TWO,), replicas=MappingProxyType(replicas))
    controller.snapshot.deletions["orders"] = view
    controller.recent.record(DeletionRecord(["orders"], ["queued"], [None]))

    (item,) = (await client.get("/v1/deletions", DeletionList)).items

    assert (item.deletion.topic, item.deletion.held_up_by, item.age_s) == ("orders", held_up, 0.0)
    assert item.replicas_by_state == {
        "OfflineReplica": 1,
        "ReplicaDeletionStarted": 2,
        "ReplicaDeletionSuccessful": 2,
    }
    assert [(each.broker, each.replicas, each.state) for each in item.blockers] == [
        (2, 2, "ReplicaDeletionStarted"),
        (3, 1, "OfflineReplica"),
    ]
    assert "is not alive" in item.blockers[1].why
