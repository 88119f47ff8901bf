"""The bugs that the mutation gate plants: small mistakes, most of which some project has made."""

from typing import Final

from tests.sim.mutant_admin import DELETIONS, ELECTIONS, REASSIGNMENTS
from tests.sim.mutant_decisions import DECISIONS
from tests.sim.mutant_registration import REGISTRATIONS
from tests.sim.mutant_role import ROLE, WATCHES
from tests.sim.mutant_settings import SETTINGS
from tests.sim.mutant_tokens import DELEGATION_TOKENS
from tests.sim.mutant_topics import TOPIC_CALLS
from tests.sim.mutant_wire import WIRE
from tests.sim.mutant_writes import WRITES

MUTANTS: Final = (
    *ROLE, *WATCHES, *DECISIONS, *WRITES, *WIRE, *REASSIGNMENTS, *DELETIONS, *ELECTIONS, *TOPIC_CALLS, *REGISTRATIONS,
    *SETTINGS, *DELEGATION_TOKENS,
)  # fmt: skip
"""All bugs. Their names are in the table of ``docs/simulation.md``."""
