"""The queries over the view ``facts`` (see ``replay.facts.schema``), one text for DuckDB and Spark SQL.

Each text is a SELECT over ``facts`` and over results before it in ``QUERIES``; an engine gives its result that name (as
a table, because most are read more than once). Names that ``replay.facts.tables`` does not have are intermediate steps.

The texts are Spark SQL. ``replay.local.duck`` translates the differences of DuckDB: the functions GET_JSON_OBJECT,
ARRAY_JOIN, ARRAY_EXCEPT and XXHASH64 as macros, and the position of IGNORE NULLS in LAST_VALUE. Features that the two
define differently are not used: only whole numbers are divided, without a remainder, and every order names the position
of nulls. NOT EXISTS is not used either: DuckDB keeps all rows of its subquery, while ANTI JOIN keeps only the others.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from replay.sql import causes, changes, incidents, moves, quality, sums, terms, times, windows

QUERIES: Final[Mapping[str, str]] = {
    "sources": quality.SOURCES,
    "extents": sums.EXTENTS,
    "snapshots": windows.SNAPSHOTS,
    "openings": windows.OPENINGS,
    "next_openings": windows.NEXT_OPENINGS,
    "stretches": quality.STRETCHES,
    "seams": quality.SEAMS,
    "copies": quality.COPIES,
    "suspects": windows.SUSPECTS,
    "leader_facts": windows.LEADER_FACTS,
    "leader_states": windows.LEADER_STATES,
    "leader_spans": windows.LEADER_SPANS,
    "leader_ends": windows.LEADER_ENDS,
    "causes": causes.CAUSES,
    "windows": causes.WINDOWS,
    "spans": sums.SPANS,
    "topic_windows": sums.TOPIC_WINDOWS,
    "cluster_windows": sums.CLUSTER_WINDOWS,
    "heat": sums.HEAT,
    "incident_windows": incidents.INCIDENT_WINDOWS,
    "incidents": incidents.INCIDENTS,
    "timeline": incidents.TIMELINE,
    "moments": incidents.MOMENTS,
    "incident_chain": incidents.INCIDENT_CHAIN,
    "leadership_changes": changes.LEADERSHIP_CHANGES,
    "event_times": times.EVENT_TIMES,
    "isr_changes": changes.ISR_CHANGES,
    "elected": changes.ELECTED,
    "elections": changes.ELECTIONS,
    "churn": changes.CHURN,
    "events": times.EVENTS,
    "requests": times.REQUESTS,
    "moved": moves.MOVED,
    "move_facts": moves.MOVE_FACTS,
    "move_steps": moves.MOVE_STEPS,
    "moves": moves.MOVES,
    "reassignments": moves.REASSIGNMENTS,
    "deleted_topics": moves.DELETED_TOPICS,
    "deletion_steps": moves.DELETION_STEPS,
    "deletions": moves.DELETIONS,
    "terms": terms.TERMS,
    "missing": quality.MISSING,
    "quality": quality.QUALITY,
}

_READ: Final = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
READS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(_READ.findall(text)) & QUERIES.keys() for name, text in QUERIES.items()
}
"""The results that each query reads."""


def needed(names: Collection[str]) -> list[str]:
    """Return the queries that must run for these results, in their order. Unknown names are ignored."""
    found: set[str] = set()
    for name in reversed(list(QUERIES)):
        if name in names or name in found:
            found |= {name, *READS[name]}
    return [name for name in QUERIES if name in found]


def readers(names: Collection[str]) -> dict[str, set[str]]:
    """Return the queries that must have run before the result of each may be dropped: itself and its readers."""
    steps = needed(names)
    return {name: {name, *(other for other in steps if name in READS[other])} for name in steps}
