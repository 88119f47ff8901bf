"""The known settings of the brokers of the cluster, and the values that the controller uses.

The event task is the only writer. The answers outlive the terms of the controller, and (in the data
directory) the process, so that a takeover need not wait for any broker.

The value of each setting comes from the first of these sources that has one: the configuration of
this instance; the live brokers; the last answers of these or earlier brokers (the cache); a value
that cannot do harm.

**The protocol version** decides which requests brokers get and what is written to ZooKeeper, and much
of this cannot be undone: topics get ids, states get fields. Therefore

* it is the lowest version of the live brokers, because a broker understands nothing above its own;
* it rises only when every live broker has given its version to this process, in its present life (the time
  since its last registration): a broker that has not answered may be the one whose version was not raised;
* it never falls by itself while the instance keeps its data directory (with a new one, the instance
  knows only the lower bound below). A broker with a lower version than the cluster's was started with a wrong
  configuration, or an operator rolls the cluster back, which Kafka does not support. In either case a
  fall would make every other broker forget the topic ids, so that an operator has to decide it (by
  configuring the version here);
* ZooKeeper shows its lower bound, unless it is configured here: a controller that wrote topic ids, or
  ``/feature``, had the version for it. The bound holds for a kept version, because an instance that was
  away for months kept the version of that time, and for one that all live brokers have named, because
  one of them may have a wrong configuration. Too low a version for a moment withholds optional
  behaviour, but turns ``/feature`` off and loses the finalized features; too high a version sends
  brokers requests that they do not understand.

**Unclean elections are on only if every registered broker that the active controller serves has
answered so to this process, in its present life.** A broker that registers may have them turned off, may be
the only live replica of a partition, and would be elected in the event in which it is found. An earlier
answer proves nothing about it: brokers are restarted in order to turn the switch off, also while no
instance runs. So the handlers call ``expect`` for the brokers of a takeover, and for brokers that
register, before any leader is elected. The cost is the time until the answer, in which such a partition
stays without a leader. The controller also waits for a broker that dies before it has answered: it may
have been the only ISR member of a partition, and its earlier answer proves as little after its death.
The wait ends when the broker registers again and answers, or when the setting is configured here. A
standby sees the registrations as well, and waits for the same brokers when it becomes active.

**A switch that is turned off stays off when the broker that turned it off dies.** Its death is the
moment at which the switch decides: it may have been the only ISR member of a partition, and with
``unclean.leader.election.enable`` counted as on from then on, its records would be lost. So the last
answer of a broker that is gone counts for such switches, also in the cache, until the broker returns
with another value or the setting is configured here. An answer may be handled only after the death of
its broker: it counts as the last one. The dynamic default of all brokers is read from its znode, and
the values that it overrides are kept beside it, because they hold again when it is deleted. An
authorizer, and everything else with which this controller must not lead, counts beyond the death of its
broker for the same reason (``refusal``).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from controllerd.core.broker_answers import BrokerAnswers, SettingsAnswer
from controllerd.core.cluster_settings import (
    AUTO_REBALANCE,
    BY_NAME,
    DELETE_TOPICS,
    IMBALANCE_INTERVAL,
    IMBALANCE_PERCENTAGE,
    KAFKAS_DEFAULTS,
    PARTITIONS,
    PROTOCOL_VERSION,
    REPLICATION_FACTOR,
    SETTINGS,
    TIERED_STORAGE,
    TOKEN_CHECK,
    UNCLEAN,
    Policy,
    Setting,
    Texts,
    is_safe_off,
    is_same,
    merged,
    refusal,
)
from controllerd.core.model import BrokerId, Features
from controllerd.core.protocol_versions import LOWEST, features_at, parse_broker_version, release_of_protocol
from controllerd.core.resolved_settings import NEVER_UNCLEAN, Resolution, Resolved, Source, UncleanDefault


class Configured(NamedTuple):
    """A setting in the configuration of this instance: its value as Kafka writes it, and the place of the setting."""

    value: str
    origin: str


class Remembered(NamedTuple):
    """The content of the file in the data directory: the last answers, and the cluster's protocol version."""

    answers: Mapping[BrokerId, SettingsAnswer] = {}
    protocol_version: str | None = None


