"""The values that the controller uses for the settings of the cluster, each with its source, at one moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from controllerd.core.cluster_settings import (
    MIN_ISR,
    PROTOCOL_VERSION,
    QUOTA_SAMPLES,
    QUOTA_SECONDS,
    UNCLEAN,
    Policy,
    Setting,
    is_same,
)
from controllerd.core.model import BrokerId, Features
from controllerd.core.mutation_quota import QuotaWindow
from controllerd.core.protocol_versions import LOWEST, parse_broker_version


class Source(Enum):
    """The source of the value of a setting."""

    CONFIGURED = "configured"
    """The configuration of this instance."""
    BROKERS = "brokers"
    """All live brokers that have answered agree."""
    MAJORITY = "majority"
    """Brokers disagree, and the majority has this value."""
    SAFER = "safer"
    """Brokers disagree, and this value does less harm."""
    WAITING = "waiting"
    """A broker has not answered since it or this process started, and may have died since. Its value may be this one,
    which does less harm."""
    CACHE = "cache"
    """No live broker has answered yet; brokers gave this value last."""
    ZOOKEEPER = "zookeeper"
    """No broker has ever given a value; ZooKeeper shows that this one was in use."""
    DYNAMIC = "dynamic"
    """Dynamic configurations of brokers, which the controller reads from ZooKeeper, override the value."""
    DEFAULT = "default"
    """Neither the configuration, nor a broker, nor ZooKeeper has ever given a value."""


class Resolved(NamedTuple):
    """A setting with the value that is used, and why."""

    setting: Setting
    value: str
    source: Source
    origin: str | None
    """Where it is configured here; None if it is not."""
    brokers: Mapping[BrokerId, str]
    """The value of each live broker, as far as it is known."""
    decided_by: tuple[BrokerId, ...] = ()
    """The brokers that are gone and whose last answer holds the value."""

    @property
    def differing(self) -> dict[BrokerId, str]:
        """The brokers whose value is not the one in use."""
        return {broker: text for broker, text in self.brokers.items() if not is_same(self.setting, text, self.value)}

    @property
    def problem(self) -> str | None:
        """The problem that an operator must know; None if there is none, or not all brokers have answered yet."""
        if self.source in {Source.ZOOKEEPER, Source.DEFAULT, Source.DYNAMIC, Source.WAITING}:
            return None
        differing = ", ".join(f"broker {broker} says {text}" for broker, text in sorted(self.differing.items()))
        if not differing:
            return None
        return f"{self.setting.name}: {self.value} {self._why}, but {differing}"

    @property
    def _why(self) -> str:
        if self.source is Source.CONFIGURED:
            return f"is configured here ({self.origin}) and used"
        if self.setting.name == PROTOCOL_VERSION:
            return self._why_this_version
        if self.decided_by:
            gone = " and ".join(f"broker {broker}" for broker in self.decided_by)
            return f"is used as the last answer of {gone}, now gone (configure {self.setting.key} to decide it)"
        return "is used as what most brokers say" if self.source is Source.MAJORITY else "is used as the safer value"

    @property
    def _why_this_version(self) -> str:
        used = parse_broker_version(self.value)
        if not any(parse_broker_version(text) < used for text in self.brokers.values()):
            return "is used as the lowest of all"
        is_lowest = used == parse_broker_version(LOWEST)
        return "is used as the lowest that is served" if is_lowest else "never falls by itself and is used"


class UncleanDefault(NamedTuple):
    """Whether unclean elections are on by default, without and with a dynamic default of all brokers."""

    is_on: bool = False
    """Without a dynamic default."""
    is_held_off: bool = False
    """Whether they are off although the dynamic default turns them on."""
    is_held_on: bool = False
    """Whether they are on although the dynamic default turns them off."""
    awaited: tuple[BrokerId, ...] = ()
    """The brokers that have not answered since they or this process started; some of them may have died since."""

    def under(self, dynamic: bool | None) -> bool:
        """Return whether they are on with this dynamic default, which the controller reads from its znode.

        The default overrides the configuration here and the files of brokers. But the dynamic
        configuration of a single broker overrides the default (``DynamicBrokerConfig``). So the default
        has no effect while one broker has unclean elections turned off by its own dynamic
        configuration, or while every broker has them turned on by its own. Nor does it turn them on
        while a broker has not answered since it or this process started, because that broker may have
        them turned off by its own.
        """
        if dynamic is None:
            return self.is_on
        return self.is_held_on or (dynamic and not self.is_held_off)


NEVER_UNCLEAN: Final = UncleanDefault()


@dataclass(frozen=True, slots=True)
class Resolution:
    """All settings at one moment, with the policy and the features that follow from them."""

    settings: Mapping[str, Resolved]
    refusal: str | None = None
    """Why this controller must not lead; None if no reason is known."""
    unclean: UncleanDefault = NEVER_UNCLEAN
    """Whether replicas outside the ISR may be elected, for topics without a value of their own."""
    policy: Policy = field(default_factory=Policy)
    features: Features = field(default_factory=Features)

    @property
    def values(self) -> dict[str, str]:
        """The value of each setting by Kafka's name."""
        return {name: resolved.value for name, resolved in self.settings.items()}

    @property
    def problems(self) -> dict[str, str]:
        """The problems that an operator must know, by the name of the setting."""
        found = {name: resolved.problem for name, resolved in self.settings.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    @property
    def unclean_awaits(self) -> tuple[BrokerId, ...]:
        """The brokers whose missing answers decide whether unclean elections are on."""
        is_open = self.settings[UNCLEAN].source in {Source.WAITING, Source.DEFAULT}
        return self.unclean.awaited if is_open else ()

    def number(self, name: str) -> int:
        """The value of a setting that is a number."""
        return int(self.settings[name].value)

    def is_on(self, name: str) -> bool:
        """The value of a setting that is a switch."""
        return self.settings[name].value.lower() == "true"

    @property
    def quota_window(self) -> QuotaWindow:
        """For how long the rate of a quota of partitions may be saved up."""
        return QuotaWindow(self.number(QUOTA_SAMPLES), self.number(QUOTA_SECONDS))

    @property
    def min_isr(self) -> int | None:
        """The cluster's ``min.insync.replicas``; None while it is not known."""
        return None if self.settings[MIN_ISR].source is Source.DEFAULT else self.number(MIN_ISR)


class ConfiguredTopics:
    """The defaults of topics: configured here or on the brokers, and overridden by dynamic ones of the cluster."""

    def __init__(self, settings: Callable[[], Resolution]) -> None:
        """``settings`` returns the settings of the cluster as they are known now."""
        self._settings = settings
        self._dynamic: bool | None = None

    def set_unclean_by_default(self, value: bool | None) -> None:
        """Set the dynamic default of all brokers, which overrides the configured one; None: there is none."""
        self._dynamic = value

    def unclean_by_default(self) -> bool:
        """``unclean.leader.election.enable`` of the cluster."""
        return self._settings().unclean.under(self._dynamic)
