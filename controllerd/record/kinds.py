"""Every kind of record in the audit log: the type by name, and the description by type.

A new kind needs changes in three files: a module of ``record.families`` for its type and description, the code that
records it, and its section in ``docs/audit.md``. Readers use the description: the live feed takes the sentence, the
replay the columns and the fold, the metrics the counter and the phase, the lines of the daemon's log the topics and
brokers, ``audit.level`` the membership in ``summary``, the writer the possibility of secrets, ``controllerctl why``
the notes on a partition, and the digest and the invariants whether the kind is in the digest and in snapshots.

A kind with a fold of new state also needs a field of ``record.state`` and its records in ``audit.checkpoints``, so that
a fold can begin at a periodic snapshot.

The kinds are in the order of the published schema. ``unknown`` is not among them, because it is never written.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controllerd.core.text import visible
from controllerd.record.description import RecordKind
from controllerd.record.families.cluster import CLUSTER
from controllerd.record.families.operators import OPERATORS
from controllerd.record.families.partitions import PARTITIONS
from controllerd.record.families.terms import TERMS
from controllerd.record.families.traffic import TRAFFIC
from controllerd.record.families.work import WORK
from controllerd.record.records import Record
from controllerd.record.state import ClusterState

DESCRIPTIONS: Final[Mapping[type[Record], RecordKind[Any]]] = {
    kind.record: kind for family in (TERMS, CLUSTER, PARTITIONS, WORK, TRAFFIC, OPERATORS) for kind in family
}
KINDS: Final[Mapping[str, type[Record]]] = {record.kind: record for record in DESCRIPTIONS}
EVERY_KIND: Final = frozenset(DESCRIPTIONS)
FOLDS: Final[Mapping[type[Record], Callable[[ClusterState, Any], None]]] = {
    record: kind.fold for record, kind in DESCRIPTIONS.items() if kind.fold is not None
}
"""The kinds that change the folded state, with their folds."""


def sentence_of(record: Record) -> str:
    """The record in one sentence, on one line and safe to show; for an unknown kind, the name of the kind."""
    kind = DESCRIPTIONS.get(type(record))
    return visible(kind.sentence(record)) if kind is not None else record.kind.replace("_", " ")
