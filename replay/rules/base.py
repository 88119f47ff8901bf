"""What a rule is: an invariant with a memory, asked about one record after the other. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from replay.envelope import Envelope
from replay.fold import ClusterState
from replay.records import EventBegin, EventEnd, Record


class Entry(NamedTuple):
    """One record in its place. ``state`` is the picture before the record; ``event`` the event's name, or empty."""

    envelope: Envelope
    record: Record
    state: ClusterState
    event: str = ""


class Rule(ABC):
    """One invariant. ``id`` and ``title`` are for people."""

    id: ClassVar[str]
    title: ClassVar[str]
    across_nodes: ClassVar[bool] = False
    """Whether it speaks about all nodes together, or about the log of one boot of one node."""

    @abstractmethod
    def see(self, entry: Entry) -> Iterator[str]:
        """Evidence of each violation by this record."""

    def finish(self) -> Iterator[str]:
        """Evidence of violations that only the complete log shows."""
        yield from ()


class EventName:
    """Follows which event is being handled."""

    def __init__(self) -> None:
        self.name = ""

    def see(self, record: Record) -> None:
        """The next record."""
        if isinstance(record, EventBegin):
            self.name = record.name
        elif isinstance(record, EventEnd):
            self.name = ""
