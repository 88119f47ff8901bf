"""The controller's own role: elections, resignation, sessions, takeover by an operator."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.errors import NotController, RefusedToLead
from controllerd.record.records import AlarmRecord, TermRecord
from controllerd.results import Held, Won
from controllerd.services.registration import forget_registration
from controllerd.services.topics import reread_topics
from controllerd.views import Role
from events.base import Event
from events.cluster import BrokerModifications, Expire, Reelect, Resign, Takeover, TakeoverResult
from events.elections import ConfigChange, ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ZkPartitionReassignment
from events.replicas import IsrChangeNotification, LogDirEventNotification
from events.topics import TopicDeletion
from handlers.brokers import on_broker_change, on_broker_modifications
from handlers.failover import fail_over
from handlers.self_audit import audit_later
from handlers.topics import on_topic_change

log = structlog.get_logger(__name__)

LOOK_AGAIN_S: Final = 30.0
"""After a refusal to lead: what stood in the way may be gone."""
_REQUESTS: Final[Mapping[str, Event]] = {
    "/admin/preferred_replica_election": ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER),
    "/admin/reassign_partitions": ZkPartitionReassignment(),
}


async def on_startup(_event: Event, c: Controller) -> None:
    """First event of all: contend for the role."""
    await elect(c)


async def on_controller_change(_event: Event, c: Controller) -> None:
    """``/controller`` changed: resign if the role was ours and is not any more.

    Where nobody holds it by now, no event of its deletion need be on its way: the watch that was armed last may have
    found the znode gone already, as when an operator deletes it right after our own election created it.
    """
    await _resign_if_replaced(c)
    await _unregister_unless_active(c)
    c.snapshot.holder = await c.elector.read_holder()
    if c.snapshot.holder is None:
        c.queue.put(Reelect())


async def on_reelect(_event: Event, c: Controller) -> None:
    """``/controller`` is gone, or a new session may contend: resign if it was ours, then contend."""
    await _resign_if_replaced(c)
    await _elect_or_unregister(c)


async def on_expire(_event: Expire, c: Controller) -> None:
    """The session is over and the role with it. The new session contends only after this."""
    end_term(c, "expired", "the ZooKeeper session expired")
    c.session_expired()


async def on_shutdown(_event: Event, c: Controller) -> None:
    """The daemon stops: give the role back under the epoch check, so that somebody takes it within milliseconds."""
    c.has_given_up = True  # a session that expires meanwhile must not lead us back into an election
    await give_up_role(c, "the daemon stops")
    c.snapshot.role = Role.STOPPING


async def on_takeover(event: Takeover, c: Controller) -> TakeoverResult:
    """An operator wants us to lead, whoever does now."""
    c.stand_by_until, c.has_given_up = 0.0, False
    before = await c.elector.read_holder()
    if c.is_active:
        return TakeoverResult(c.context.epoch, c.context.epoch, str(before))
    _refuse_by_settings(c)
    outcome = await c.elector.elect(takeover=True)
    if isinstance(outcome, Held):
        raise NotController(outcome.reason)
    log.info("took the role over", epoch=outcome.epoch, reason=event.reason, held_by=str(before))
    await _lead(outcome, c)
    return TakeoverResult(outcome.epoch - 1, outcome.epoch, str(outcome.previous or "nobody"))


async def on_resign(event: Resign, c: Controller) -> None:
    """An operator wants somebody else to lead: give the role away and do not contend for a while."""
    if not c.is_active:
        raise NotController("this instance is not the active controller: there is nothing to resign")
    c.stand_by_until = c.clock.monotonic() + c.stand_by_s
    await give_up_role(c, f"resigned: {event.reason}" if event.reason else "resigned: an operator asked for it")
    await elect(c)


async def on_resync(_event: Event, c: Controller) -> None:
    """Connected again within the session. Every watch was lost, so everything that a watch covers is read anew."""
    await _resign_if_replaced(c)
    if not c.is_active:
        await _elect_or_unregister(c)
        return
    await on_broker_change(_event, c)
    for broker in sorted(c.context.brokers):
        await on_broker_modifications(BrokerModifications(broker), c)
    await on_topic_change(_event, c)
    await reread_topics(c, frozenset(c.context.topics))
    await _announce_requests(c)


async def _announce_requests(c: Controller) -> None:
    """Watch everything again by which others ask for something, and handle what they asked for meanwhile.

    A request that is there may have been announced before: handlers read what it says, and are not harmed by asking.
    """
    c.queue.put(IsrChangeNotification())
    c.queue.put(ConfigChange())
    if (await c.store.read_log_dir_notifications()).names:
        c.queue.put(LogDirEventNotification())
    if await c.store.read_topic_deletions():
        c.queue.put(TopicDeletion())
    for path in sorted(await c.store.arm_admin_watches()):
        c.queue.put(_REQUESTS[path])


async def elect(c: Controller) -> None:
    """Try to get the role; whoever holds it keeps it unless the configuration says otherwise."""
    if c.is_active:
        return
    # The watch on /controller is armed before the attempt: a holder that goes in between is noticed.
    c.snapshot.holder = await c.elector.read_holder()
    if not _may_contend(c):
        return
    try:
        _refuse_by_settings(c)
        outcome = await c.elector.elect()
    except RefusedToLead as refusal:
        log.error("refused to lead", reason=str(refusal))
        c.audit.record(AlarmRecord("refused to lead", str(refusal)))
        _stand_by(c, str(refusal))
        c.timers.put_later(LOOK_AGAIN_S, Reelect())
        return
    if isinstance(outcome, Held):
        c.snapshot.holder = outcome.holder
        _stand_by(c, outcome.reason)
        log.info("standing by", holder=str(outcome.holder), reason=outcome.reason)
    else:
        await _lead(outcome, c)


def _refuse_by_settings(c: Controller) -> None:
    """Check the settings of brokers. :raises RefusedToLead: they have rules that we would get round."""
    if c.settings.current.refusal is not None:
        raise RefusedToLead(c.settings.current.refusal)


def _may_contend(c: Controller) -> bool:
    """Whether we may try now; an operator's resignation ends by itself after a while."""
    if c.has_given_up:
        return False
    left = c.stand_by_until - c.clock.monotonic()
    if left > 0:
        c.timers.put_later(left, Reelect())
    return left <= 0


