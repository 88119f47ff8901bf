"""A planted bug: a change of the code as data."""

from typing import NamedTuple


class Edit(NamedTuple):
    """Replace a text that is in the file exactly once."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """A bug: its name, its effect, and the edits that plant it.

    ``stands_for`` names the failure in a project's history (JIRA, or row of scenarios.md section 3, where ``peer 3.9``
    is one that Kafka's own controller still has), the scenario, or the invariant.
    """

    name: str
    what: str
    stands_for: str
    edits: tuple[Edit, ...]


def bug(name: str, what: str, stands_for: str, file: str, old: str, new: str) -> Mutant:
    """A bug of one edit."""
    return Mutant(name, what, stands_for, (Edit(file, old, new),))
