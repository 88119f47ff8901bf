"""The answer about a topic as a whole."""

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.explain.answers import Diagnosis
from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.topic import LISTED, explain_topic
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView, Role, TopicView
from tests.explain.seeding import Seeded, codes, finish
from tests.fakes.reassigning import change_isr


async def test_a_topic_without_causes_is_healthy() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3, 6], partitions=4)

    why = await seeded.why_topic()

    assert (why.condition, why.severity, why.others) == ("healthy", "ok", [])
    assert why.headline == "payments is healthy (4 partitions)"
    assert why.facts == ["partitions 4   replication factor 3   unclean election: not known here"]


async def test_the_worst_partitions_come_first_and_give_the_cause() -> None:
    seeded = await Seeded(3, 5, 6).start()
    await seeded.create("payments", [5], [5, 3, 6], [3, 6, 5], [3, 6])
    await seeded.kill(5)

    why = await seeded.why_topic()

    assert (why.condition, why.severity) == ("offline", "critical")
    assert why.headline.startswith("payments is NOT HEALTHY: 1 offline, 2 under-replicated of 4 partitions, for 1m0s")
    assert codes(why)[0] == "broker-gone"
    assert why.others == [
        "payments-0 offline: replicas 5, isr 5, leader -1",
        "payments-1 under-replicated: replicas 5,3,6, isr 3,6, leader 3",
        "payments-2 under-replicated: replicas 3,6,5, isr 3,6, leader 3",
    ]
    assert "replication factor 1 to 3" in why.facts[0]


async def test_the_common_cause_of_many_partitions_is_named_once() -> None:
    seeded = await Seeded(3, 5, 6).start([3, 5, 6], partitions=50)
    await seeded.kill(6)

    why = await seeded.why_topic()

    assert codes(why) == ["broker-gone"]
    assert why.next == ["bring broker 6 back"]


async def test_a_topic_that_other_replicas_lead_is_served() -> None:
    seeded = await Seeded(3, 5).start([5, 3], partitions=2)
    await seeded.kill(5)
    await seeded.bring_back(5)
    await change_isr(seeded.world, "payments", 3, 5, partitions=range(2))

    why = await seeded.why_topic()

    assert (why.condition, why.severity) == ("non-preferred", "ok")
    assert why.headline.startswith("payments is served: 2 non-preferred of 2 partitions, for 2m0s")


async def test_only_the_first_of_very_many_partitions_are_listed() -> None:
    view = PartitionView(
        0,
        PartitionState.OFFLINE,
        ReplicaAssignment((BrokerId(1),)),
        LeaderAndIsr(BrokerId(-1), 1, (BrokerId(1),), 1, 1),
        (BrokerId(1),),
    )
    snapshot = ClusterSnapshot(1, role=Role.ACTIVE)
    snapshot.topics["big"] = TopicView("big", None, tuple(view._replace(partition=number) for number in range(500)))

    why = finish(explain_topic(ExplanationInputs(snapshot=snapshot, now_ms=0), "big"))

    assert len(why.others) == LISTED + 1
    assert why.others[-1] == "and 400 more: controllerctl get partitions --topic big"


async def test_a_topic_without_partitions_has_nothing_to_explain() -> None:
    snapshot = ClusterSnapshot(1, role=Role.ACTIVE)
    snapshot.topics["empty"] = TopicView("empty", None, ())

    why = finish(explain_topic(ExplanationInputs(snapshot=snapshot, now_ms=0), "empty"))

    assert (why.condition, why.headline) == ("healthy", "empty is healthy (0 partitions)")
    assert why.facts == ["partitions 0   replication factor none   unclean election: not known here"]


async def test_each_step_is_named_once() -> None:
    seeded = await Seeded(3, 5, 6).start()
    await seeded.create("payments", [5], [5, 3, 6])
    await seeded.kill(5)

    assert (await seeded.why_topic()).next == ["bring broker 5 back: no other broker has a copy"]


async def test_a_command_that_is_a_prefix_of_another_one_is_kept() -> None:
    diagnosis = Diagnosis("offline", "critical", "")
    diagnosis.add_steps("controllerctl reassign cancel t-12")
    diagnosis.add_steps("controllerctl reassign cancel t-1")

    assert diagnosis.next == ["controllerctl reassign cancel t-12", "controllerctl reassign cancel t-1"]
