"""Judges whether an instance leads although it knows a setting of a broker with which no instance must lead."""

from collections.abc import Mapping
from typing import Final

from tests.sim.oracle_history import History
from tests.sim.oracle_seen import Report

RULES: Final = {
    "S-05": "an instance does not lead after a broker's answer with an authorizer, a policy class or a migration, also "
    "while that broker is gone, until the broker answers otherwise",
}
_CLASSES: Final = ("authorizer.class.name", "create.topic.policy.class.name", "alter.config.policy.class.name")
_SWITCHES: Final = ("zookeeper.metadata.migration.enable", "zookeeper.set.acl")


class SettingsJudge:
    """Tracks the last answer of each broker to each run of an instance."""

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self._forbidding: dict[str, dict[int, str]] = {}
        """By instance and broker: the setting with which the instance must not lead."""

    def begins(self, owner: str) -> None:
        """Note that the process of an instance starts, which need not know the answers to an earlier one."""
        self._forbidding.pop(owner, None)

    def take_answer(self, owner: str, broker: int, broker_epoch: int, values: Mapping[str, str]) -> None:
        """Note that an instance begins to handle the answer of a broker in its life with this epoch.

        The answer of an earlier life of the broker forbids nothing: the instance may ignore it.
        """
        found = [name for name in _CLASSES if values.get(name)]
        found += [name for name in _SWITCHES if values.get(name) == "true"]
        known, forbidding = self._history.brokers.get(broker), self._forbidding.setdefault(owner, {})
        if not found:
            forbidding.pop(broker, None)
        elif known is not None and known.czxid == broker_epoch:
            forbidding[broker] = found[0]

    def on_event_end(self, owner: str, time: float, *, is_active: bool) -> None:
        """Judge an instance that has handled an event."""
        for broker, name in sorted(self._forbidding.get(owner, {}).items()) if is_active else ():
            self._report("S-05", time, f"{owner} leads, and broker {broker} has {name}")
