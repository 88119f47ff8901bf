"""The answers of brokers about their settings: which of them count, and which brokers have not answered.

The life of a broker is the time from one registration to the next. The czxid of the registration is the broker epoch of
this life, so that a later life has a higher epoch. An answer is about the life in which it was given, because a broker
may be restarted in order to change its settings.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from controllerd.core.cluster_settings import SETTINGS, Texts, forbidden, is_safe_off
from controllerd.core.model import BrokerId


class SettingsAnswer(NamedTuple):
    """The settings of a broker in its life with this epoch; ``values`` is complete (``understood``)."""

    broker_epoch: int
    values: Texts
    hidden: Texts = MappingProxyType({})
    """The broker's own values of the settings that the dynamic default of all brokers overrides, by Kafka's names."""
    of_broker: frozenset[str] = frozenset()
    """The settings whose values are dynamic configurations of this broker alone, by Kafka's names."""

    def is_off(self, name: str) -> bool:
        """Whether a switch is turned off on this broker when the dynamic default of all brokers is left out."""
        return self.hidden.get(name, self.values[name]).lower() == "false"

    @property
    def counts_when_gone(self) -> bool:
        """Whether the answer forbids something: a switch is off, or a setting with which controllerd must not lead."""
        is_any_off = any(is_safe_off(setting) and self.is_off(setting.name) for setting in SETTINGS)
        return is_any_off or forbidden(self.values) is not None


class BrokerAnswers:
    """The last answer of each broker, and the lives of the brokers."""

    def __init__(self) -> None:
        self.counting: dict[BrokerId, SettingsAnswer] = {}
        """The answers whose values count: of live brokers, or earlier answers while no live broker has any."""
        self.registered: Mapping[BrokerId, int] = {}
        """The live brokers, with the epochs of their lives."""
        self._gone: dict[BrokerId, SettingsAnswer] = {}
        """The last answers of brokers that are gone."""
        self._answered: set[BrokerId] = set()
        """The brokers that have answered this process; each has its last answer in ``counting`` or ``_gone``."""
        self._lives: dict[BrokerId, int] = {}
        """The brokers that this process has seen registered, with the epochs of their last lives."""

    @property
    def forbidding(self) -> dict[BrokerId, SettingsAnswer]:
        """The last answers of brokers that are gone, as far as they forbid something."""
        return {broker: answer for broker, answer in self._gone.items() if answer.counts_when_gone}

    @property
    def has_fresh(self) -> bool:
        """Whether any live broker has answered this process since the broker started."""
        return len(self.unanswered(self.registered)) < len(self.registered)

    @property
    def has_all(self) -> bool:
        """Whether every live broker has answered this process since the broker started, and any answer is known."""
        return bool(self.counting) and not self.unanswered(self.registered)

    @property
    def awaited(self) -> tuple[BrokerId, ...]:
        """The brokers that have not answered this process in their last lives, in which they may have died."""
        return self.unanswered(self._lives)

    def unanswered(self, lives: Mapping[BrokerId, int]) -> tuple[BrokerId, ...]:
        """Return those of the given brokers that have not answered this process in the life with the given epoch."""
        answered = {broker: self.last(broker).broker_epoch for broker in self._answered & lives.keys()}
        return tuple(sorted(broker for broker, epoch in lives.items() if answered.get(broker, -1) < epoch))

    def last(self, broker: BrokerId) -> SettingsAnswer:
        """Return the last answer of a broker that has given one."""
        return self.counting.get(broker) or self._gone[broker]

    def recall(self, answers: Mapping[BrokerId, SettingsAnswer]) -> None:
        """Begin with the answers to an earlier process; an answer to this process takes precedence."""
        self.counting = {**answers, **self.counting}

    def expect(self, lives: Mapping[BrokerId, int]) -> None:
        """Note that these brokers are live as well, so that their answers are awaited."""
        self._register({**self.registered, **lives})

    def would_change(self, answers: Mapping[BrokerId, SettingsAnswer], registered: Mapping[BrokerId, int]) -> bool:
        """Whether ``take`` with the same arguments would change anything."""
        last = self._of_last_lives(answers, registered)
        return dict(registered) != self.registered or any(
            broker not in self._answered or self.last(broker) != answer for broker, answer in last.items()
        )

    def take(self, answers: Mapping[BrokerId, SettingsAnswer], registered: Mapping[BrokerId, int]) -> None:
        """Take the answers of brokers; ``registered`` are the epochs of all live brokers.

        An answer of a broker that is not live is ignored, unless it is from the last known life of this
        broker, or from a later one.
        """
        last = self._of_last_lives(answers, registered)
        self._register(registered)
        self._answered |= last.keys()
        self._add_counting(last)
        if any(broker in registered for broker in self.counting):
            self._move_gone()

    def _of_last_lives(
        self, answers: Mapping[BrokerId, SettingsAnswer], registered: Mapping[BrokerId, int]
    ) -> dict[BrokerId, SettingsAnswer]:
        """Return the answers of live brokers, and of brokers that have died since they answered."""
        return {
            broker: answer
            for broker, answer in answers.items()
            if broker in registered or (broker in self._lives and answer.broker_epoch >= self._lives[broker])
        }

    def _register(self, lives: Mapping[BrokerId, int]) -> None:
        """Take the live brokers.

        If a broker is live again in the same life in which it answered, its answer counts again.
        """
        self.registered = dict(lives)
        self._lives |= lives
        self._add_counting(
            {broker: each for broker, each in self._gone.items() if lives.get(broker) == each.broker_epoch}
        )

    def _add_counting(self, answers: Mapping[BrokerId, SettingsAnswer]) -> None:
        self.counting |= answers
        self._gone = {broker: answer for broker, answer in self._gone.items() if broker not in answers}

    def _move_gone(self) -> None:
        self._gone |= {broker: answer for broker, answer in self.counting.items() if broker not in self.registered}
        self.counting = {broker: answer for broker, answer in self.counting.items() if broker in self.registered}
