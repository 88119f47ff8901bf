"""``/v1/replicas``: every replica with its state and role."""

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment, ReplicaState
from controllerd.core.replica_states import NO_REPLICAS
from controllerd.status.schema.cluster import ReplicaList
from controllerd.views import PartitionView
from tests.status.fake_controller import FakeController
from tests.status.reads.conftest import Client

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def put_moving_partition(controller: FakeController) -> None:
    """A partition to which broker 3 is being added, and from which the offline broker 2 is being removed."""
    states = NO_REPLICAS.after(ONE, ReplicaState.ONLINE).after(TWO, ReplicaState.OFFLINE).after(THREE, ReplicaState.NEW)
    assignment = ReplicaAssignment((ONE, TWO, THREE), adding=(THREE,), removing=(TWO,))
    leadership = LeaderAndIsr(ONE, 4, (ONE,), 7, 9)
    controller.put_topic("moving", PartitionView(5, PartitionState.ONLINE, assignment, leadership, (TWO,), states))


async def test_replicas_are_listed_as_they_are_assigned(client: Client, controller: FakeController) -> None:
    put_moving_partition(controller)

    items = (await client.get("/v1/replicas", ReplicaList, topic="moving")).items

    assert [(each.broker, each.state, each.role, each.is_leader, each.in_isr, each.is_online) for each in items] == [
        (1, "OnlineReplica", "replica", True, True, True),
        (2, "OfflineReplica", "removing", False, False, False),
        (3, "NewReplica", "adding", False, False, True),
    ]


async def test_replicas_are_filtered_by_broker_and_health(client: Client, controller: FakeController) -> None:
    put_moving_partition(controller)

    on_two = await client.get("/v1/replicas", ReplicaList, on=2)
    offline = await client.get("/v1/replicas", ReplicaList, offline="true")

    assert on_two.total == 5
    assert [(each.topic, each.broker) for each in offline.items] == [("moving", 2)]


async def test_without_replica_states_the_states_of_a_new_controller_are_shown(client: Client) -> None:
    items = (await client.get("/v1/replicas", ReplicaList, topic="audit")).items

    assert {each.state for each in items} == {"OnlineReplica"}


async def test_pages_of_replicas_are_the_whole_list(client: Client) -> None:
    seen: list[tuple[str, int, int]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await client.get("/v1/replicas", ReplicaList, limit=5, cursor=cursor)
        assert page.total == 12
        seen += [(each.topic, each.partition, each.broker) for each in page.items]
        cursor = page.next_cursor

    assert seen == [
        (topic, number, broker)
        for topic, number in (("audit", 0), ("orders", 0), ("orders", 1), ("orders", 2))
        for broker in (1, 2, 3)
    ]
