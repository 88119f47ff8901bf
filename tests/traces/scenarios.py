"""Which recorded traces the handlers of this version serve, and how far."""

from typing import Final

from tests.traces.format import Trace, load

SERVED: Final = (
    "C1", "C2", "C3", "C4", "C7", "C7A", "C7B", "P1", "P2", "B1", "B2", "B3", "F1", "F3", "I1", "T1", "N1", "X1", "G1",
)  # fmt: skip
_BEFORE: Final = {"C3": 17}
"""Line at which a trace needs what is not served yet: C3 goes on with a preferred election."""


def served(scenario: str) -> Trace:
    """A trace as far as it can be compared."""
    return load(scenario, before=_BEFORE.get(scenario))
