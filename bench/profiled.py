"""Run controllerd under a sampling profiler, which samples the stack of its main thread every 2 ms of wall clock.

``python bench/profiled.py FILE run ...`` runs the daemon as ``controllerd run ...`` would, and writes the samples when
the daemon ends. Wall clock counts, because a wait for ZooKeeper takes time as well. A sampler costs far less than a
tracer, and does not make small functions look expensive.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from controllerd.__main__ import main

_EVERY_S: Final = 0.002
_DEPTH: Final = 60


def place(code: CodeType) -> str:
    """Return a function as ``package/module.py:function``."""
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}"


def stack_of(frame: FrameType | None, named: Callable[[CodeType], str]) -> tuple[str, ...]:
    """Return the places of a stack, the innermost first."""
    places: list[str] = []
    while frame is not None and len(places) < _DEPTH:
        places.append(named(frame.f_code))
        frame = frame.f_back
    return tuple(places)


class Sampler(threading.Thread):
    """Sample the stack of the main thread. A sample that was late, because of the GIL, counts for more time."""

    def __init__(self) -> None:
        super().__init__(name="profiler", daemon=True)
        self._watched = threading.get_ident()
        self._ended = threading.Event()
        self._places: dict[CodeType, str] = {}
        self._stacks: dict[tuple[str, ...], int] = {}
        self._samples: list[tuple[int, int, int]] = []

    def run(self) -> None:
        """Sample until the end."""
        before = time.monotonic_ns()
        while not self._ended.wait(_EVERY_S):
            frame = sys._current_frames().get(self._watched)  # noqa: SLF001  # the documented way to another thread's stack
            stack = stack_of(frame, self._named)
            now = time.monotonic_ns()
            self._samples.append((now, now - before, self._stacks.setdefault(stack, len(self._stacks))))
            before = now

    def _named(self, code: CodeType) -> str:
        known = self._places.get(code)
        if known is None:
            known = self._places[code] = place(code)
        return known

    def save(self, path: Path) -> None:
        """Stop sampling, and write the samples to a file."""
        self._ended.set()
        self.join()
        content = {"stacks": list(self._stacks), "samples": self._samples}
        path.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv.pop(1))
    sampler = Sampler()
    sampler.start()
    try:
        main()
    finally:
        sampler.save(target)
