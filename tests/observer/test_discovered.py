"""An observer with nothing configured judges by the settings that the brokers of the cluster have."""

from collections.abc import Mapping

from controllerd.core.cluster_settings import DELETE_TOPICS, PROTOCOL_VERSION, UNCLEAN, understood
from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.core.settings_book import Answer, Configured, SettingsBook
from controllerd.observer.observer import Observer
from controllerd.observer.stage import Manner
from controllerd.zk import codecs, paths
from controllerd.zk.read_only import ReadOnly
from replay.observation import ObservationRecord
from tests.fakes.audit import RecordingAudit
from tests.fakes.world import NODE_ID, ManualClock, World, tp
from tests.fakes.zookeeper import FakeZooKeeper

OLD: Mapping[str, str] = {PROTOCOL_VERSION: "2.8-IV1", UNCLEAN: "true"}
"""A cluster before KIP-704: no state says that a leader recovers."""

ALONE = LeaderAndIsr(BrokerId(1), 1, (BrokerId(1),), 1, 0)
"""The state of t-0 after its leader shrank the ISR."""


class Discovering:
    """The controller of a cluster with these settings, and an observer that begins without any of its own."""

    def __init__(self, settings: Mapping[str, str], configured: Mapping[str, Configured] | None = None) -> None:
        self.settings = settings
        self.world = World(settings=SettingsBook({name: Configured(text, "file") for name, text in settings.items()}))
        self.clock, self.audit = ManualClock(), RecordingAudit()
        self.book = SettingsBook(configured)
        self.observer = Observer(
            ReadOnly(FakeZooKeeper(self.world.tree, 99)),
            lambda: Manner(NODE_ID, "PLAINTEXT", self.book.current),
            self.clock,
            self.audit,
        )

    async def begin(self) -> "Discovering":
        """t-0 is led by 1, the only one in its ISR; looked at once."""
        for broker in (1, 2):
            self.world.register(broker)
        await self.world.start()
        self.world.put_topic("t", {0: [1, 2]}, topic_id=None)
        await self.world.settle()
        self.world.tree.put(paths.partition_state(tp("t")), codecs.encode_state(ALONE))
        await self.observer.look()
        return self

    def hear(self) -> None:
        """Every broker answers."""
        epochs = {BrokerId(b): self.world.tree.nodes[f"/brokers/ids/{b}"].czxid for b in (1, 2)}
        self.book.take({b: Answer(epoch, understood(self.settings)) for b, epoch in epochs.items()}, epochs)

    async def lose_the_only_one_in_sync(self) -> dict[tuple[str, str], int]:
        """Broker 1 dies. Returns the partitions by cause and ruling."""
        self.world.die(1)
        await self.world.settle()
        for after_s in (0.5, 0.5, 30.0):
            self.clock.now += after_s
            await self.observer.look()
        return dict(self.observer.report.totals)

    @property
    def verdicts(self) -> list[str]:
        return [verdict for each in self.audit.of(ObservationRecord) for verdict in each.verdicts]


async def test_nothing_is_configured_and_a_cluster_of_protocol_2_8_is_judged_by_its_own_settings() -> None:
    seen = await Discovering(OLD).begin()
    seen.hear()

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "equal"): 1}


async def test_before_any_broker_has_answered_nothing_is_judged_by_guessed_settings() -> None:
    seen = await Discovering(OLD).begin()

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "unclear"): 1}
    names = "delete.topic.enable, inter.broker.protocol.version, unclean.leader.election.enable"
    assert seen.verdicts == [f"unclear: not known, neither from brokers nor configured: {names}"]


async def test_settings_that_brokers_cannot_give_can_be_configured() -> None:
    configured = {name: Configured(text, "file") for name, text in {**OLD, DELETE_TOPICS: "true"}.items()}
    seen = await Discovering(OLD, configured).begin()

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "equal"): 1}


async def test_a_setting_that_is_configured_wrongly_here_makes_a_difference() -> None:
    seen = await Discovering(OLD, {UNCLEAN: Configured("false", "file")}).begin()
    seen.hear()

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "different"): 1}
