"""An observer with nothing configured judges by the settings that the brokers of the cluster have."""

from collections.abc import Mapping

import pytest

from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import DELETE_TOPICS, NAMES, PROTOCOL_VERSION, UNCLEAN, understood
from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.core.settings_book import Configured, SettingsBook
from controllerd.observer.dry_run_collaborators import watched_configuration
from controllerd.observer.observer import Observer
from controllerd.record.families.operators import ObservationRecord
from controllerd.views import Holder
from controllerd.zk import codecs, paths
from controllerd.zk.read_only import ReadOnly
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
        self.holder: Holder | None = None
        self.observer = Observer(
            ReadOnly(FakeZooKeeper(self.world.tree, 99)),
            lambda: watched_configuration(NODE_ID, "PLAINTEXT", self.holder, self.book, self.registered),
            self.clock,
            self.audit,
        )

    @property
    def registered(self) -> dict[BrokerId, int]:
        """The epochs of the brokers that live."""
        nodes = {BrokerId(b): self.world.tree.nodes.get(f"/brokers/ids/{b}") for b in (1, 2)}
        return {b: node.czxid for b, node in nodes.items() if node is not None}

    async def begin(self) -> "Discovering":
        """t-0 is led by 1, the only one in its ISR; looked at once."""
        for broker in (1, 2):
            self.world.register(broker)
        await self.world.start()
        self.world.put_topic("t", {0: [1, 2]}, topic_id=None)
        await self.world.settle()
        self.world.tree.put(paths.partition_state(tp("t")), codecs.encode_state(ALONE))
        await self.observer.observe()
        return self

    def answer_all(self, **others: Mapping[str, str]) -> None:
        """Every broker answers; ``others`` have settings of their own, as ``b1``."""
        epochs = self.registered
        settings_of = {b: understood({**self.settings, **others.get(f"b{b}", {})}) for b in epochs}
        self.book.take({b: SettingsAnswer(epoch, settings_of[b]) for b, epoch in epochs.items()}, epochs)

    async def lose_the_only_one_in_sync(self) -> dict[tuple[str, str], int]:
        """Broker 1 fails. Returns the partitions by cause and ruling."""
        self.world.die(1)
        await self.world.settle()
        for after_s in (0.5, 0.5, 30.0):
            self.clock.now += after_s
            await self.observer.observe()
        return dict(self.observer.report.totals)

    @property
    def verdicts(self) -> list[str]:
        return [verdict for each in self.audit.of(ObservationRecord) for verdict in each.verdicts]


async def test_nothing_is_configured_and_a_cluster_of_protocol_2_8_is_judged_by_its_own_settings() -> None:
    seen = await Discovering(OLD).begin()
    seen.answer_all()

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
    seen.answer_all()

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "different"): 1}


BUILT_IN = Holder(2, None, 0)


@pytest.mark.parametrize("other", [{UNCLEAN: "false"}, {PROTOCOL_VERSION: "3.9-IV0"}, {PROTOCOL_VERSION: "2.6-IV0"}])
async def test_the_built_in_controller_is_judged_by_the_settings_of_its_own_broker(other: Mapping[str, str]) -> None:
    """As in the middle of a rolling change of the settings, in which the other broker has another value."""
    seen = await Discovering(OLD).begin()
    seen.holder = BUILT_IN
    seen.answer_all(b1=other)

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "equal"): 1}


async def test_an_instance_of_controllerd_is_judged_by_the_settings_of_all_brokers() -> None:
    seen = await Discovering({**OLD, UNCLEAN: "false"}).begin()
    seen.holder = Holder(NODE_ID, "a", 0)
    seen.answer_all(b2={UNCLEAN: "true"})

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "equal"): 1}


async def test_nothing_is_judged_before_the_broker_that_holds_the_role_has_answered_since_its_registration() -> None:
    seen = await Discovering(OLD).begin()
    seen.holder = BUILT_IN
    seen.answer_all()
    epoch = seen.world.tree.nodes["/brokers/ids/1"].czxid
    seen.book.take({}, {BrokerId(1): epoch, BrokerId(2): epoch + 1_000})

    found = await seen.lose_the_only_one_in_sync()

    assert found == {("broker died", "unclear"): 1}


async def test_a_broker_without_an_answer_to_the_observer_makes_unclean_elections_of_an_instance_unclear() -> None:
    """The instance may have heard that it allows them, or that it does not."""
    seen = await Discovering(OLD).begin()
    seen.answer_all()
    lives = seen.registered

    manners = [
        watched_configuration(NODE_ID, "PLAINTEXT", None, seen.book, registered)
        for registered in (lives, {**lives, BrokerId(2): 99}, {**lives, BrokerId(3): 7})
    ]

    assert [configuration.unknown for configuration in manners] == [[], [UNCLEAN], [UNCLEAN]]


def test_a_broker_without_an_answer_to_the_observer_makes_a_dynamic_default_unclear_as_well() -> None:
    """The files of all brokers say no, and the dynamic default of all brokers says yes."""
    one, two = BrokerId(1), BrokerId(2)
    values = understood(dict.fromkeys(NAMES) | {PROTOCOL_VERSION: "3.9-IV0", UNCLEAN: "true"})
    book = SettingsBook()
    book.take({each: SettingsAnswer(1, values, {UNCLEAN: "false"}) for each in (one, two)}, {one: 1, two: 1})

    manners = [
        watched_configuration(NODE_ID, "PLAINTEXT", None, book, lives) for lives in ({one: 1, two: 1}, {one: 1, two: 9})
    ]

    assert [configuration.unknown for configuration in manners] == [[], [UNCLEAN]]


def test_a_broker_that_failed_before_its_answer_makes_unclean_elections_of_an_instance_unclear() -> None:
    """The instance that leads waits for it."""
    one, two = BrokerId(1), BrokerId(2)
    values = understood(dict.fromkeys(NAMES) | {PROTOCOL_VERSION: "3.9-IV0", UNCLEAN: "true"})
    book = SettingsBook()
    for lives in ({one: 1, two: 1}, {one: 1}):
        book.expect(lives)
        book.take({one: SettingsAnswer(1, values)}, lives)

    assert watched_configuration(NODE_ID, "PLAINTEXT", None, book, {one: 1}).unknown == [UNCLEAN]
