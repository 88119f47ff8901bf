"""Handlers of changed settings of brokers: the controller follows them as the built-in controller would.

Three things follow from an answer besides new values:

* A cluster that this controller must not lead (an authorizer, a policy class, a migration) is given up
  at once, and not only refused at the next election: until then clients could do through this
  controller what no broker would let them do.
* A protocol version with other optional behaviour (``features_at``) begins a new term, unless there
  are no topics: a rise from 2.6 to 2.8 does, a rise from 3.3 to 3.9 does not. The built-in controller
  has its version from its start, so that everything that a higher version demands (ids for all topics,
  ``/feature``, LeaderAndIsr with ids to all replicas) happens in its failover. A new term is the same
  work in the same order, under one epoch that every broker sees, and is tested as such. The first
  known value of ``delete.topic.enable`` begins a new term as well, because requested deletions have
  waited for it.
* The other settings are read where they are used. Only tasks that a setting had kept from starting
  are started here.
"""

import structlog

from controllerd.controller import Controller
from controllerd.core.cluster_settings import DELETE_TOPICS, PROTOCOL_VERSION
from controllerd.core.resolved_settings import Resolution
from controllerd.record.records import AlarmRecord
from controllerd.services.settings_changes import record_settings_changes
from events.cluster import Reelect
from events.elections import AutoPreferredReplicaLeaderElection, UncleanLeaderElectionEnable
from events.responses import BrokerSettingsReceived
from events.topics import TopicDeletion
from handlers.failover import prepare_features
from handlers.role import LOOK_AGAIN_S, begin_new_term, give_up_role

log = structlog.get_logger(__name__)


async def on_broker_settings(event: BrokerSettingsReceived, c: Controller) -> None:
    """Take the answers of brokers, in every role: a takeover must not have to wait for them."""
    before, was_unclean = c.settings.current, c.configs.topics.unclean_by_default()
    c.settings.take(event.answers, c.context.epochs() if c.is_active else event.registered)
    now = c.settings.current
    record_settings_changes(before, now, c.audit)
    c.configs.quotas.set_window(now.quota_window)
    c.configs.use_settings()
    if not c.is_active:
        c.context.features = c.settings.features
        if before.refusal is not None and now.refusal is None:
            c.queue.put(Reelect())
    elif now.refusal is not None:
        await _give_up(now.refusal, c)
    elif (reason := _why_new_term(before, now)) is not None:
        await _reload(reason, before, now, c)
    else:
        _follow(before, now, c)
        if c.configs.topics.unclean_by_default() and not was_unclean:
            log.info("allowed unclean elections by default")
            c.queue.put(UncleanLeaderElectionEnable())


def _why_new_term(before: Resolution, now: Resolution) -> str | None:
    if before.features != now.features:
        versions = f"{before.values[PROTOCOL_VERSION]} to {now.values[PROTOCOL_VERSION]}"
        return f"{PROTOCOL_VERSION} of the cluster changed from {versions}: everything is reloaded"
    if DELETE_TOPICS in before.policy.unknown and DELETE_TOPICS not in now.policy.unknown:
        return f"{DELETE_TOPICS} of the cluster is known now: everything is reloaded"
    return None


async def _reload(reason: str, before: Resolution, now: Resolution, c: Controller) -> None:
    """Begin a new term, unless the cluster is empty: without topics only ``/feature`` depends on the version.

    So a cluster whose brokers and controller start together does not go through a term for each
    answer. A topic whose creation is still in the queue is read with the new version. A topic that
    is in quarantine is not known to be without replicas, so that its cluster does not count as empty.
    """
    if c.context.topics or c.context.quarantine:
        await begin_new_term(c, reason)
        return
    c.context.features = c.settings.features
    await prepare_features(c)
    c.queue.put(TopicDeletion())
    _follow(before, now, c)


async def _give_up(refusal: str, c: Controller) -> None:
    log.error("refused to lead", reason=refusal)
    c.audit.record(AlarmRecord("refused to lead", refusal))
    await give_up_role(c, refusal)
    c.timers.put_later(LOOK_AGAIN_S, Reelect())


def _follow(before: Resolution, now: Resolution, c: Controller) -> None:
    if now.policy.auto_leader_rebalance_enable and not before.policy.auto_leader_rebalance_enable:
        c.timers.put_later(now.policy.leader_imbalance_check_interval_s, AutoPreferredReplicaLeaderElection())
