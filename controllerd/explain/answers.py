"""The answer of an explanation and its parts: conditions, causes, phrases, remedies, and its lines of text. Pure.

Remedies are chosen by the code of a cause, so that the same cause has the same remedy everywhere.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from controllerd.core.kafka_error import KafkaError
from controllerd.core.text import visible
from controllerd.record.envelope import RecentRecord
from controllerd.record.moments import moment
from controllerd.views import ClusterView, Role

OK: Final = "ok"
WARNING: Final = "warning"
CRITICAL: Final = "critical"
_SEVERITIES: Final = (OK, WARNING, CRITICAL)


class Condition(StrEnum):
    """The condition of a partition or topic, worst first."""

    OFFLINE = "offline"
    WAITING = "waiting"
    QUARANTINED = "quarantined"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    UNDER_REPLICATED = "under-replicated"
    UNKNOWN = "unknown"
    DELETING = "deleting"
    REASSIGNING = "reassigning"
    NON_PREFERRED = "non-preferred"
    HEALTHY = "healthy"

    @property
    def severity(self) -> str:
        """The severity of the condition alone."""
        return _SEVERITY_OF.get(self, OK)


_SEVERITY_OF: Final = {
    Condition.OFFLINE: CRITICAL,
    Condition.WAITING: CRITICAL,
    Condition.QUARANTINED: CRITICAL,
    Condition.UNDER_MIN_ISR: CRITICAL,
    Condition.AT_MIN_ISR: WARNING,
    Condition.UNDER_REPLICATED: WARNING,
    Condition.UNKNOWN: WARNING,
}


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of the condition of a partition or topic. ``code`` is stable and meant for programs."""

    code: str
    sentence: str
    broker: int | None = None
    since: str | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about one topic or partition: its condition, the causes, and the remedies."""

    subject: str
    """``payments`` or ``payments-7``."""
    condition: str
    """``healthy``, ``offline``, ``under-replicated``, ``at-min-isr``, ``under-min-isr``, ``non-preferred``,
    ``waiting``, ``deleting``, ``reassigning``, ``quarantined``, ``unknown`` (the worst of all that apply)."""
    severity: str
    """``ok``, ``warning`` or ``critical``."""
    headline: str
    """``payments-7 is OFFLINE for 4m12s (since 10:02:11Z, event 88121 BrokerChange)``"""
    since: str | None
    causes: list[Cause]
    """The decisive one first; empty when all is well."""
    facts: list[str]
    """Lines such as ``replicas 3,5,6   isr 5   leader -1 (was 5, epoch 41)   unclean election: disabled (topic)``."""
    next: list[str]
    """Steps to take, as sentences and commands that can be copied; empty when nothing is to be done."""
    others: list[str] = []
    """For a topic: its partitions that are not healthy, each in one line."""


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a partition, a topic or a broker; ``was`` and ``now`` are texts for people."""

    at: str
    at_ms: int
    event_id: int
    event: str
    """Name of the event that was being handled."""
    what: str
    """``leader``, ``isr``, ``state``, ``assignment``, ``reassignment``, ``quarantine`` or ``refused``; of a topic
    ``topic`` or ``deletion``; of a broker ``broker`` or ``log-dirs``."""
    was: str
    now: str
    reason: str
    """The reason, such as the strategy of the election or the cause of a refusal; empty if the event is the reason."""


@dataclass(slots=True)
class Diagnosis:
    """An answer under construction: the condition, its causes with the decisive one first, and the next steps."""

    condition: str
    severity: str
    headline: str
    since: RecentRecord | None = None
    causes: list[Cause] = field(default_factory=list)
    next: list[str] = field(default_factory=list)

    def add_causes(self, *causes: Cause | None) -> None:
        """Add causes that are not there yet."""
        self.causes += [each for each in causes if each is not None and each not in self.causes]

    def has_cause(self, *codes: str) -> bool:
        """Whether one of the causes has one of these codes."""
        return any(each.code in codes for each in self.causes)

    def raise_severity(self, severity: str) -> None:
        """Raise the severity to this one, unless it is higher."""
        self.severity = max(self.severity, severity, key=_SEVERITIES.index)

    def add_steps(self, *steps: str) -> None:
        """Add steps to take, except those that a longer step begins with."""
        for step in steps:
            longer = (f"{step}:", f"{step},", f"{step} (")
            if not any(present == step or present.startswith(longer) for present in self.next):
                self.next.append(step)

    def add_broker_remedies(self) -> None:
        """Add the remedies of the causes that concern a broker."""
        absent = {each.broker for each in self.causes if each.code in _ABSENT and each.broker is not None}
        if absent:
            self.add_steps(f"bring {brokers_of(sorted(absent))} back")
        for each in self.causes:
            self.add_steps(*(text.format(broker=each.broker) for text in _REMEDIES.get(each.code, ())))

    def answer(self, subject: str, facts: list[str], others: Sequence[str] = ()) -> Why:
        """Return the finished answer."""
        return Why(
            subject=subject,
            condition=str(self.condition),
            severity=self.severity,
            headline=self.headline,
            since=moment(self.since.at_ms) if self.since is not None else None,
            causes=self.causes,
            facts=facts,
            next=self.next,
            others=list(others),
        )


