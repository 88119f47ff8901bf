"""Every event and its handler; the type checker proves that none is missing."""

from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from controllerd.controller import Controller
from controllerd.errors import NotController
from controllerd.services.deletions import schedule_deletions
from controllerd.services.pauses import schedule_pause_check
from controllerd.services.quarantine import schedule_quarantine_check
from controllerd.services.reassignments import expect_completion
from controllerd.services.throttles import schedule_throttle_check
from events import admin, cluster, elections, operator, reassignments, replicas, responses, topics
from events.registry import AnyEvent
from handlers import role
from handlers.brokers import (
    on_broker_change,
    on_broker_modifications,
    on_broker_refresh,
    on_controlled_shutdown,
    on_drain_broker,
    on_forget_broker,
    on_log_dir_event,
)
from handlers.checks import on_quarantine_check, on_self_audit, on_token_expiry_check
from handlers.cluster_settings import on_broker_settings
from handlers.config_changes import on_config_change
from handlers.elections import (
    on_auto_preferred_election,
    on_replica_leader_election,
    on_topic_unclean_enabled,
    on_unclean_enabled,
)
from handlers.features import on_update_features
from handlers.isr_change import on_alter_partition, on_isr_change_notification
from handlers.pauses import on_pause, on_pause_check, on_resume
from handlers.producer_ids import on_allocate_producer_ids
from handlers.reassignments import (
    on_api_reassignment,
    on_isr_of_reassignment,
    on_list_reassignments,
    on_reassignment_retry,
    on_zk_reassignment,
)
from handlers.responses import (
    on_api_versions,
    on_leader_and_isr_response,
    on_stop_replica_response,
    on_update_metadata_response,
)
from handlers.scram import on_alter_scram
from handlers.throttles import on_throttle_check, on_throttle_reassignments
from handlers.topic_creation import on_create_partitions, on_create_topics
from handlers.topics import (
    on_delete_topics,
    on_deletion_retry,
    on_partition_modifications,
    on_topic_change,
    on_topic_deletion,
)


async def dispatch(event: AnyEvent, c: Controller) -> object:
    """Run the handler of an event; the result is the reply to its caller.

    After the handler, unclean elections are looked at, because any handler may hold elections. An unclean election
    makes the leader the only ISR member, so that a reassignment to it may complete. No other event shows that, because
    no leader proposes that ISR. The built-in controller notices it by its watch on the state znode.

    :raises NotController: a caller waits, and only the active controller could answer.
    """
    is_ignored = event.requires_active and not c.is_active
    if is_ignored and event.is_awaited:
        raise NotController("not the active controller")
    result = None if is_ignored else await _run_handler(event, c)
    expect_completion(c.partitions.take_unclean(), c)
    return result


async def _run_handler(event: AnyEvent, c: Controller) -> object:
    if isinstance(event, cluster.RoleEvent):
        return await _run_role_handler(event, c)
    if isinstance(event, cluster.BrokerEvent):
        return await _run_broker_handler(event, c)
    if isinstance(event, cluster.CheckEvent):
        return await _run_check_handler(event, c)
    if isinstance(event, topics.TopicEvent):
        return await _run_topic_handler(event, c)
    if isinstance(event, replicas.ReplicaEvent):
        return await _run_replica_handler(event, c)
    if isinstance(event, responses.ResponseEvent):
        return await _run_response_handler(event, c)
    if isinstance(event, elections.ElectionEvent):
        return await _run_election_handler(event, c)
    if isinstance(event, reassignments.ReassignmentEvent):
        return await _run_reassignment_handler(event, c)
    if isinstance(event, operator.OperatorEvent):
        return await _run_operator_handler(event, c)
    if isinstance(event, admin.AdminEvent):
        return await _run_admin_handler(event, c)
    assert_never(event)


def _run_role_handler(event: cluster.RoleEvent, c: Controller) -> Awaitable[object]:
    match event:
        case cluster.Startup():
            return role.on_startup(event, c)
        case cluster.ControllerChange():
            return role.on_controller_change(event, c)
        case cluster.Reelect() | cluster.RegisterBrokerAndReelect():
            return role.on_reelect(event, c)
        case cluster.Expire():
            return role.on_expire(event, c)
        case cluster.ShutdownEventThread():
            return role.on_shutdown(event, c)
        case cluster.Resync():
            return role.on_resync(event, c)
        case cluster.Takeover():
            return role.on_takeover(event, c)
        case cluster.Resign():
            return role.on_resign(event, c)
        case _:
            assert_never(event)


def _run_broker_handler(event: cluster.BrokerEvent, c: Controller) -> Awaitable[object]:
    match event:
        case cluster.BrokerChange():
            return on_broker_change(event, c)
        case cluster.BrokerModifications():
            return on_broker_modifications(event, c)
        case cluster.BrokerRefresh():
            return on_broker_refresh(event, c)
        case _:
            assert_never(event)


