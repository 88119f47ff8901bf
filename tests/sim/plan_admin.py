"""The requests in the plan of a seed: reassignments, deletions, elections, configurations, failed disks.

They draw from a stream of their own, and half of the seeds have none: the plans of the others are unchanged.
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
    """The options of a cluster for requests alone."""

    deletes: bool = True
    """``delete.topic.enable``."""
    log_dirs: int = 1
    mends: bool = True
    """Whether failed log directories are repaired when the faults end."""

    def __str__(self) -> str:
        return f"deletes={self.deletes}, log_dirs={self.log_dirs}, mends={self.mends}"


def admin_of(seed: int, story_s: float) -> tuple[AdminOptions, list[tuple[float, str, int]]]:
    """The time, kind and number of each request of this seed; none in half of the seeds."""
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
