"""The calls in the plan of a seed that create, extend and delete topics, and the quotas for such calls.

They draw from a stream of their own, and more than half of the seeds have none.
"""

from random import Random
from typing import Final

TOPIC_CALLS: Final = (
    "create_by_call",
    "create_twice",
    "create_against_outsider",
    "grow_by_call",
    "grow_against_outsider",
    "delete_by_call",
    "recreate_by_call",
    "mutation_quota",
    "credentials",
    "trouble_while_creating",
    "trouble_while_growing",
)
FIRST_TOPIC_CALL: Final = 2700
_SHARE: Final = 0.6
_TO_THE_POINT: Final = ("create_by_call", "trouble_while_creating", "trouble_while_growing")


def topic_calls_of(seed: int, story_s: float) -> list[tuple[float, str, int]]:
    """The time, kind and number of each such call of this seed; none in three of five seeds."""
    rng = Random(f"{seed}/topic calls")
    if rng.random() < _SHARE:
        return []
    share = rng.choice((0.3, 0.6))
    kinds = [kind for kind in TOPIC_CALLS if rng.random() < share] or [rng.choice(_TO_THE_POINT)]
    times = [rng.uniform(2.0, story_s) for _ in range(rng.choice((4, 10, 20)))]
    return [(at, rng.choice(kinds), number) for number, at in enumerate(times, FIRST_TOPIC_CALL)]
