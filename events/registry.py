"""Every event there is, as unions: what dispatch must cover, and the type checker proves that it does."""

from events import admin, cluster, elections, operator, reassignments, replicas, responses, topics

RoleEvent = (
    cluster.Startup
    | cluster.ControllerChange
    | cluster.Reelect
    | cluster.RegisterBrokerAndReelect
    | cluster.Expire
    | cluster.ShutdownEventThread
    | cluster.Resync
    | cluster.SelfAudit
    | cluster.Takeover
    | cluster.Resign
)
ClusterEvent = (
    cluster.BrokerChange
    | cluster.BrokerModifications
    | cluster.BrokerRefresh
    | cluster.QuarantineCheck
    | topics.TopicChange
    | topics.PartitionModifications
    | replicas.IsrChangeNotification
    | replicas.AlterPartitionReceived
    | admin.AllocateProducerIds
    | admin.ControlledShutdown
)
ResponseEvent = (
    responses.LeaderAndIsrResponseReceived
    | responses.UpdateMetadataResponseReceived
    | responses.ApiVersionsReceived
    | responses.BrokerSettingsReceived
)
AdminEvent = (
    topics.TopicDeletion
    | topics.TopicDeletionRetry
    | topics.TopicDeletionStopReplicaResponseReceived
    | replicas.LogDirEventNotification
    | admin.UpdateFeatures
    | admin.ForgetBroker
    | admin.CreateTopics
    | admin.DeleteTopics
    | admin.CreatePartitions
    | admin.AlterScram
    | cluster.DelegationTokenExpiryCheck
)
ElectionEvent = (
    elections.ReplicaLeaderElection
    | elections.AutoPreferredReplicaLeaderElection
    | elections.UncleanLeaderElectionEnable
    | elections.TopicUncleanLeaderElectionEnable
    | elections.ConfigChange
)
ReassignmentEvent = (
    reassignments.ZkPartitionReassignment
    | reassignments.ApiPartitionReassignment
    | reassignments.PartitionReassignmentIsrChange
    | reassignments.ReassignmentsMayComplete
    | reassignments.ReassignmentRetry
    | reassignments.ListPartitionReassignments
)
OperatorEvent = (
    operator.Pause
    | operator.Resume
    | operator.PauseCheck
    | operator.DrainBroker
    | operator.ThrottleReassignments
    | operator.ThrottleCheck
)
AnyEvent = RoleEvent | ClusterEvent | ResponseEvent | AdminEvent | ElectionEvent | ReassignmentEvent | OperatorEvent
