"""The listeners over which a controller, brokers and clients reach each other, and why they cannot.

PURE. Listeners are plaintext so far: a broker that asks for TLS or SASL where the controller would connect is found
here, and the reasons are the words that operators read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol

_NOT_YET: Final = "TLS and SASL are not supported yet"


@dataclass(frozen=True, slots=True)
class Reach:
    """The listeners that this instance was configured to use and to serve; the default demands nothing."""

    talked_over: tuple[str, ...] = ()
    """The listeners over which brokers and we talk; our requests go over the first (a control plane if any)."""
    shown: frozenset[str] = frozenset()
    """The listeners of ours that are for clients, too."""
    is_visible: bool = False
    """Whether the clients of every listener are to find us."""

    def why_no_talk(self, broker: Broker) -> str | None:
        """Why this broker cannot be sent requests; None if its registration shows no reason."""
        asked = _protected(end for end in broker.endpoints if end.listener in self.talked_over)
        if asked is None and self.talked_over and not any(map(_is_plain, broker.endpoints)):
            asked = _protected(broker.endpoints)  # it lacks our listener, and has none that could be meant
        return _why_not_plain(broker, asked) if asked is not None else None

    def why_no_lead(self, brokers: Sequence[Broker]) -> str | None:
        """Why a cluster of these brokers is not to be led: one of them, its clients or all could not be talked to."""
        for broker in brokers:
            if (reason := self.why_no_talk(broker)) is not None:
                return reason
            asked = _protected(end for end in broker.endpoints if end.listener in self.shown)
            if asked is not None:
                return _why_not_plain(broker, asked)
        return self._why_none(brokers)

    def _why_none(self, brokers: Sequence[Broker]) -> str | None:
        """Why no broker can be reached: a misspelt listener name would leave the controller without any broker."""
        wanted = self.talked_over[:1]
        if not brokers or all(any(broker.endpoint(name) for broker in brokers) for name in wanted):
            return None
        found = ", ".join(sorted({end.listener for broker in brokers for end in broker.endpoints}))
        return f"no broker has the listener {wanted[0]}, over which we are to talk to them; they have {found}"

    def uncovered(self, brokers: Iterable[Broker]) -> Mapping[str, str]:
        """The listeners of these brokers whose clients see no controller, each with the reason; by name."""
        if not self.is_visible:
            return {}
        found: defaultdict[str, dict[BrokerId, str]] = defaultdict(dict)
        for broker in brokers:
            for end in broker.endpoints:
                if (reason := self._why_unseen(end)) is not None:
                    found[end.listener][broker.id] = reason
        return {name: _of_brokers(found[name]) for name in sorted(found)}

    def _why_unseen(self, end: Endpoint) -> str | None:
        if end.listener in self.shown:
            return None if _is_plain(end) else f"it asks for {end.security_protocol.name}: {_NOT_YET}"
        return "not among kafka.listeners"


PLAIN_AND_HIDDEN: Final = Reach()
"""Asks for nothing."""


def _is_plain(end: Endpoint) -> bool:
    return end.security_protocol is SecurityProtocol.PLAINTEXT


def _protected(ends: Iterable[Endpoint]) -> Endpoint | None:
    """The first endpoint that is not plaintext."""
    return next((end for end in ends if not _is_plain(end)), None)


def _why_not_plain(broker: Broker, asked: Endpoint) -> str:
    return f"broker {broker.id} asks for {asked.security_protocol.name} on {asked.listener}: {_NOT_YET}"


def _of_brokers(reasons: Mapping[BrokerId, str]) -> str:
    """One reason, that of the broker with the lowest id, and the brokers that share it."""
    reason = reasons[min(reasons)]
    brokers = [str(broker) for broker in sorted(reasons) if reasons[broker] == reason]
    return f"{reason} (on broker {', '.join(brokers)})"
