"""Topics are deleted: the request, the brokers' answers, and brokers that never return."""

from controllerd.controller import Controller
from controllerd.errors import NotServed
from events.admin import ForgetBroker, Forgotten
from events.topics import TopicDeletion, TopicDeletionStopReplicaResponseReceived


async def initialise_deletions(_c: Controller) -> None:
    """At the start of a term, before the state machines: which topics are to be deleted, and what holds them up."""


async def on_topic_deletion(_event: TopicDeletion, _c: Controller) -> None:
    """Somebody asked for deletions."""


async def on_stop_replica_response(_event: TopicDeletionStopReplicaResponseReceived, _c: Controller) -> None:
    """A broker deleted replicas, or failed to."""


async def on_forget_broker(_event: ForgetBroker, _c: Controller) -> Forgotten:
    """A broker never returns."""
    raise NotServed("forgetting brokers")
