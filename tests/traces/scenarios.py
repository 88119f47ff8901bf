"""The recorded traces that the handlers of this version serve, and up to which line."""

from typing import Final

from tests.traces.format import Trace, load

SERVED: Final = (
    "C1", "C2", "C3", "C4", "C7", "C7A", "C7B", "P1", "P2", "B1", "B2", "B3", "F1", "F3", "I1", "T1", "N1", "X1", "G1",
    "A1", "E1", "E2", "C5", "D1", "D2", "D2Z", "D3", "D5", "L1", "U1",
    "C6", "R1", "R2", "R3", "R4", "R4B", "R5", "R5Z", "R6", "R9",
)  # fmt: skip
_BEFORE: Final[dict[str, int]] = {"D2": 21, "D2Z": 21}
"""The line at which a trace ends for us: in D2 and D2Z the topic deliberately still exists then."""


def served(scenario: str) -> Trace:
    """A trace as far as it can be compared."""
    return load(scenario, before=_BEFORE.get(scenario))
