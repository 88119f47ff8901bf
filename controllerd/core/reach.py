"""The listeners over which a controller, brokers and clients reach each other, and why they cannot.

PURE. Only plaintext listeners are supported so far. This module finds the brokers that ask for TLS or SASL where the
controller would connect, and gives the reasons as text for operators.
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

    broker_listeners: tuple[str, ...] = ()
    """The listeners between brokers and this controller; its requests use the first (a control plane if any)."""
    client_listeners: frozenset[str] = frozenset()
    """The listeners of this controller that clients use as well."""
    is_visible: bool = False
    """Whether clients of every listener should find this controller in the metadata."""

    def why_not_reached(self, broker: Broker) -> str | None:
        """Return why this broker cannot be sent requests; None if its registration shows no reason."""
        asked = _protected(end for end in broker.endpoints if end.listener in self.broker_listeners)
        if asked is None and self.broker_listeners and not any(map(_is_plain, broker.endpoints)):
            # The broker does not have the listener that we would use, and no other listener of it is plaintext.
            asked = _protected(broker.endpoints)
        return _why_not_plain(broker, asked) if asked is not None else None

    def why_not_led(self, brokers: Sequence[Broker]) -> str | None:
        """Return why a cluster of these brokers must not be led; None if no listener prevents it.

        A broker could not be sent requests, its clients could not reach this controller, or no broker has the listener.
        """
        for broker in brokers:
            if (reason := self.why_not_reached(broker)) is not None:
                return reason
            asked = _protected(end for end in broker.endpoints if end.listener in self.client_listeners)
            if asked is not None:
                return _why_not_plain(broker, asked)
        return self._why_none(brokers)

    def _why_none(self, brokers: Sequence[Broker]) -> str | None:
        """Return why no broker can be reached, such as a misspelt listener; None if one can."""
        wanted = self.broker_listeners[:1]
        if not brokers or all(any(broker.endpoint(name) for broker in brokers) for name in wanted):
            return None
        found = ", ".join(sorted({end.listener for broker in brokers for end in broker.endpoints}))
        return f"no broker has the listener {wanted[0]}, over which controllerd sends requests; they have {found}"

    def uncovered(self, brokers: Iterable[Broker]) -> Mapping[str, str]:
        """Return the listeners of these brokers whose clients do not find this controller, each with the reason."""
        if not self.is_visible:
            return {}
        found: defaultdict[str, dict[BrokerId, str]] = defaultdict(dict)
        for broker in brokers:
            for end in broker.endpoints:
                if (reason := self._why_unseen(end)) is not None:
                    found[end.listener][broker.id] = reason
        return {name: _of_brokers(found[name]) for name in sorted(found)}

    def _why_unseen(self, end: Endpoint) -> str | None:
        if end.listener in self.client_listeners:
            return None if _is_plain(end) else f"it asks for {end.security_protocol.name}: {_NOT_YET}"
        return "not among kafka.listeners"


PLAIN_AND_HIDDEN: Final = Reach()
"""No listener is required."""


def _is_plain(end: Endpoint) -> bool:
    return end.security_protocol is SecurityProtocol.PLAINTEXT


def _protected(ends: Iterable[Endpoint]) -> Endpoint | None:
    """Return the first endpoint that is not plaintext; None if all are."""
    return next((end for end in ends if not _is_plain(end)), None)


def _why_not_plain(broker: Broker, asked: Endpoint) -> str:
    return f"broker {broker.id} asks for {asked.security_protocol.name} on {asked.listener}: {_NOT_YET}"


def _of_brokers(reasons: Mapping[BrokerId, str]) -> str:
    """Return the reason of the broker with the lowest id, and the brokers that have the same reason."""
    reason = reasons[min(reasons)]
    brokers = [str(broker) for broker in sorted(reasons) if reasons[broker] == reason]
    return f"{reason} (on broker {', '.join(brokers)})"
