#!/usr/bin/env python3
"""Draw both state machines into ``architecture.md`` from the tables in the code, so that the diagrams stay true."""

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from controllerd.core.model import PartitionState, ReplicaState
from controllerd.core.transitions import PARTITION_VALID_PREVIOUS, REPLICA_VALID_PREVIOUS
from markers import rewritten

ARCHITECTURE: Final = Path(__file__).with_name("architecture.md")
BEGIN: Final = "<!-- generated:state-diagrams -->"

State = TypeVar("State", bound=Enum)


def state_diagram(valid_previous: Mapping[State, frozenset[State]], nowhere: State) -> str:
    """One mermaid state diagram; ``nowhere``, the state before creation and after deletion, begins and ends it."""
    return "\n".join(["```mermaid", "stateDiagram-v2", *_arrows(valid_previous, nowhere), "```"])


def _arrows(valid_previous: Mapping[State, frozenset[State]], nowhere: State) -> Iterator[str]:
    states = list(type(nowhere))
    for before in states:
        for after in states:
            if before in valid_previous[after]:
                yield f"    {_name(before, nowhere)} --> {_name(after, nowhere)}"


def _name(state: State, nowhere: State) -> str:
    return "[*]" if state is nowhere else str(state.value)


def generated() -> str:
    """The text between the markers."""
    partition = state_diagram(PARTITION_VALID_PREVIOUS, PartitionState.NON_EXISTENT)
    replica = state_diagram(REPLICA_VALID_PREVIOUS, ReplicaState.NON_EXISTENT)
    return f"Partitions:\n\n{partition}\n\nReplicas:\n\n{replica}"


if __name__ == "__main__":
    ARCHITECTURE.write_text(rewritten(ARCHITECTURE.read_text("utf-8"), BEGIN, generated()), "utf-8")
