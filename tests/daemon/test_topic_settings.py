"""Settings of topics are asked for when somebody wants them, and kept for a while."""

from collections.abc import Iterable, Mapping

from controllerd.core.settings_book import SettingsBook
from controllerd.daemon.topic_settings import KEPT_S, KeptSettings
from controllerd.errors import BadZnode, StoreUnavailable


class Store:
    """Says what it was told to, and counts who was asked for."""

    def __init__(self) -> None:
        self.configs: dict[str, Mapping[str, str] | BadZnode] = {}
        self.asked: list[list[str]] = []
        self.is_gone = False
        self.now = 1000.0
        self.is_active = True

    async def read(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str] | BadZnode]:
        """As ZooKeeper would."""
        names = list(topics)
        self.asked.append(names)
        if self.is_gone:
            raise StoreUnavailable("no connection")
        return {name: self.configs.get(name, {}) for name in names}

    def settings(self) -> KeptSettings:
        """Over no broker at all."""
        return KeptSettings(self.read, SettingsBook(), lambda: True, lambda: self.is_active, lambda: self.now)


async def test_an_instance_that_does_not_lead_knows_of_no_dynamic_default() -> None:
    store = Store()
    settings = store.settings()
    assert settings.unclean_by_default() is True

    store.is_active = False

    assert settings.unclean_by_default() is None


async def test_what_is_known_is_not_asked_for_again() -> None:
    store = Store()
    store.configs["orders"] = {"min.insync.replicas": "2"}
    settings = store.settings()

    first, second = await settings.of(["orders", "audit"]), await settings.of(["orders", "new"])

    assert first == {"orders": {"min.insync.replicas": "2"}, "audit": {}}
    assert second["orders"] == {"min.insync.replicas": "2"}
    assert store.asked == [["orders", "audit"], ["new"]]


async def test_after_a_while_everything_is_asked_anew_and_the_version_says_so() -> None:
    store = Store()
    settings = store.settings()
    version = settings.version
    await settings.of(["orders"])
    store.now += KEPT_S

    await settings.of(["orders"])

    assert len(store.asked) == 2
    assert settings.version != version


async def test_what_cannot_be_read_is_left_out() -> None:
    store = Store()
    store.configs["broken"] = BadZnode("/config/topics/broken", "not JSON")
    settings = store.settings()

    assert await settings.of(["broken", "orders"]) == {"orders": {}}
    store.is_gone = True
    assert await settings.of(["new", "orders"]) == {"orders": {}}


async def test_without_brokers_nobody_knows_the_default() -> None:
    assert await Store().settings().min_isr_by_default() is None
