"""Records beside the state of a cluster: findings of observers, requests of operators, and settings in use.

Records of their own module: the fold passes over them.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from controllerd.record.records import Record


@dataclass(frozen=True, slots=True)
class ObservationRecord(Record):
    """Partitions that changed by one cause, and the verdicts; columns.

    ``cause`` is what happened or, where that does not show in ZooKeeper, what it looks like: then nothing would have
    been done, and ``verdicts`` are ``not judged``. A partition without a state before, in what ours would have done or
    after has leader and leader epoch -2 and an empty ISR there. ``verdicts`` name the fields that differ, or the reason
    why none could be named. ``continues``: with the partitions of the record before.
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


@dataclass(frozen=True, slots=True)
class AdminRecord(Record):
    """An operator asked for something by HTTP (``step`` is ``asked``), or what became of it (the task's last state).

    ``subjects``, ``states`` and ``details`` are columns: what was asked for, or done, with each topic, partition or
    broker. ``continues``: and those of the record before, of the same task and step. It stands beside the events that
    the task caused and belongs to none of them.
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


@dataclass(frozen=True, slots=True)
class SettingsRecord(Record):
    """Settings of the cluster that changed, in columns: Kafka's names, the values in use now, and their sources.

    ``befores`` are the values in use until then. ``problems`` say how brokers or the configuration
    disagree; None where they agree. Settings that are not named did not change.
    """

    kind: ClassVar[str] = "settings"
    settings: list[str]
    befores: list[str]
    values: list[str]
    sources: list[str]
    problems: list[str | None]