class SettingsBook:
    """The answers of brokers, and the settings that follow from them."""

    def __init__(
        self,
        configured: Mapping[str, Configured] | None = None,
        *,
        fixed: tuple[Policy, Features] | None = None,
    ) -> None:
        """``configured`` is by Kafka's names.

        ``fixed`` is a policy with its features that no answer changes, for a controller that is
        wholly configured by its caller.
        """
        self._configured: Final = dict(configured or {})
        self._fixed: Final = fixed
        self._answers: Final = BrokerAnswers()
        given = self._configured.get(PROTOCOL_VERSION)
        self._protocol: str | None = None if given is None else given.value
        self._evidence = LOWEST
        self.current: Resolution = self._resolve()

    @property
    def policy(self) -> Policy:
        """The policy of the controller."""
        return self.current.policy

    @property
    def features(self) -> Features:
        """The optional behaviour that the cluster's protocol version allows."""
        return self.current.features

    @property
    def is_protocol_known(self) -> bool:
        """Whether the protocol version is known: configured here, or named by brokers, now or earlier."""
        source = self.current.settings[PROTOCOL_VERSION].source
        return self._fixed is not None or source not in {Source.ZOOKEEPER, Source.DEFAULT}

    @property
    def needs_evidence(self) -> bool:
        """Whether the protocol version may be older than ZooKeeper's evidence: it is not configured here."""
        return self._fixed is None and self.current.settings[PROTOCOL_VERSION].source is not Source.CONFIGURED

    @property
    def needs_brokers(self) -> bool:
        """Whether no broker's answer is known, so that the first answer is worth a short wait."""
        return self._fixed is None and not self._answers.counting

    def recall(self, known: Remembered) -> None:
        """Begin with the settings that an earlier process knew, unless newer ones are known."""
        self._answers.recall(known.answers)
        if self._protocol is None:
            self._protocol = known.protocol_version
        self.current = self._resolve()

    def remembered(self) -> Remembered:
        """Return the answers and the version to keep beyond the end of the process."""
        return Remembered({**self._answers.forbidding, **self._answers.counting}, self._protocol)

    def unanswered(self, registered: Mapping[BrokerId, int]) -> tuple[BrokerId, ...]:
        """Return those of the given brokers that have not answered this process in the life with the given epoch."""
        return self._answers.unanswered(registered)

    def of_broker(self, broker: BrokerId) -> Resolution:
        """Return the settings as they follow from the answer of this broker alone, and from the configuration here.

        Before the broker has answered in its present life, no answer counts.
        """
        book = SettingsBook(self._configured, fixed=self._fixed)
        answer = self._answers.counting.get(broker)
        if answer is not None and answer.broker_epoch == self._answers.registered.get(broker):
            book.take({broker: answer}, {broker: answer.broker_epoch})
        return book.current

    def would_change(self, answers: Mapping[BrokerId, SettingsAnswer], registered: Mapping[BrokerId, int]) -> bool:
        """Whether ``take`` with the same arguments would change anything."""
        return self._answers.would_change(answers, registered)

    def take(self, answers: Mapping[BrokerId, SettingsAnswer], registered: Mapping[BrokerId, int]) -> None:
        """Take the answers of brokers; ``registered`` are the epochs of all registered brokers.

        An answer of a broker that is not registered is ignored, unless it is from the last known life of
        this broker, or from a later one. As soon as a live broker has answered, the answer of a broker that
        is gone counts only if it forbids something (``counts_when_gone``).
        """
        self._answers.take(answers, registered)
        self._let_protocol_rise()
        self.current = self._resolve()

    def _let_protocol_rise(self) -> None:
        """Raise the version to the lowest of the live brokers, as soon as all of them are known."""
        live = self._answers.registered
        if PROTOCOL_VERSION in self._configured or not live or not self._answers.has_all:
            return
        texts = {broker: self._answers.last(broker).values[PROTOCOL_VERSION] for broker in live}
        floor = self._evidence if self._protocol is None else _higher(self._protocol, self._evidence)
        lowest = merged(BY_NAME[PROTOCOL_VERSION], texts)
        self._protocol = _higher(floor, lowest)

    def expect(self, registered: Mapping[BrokerId, int]) -> None:
        """Await the answers of brokers that have registered with these epochs; call it before any of them can lead.

        Until they answer, unclean elections are off, unless they are turned on in the configuration here. Nothing
        else changes, and the protocol version in particular does not: it rises only in ``take`` and
        ``note_evidence``, whose callers begin a new term, or are about to load everything.
        """
        self._answers.expect(registered)
        self.current = self._resolve()

    def note_evidence(self, version: str) -> None:
        """Take a lower bound of the cluster's protocol version, which the content of ZooKeeper shows."""
        if parse_broker_version(version) > parse_broker_version(self._evidence):
            self._evidence = version
            self._let_protocol_rise()
            self.current = self._resolve()

    # -- resolving ---------------------------------------------------------------------------------------------------

    def _resolve(self) -> Resolution:
        texts_of = {broker: answer.values for broker, answer in self._answers.counting.items()}
        gone = {broker: answer.values for broker, answer in self._answers.forbidding.items()}
        settings = {setting.name: self._resolved(setting, texts_of) for setting in SETTINGS}
        found = Resolution(settings, refusal(texts_of, gone), self._unclean())
        policy, features = self._fixed or (_policy(found), _features(found))
        refused = found.refusal if self._fixed is None else None
        return Resolution(settings, refused, found.unclean, policy, features)

    def _unclean(self) -> UncleanDefault:
        """Return whether unclean elections are on by default.

        A broker that has not answered in its last life forbids them, and so may the last answer of a dead broker.
        """
        given = self._configured.get(UNCLEAN)
        if self._fixed is not None:
            return NEVER_UNCLEAN
        if given is not None:
            return UncleanDefault(is_on=given.value.lower() == "true")
        answers = [*self._answers.counting.values(), *self._answers.forbidding.values()]
        own = [answer for answer in answers if UNCLEAN in answer.of_broker]
        awaited = self._answers.awaited
        has_all = bool(self._answers.counting) and not awaited
        return UncleanDefault(
            is_on=has_all and not any(answer.is_off(UNCLEAN) for answer in answers),
            is_held_off=not has_all or any(answer.is_off(UNCLEAN) for answer in own),
            is_held_on=has_all and len(own) == len(answers) and not any(answer.is_off(UNCLEAN) for answer in own),
            awaited=awaited,
        )

    def _resolved(self, setting: Setting, texts_of: Mapping[BrokerId, Texts]) -> Resolved:
        texts = {broker: values[setting.name] for broker, values in sorted(texts_of.items())}
        given = self._configured.get(setting.name)
        if given is not None:
            return Resolved(setting, given.value, Source.CONFIGURED, given.origin, self._without_default(setting.name))
        if setting.name == PROTOCOL_VERSION:
            return self._resolved_protocol(setting, texts)
        if not texts:
            return Resolved(setting, setting.cautious or setting.default, Source.DEFAULT, None, texts)
        value = merged(setting, texts)
        holding = self._turned_off_by(setting)
        if holding and value.lower() == "true":
            return Resolved(setting, "false", Source.SAFER, None, texts, holding)
        if setting.name == UNCLEAN and self._is_waited_for(setting, texts, holding):
            return Resolved(setting, "false", Source.WAITING, None, texts)
        return Resolved(setting, value, self._source(setting, value, texts), None, texts)

    def _is_waited_for(self, setting: Setting, texts: Mapping[BrokerId, str], holding: tuple[BrokerId, ...]) -> bool:
        """Whether only brokers that have not answered in their last lives keep this switch from being on."""
        awaited = set(self._answers.awaited)
        answered = {broker: text for broker, text in texts.items() if broker not in awaited}
        is_allowed = not answered or merged(setting, answered).lower() == "true"
        return bool(awaited) and awaited.issuperset(holding) and is_allowed

    def _without_default(self, name: str) -> dict[BrokerId, str]:
        """Return the values of brokers without the dynamic default, which overrides the configured value as well."""
        answers = sorted(self._answers.counting.items())
        return {broker: answer.hidden.get(name, answer.values[name]) for broker, answer in answers}

    def _turned_off_by(self, setting: Setting) -> tuple[BrokerId, ...]:
        """The brokers that are gone and had this switch turned off; none if a dynamic default overrides the switch."""
        if not is_safe_off(setting) or any(setting.name in answer.hidden for answer in self._answers.counting.values()):
            return ()
        holding = {each for each, answer in self._answers.forbidding.items() if answer.is_off(setting.name)}
        # A broker that is registered again is asked again. Unclean elections wait for its answer (``awaited``), so its
        # last answer need not hold them off. Other switches do not wait: its last answer counts until it answers.
        return tuple(sorted(holding - self._answers.registered.keys() if setting.name == UNCLEAN else holding))

    def _source(self, setting: Setting, value: str, texts: Mapping[BrokerId, str]) -> Source:
        agreeing = sum(is_same(setting, value, text) for text in texts.values())
        if agreeing == len(texts):
            return Source.BROKERS if self._answers.has_fresh else Source.CACHE
        is_size = setting.merge.name.startswith("MOST")
        return Source.MAJORITY if is_size and 2 * agreeing > len(texts) else Source.SAFER

    def _resolved_protocol(self, setting: Setting, texts: Mapping[BrokerId, str]) -> Resolved:
        known = self._protocol
        if known is None or parse_broker_version(known) < parse_broker_version(self._evidence):
            source = Source.ZOOKEEPER if self._evidence != LOWEST else Source.DEFAULT
            return Resolved(setting, self._evidence, source, None, texts)
        return Resolved(setting, known, self._source_of_protocol(known, texts), None, texts)

    def _source_of_protocol(self, adopted: str, texts: Mapping[BrokerId, str]) -> Source:
        used = parse_broker_version(adopted)
        versions = [parse_broker_version(text) for text in texts.values()]
        if not self._answers.has_fresh or not versions or min(versions) != used:
            return Source.CACHE
        return Source.BROKERS if max(versions) == used else Source.SAFER


