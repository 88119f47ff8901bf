"""Every event there is, as unions: what dispatch must cover, and the type checker proves that it does."""

from events import admin, cluster, elections, reassignments, replicas, responses, topics

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
    | responses.LeaderAndIsrResponseReceived
    | responses.UpdateMetadataResponseReceived
)
LaterEvent = (
    topics.TopicDeletion
    | topics.TopicDeletionStopReplicaResponseReceived
    | replicas.LogDirEventNotification
    | elections.ReplicaLeaderElection
    | elections.AutoPreferredReplicaLeaderElection
    | elections.UncleanLeaderElectionEnable
    | elections.TopicUncleanLeaderElectionEnable
    | elections.ConfigChange
    | reassignments.ZkPartitionReassignment
    | reassignments.ApiPartitionReassignment
    | reassignments.PartitionReassignmentIsrChange
    | reassignments.ListPartitionReassignments
    | admin.UpdateFeatures
    | admin.CreateTopics
    | admin.DeleteTopics
    | admin.CreatePartitions
    | admin.ForgetBroker
)
AnyEvent = RoleEvent | ClusterEvent | LaterEvent
