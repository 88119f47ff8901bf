"""The role of this instance: elections, resignation, sessions, takeover by an operator.

**Fencing: what keeps two controllers apart.** A controller may be replaced without noticing it, for example while its
process was suspended. So the check is not made here, before a handler begins, but where it cannot come too late:

* *Every write to ZooKeeper* is a transaction that first checks ``/controller_epoch`` against the version that this
  instance's election wrote (``zk/writer.py``). ZooKeeper applies all of the transaction or nothing. If the check
  fails, another controller was elected: the store raises ``ControllerMoved``, and the loop ends the term.
* *Every request to a broker* carries the controller epoch. A handler sends what its writes have confirmed
  (``machines/state_changes.py``). A request that leaves after this instance was replaced carries the old epoch, and
  every broker that knows the new one refuses it.
* *After a pause in which the session may have ended* no byte leaves before ZooKeeper has confirmed the role
  (``channel_manager/sender.py``).

The events of this module look at ``/controller`` as well (``elector.is_ours``), but only to end a term early. No
decision relies on it: the answer may be outdated when it arrives.

**The end of a term** is one step without an ``await`` (``end_term``): senders are cancelled, timers cleared, the fence
unbound, the context emptied. So no handler, and no sender, can see half of it. ``keep_role`` leaves the fence bound
where the next step still has to write under it: to delete ``/controller``, or to begin the next term.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.errors import NotController, RefusedToLead
from controllerd.ports.results import Held, Won
from controllerd.record.records import AlarmRecord, TermRecord
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
from handlers.checks import audit_later
from handlers.failover import fail_over
from handlers.topics import on_topic_change

log = structlog.get_logger(__name__)

LOOK_AGAIN_S: Final = 30.0
"""Seconds after a refusal to lead until the next try: the cause may be gone by then."""
_REQUESTS: Final[Mapping[str, Event]] = {
    "/admin/preferred_replica_election": ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER),
    "/admin/reassign_partitions": ZkPartitionReassignment(),
}


async def on_startup(_event: Event, c: Controller) -> None:
    """Contend for the role; the first event of the process."""
    await elect(c)


async def on_controller_change(_event: Event, c: Controller) -> None:
    """Handle a change of ``/controller``: end the term if the role was ours and no longer is.

    If the znode does not exist by now, ``Reelect`` is queued here, because no event of the deletion may follow: the
    znode may have been gone when its watch was armed last, as when an operator deletes it right after our election.
    """
    await _resign_if_replaced(c)
    await _unregister_unless_active(c)
    c.snapshot.holder = await c.role.elector.read_holder()
    if c.snapshot.holder is None:
        c.queue.put(Reelect())


async def on_reelect(_event: Event, c: Controller) -> None:
    """Contend when ``/controller`` is deleted or a session is established; end the term first if we were replaced."""
    await _resign_if_replaced(c)
    await _elect_or_unregister(c)


async def on_expire(_event: Expire, c: Controller) -> None:
    """End the term, because the session has expired and the role with it. The new session contends only after this."""
    end_term(c, "expired", "the ZooKeeper session expired")
    c.role.session_expired()


async def on_shutdown(_event: Event, c: Controller) -> None:
    """Delete ``/controller`` under the epoch check when the daemon stops, so that another controller leads at once."""
    c.role.has_given_up = True  # if the session expires meanwhile, the new session must not contend
    await give_up_role(c, "the daemon stops")
    c.snapshot.role = Role.STOPPING


async def on_takeover(event: Takeover, c: Controller) -> TakeoverResult:
    """Take the role for an operator, whichever controller leads now."""
    c.role.stand_by_until, c.role.has_given_up = 0.0, False
    before = await c.role.elector.read_holder()
    if c.is_active:
        return TakeoverResult(c.context.epoch, c.context.epoch, str(before))
    _refuse_by_settings(c)
    outcome = await c.role.elector.elect(takeover=True)
    if isinstance(outcome, Held):
        raise NotController(outcome.reason)
    log.info("took over the role", epoch=outcome.epoch, reason=event.reason, held_by=str(before))
    await _lead(outcome, c)
    return TakeoverResult(outcome.epoch - 1, outcome.epoch, str(outcome.previous or "nobody"))


async def on_resign(event: Resign, c: Controller) -> None:
    """Resign for an operator, and do not contend for a while, so that another controller leads."""
    if not c.is_active:
        raise NotController("this instance is not the active controller: there is nothing to resign")
    c.role.stand_by_until = c.clock.monotonic() + c.local.stand_by_s
    await give_up_role(c, f"resigned: {event.reason}" if event.reason else "resigned: an operator asked for it")
    await elect(c)


async def on_resync(_event: Event, c: Controller) -> None:
    """Read everything that a watch covers: the connection was lost within the session, and all watches with it."""
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
    """Arm the watches of request znodes again, and queue the events of the requests that came meanwhile.

    A request may already have an event in the queue. A second event does no harm, because its handler reads the znode.
    """
    c.queue.put(IsrChangeNotification())
    c.queue.put(ConfigChange())
    if (await c.store.notifications.read_log_dir_notifications()).names:
        c.queue.put(LogDirEventNotification())
    if await c.store.admin.read_topic_deletions():
        c.queue.put(TopicDeletion())
    for path in sorted(await c.store.admin.arm_admin_watches()):
        c.queue.put(_REQUESTS[path])


async def elect(c: Controller) -> None:
    """Contend for the role; another holder keeps it unless the configuration says otherwise."""
    if c.is_active:
        return
    # The watch on /controller is armed before the attempt, so that the end of another holder is noticed.
    c.snapshot.holder = await c.role.elector.read_holder()
    if not _may_contend(c):
        return
    try:
        _refuse_by_settings(c)
        outcome = await c.role.elector.elect()
    except RefusedToLead as refusal:
        log.error("refused to lead", reason=str(refusal))
        c.audit.record(AlarmRecord("refused to lead", str(refusal)))
        _stand_by(c, str(refusal))
        c.timers.put_later(LOOK_AGAIN_S, Reelect())
        return
    if isinstance(outcome, Held):
        c.snapshot.holder = outcome.holder
        _stand_by(c, outcome.reason)
        log.info("became standby controller", holder=str(outcome.holder), reason=outcome.reason)
    else:
        await _lead(outcome, c)


def _refuse_by_settings(c: Controller) -> None:
    """Check the settings of brokers. :raises RefusedToLead: brokers enforce rules that this controller does not."""
    if c.settings.current.refusal is not None:
        raise RefusedToLead(c.settings.current.refusal)


def _may_contend(c: Controller) -> bool:
    """Whether this instance may contend now; a resignation by an operator ends by itself after a while."""
    if c.role.has_given_up:
        return False
    left = c.role.stand_by_until - c.clock.monotonic()
    if left > 0:
        c.timers.put_later(left, Reelect())
    return left <= 0


async def _lead(won: Won, c: Controller) -> None:
    c.context.begin_term(won.epoch, won.epoch_zk_version)
    c.context.features = c.settings.features
    c.snapshot.reason = f"elected with controller epoch {won.epoch}"
    c.snapshot.holder = await c.role.elector.read_holder()
    await fail_over(c)
    c.snapshot.role = Role.ACTIVE
    audit_later(c)
    log.info("became active controller", epoch=won.epoch, brokers=len(c.context.brokers), topics=len(c.context.topics))


HALF_WAY: Final = "an event failed half-way: everything is reloaded"
"""The default reason of ``begin_new_term``."""


async def begin_new_term(c: Controller, reason: str = HALF_WAY) -> None:
    """Reload everything under a new epoch, without giving up the role."""
    end_term(c, "ended", reason, keep_role=True)
    await _lead(await c.role.elector.renew(), c)


async def _resign_if_replaced(c: Controller) -> None:
    if c.is_active and not await c.role.elector.is_ours():
        end_term(c, "fenced", "another controller holds /controller")


async def _elect_or_unregister(c: Controller) -> None:
    """Contend for the role; delete the registration if this instance does not get the role, even after an error."""
    try:
        await elect(c)
    finally:
        await _unregister_unless_active(c)


async def _unregister_unless_active(c: Controller) -> None:
    """Delete our registration if the role is lost, so that no controller counts this instance as a broker."""
    if not c.is_active:
        await c.role.registrar.unregister()


async def give_up_role(c: Controller, reason: str) -> None:
    """Stop sending at once, then delete ``/controller`` if it is ours."""
    was_active = c.is_active
    end_term(c, "resigned", reason, keep_role=True)
    if was_active:
        await c.role.elector.resign()
    c.role.elector.forget_term()


def end_term(c: Controller, change: str, reason: str, *, keep_role: bool = False) -> None:
    """Stop every sender in this tick, record the end of the term, and forget the cluster; idempotent.

    ``keep_role`` leaves the fence bound (see the module).
    """
    c.channels.shutdown()
    c.timers.clear()
    if not keep_role:
        c.role.elector.forget_term()
    if c.is_active:
        c.outbox.write_down()
        context = c.context
        c.audit.record(TermRecord(change, context.epoch, context.epoch_zk_version, f"{c.node_id}", reason))
        log.info("ended term", change=change, epoch=context.epoch, reason=reason)
    c.context.reset()
    forget_registration(c)
    c.role.needs_registration = False
    # Until /controller is read again its holder is unknown, and is not this instance (KAFKA-16509).
    c.snapshot.holder = None
    c.snapshot.uncovered = MappingProxyType({})
    _stand_by(c, reason)


def _stand_by(c: Controller, reason: str) -> None:
    c.snapshot.role = Role.STANDBY
    c.snapshot.reason = reason
