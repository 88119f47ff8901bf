#!/usr/bin/env python3
"""Prints the pins of requirements.lock that `make quick` needs; run by `make lock` with the interpreter of .venv.

The pins are those of the project's dependencies, of its extra `quick`, and of all that these require in turn. What
requires what is read from the installed distributions, so that no network is needed and the two locks never differ in
a version or a hash.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==.*(?:\n +--hash=.*)*\n", re.MULTILINE)


def wanted() -> list[Requirement]:
    """The requirements of pyproject.toml that `make quick` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["quick"])]


def closure(requirements: list[Requirement]) -> set[NormalizedName]:
    """The canonical names of these requirements and of all that they require on this platform."""
    found: set[tuple[NormalizedName, str]] = set()
    waiting = [(canonicalize_name(r.name), extra) for r in requirements for extra in ("", *r.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in found:
            found.add((name, extra))
            waiting.extend(_required_by(name, extra))
    return {name for name, _ in found}


def _required_by(name: NormalizedName, extra: str) -> Iterator[tuple[NormalizedName, str]]:
    for requirement in map(Requirement, requires(name) or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield from ((canonicalize_name(requirement.name), each) for each in ("", *requirement.extras))


def pins(lock: str, names: set[NormalizedName]) -> str:
    """The part of a lock that pins these distributions."""
    return "".join(pin[0] for pin in _PIN.finditer(lock) if canonicalize_name(pin[1]) in names)


if __name__ == "__main__":
    sys.stdout.write(pins((ROOT / "requirements.lock").read_text("utf-8"), closure(wanted())))
