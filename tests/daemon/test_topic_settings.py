"""Configurations of topics are read on request and cached."""

from collections.abc import Iterable, Mapping

from controllerd.core.settings_book import SettingsBook
from controllerd.daemon.topic_settings import CACHED_S, CachedTopicSettings
from controllerd.errors import BadZnode, StoreUnavailable


class Store:
    """A store with configurable answers that records the requested topics."""

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

    def settings(self) -> CachedTopicSettings:
        """Over no broker at all."""
        return CachedTopicSettings(self.read, SettingsBook(), lambda: True, lambda: self.is_active, lambda: self.now)


async def test_an_instance_that_does_not_lead_knows_of_no_dynamic_default() -> None:
    store = Store()
    settings = store.settings()
    assert settings.unclean_by_default() is True

    store.is_active = False

    assert settings.unclean_by_default() is None


async def test_cached_configurations_are_not_read_again() -> None:
    store = Store()
    store.configs["orders"] = {"min.insync.replicas": "2"}
    settings = store.settings()

    first, second = await settings.of(["orders", "audit"]), await settings.of(["orders", "new"])

    assert first == {"orders": {"min.insync.replicas": "2"}, "audit": {}}
    assert second["orders"] == {"min.insync.replicas": "2"}
    assert store.asked == [["orders", "audit"], ["new"]]


async def test_expired_configurations_are_read_again_with_a_new_version() -> None:
    store = Store()
    settings = store.settings()
    version = settings.version
    await settings.of(["orders"])
    store.now += CACHED_S

    await settings.of(["orders"])

    assert len(store.asked) == 2
    assert settings.version != version


async def test_unreadable_configurations_are_left_out() -> None:
    store = Store()
    store.configs["broken"] = BadZnode("/config/topics/broken", "not JSON")
    settings = store.settings()

    assert await settings.of(["broken", "orders"]) == {"orders": {}}
    store.is_gone = True
    assert await settings.of(["new", "orders"]) == {"orders": {}}


async def test_without_brokers_the_default_is_unknown() -> None:
    assert await Store().settings().min_isr_by_default() is None
