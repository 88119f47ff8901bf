"""Every record of the audit log by its kind, for whoever reads it."""

from collections.abc import Mapping
from typing import Final

from controllerd.record import observation, records
from controllerd.record.records import Record

KINDS: Final[Mapping[str, type[Record]]] = {
    record.kind: record
    for module in (records, observation)
    for record in vars(module).values()
    if isinstance(record, type) and issubclass(record, Record) and record is not Record
}
"""Without the kind of a reader that does not know a record, which is never written."""