async def _lead(won: Won, c: Controller) -> None:
    c.context.begin_term(won.epoch, won.epoch_zk_version)
    c.context.features = c.settings.features
    c.snapshot.reason = f"elected with controller epoch {won.epoch}"
    c.snapshot.holder = await c.elector.read_holder()
    await fail_over(c)
    c.snapshot.role = Role.ACTIVE
    audit_later(c)
    log.info("active", epoch=won.epoch, brokers=len(c.context.brokers), topics=len(c.context.topics))


HALF_WAY: Final = "an event failed half-way: everything is reloaded"


async def begin_new_term(c: Controller, reason: str = HALF_WAY) -> None:
    """Reload everything under a new epoch, without giving up the role."""
    end_term(c, "ended", reason, keep_role=True)
    await _lead(await c.elector.renew(), c)


async def _resign_if_replaced(c: Controller) -> None:
    if c.is_active and not await c.elector.is_ours():
        end_term(c, "fenced", "another controller holds /controller")


async def _elect_or_unregister(c: Controller) -> None:
    """Contend for the role; without it no registration of ours is left, even if the election failed."""
    try:
        await elect(c)
    finally:
        await _unregister_unless_active(c)


async def _unregister_unless_active(c: Controller) -> None:
    """Delete our registration where the role is lost, so that no controller counts us as a broker."""
    if not c.is_active:
        await c.registrar.unregister()


async def give_up_role(c: Controller, reason: str) -> None:
    """Stop sending at once, then delete ``/controller`` if it is ours."""
    was_active = c.is_active
    end_term(c, "resigned", reason, keep_role=True)
    if was_active:
        await c.elector.resign()
    c.elector.forget_term()


def end_term(c: Controller, change: str, reason: str, *, keep_role: bool = False) -> None:
    """Stop every sender in this tick and forget the cluster; idempotent. ``keep_role`` leaves the fence bound."""
    c.channels.shutdown()
    c.timers.clear()
    if not keep_role:
        c.elector.forget_term()
    if c.is_active:
        c.outbox.write_down()
        context = c.context
        c.audit.record(TermRecord(change, context.epoch, context.epoch_zk_version, f"{c.node_id}", reason))
        log.info("term ended", change=change, epoch=context.epoch, reason=reason)
    c.context.reset()
    forget_registration(c)
    c.needs_registration = False
    # Until /controller is read again nobody is known to hold it, least of all ourselves (KAFKA-16509).
    c.snapshot.holder = None
    c.snapshot.uncovered = MappingProxyType({})
    _stand_by(c, reason)


def _stand_by(c: Controller, reason: str) -> None:
    c.snapshot.role = Role.STANDBY
    c.snapshot.reason = reason
