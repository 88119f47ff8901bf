"""What an instance that only watches writes down: what the controller did, beside what ours would have done.

A record of its own module, because nothing of it is the state of a cluster: the fold passes over it.
"""

from dataclasses import dataclass
from typing import ClassVar

from replay.records import Record


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
