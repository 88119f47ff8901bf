"""Every event and its handler; the type checker proves that none is missing."""

from collections.abc import Awaitable
from typing import assert_never

from controllerd.controller import Controller
from events import admin, cluster, elections, operator, reassignments, replicas, responses, topics
from events.registry import (
    AdminEvent,
    AnyEvent,
    ClusterEvent,
    ElectionEvent,
    OperatorEvent,
    ReassignmentEvent,
    ResponseEvent,
    RoleEvent,
)
from handlers import role
from handlers.broker_change import on_broker_change, on_broker_modifications, on_broker_refresh
from handlers.cluster_settings import on_broker_settings
from handlers.config_changes import on_config_change
from handlers.controlled_shutdown import on_controlled_shutdown
from handlers.delegation_tokens import on_token_expiry_check
from handlers.draining import on_drain_broker
from handlers.elections import (
    on_auto_preferred_election,
    on_replica_leader_election,
    on_topic_unclean_enabled,
    on_unclean_enabled,
)
from handlers.features import on_update_features
from handlers.isr_change import on_alter_partition, on_isr_change_notification
from handlers.log_dirs import on_log_dir_event
from handlers.pauses import on_pause, on_pause_check, on_resume
from handlers.producer_ids import on_allocate_producer_ids
from handlers.quarantine import on_quarantine_check
from handlers.reassignments import (
    expect_completion,
    on_api_reassignment,
    on_isr_of_reassignment,
    on_list_reassignments,
    on_reassignment_retry,
    on_zk_reassignment,
)
from handlers.responses import on_api_versions, on_leader_and_isr_response, on_update_metadata_response
from handlers.scram import on_alter_scram
from handlers.self_audit import on_self_audit
from handlers.throttles import on_throttle_check, on_throttle_reassignments
from handlers.topic_creation import on_create_partitions, on_create_topics
from handlers.topic_deletion import (
    on_deletion_retry,
    on_forget_broker,
    on_stop_replica_response,
    on_topic_deletion,
)
from handlers.topic_removal import on_delete_topics
from handlers.topics import on_partition_modifications, on_topic_change


async def dispatch(event: AnyEvent, c: Controller) -> object:
    """Run the handler of an event; the result is the reply to whoever waits.

    Any handler may hold elections. An unclean one makes the leader the ISR, which completes a reassignment to it:
    no leader asks for that ISR, so nothing else would look. The peer sees it by its watch on the state znode.
    """
    result = await _work(event, c)
    expect_completion(c.partitions.take_unclean(), c)
    return result


async def _work(event: AnyEvent, c: Controller) -> object:
    if isinstance(event, RoleEvent):
        return await _role_work(event, c)
    if isinstance(event, ClusterEvent):
        return await _cluster_work(event, c)
    if isinstance(event, ResponseEvent):
        return await _response_work(event, c)
    if isinstance(event, AdminEvent):
        return await _admin_work(event, c)
    if isinstance(event, ElectionEvent):
        return await _election_work(event, c)
    if isinstance(event, ReassignmentEvent):
        return await _reassignment_work(event, c)
    if isinstance(event, OperatorEvent):
        return await _operator_work(event, c)
    assert_never(event)


def _role_work(event: RoleEvent, c: Controller) -> Awaitable[object]:
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
        case cluster.SelfAudit():
            return on_self_audit(event, c)
        case cluster.Takeover():
            return role.on_takeover(event, c)
        case cluster.Resign():
            return role.on_resign(event, c)
        case _:
            assert_never(event)


def _cluster_work(event: ClusterEvent, c: Controller) -> Awaitable[object]:
    match event:
        case cluster.BrokerChange():
            return on_broker_change(event, c)
        case cluster.BrokerModifications():
            return on_broker_modifications(event, c)
        case cluster.BrokerRefresh():
            return on_broker_refresh(event, c)
        case cluster.QuarantineCheck():
            return on_quarantine_check(event, c)
        case topics.TopicChange():
            return on_topic_change(event, c)
        case topics.PartitionModifications():
            return on_partition_modifications(event, c)
        case replicas.IsrChangeNotification():
            return on_isr_change_notification(event, c)
        case replicas.AlterPartitionReceived():
            return on_alter_partition(event, c)
        case admin.AllocateProducerIds():
            return on_allocate_producer_ids(event, c)
        case admin.ControlledShutdown():
            return on_controlled_shutdown(event, c)
        case _:
            assert_never(event)


def _response_work(event: ResponseEvent, c: Controller) -> Awaitable[object]:
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


def _admin_work(event: AdminEvent, c: Controller) -> Awaitable[object]:
    match event:
        case topics.TopicDeletion():
            return on_topic_deletion(event, c)
        case topics.TopicDeletionRetry():
            return on_deletion_retry(event, c)
        case topics.TopicDeletionStopReplicaResponseReceived():
            return on_stop_replica_response(event, c)
        case replicas.LogDirEventNotification():
            return on_log_dir_event(event, c)
        case admin.UpdateFeatures():
            return on_update_features(event, c)
        case admin.ForgetBroker():
            return on_forget_broker(event, c)
        case admin.CreateTopics():
            return on_create_topics(event, c)
        case admin.DeleteTopics():
            return on_delete_topics(event, c)
        case admin.CreatePartitions():
            return on_create_partitions(event, c)
        case admin.AlterScram():
            return on_alter_scram(event, c)
        case cluster.DelegationTokenExpiryCheck():
            return on_token_expiry_check(event, c)
        case _:
            assert_never(event)


def _election_work(event: ElectionEvent, c: Controller) -> Awaitable[object]:
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


def _reassignment_work(event: ReassignmentEvent, c: Controller) -> Awaitable[object]:
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


def _operator_work(event: OperatorEvent, c: Controller) -> Awaitable[object]:
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