def cause(code: str, sentence: str, *, broker: int | None = None, since: RecentRecord | None = None) -> Cause:
    """One cause; ``since``: the record of the change that is the cause."""
    return Cause(code=code, sentence=sentence, broker=broker, since=moment(since.at_ms) if since else None)


def lines(why: Why) -> list[str]:
    """Return the answer as lines of text: headline, facts and causes, partitions of a topic, next steps."""
    text = [why.headline]
    text += [f"  {fact}" for fact in why.facts]
    text += [f"  {cause.sentence}" for cause in why.causes]
    text += [f"  - {other}" for other in why.others]
    text += [f"{'      ' if at else 'next: '}{step}" for at, step in enumerate(why.next)]
    return [visible(line) for line in text]


# -- phrases: short, and times in UTC ----------------------------------------------------------------------------------

_DAY_MS: Final = 24 * 3_600_000
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_ERRORS: Final = frozenset(map(int, KafkaError))


def clock(at_ms: int, now_ms: int) -> str:
    """``10:02:11Z``; with the date if that is more than a day ago."""
    day, _, time = moment(at_ms).partition("T")
    return f"{time[:8]}Z" if abs(now_ms - at_ms) < _DAY_MS else f"{day} {time[:8]}Z"


def span(seconds: float) -> str:
    """``4m12s``: the two largest units."""
    left, parts = max(int(seconds), 0), list[str]()
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number or parts or unit == "s":
            parts.append(f"{number}{unit}")
    return "".join(parts[:2])


def ids(brokers: Iterable[int]) -> str:
    """``3,5,6``, or ``none``."""
    return ",".join(map(str, brokers)) or "none"


def brokers_of(brokers: Sequence[int]) -> str:
    """``broker 5``, or ``brokers 5,6``."""
    return f"broker{'s' * (len(brokers) != 1)} {ids(brokers)}"


def error_name(code: int) -> str:
    """An error under Kafka's name, or by its number."""
    return KafkaError(code).name if code in _ERRORS else f"error {code}"


def one_line(text: str) -> str:
    """A text of another component as part of a sentence: on one line, without a full stop at its end."""
    return " ".join(text.split()).rstrip(".")


def some(names: Sequence[str], limit: int = 12) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


# -- remedies ----------------------------------------------------------------------------------------------------------

_REQUESTS: Final = "controllerctl get requests --broker {broker}"
_ABSENT: Final = frozenset({"broker-gone", "broker-shut-down"})
_REMEDIES: Final[Mapping[str, tuple[str, ...]]] = {
    "broker-shutting-down": ("let broker {broker} stop and start again: it catches up by itself",),
    "broker-quarantined": ("correct the registration of broker {broker} (its listeners, its release), and restart it",),
    "log-dir-failed": ("repair the log directory of broker {broker} and restart it",),
    "broker-unreachable": ("check that this host can reach the listener of broker {broker}:", _REQUESTS),
    "broker-slow": ("check broker {broker}: its request handlers, its disk, its garbage collection", _REQUESTS),
    "broker-refuses": ("the log of broker {broker} contains the reason for the refusal:", _REQUESTS),
    "replica-lagging": (
        "check broker {broker}: its disk, its network, its replica fetchers",
        "controllerctl describe broker {broker}",
    ),
    "replica-catching-up": ("wait until broker {broker} has caught up",),
}
_KAFKA_COMMANDS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], str]], ...]] = (
    (
        re.compile(r"controllerctl elect (\w+) (--topic \S+ --partition \d+)"),
        lambda match, at: f"kafka-leader-election.sh --bootstrap-server {at} --election-type {match[1]} {match[2]}",
    ),
    (
        re.compile(r"controllerctl reassign cancel (\S+)"),
        lambda match, at: (
            f"kafka-reassign-partitions.sh --bootstrap-server {at} --cancel --reassignment-json-file FILE "
            f"(a file that names {match[1]})"
        ),
    ),
    (
        # A built-in controller waits for the response of that broker, and no request can end this wait.
        re.compile(r"controllerctl brokers forget (\d+) .*"),
        lambda match, _at: f"start a broker with the id {match[1]} on an empty disk",
    ),
)


def steps_for_holder(snapshot: ClusterView, steps: Sequence[str]) -> list[str]:
    """Return the steps, with Kafka's own tools if this instance observes the built-in controller of a broker."""
    holder = snapshot.holder
    if snapshot.role is not Role.OBSERVER or holder is None or holder.is_controllerd:
        return list(steps)
    endpoints = (broker.endpoints[0] for _, broker in sorted(snapshot.brokers.items()) if broker.endpoints)
    at = next((f"{one.host}:{one.port}" for one in endpoints), "HOST:PORT")
    return [_as_kafka_command(step, at) for step in steps]


def _as_kafka_command(step: str, at: str) -> str:
    for command, kafka_command in _KAFKA_COMMANDS:
        if match := command.fullmatch(step):
            return kafka_command(match, at)
    return step
