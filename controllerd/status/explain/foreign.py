"""What helps where a broker's built-in controller leads: it is asked with Kafka's own tools, not with controllerctl."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from controllerd.snapshot import ClusterSnapshot
from controllerd.status.explain.scene import Scene

_Reworded = Callable[[re.Match[str], str], str]
_WORDINGS: Final[tuple[tuple[re.Pattern[str], _Reworded], ...]] = (
    (
        re.compile(r"controllerctl elect (\w+) (--topic \S+ --partition \d+)"),
        lambda asked, at: f"kafka-leader-election.sh --bootstrap-server {at} --election-type {asked[1]} {asked[2]}",
    ),
    (
        re.compile(r"controllerctl reassign cancel (\S+)"),
        lambda asked, at: (
            f"kafka-reassign-partitions.sh --bootstrap-server {at} --cancel --reassignment-json-file FILE "
            f"(a file that names {asked[1]})"
        ),
    ),
    (
        # It waits for an answer of that broker, and has no way to be told that none will come.
        re.compile(r"controllerctl brokers forget (\d+) .*"),
        lambda asked, _at: f"start a broker with the id {asked[1]} on an empty disk",
    ),
)


def for_whoever_leads(scene: Scene, steps: Sequence[str]) -> list[str]:
    """The steps as they can be taken: in Kafka's words where this instance watches a built-in controller."""
    holder = scene.snapshot.holder
    if not scene.is_watching or holder is None or holder.is_controllerd:
        return list(steps)
    at = _bootstrap(scene.snapshot)
    return [_reworded(step, at) for step in steps]


def _reworded(step: str, at: str) -> str:
    for asked, reword in _WORDINGS:
        if found := asked.fullmatch(step):
            return reword(found, at)
    return step


def _bootstrap(snapshot: ClusterSnapshot) -> str:
    """The address of a live broker."""
    endpoints = (broker.endpoints[0] for _, broker in sorted(snapshot.brokers.items()) if broker.endpoints)
    return next((f"{one.host}:{one.port}" for one in endpoints), "HOST:PORT")
