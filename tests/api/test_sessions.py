"""The principal of a connection: rights, quotas and the audit log use the name that the transport proved."""

import asyncio

import pytest

from controllerd.api.sessions import ANONYMOUS, AclOperation, AllowAll, Principal, principal_of
from controllerd.core.kafka_error import KafkaError
from events.admin import CreateTopics, MutationReply
from tests.api.cluster import running
from wire.transport import PLAINTEXT_SERVER, Accept, TransportPeer


class ProvingAcceptor:
    """A plaintext acceptor that gives every connection the same proved identity."""

    def __init__(self, identity: str) -> None:
        self.identity = identity

    async def listen(self, host: str, port: int, accept: Accept) -> asyncio.Server:
        return await PLAINTEXT_SERVER.listen(
            host, port, lambda link, peer: accept(link, TransportPeer(peer.address, self.identity))
        )


class OnlyFor:
    """An authorizer that allows one principal everything."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return principal == self.principal


TOPIC = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}


def test_a_connection_without_a_proved_name_is_anonymous() -> None:
    assert principal_of(None) is ANONYMOUS
    assert str(principal_of("alice")) == "User:alice"


@pytest.mark.parametrize("topic", [None, "orders"])
def test_without_an_authorizer_every_operation_is_allowed(topic: str | None) -> None:
    assert all(AllowAll().allows(ANONYMOUS, operation, topic) for operation in AclOperation)


async def test_the_proved_name_is_in_the_event() -> None:
    async with running(handler=lambda _: MutationReply({}), acceptor=ProvingAcceptor("alice")) as cluster:
        await (await cluster.connect()).ask(19, 7, topics=[TOPIC])
        (event,) = cluster.events
        assert isinstance(event, CreateTopics)
        assert (event.by.principal, event.by.user) == ("User:alice", "alice")


async def test_rights_belong_to_the_proved_name() -> None:
    rights = OnlyFor(Principal("User", "bob"))
    async with running(authorizer=rights, acceptor=ProvingAcceptor("alice")) as cluster:
        (row,) = (await (await cluster.connect()).ask(19, 7, topics=[TOPIC])).topics
        assert row.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert cluster.events == []
