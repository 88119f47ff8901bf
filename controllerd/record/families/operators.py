"""Kinds that do not change the state of a cluster: observations, requests of operators, and settings in use.

The fold ignores them. Each type is here beside its description, as a new kind should be.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from controllerd.core.text import counted
from controllerd.record.description import RecordKind
from controllerd.record.facts import Facts, json_of, one_row
from controllerd.record.phrases import listed, tally
from controllerd.record.records import Record


@dataclass(frozen=True, slots=True)
class ObservationRecord(Record):
    """An observation: partitions that changed by one cause, and the verdicts about them; columns.

    ``cause`` is the event that led to the changes. If ZooKeeper does not show it, it is the most likely one: then the
    dry run does nothing, and ``verdicts`` are ``not judged``. Where a partition has no state (before, after, or in the
    result of the dry run), leader and leader epoch are -2 and the ISR is empty. ``verdicts`` name the fields that
    differ, or the reason why none could be named. ``continues``: the record continues the previous one.
    """

    kind: ClassVar[str] = "observation"

    cause: str
    subjects: list[str]
    controller_epoch: int
    topics: list[str]
    partitions: list[int]
    leaders_before: list[int]
    leader_epochs_before: list[int]
    isrs_before: list[list[int]]
    leaders_would: list[int]
    leader_epochs_would: list[int]
    isrs_would: list[list[int]]
    leaders_after: list[int]
    leader_epochs_after: list[int]
    isrs_after: list[list[int]]
    verdicts: list[str]
    continues: bool = False


def _observation_sentence(record: ObservationRecord) -> str:
    return f"{record.cause}: {counted(len(record.partitions), 'partition')} compared, {tally(record.verdicts)}"


def _observation_facts(record: ObservationRecord) -> Facts:
    count = len(record.topics)
    data = json_of(
        record,
        "subjects",
        "controller_epoch",
        "leaders_before",
        "leader_epochs_before",
        "isrs_before",
        "leaders_would",
        "leader_epochs_would",
        "isrs_would",
        "continues",
    )
    return count, {
        "name": [record.cause] * count,
        "topic": record.topics,
        "partition": record.partitions,
        "leader": record.leaders_after,
        "leader_epoch": record.leader_epochs_after,
        "isr": record.isrs_after,
        "reason": record.verdicts,
        "data": data,
    }


OBSERVATION: Final = RecordKind(
    record=ObservationRecord,
    sentence=_observation_sentence,
    facts=_observation_facts,
    from_facts=None,
    fold=None,
    counter=None,
)


@dataclass(frozen=True, slots=True)
class AdminRecord(Record):
    """An operator's request by HTTP (``step`` is ``asked``), or its result (``step`` is the task's last state).

    ``subjects``, ``states`` and ``details`` are columns: each topic, partition or broker, with the requested or reached
    state. ``continues``: the record continues the previous one, of the same task and step. The record belongs to none
    of the events that the task caused.
    """

    kind: ClassVar[str] = "admin"
    step: str
    task: str
    verb: str
    principal: str
    peer: str
    reason: str
    message: str = ""
    subjects: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    continues: bool = False


def _admin_sentence(record: AdminRecord) -> str:
    what = f"{record.verb} of {listed(record.subjects)}" if record.subjects else record.verb
    became = "" if record.step == "asked" else f": {record.step}" + (f", {record.message}" if record.message else "")
    return f"{record.principal} requested {what}{became}"


ADMIN: Final = RecordKind(
    record=AdminRecord,
    sentence=_admin_sentence,
    facts=one_row(AdminRecord, name="verb", reason="reason"),
    from_facts=None,
    fold=None,
    counter=None,
)


@dataclass(frozen=True, slots=True)
class SettingsRecord(Record):
    """Settings of the cluster that changed, in columns: Kafka's names, the values in use now, and their sources.

    ``befores`` are the previous values. ``problems`` describe how brokers or the configuration disagree; None where
    they agree. Settings that are not named did not change.
    """

    kind: ClassVar[str] = "settings"
    settings: list[str]
    befores: list[str]
    values: list[str]
    sources: list[str]
    problems: list[str | None]


def _settings_sentence(record: SettingsRecord) -> str:
    columns = (record.settings, record.befores, record.values, record.sources)
    changed = [
        f"{name} is {value} ({source})" if value == before else f"{name} changed from {before} to {value} ({source})"
        for name, before, value, source in zip(*columns, strict=True)
    ]
    return listed(changed)


def _settings_facts(record: SettingsRecord) -> Facts:
    return len(record.settings), {
        "name": record.settings,
        "before": record.befores,
        "after": record.values,
        "reason": record.problems,
        "data": json_of(record, "sources"),
    }


SETTINGS: Final = RecordKind(
    record=SettingsRecord,
    sentence=_settings_sentence,
    facts=_settings_facts,
    from_facts=None,
    fold=None,
    counter=None,
)

OPERATORS: Final[tuple[RecordKind[Any], ...]] = (OBSERVATION, ADMIN, SETTINGS)
