"""What helps when a broker is the cause: by code, so that the same cause has the same cure everywhere."""

from collections.abc import Mapping
from typing import Final

from controllerd.status.explain.scene import Verdict
from controllerd.status.explain.words import brokers_of

_REQUESTS: Final = "controllerctl get requests --broker {broker}"
_CURES: Final[Mapping[str, tuple[str, ...]]] = {
    "broker-shutting-down": ("let broker {broker} stop and start again: it catches up by itself",),
    "broker-quarantined": ("correct the registration of broker {broker} (its listeners, its release), and restart it",),
    "log-dir-failed": ("repair the log directory of broker {broker} and restart it",),
    "broker-unreachable": ("see that this host reaches the listener of broker {broker}:", _REQUESTS),
    "broker-slow": ("look at broker {broker}: its request handlers, its disk, its garbage collector", _REQUESTS),
    "broker-refuses": ("the log of broker {broker} says why it refuses:", _REQUESTS),
    "replica-lagging": (
        "look at broker {broker}: its disk, its network, its replica fetchers",
        "controllerctl describe broker {broker}",
    ),
    "replica-catching-up": ("wait until broker {broker} has caught up",),
}
_AWAY: Final = frozenset({"broker-gone", "broker-shut-down"})


def advise_about(verdict: Verdict) -> None:
    """What helps against the causes that are brokers."""
    away = [each.broker for each in verdict.causes if each.code in _AWAY and each.broker is not None]
    if away:
        verdict.advise(f"bring {brokers_of(sorted(set(away)))} back")
    for each in verdict.causes:
        verdict.advise(*(text.format(broker=each.broker) for text in _CURES.get(each.code, ())))
