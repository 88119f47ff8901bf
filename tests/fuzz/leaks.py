"""The resources of a process: tasks, descriptors, bytes, and objects of the product.

A leak of one small object a request is not visible in the size of a process for long; a count of objects by type shows
it at once.
"""

import asyncio
import ctypes
import gc
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

_OURS: Final = ("channel_manager.", "controllerd.", "events.", "handlers.", "replay.", "wire.")
_PAGE: Final = resource.getpagesize()
_MIB: Final = 2**20
_MOST_OBJECTS: Final = 200
"""How many more objects of one type are allowed: as many as a cache has, but not one for each request."""
_MOST_BLOCKS: Final = 100_000
"""How many more small allocations of Python are allowed; lists and caches that have grown to their size have fewer."""
MOST_GROWTH_BYTES: Final = 24 * _MIB
MOST_PEAK_BYTES: Final = 96 * _MIB
"""How much more memory a batch may take for a moment: some answers of a megabyte, as bytes and as objects."""
MOST_ADDRESSES_BYTES: Final = 2**30
"""How much more the process may ever allocate: an allocation by a count of 2^31 fails, and is found."""


class Holdings(NamedTuple):
    """The resources at one moment, best when the target is idle."""

    resident_bytes: int
    """Resident memory without the reserve of the C library for the next large message."""
    blocks: int
    objects: Counter[str]
    """Objects of the product by type."""


def rss_bytes() -> int:
    """The memory of this process, the fuzzer and its target together."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE


def peak_bytes() -> int:
    """The most memory that this process had since ``forget_peak``."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def forget_peak() -> None:
    """Start the measurement of the peak anew."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def limit_addresses() -> None:
    """Limit the address space, so that an enormous allocation fails. The limit holds for the rest of the process."""
    now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * _PAGE
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_ADDRESSES_BYTES, resource.RLIM_INFINITY))


def tasks_and_descriptors() -> tuple[int, int]:
    """The numbers of tasks and of descriptors."""
    return len(asyncio.all_tasks()), sum(1 for _ in Path("/proc/self/fd").iterdir())


def holdings() -> Holdings:
    """Count the resources."""
    gc.collect()
    _give_back()
    objects: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        if str(kind.__module__).startswith(_OURS):  # some types of extensions have no string there
            objects[f"{kind.__module__}.{kind.__qualname__}"] += 1
    return Holdings(rss_bytes(), sys.getallocatedblocks(), objects)


def _give_back() -> None:
    """Let the C library return unused memory, if it can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def grown(before: Holdings, now: Holdings) -> list[str]:
    """The resources that have grown too much."""
    found = [
        f"{number - before.objects[kind]:,} more of {kind}"
        for kind, number in now.objects.items()
        if number - before.objects[kind] > _MOST_OBJECTS
    ]
    if now.blocks - before.blocks > _MOST_BLOCKS:
        found.append(f"{now.blocks - before.blocks:,} more allocations")
    if now.resident_bytes - before.resident_bytes > MOST_GROWTH_BYTES:
        found.append(f"{now.resident_bytes / _MIB:.0f} MiB instead of {before.resident_bytes / _MIB:.0f}")
    return found
