"""What the page offers to copy: commands of controllerctl, quoted for a shell."""

import shlex

PROGRAM = "controllerctl"


def command(*words: object) -> str:
    """One command; names from outside may hold anything."""
    return shlex.join([PROGRAM, *map(str, words)])


def is_command(step: str) -> bool:
    """Whether one of the steps that explanations advise is a command."""
    return step.startswith(f"{PROGRAM} ")
