"""What a seed adds to its plan of requests: reassignments, deletions, elections, configurations, broken disks.

They draw from a stream of their own, and half of the seeds have none: the others keep the story that they always had.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

ADMIN: Final = (
    "reassign_by_znode",
    "reassign_by_call",
    "cancel",
    "override",
    "delete",
    "delete_while_moving",
    "delete_while_growing",
    "prefer_by_znode",
    "prefer_by_call",
    "unclean_by_call",
    "unclean_topic",
    "unclean_default",
    "log_dir",
    "storage_error",
    "give_up_broker",
    "list_reassignments",
    "update_features",
    "rubbish_notified",
    "trouble_while_moving",
    "trouble_while_deleting",
)
FIRST_ADMIN: Final = 3000
_SHARE: Final = 0.5
_TO_THE_POINT: Final = ("reassign_by_znode", "reassign_by_call", "delete")


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """What of a cluster matters for requests alone."""

    deletes: bool = True
    """``delete.topic.enable``."""
    log_dirs: int = 1
    mends: bool = True
    """Failed log directories are mended when the faults end."""

    def __str__(self) -> str:
        return f"deletes={self.deletes}, log_dirs={self.log_dirs}, mends={self.mends}"


def admin_of(seed: int, story_s: float) -> tuple[AdminOptions, list[tuple[float, str, int]]]:
    """Time, kind and number of each request of this seed; none in half of the seeds."""
    rng = Random(f"{seed}/admin")
    if rng.random() < _SHARE:
        return AdminOptions(), []
    options = AdminOptions(
        deletes=rng.random() > 0.05, log_dirs=rng.choice((1, 2, 2)), mends=rng.random() < 0.5
    )  # fmt: skip
    share = rng.choice((0.2, 0.5))
    kinds = [kind for kind in ADMIN if rng.random() < share] or [rng.choice(_TO_THE_POINT)]
    times = [rng.uniform(2.0, story_s) for _ in range(rng.choice((3, 8, 16)))]
    return options, [(at, rng.choice(kinds), number) for number, at in enumerate(times, FIRST_ADMIN)]
