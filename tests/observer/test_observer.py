"""An observer beside a controller at work: what it tells of it, and that it leaves no trace."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
import structlog
from structlog.testing import capture_logs

from controllerd.core.model import BrokerId
from controllerd.errors import StoreUnavailable
from controllerd.observer.dry_run_collaborators import WatchedConfiguration
from controllerd.observer.observer import Observer
from controllerd.record.families.operators import ObservationRecord
from controllerd.zk import paths
from controllerd.zk.access import Znode
from controllerd.zk.image import ClusterImage
from controllerd.zk.paths import CONTROLLER_EPOCH
from controllerd.zk.read_only import ReadOnly
from events.admin import ControlledShutdown
from tests.fakes.audit import RecordingAudit
from tests.fakes.world import NODE_ID, ManualClock, World, tp
from tests.fakes.zookeeper import FakeZooKeeper


class Restless(FakeZooKeeper):
    """A session that finds another controller epoch at each read while ``is_restless``."""

    is_restless = False

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        if self.is_restless:
            self.tree.put(CONTROLLER_EPOCH, b"9")
        return await super().read(paths)


class Watched:
    """A controller on three brokers, and an observer of it on a session of its own."""

    def __init__(self) -> None:
        self.world = World()
        self.clock, self.audit = ManualClock(), RecordingAudit()
        self.zk = Restless(self.world.tree, 99)
        self.pauses: list[float] = []
        configuration = WatchedConfiguration(NODE_ID, "PLAINTEXT")
        self.shown: list[ClusterImage] = []
        self.observer = Observer(
            ReadOnly(self.zk), lambda: configuration, self.clock, self.audit, show=self._show, pause=self._pause
        )

    async def _show(self, image: ClusterImage) -> None:
        self.shown.append(image)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.now += seconds
        if len(self.pauses) == 3:
            self.zk.expire()

    async def begin(self) -> "Watched":
        """t-0 on 1, 2 and 3, u-0 on 2 and 3; looked at once."""
        for broker in (1, 2, 3):
            self.world.register(broker)
        await self.world.start()
        self.world.put_topic("t", {0: [1, 2, 3]})
        self.world.put_topic("u", {0: [2, 3]})
        await self.world.settle()
        await self.observer.observe()
        return self

    async def observe(self, after_s: float = 0.0) -> None:
        """Look again, so many seconds later."""
        self.clock.now += after_s
        await self.observer.observe()

    @property
    def totals(self) -> Counter[tuple[str, str]]:
        """Partitions by cause and ruling."""
        return self.observer.report.totals


@pytest.fixture
async def watched() -> Watched:
    return await Watched().begin()


async def test_an_idle_controller_is_not_reported(watched: Watched) -> None:
    await watched.observe(60.0)

    assert watched.audit.records == []


async def test_elections_after_a_broker_failure_are_equal(watched: Watched) -> None:
    watched.world.die(1)
    await watched.observe()
    await watched.world.settle()
    await watched.observe(0.5)
    await watched.observe(2.0)

    assert watched.totals == {("broker died", "equal"): 1}


async def test_a_controller_that_was_faster_than_the_reading_is_equal_too(watched: Watched) -> None:
    watched.world.die(2)
    await watched.world.settle()
    await watched.observe()
    await watched.observe(2.0)

    assert watched.totals == {("broker died", "equal"): 2}


async def test_nothing_is_reported_before_it_has_settled(watched: Watched) -> None:
    watched.world.die(1)
    await watched.world.settle()
    await watched.observe()
    await watched.observe(1.9)

    assert watched.totals == {}


async def test_a_controller_that_does_nothing_is_waited_for_and_then_different(watched: Watched) -> None:
    watched.world.die(1)
    await watched.observe()
    await watched.observe(29.0)
    assert watched.totals == {}

    await watched.observe(1.0)

    assert watched.totals == {("broker died", "different"): 1}


async def test_a_partition_that_keeps_changing_is_unclear(watched: Watched) -> None:
    watched.world.die(1)
    await watched.world.settle()
    await watched.observe()
    path = paths.partition_state(tp("t"))
    for _ in range(20):
        watched.world.tree.put(path, watched.world.tree.nodes[path].data)
        await watched.observe(1.5)

    assert watched.totals == {("broker died", "unclear"): 1}


async def test_another_cause_in_between_makes_a_difference_unclear(watched: Watched) -> None:
    watched.world.die(1)
    await watched.observe()
    watched.world.register(1)
    await watched.observe()
    await watched.observe(30.0)

    assert watched.totals == {("broker died", "unclear"): 1, ("broker came", "unclear"): 1}


async def test_a_new_topic_is_initialised_as_in_the_dry_run(watched: Watched) -> None:
    watched.world.put_topic("v", {0: [3, 1], 1: [1, 2]})
    await watched.observe()
    await watched.world.settle()
    await watched.observe(0.5)
    await watched.observe(2.0)

    assert watched.totals == {("topics created", "equal"): 2}


async def test_a_controlled_shutdown_is_not_judged(watched: Watched) -> None:
    epoch = watched.world.tree.nodes["/brokers/ids/1"].czxid
    await watched.world.call(ControlledShutdown(BrokerId(1), epoch))
    await watched.observe()
    watched.world.die(1)
    await watched.world.settle()
    await watched.observe(0.5)
    await watched.observe(2.0)

    assert {ruling for _, ruling in watched.totals} == {"not judged", "equal"}


async def test_a_topic_that_is_created_while_a_broker_shuts_down_is_not_blamed_on_the_controller(
    watched: Watched,
) -> None:
    """The broker is registered until its logs are flushed, and gets no new leaders. ZooKeeper shows no request."""
    epoch = watched.world.tree.nodes["/brokers/ids/1"].czxid
    await watched.world.call(ControlledShutdown(BrokerId(1), epoch))
    await watched.observe()
    watched.world.put_topic("v", {0: [1, 2], 1: [2, 1], 2: [2, 3]})
    await watched.world.settle()
    await watched.observe(0.5)
    await watched.observe(2.0)

    created = {ruling: number for (cause, ruling), number in watched.totals.items() if cause == "topics created"}
    assert created == {"unclear": 2, "equal": 1}


async def test_a_failover_is_judged_by_its_writes(watched: Watched) -> None:
    successor = World(tree=watched.world.tree, session_id=2, node_id=NODE_ID + 1, instance="another")
    watched.world.zk.expire()
    watched.world.die(1)
    await successor.start()
    await watched.observe()
    await watched.observe(2.0)

    assert watched.totals == {("broker died", "equal"): 1}


async def test_a_deletion_is_judged_when_it_ends(watched: Watched) -> None:
    watched.world.tree.put("/admin/delete_topics/u")
    await watched.observe()
    await watched.observe(600.0)
    assert watched.totals == {}

    watched.world.tree.remove("/brokers/topics/u")
    watched.world.tree.remove("/admin/delete_topics/u")
    await watched.observe(0.5)
    await watched.observe(2.0)

    assert watched.totals == {("topics deleted", "equal"): 1}


async def test_a_request_to_delete_that_is_withdrawn_is_unclear(watched: Watched) -> None:
    watched.world.tree.put("/admin/delete_topics/u")
    await watched.observe()
    watched.world.tree.remove("/admin/delete_topics/u")
    await watched.observe()

    assert watched.totals == {("topics deleted", "unclear"): 1}


def drop(watched: Watched, topic: str) -> None:
    """A topic goes with everything below it, as a deletion ends."""
    tree, top = watched.world.tree, f"/brokers/topics/{topic}"
    for path in sorted((path for path in tree.nodes if path == top or path.startswith(f"{top}/")), reverse=True):
        tree.remove(path)


async def test_a_topic_that_is_deleted_before_its_creation_has_settled_is_unclear(watched: Watched) -> None:
    watched.world.put_topic("v", {0: [3, 1]})
    await watched.world.settle()
    await watched.observe()
    drop(watched, "v")
    await watched.observe(0.5)
    await watched.observe(30.0)

    assert watched.totals == {("topics created", "unclear"): 1}
    assert observations(watched)[0].verdicts == [RENEWED]


async def test_a_topic_that_is_created_again_before_its_creation_has_settled_is_unclear(watched: Watched) -> None:
    watched.world.put_topic("v", {0: [3, 1]})
    await watched.world.settle()
    await watched.observe()
    drop(watched, "v")
    await watched.world.settle()
    watched.world.put_topic("v", {0: [1, 3]})
    await watched.world.settle()
    await watched.observe(0.5)
    await watched.observe(2.0)

    assert watched.totals[("topics created", "different")] == 0
    assert RENEWED in observations(watched)[-1].verdicts


async def test_the_effect_of_a_broker_failure_on_a_topic_is_unclear_once_it_is_another_topic(watched: Watched) -> None:
    watched.world.die(2)
    await watched.world.settle()
    await watched.observe()
    drop(watched, "u")
    await watched.world.settle()
    watched.world.put_topic("u", {0: [3, 1]})
    await watched.world.settle()
    await watched.observe(0.5)
    await watched.observe(2.0)

    assert watched.totals == {("broker died", "equal"): 1, ("broker died", "unclear"): 1}


async def test_a_topic_that_was_created_just_after_a_failure_is_not_blamed_on_the_controller(
    watched: Watched,
) -> None:
    watched.world.die(1)
    await watched.world.settle()
    watched.world.put_topic("v", {0: [1, 2], 1: [2, 1]})
    await watched.world.settle()
    await watched.observe()
    await watched.observe(2.0)

    assert watched.totals == {("broker died", "equal"): 1, ("topics created", "unclear"): 2}


async def test_a_topic_that_was_created_just_after_a_broker_started_is_not_blamed_on_the_controller(
    watched: Watched,
) -> None:
    watched.world.register(4)
    await watched.world.settle()
    watched.world.put_topic("v", {0: [4, 1], 1: [2, 1]})
    await watched.world.settle()
    await watched.observe()
    await watched.observe(2.0)

    assert watched.totals == {("topics created", "unclear"): 1, ("topics created", "equal"): 1}


async def test_successive_broker_failures_are_not_blamed_on_the_controller_for_their_order(watched: Watched) -> None:
    watched.world.die(2)
    watched.world.die(3)
    await watched.world.settle()
    watched.world.die(1)
    await watched.world.settle()
    await watched.observe()
    await watched.observe(30.0)

    assert {ruling for _, ruling in watched.totals} == {"equal", "unclear"}


RENEWED = "unclear: its topic went, or was created again, before it was settled"


async def test_a_reassignment_is_judged_when_it_ends(watched: Watched) -> None:
    watched.world.tree.put("/admin/reassign_partitions", REASSIGNMENT)
    await watched.world.settle()
    await watched.observe()
    await watched.observe(600.0)

    # To fewer replicas, all of them in sync: it ends with the event that begins it.
    assert watched.totals == {("reassigned", "equal"): 1}


REASSIGNMENT = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'


async def test_without_a_controller_epoch_nothing_is_compared(watched: Watched) -> None:
    watched.world.tree.remove(CONTROLLER_EPOCH)
    await watched.observe()
    watched.world.die(1)
    await watched.observe()
    await watched.observe(30.0)

    assert {ruling for _, ruling in watched.totals} == {"unclear"}
    assert any("no dry run" in verdict for record in observations(watched) for verdict in record.verdicts)


def observations(watched: Watched) -> list[ObservationRecord]:
    return watched.audit.of(ObservationRecord)


async def test_the_findings_are_in_the_audit_log(watched: Watched) -> None:
    watched.world.die(1)
    await watched.world.settle()
    await watched.observe()
    await watched.observe(2.0)

    (record,) = observations(watched)
    assert (record.cause, record.subjects, record.controller_epoch) == ("broker died", ["1"], 1)
    assert (record.leaders_before, record.leaders_would, record.leaders_after) == ([1], [2], [2])
    assert record.verdicts == ["equal"]


async def test_zookeeper_is_not_changed(watched: Watched) -> None:
    watched.world.die(1)
    await watched.observe()
    await watched.observe(30.0)

    assert watched.zk.transactions == []


async def test_a_torn_image_is_left_out() -> None:
    watched = await Watched().begin()
    known = watched.observer.image
    watched.zk.is_restless = True
    await watched.observe()

    assert (watched.observer.torn, watched.observer.image is known) == (1, True)
    assert watched.shown == [known]


async def test_each_image_is_passed_to_show(watched: Watched) -> None:
    watched.world.die(1)
    await watched.observe()

    assert [image.names(paths.BROKER_IDS) for image in watched.shown] == [("1", "2", "3"), ("2", "3")]
    assert (watched.observer.images_read, watched.observer.unsettled) == (2, 1)


async def test_a_gap_makes_unsettled_causes_unclear(watched: Watched) -> None:
    watched.world.die(1)
    await watched.observe()
    await watched.observer.suspend()

    assert watched.totals == {("broker died", "unclear"): 1}
    assert observations(watched)[0].verdicts == ["unclear: ZooKeeper was out of reach before it was settled"]


async def test_changes_during_a_gap_are_not_compared(watched: Watched) -> None:
    await watched.observer.suspend()
    watched.world.die(1)
    await watched.world.settle()
    await watched.observe()
    await watched.observe(60.0)

    assert (watched.totals, watched.observer.unsettled) == ({}, 0)


async def test_after_a_gap_the_end_of_a_deletion_is_still_pending(watched: Watched) -> None:
    watched.world.tree.put("/admin/delete_topics/u")
    await watched.observe()
    await watched.observer.suspend()
    watched.world.tree.remove("/brokers/topics/u")
    watched.world.tree.remove("/admin/delete_topics/u")
    await watched.observe()
    await watched.observe(2.0)

    assert watched.totals == {("topics deleted", "equal"): 1}


async def test_leaders_of_a_topic_whose_deletion_waits_differ_deliberately(watched: Watched) -> None:
    watched.world.tree.put("/admin/delete_topics/u")
    await watched.observe()
    watched.world.die(2)
    await watched.observe()
    await watched.observe(30.0)

    assert watched.totals == {("broker died", "different"): 1, ("broker died", "deliberate"): 1}


async def test_log_lines_of_a_dry_run_are_marked(watched: Watched) -> None:
    watched.world.die(1)

    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        await watched.observe()

    marks = {str(line["event"]): line.get("dry_run") for line in lines}
    assert (marks["brokers changed"], marks["observed cause"]) == ("broker died", None)


async def test_progress_is_noted_for_the_watchdog(watched: Watched) -> None:
    watched.clock.now += 40.0
    assert watched.clock.now - watched.observer.progressed_at == pytest.approx(40.0)

    await watched.observe()

    assert watched.observer.progressed_at == watched.clock.now


async def test_it_reads_until_the_session_ends() -> None:
    watched = await Watched().begin()

    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(watched.observer.run(), 10.0)

    assert watched.pauses == [0.5, 0.5, 0.5]
