"""All events, as unions by subject: ``dispatch`` must cover them, and the type checker proves that it does."""

from events import admin, cluster, elections, operator, reassignments, replicas, responses, topics

RoleEvent = (
    cluster.Startup
    | cluster.ControllerChange
    | cluster.Reelect
    | cluster.RegisterBrokerAndReelect
    | cluster.Expire
    | cluster.ShutdownEventThread
    | cluster.Resync
    | cluster.Takeover
    | cluster.Resign
)
BrokerEvent = (
    cluster.BrokerChange
    | cluster.BrokerModifications
    | cluster.BrokerRefresh
    | replicas.LogDirEventNotification
    | admin.ControlledShutdown
    | operator.DrainBroker
    | admin.ForgetBroker
)
TopicEvent = (
    topics.TopicChange
    | topics.PartitionModifications
    | topics.TopicDeletion
    | topics.TopicDeletionRetry
    | admin.CreateTopics
    | admin.CreatePartitions
    | admin.DeleteTopics
)
IsrEvent = replicas.IsrChangeNotification | replicas.AlterPartitionReceived
ResponseEvent = (
    responses.LeaderAndIsrResponseReceived
    | responses.UpdateMetadataResponseReceived
    | topics.TopicDeletionStopReplicaResponseReceived
    | responses.ApiVersionsReceived
    | responses.BrokerSettingsReceived
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
    | operator.ThrottleReassignments
    | operator.ThrottleCheck
)
PauseEvent = operator.Pause | operator.Resume | operator.PauseCheck
AdminEvent = admin.UpdateFeatures | admin.AlterScram | admin.AllocateProducerIds
CheckEvent = cluster.SelfAudit | cluster.QuarantineCheck | cluster.DelegationTokenExpiryCheck
AnyEvent = (
    RoleEvent
    | BrokerEvent
    | TopicEvent
    | IsrEvent
    | ResponseEvent
    | ElectionEvent
    | ReassignmentEvent
    | PauseEvent
    | AdminEvent
    | CheckEvent
)