def _run_check_handler(event: cluster.CheckEvent, c: Controller) -> Awaitable[object]:
    match event:
        case cluster.SelfAudit():
            return on_self_audit(event, c)
        case cluster.DelegationTokenExpiryCheck():
            return on_token_expiry_check(event, c)
        case cluster.QuarantineCheck():
            return on_quarantine_check(event, c)
        case _:
            assert_never(event)


def _run_topic_handler(event: topics.TopicEvent, c: Controller) -> Awaitable[object]:
    match event:
        case topics.TopicChange():
            return on_topic_change(event, c)
        case topics.PartitionModifications():
            return on_partition_modifications(event, c)
        case topics.TopicDeletion():
            return on_topic_deletion(event, c)
        case topics.TopicDeletionRetry():
            return on_deletion_retry(event, c)
        case topics.TopicDeletionStopReplicaResponseReceived():
            return on_stop_replica_response(event, c)
        case _:
            assert_never(event)


def _run_replica_handler(event: replicas.ReplicaEvent, c: Controller) -> Awaitable[object]:
    match event:
        case replicas.IsrChangeNotification():
            return on_isr_change_notification(event, c)
        case replicas.LogDirEventNotification():
            return on_log_dir_event(event, c)
        case replicas.AlterPartitionReceived():
            return on_alter_partition(event, c)
        case _:
            assert_never(event)


def _run_response_handler(event: responses.ResponseEvent, c: Controller) -> Awaitable[object]:
    match event:
        case responses.LeaderAndIsrResponseReceived():
            return on_leader_and_isr_response(event, c)
        case responses.UpdateMetadataResponseReceived():
            return on_update_metadata_response(event, c)
        case responses.ApiVersionsReceived():
            return on_api_versions(event, c)
        case responses.BrokerSettingsReceived():
            return on_broker_settings(event, c)
        case _:
            assert_never(event)


def _run_election_handler(event: elections.ElectionEvent, c: Controller) -> Awaitable[object]:
    match event:
        case elections.ReplicaLeaderElection():
            return on_replica_leader_election(event, c)
        case elections.AutoPreferredReplicaLeaderElection():
            return on_auto_preferred_election(event, c)
        case elections.UncleanLeaderElectionEnable():
            return on_unclean_enabled(event, c)
        case elections.TopicUncleanLeaderElectionEnable():
            return on_topic_unclean_enabled(event, c)
        case elections.ConfigChange():
            return on_config_change(event, c)
        case _:
            assert_never(event)


def _run_reassignment_handler(event: reassignments.ReassignmentEvent, c: Controller) -> Awaitable[object]:
    match event:
        case reassignments.ZkPartitionReassignment():
            return on_zk_reassignment(event, c)
        case reassignments.ApiPartitionReassignment():
            return on_api_reassignment(event, c)
        case reassignments.PartitionReassignmentIsrChange() | reassignments.ReassignmentsMayComplete():
            return on_isr_of_reassignment(event, c)
        case reassignments.ReassignmentRetry():
            return on_reassignment_retry(event, c)
        case reassignments.ListPartitionReassignments():
            return on_list_reassignments(event, c)
        case _:
            assert_never(event)


def _run_operator_handler(event: operator.OperatorEvent, c: Controller) -> Awaitable[object]:
    match event:
        case operator.Pause():
            return on_pause(event, c)
        case operator.Resume():
            return on_resume(event, c)
        case operator.PauseCheck():
            return on_pause_check(event, c)
        case operator.DrainBroker():
            return on_drain_broker(event, c)
        case operator.ThrottleReassignments():
            return on_throttle_reassignments(event, c)
        case operator.ThrottleCheck():
            return on_throttle_check(event, c)
        case _:
            assert_never(event)


def _run_admin_handler(event: admin.AdminEvent, c: Controller) -> Awaitable[object]:
    match event:
        case admin.ControlledShutdown():
            return on_controlled_shutdown(event, c)
        case admin.AllocateProducerIds():
            return on_allocate_producer_ids(event, c)
        case admin.UpdateFeatures():
            return on_update_features(event, c)
        case admin.CreateTopics():
            return on_create_topics(event, c)
        case admin.DeleteTopics():
            return on_delete_topics(event, c)
        case admin.CreatePartitions():
            return on_create_partitions(event, c)
        case admin.AlterScram():
            return on_alter_scram(event, c)
        case admin.ForgetBroker():
            return on_forget_broker(event, c)
        case _:
            assert_never(event)


END_OF_EVENT: Final[tuple[Callable[[Controller], None], ...]] = (
    schedule_quarantine_check,
    schedule_deletions,
    schedule_pause_check,
    schedule_throttle_check,
)
"""Run after every event, in this order, even if it failed: work that is due later gets its timer."""