def _higher(one: str, other: str) -> str:
    return one if parse_broker_version(one) > parse_broker_version(other) else other


def _policy(found: Resolution) -> Policy:
    unknown = frozenset(name for name, each in found.settings.items() if each.source is Source.DEFAULT)
    return Policy(
        delete_topic_enable=found.is_on(DELETE_TOPICS),
        auto_leader_rebalance_enable=found.is_on(AUTO_REBALANCE),
        leader_imbalance_per_broker_percentage=found.number(IMBALANCE_PERCENTAGE),
        leader_imbalance_check_interval_s=float(found.number(IMBALANCE_INTERVAL)),
        num_partitions=found.number(PARTITIONS),
        default_replication_factor=found.number(REPLICATION_FACTOR),
        tiered_storage=found.is_on(TIERED_STORAGE),
        protocol_release=release_of_protocol(found.settings[PROTOCOL_VERSION].value),
        delegation_token_expiry_check_interval_s=found.number(TOKEN_CHECK) / 1000,
        unknown=unknown,
    )


def _features(found: Resolution) -> Features:
    return features_at(parse_broker_version(found.settings[PROTOCOL_VERSION].value))


def fixed_settings(policy: Policy = KAFKAS_DEFAULTS, features: Features | None = None) -> SettingsBook:
    """Return settings that no broker changes, by default Kafka's own of its last release."""
    return SettingsBook(fixed=(policy, features or Features()))
