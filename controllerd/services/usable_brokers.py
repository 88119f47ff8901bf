"""The registered brokers that the controller serves: parsed, compatible with the cluster, and reachable."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.finalized import incompatibility
from controllerd.core.model import Broker, BrokerId
from controllerd.errors import BadZnode
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from controllerd.services.registration import reconcile_registrations

log = structlog.get_logger(__name__)

REGISTRATIONS: Final = "/brokers/ids/"


async def usable_brokers(c: Controller) -> Mapping[BrokerId, Broker]:
    """Return the registered brokers that can be served, by id.

    A broker whose registration cannot be parsed keeps the registration that the context has, or is left out if there is
    none. Quarantine, alarms and the registrations of controllerd are brought up to date with the same read.
    """
    read = await c.store.brokers.read_brokers()
    await reconcile_registrations(read.controllers, c)
    observed = dict(read.brokers)
    for bad in read.broken:
        c.context.put_in_quarantine(bad.path, bad.reason)
        c.audit.record(AlarmRecord("broker registration cannot be used", str(bad)))
        known = c.context.brokers.get(_broker_id(bad.path))
        if known is not None:
            observed[known.id] = known
    broken = {bad.path for bad in read.broken} | await _leave_out_unfit(observed, c)
    for path in [path for path in c.context.quarantine if path.startswith(REGISTRATIONS) and path not in broken]:
        c.context.take_out_of_quarantine(path)
    _alarm_shared_addresses(observed, c)
    alarm_uncovered(observed.values(), c)
    return dict(sorted(observed.items()))


def _alarm_shared_addresses(observed: Mapping[BrokerId, Broker], c: Controller) -> None:
    """Alarm brokers that register the same address, once for each new registration.

    At most one of them listens there, and it refuses requests with the broker epoch of another.
    """
    at: defaultdict[tuple[str, int], list[BrokerId]] = defaultdict(list)
    for broker in sorted(observed):
        for address in {(endpoint.host, endpoint.port) for endpoint in observed[broker].endpoints}:
            at[address].append(broker)
    known = c.context.epochs()
    for (host, port), brokers in sorted(at.items()):
        if len(brokers) > 1 and any(known.get(broker) != observed[broker].epoch for broker in brokers):
            detail = f"brokers {' and '.join(map(str, brokers))} say that they listen at {host}:{port}"
            log.error("found brokers that share an address", detail=detail)
            c.audit.record(AlarmRecord("brokers share an address", detail))


def alarm_uncovered(brokers: Iterable[Broker], c: Controller) -> None:
    """Alarm each listener whose clients do not find controllerd, once, and put all such listeners into the snapshot.

    No broker is left out because of its listeners for clients.
    """
    before, now = c.snapshot.uncovered, c.local.reach.uncovered(brokers)
    for name in sorted(now.keys() - before.keys()):
        log.warning("found a listener whose clients see no controller", listener=name, reason=now[name])
        c.audit.record(AlarmRecord("clients of a listener see no controller", f"{name}: {now[name]}"))
    c.snapshot.uncovered = MappingProxyType(dict(now))


async def _leave_out_unfit(observed: dict[BrokerId, Broker], c: Controller) -> set[str]:
    """Leave out brokers that we cannot connect to, or that do not support a finalized feature (KIP-584).

    Returns the paths of all such registrations. A broker that is served already is served until it stops: it was fit
    when it registered, and to take its leaderships away would help no client.
    """
    levels = await _finalized_levels(c)
    found: set[str] = set()
    for broker in list(observed.values()):
        unfit = _why_unfit(broker, levels, c)
        if unfit is None:
            continue
        found.add(keep_out(broker, *unfit, c))
        if c.context.epochs().get(broker.id) != broker.epoch:
            del observed[broker.id]
    return found


def _why_unfit(broker: Broker, levels: Mapping[str, int], c: Controller) -> tuple[str, str] | None:
    """The alarm that a broker causes, and its reason; None for a broker that can be served."""
    if (reason := c.local.reach.why_not_reached(broker)) is not None:
        return "broker asks for TLS or SASL", reason
    if (reason := incompatibility(broker, levels)) is not None:
        return "broker is incompatible with the finalized features", reason
    return None


def keep_out(broker: Broker, what: str, reason: str, c: Controller) -> str:
    """Put a registration in quarantine, with an alarm when it was not there for this reason; returns its path."""
    path = f"{REGISTRATIONS}{broker.id}"
    if c.context.quarantine.get(path) != reason:
        c.context.put_in_quarantine(path, reason)
        c.audit.record(AlarmRecord(what, f"{path}: {reason}"))
        log.error("left broker out", path=path, what=what, reason=reason)
    return path


async def _finalized_levels(c: Controller) -> Mapping[str, int]:
    """The finalized levels; empty if they cannot be parsed, so that no broker is left out because of them."""
    if not c.context.features.feature_versioning:
        return {}
    try:
        levels = (await c.store.cluster.read_features()).levels
    except BadZnode as bad:
        quarantine(c, [bad])
        return {}
    await take_out_of_quarantine(c, "/feature")
    return levels


def _broker_id(path: str) -> BrokerId:
    name = path.removeprefix(REGISTRATIONS)
    is_number = name.isascii() and name.isdecimal() and str(int(name)) == name  # 01 is not broker 1
    return BrokerId(int(name) if is_number else -1)
