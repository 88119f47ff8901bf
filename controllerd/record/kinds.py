"""Every kind of record in the audit log: its type by its name, and its description by its type.

A new kind touches three files: a module of ``record.families`` gets its type and its description, the place where it
happens records it, and ``docs/audit.md`` gets its section. Readers take the rest from the description: the live feed
the sentence, the replay the columns and the fold, the metrics the counter and the phase, the lines of the daemon's log
the topics and brokers, ``audit.level`` what ``summary`` leaves out, the writer whether there may be secrets in it, and
``controllerctl why`` the notes on a partition.

The kinds are in the order of the published schema. The kind ``unknown`` of a reader is none of them: it is never
written.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controllerd.core.text import visible
from controllerd.record.description import Kind
from controllerd.record.families.cluster import CLUSTER
from controllerd.record.families.operators import OPERATORS
from controllerd.record.families.partitions import PARTITIONS
from controllerd.record.families.terms import TERMS
from controllerd.record.families.traffic import TRAFFIC
from controllerd.record.families.work import WORK
from controllerd.record.records import Record
from controllerd.record.state import ClusterState

DESCRIPTIONS: Final[Mapping[type[Record], Kind[Any]]] = {
    kind.record: kind for family in (TERMS, CLUSTER, PARTITIONS, WORK, TRAFFIC, OPERATORS) for kind in family
}
KINDS: Final[Mapping[str, type[Record]]] = {record.kind: record for record in DESCRIPTIONS}
EVERY_KIND: Final = frozenset(DESCRIPTIONS)
FOLDS: Final[Mapping[type[Record], Callable[[ClusterState, Any], None]]] = {
    record: kind.fold for record, kind in DESCRIPTIONS.items() if kind.fold is not None
}
"""The kinds that change the state which is folded."""


def sentence_of(record: Record) -> str:
    """The record in one sentence, on one line and safe to show; for an unknown kind, the name of the kind."""
    kind = DESCRIPTIONS.get(type(record))
    return visible(kind.sentence(record)) if kind is not None else record.kind.replace("_", " ")
