"""Causes that concern the whole instance come first: no ZooKeeper, a stuck event, another active controller."""

from typing import Final

from controllerd.explain.inputs import ExplanationInputs
from controllerd.explain.partition import explain_partition
from controllerd.explain.topic import explain_topic
from controllerd.record.records import SessionRecord
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import Holder, QueueView, Role, SessionView, WorkerView
from tests.explain.seeding import TEN, Seeded, codes, finish, text
from tests.fakes.world import NODE_ID, World, tp

OTHER: Final = "5c0ffee0-0000-4000-8000-000000000002"


async def healthy() -> Seeded:
    return await Seeded(3, 5).start([5, 3])


async def test_the_session_is_suspended() -> None:
    seeded = await healthy()
    seeded.recent.record(SessionRecord("suspended", 7, 1))

    why = await seeded.why(session=SessionView("suspended", 7, 1))

    assert (why.condition, why.severity, codes(why)) == ("healthy", "warning", ["zookeeper-suspended"])
    assert why.causes[0].sentence == (
        "the ZooKeeper session of this instance is suspended since 10:00:00Z: "
        "it decides nothing and receives no changes"
    )
    assert why.next == ["check that this host can reach ZooKeeper:", "controllerctl doctor --zk HOSTS"]


async def test_the_session_is_lost_since_it_was_first_suspended() -> None:
    seeded = await healthy()
    seeded.recent.record(SessionRecord("suspended", 7, 1))
    seeded.clock.now += 30
    seeded.recent.record(SessionRecord("lost", 7, 1))

    why = await seeded.why(session=SessionView("lost", 7, 1))

    assert codes(why) == ["zookeeper-lost"]
    assert why.causes[0].since == "2023-11-15T10:00:00.000Z"


async def test_without_a_session_the_absence_of_a_controller_is_not_claimed() -> None:
    snapshot = ClusterSnapshot(NODE_ID, role=Role.STANDBY)
    inputs = ExplanationInputs(snapshot=snapshot, now_ms=0, session=SessionView("lost", 7, 1))

    assert codes(finish(explain_partition(inputs, tp("payments")))) == ["zookeeper-lost"]


async def test_a_session_that_was_reconnected_is_no_cause() -> None:
    seeded = await healthy()
    seeded.recent.record(SessionRecord("suspended", 7, 1), SessionRecord("reconnected", 7, 1))

    assert codes(await seeded.why()) == []


async def test_the_queue_is_stuck_on_an_event() -> None:
    seeded = await healthy()
    worker = WorkerView("BrokerChange", 88_121, running_s=72.0, since_progress_s=70.0)

    why = await seeded.why(worker=worker, queue=QueueView(12, 71.0))

    assert (why.severity, codes(why)) == ("warning", ["queue-stuck"])
    assert why.causes[0].sentence == (
        "event 88121 BrokerChange is being handled for 1m12s without progress; 12 events wait behind it: this answer "
        "shows the state before it"
    )
    assert why.next[0] == "controllerctl get queue"


async def test_a_long_event_with_progress_is_not_stuck_but_events_wait() -> None:
    seeded = await healthy()
    worker = WorkerView("BrokerChange", 88_121, running_s=72.0, since_progress_s=0.1)

    why = await seeded.why(worker=worker, queue=QueueView(2, 71.0))

    assert codes(why) == ["queue-behind"]
    assert "2 events wait, the oldest for 1m11s, event 88121 BrokerChange is being handled" in why.causes[0].sentence


async def test_causes_of_the_instance_come_before_causes_of_the_partition() -> None:
    seeded = await healthy()
    await seeded.kill(5)

    why = await seeded.why(session=SessionView("suspended", 7, 1))

    assert codes(why)[:2] == ["zookeeper-suspended", "isr-of-one"]


async def test_a_standby_names_the_active_controller() -> None:
    seeded = await healthy()
    standby = await World(tree=seeded.world.tree, session_id=9, node_id=NODE_ID + 1, instance=OTHER).start()
    inputs = ExplanationInputs(snapshot=standby.snapshot, now_ms=int(TEN * 1000))

    why = finish(explain_partition(inputs, tp("payments")))

    assert (why.condition, codes(why)) == ("unknown", ["standby"])
    assert "this instance is standby and decides nothing: controllerd 2000000000 is the active controller" in text(why)
    assert "payments-0 is not known here: this instance is not the active controller" in why.headline


async def test_a_standby_beside_a_built_in_controller_names_the_broker() -> None:
    snapshot = ClusterSnapshot(NODE_ID, role=Role.STANDBY, holder=Holder(2, None, int(TEN * 1000)))

    why = finish(explain_topic(ExplanationInputs(snapshot=snapshot, now_ms=int(TEN * 1000)), "payments"))

    assert [(cause.code, cause.broker) for cause in why.causes] == [("standby", 2)]
    assert why.next[0] == "ask broker 2 (built-in), or look at ZooKeeper itself:"


async def test_there_is_no_controller() -> None:
    snapshot = ClusterSnapshot(NODE_ID, role=Role.STANDBY)

    why = finish(explain_partition(ExplanationInputs(snapshot=snapshot, now_ms=0), tp("payments")))

    assert codes(why) == ["no-controller"]


async def test_a_starting_instance_has_not_read_the_partitions_yet() -> None:
    why = finish(explain_partition(ExplanationInputs(snapshot=ClusterSnapshot(NODE_ID), now_ms=0), tp("payments")))

    assert codes(why) == ["controller-starting"]
