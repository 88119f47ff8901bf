"""All events, as one union: ``dispatch`` must cover it, and the type checker proves that it does.

Each module of events ends with the union of its own family.
"""

from events import admin, cluster, elections, operator, reassignments, replicas, responses, topics

AnyEvent = (
    cluster.RoleEvent
    | cluster.BrokerEvent
    | cluster.CheckEvent
    | topics.TopicEvent
    | replicas.ReplicaEvent
    | responses.ResponseEvent
    | elections.ElectionEvent
    | reassignments.ReassignmentEvent
    | operator.OperatorEvent
    | admin.AdminEvent
)
