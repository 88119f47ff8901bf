"""Requests of clients that brokers forward in envelopes (KIP-590), and answers that these brokers can decode."""

from typing import Any

import pytest

from controllerd.api.sessions import AclOperation, Principal
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.errors import NotController
from controllerd.views import Role
from events.admin import CreateTopics, DeleteTopics, MutationReply, TopicOutcome
from events.base import Event
from tests.api.cluster import Client, new_request, new_snapshot, running
from wire.kio_codec import decode_response, encode_request

ENVELOPE = 58
LOOPBACK = bytes([10, 1, 2, 3])
EXISTS = Refusal(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")


def principal(kind: str = "User", name: str = "alice", version: int = 0) -> bytes:
    """A principal as ``DefaultKafkaPrincipalBuilder`` writes it: version, two strings, no token."""
    texts = b"".join(bytes([len(text) + 1]) + text.encode() for text in (kind, name))
    return version.to_bytes(2, "big") + texts + b"\0\0"


def create_topics(version: int = 7) -> bytes:
    topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    return encode_request(42, "tool", new_request(19, version, {"topics": [topic]}))


def refuse(event: Event) -> object:
    match event:
        case CreateTopics():
            return MutationReply({topic.name: TopicOutcome(EXISTS) for topic in event.topics})
        case DeleteTopics():
            return NotController("deposed")
        case _:
            raise AssertionError(event)


async def send(client: Client, request: bytes, **values: object) -> Any:
    content = {"request_data": request, "request_principal": principal(), "client_host_address": LOOPBACK, **values}
    return await client.ask(ENVELOPE, 0, **content)


class OnlyBrokers:
    """Brokers may act for the cluster; clients may create nothing."""

    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return operation is AclOperation.CLUSTER_ACTION


class NoBrokers:
    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return operation is not AclOperation.CLUSTER_ACTION


@pytest.mark.parametrize("version", range(8))
async def test_the_response_for_the_client_comes_back_in_the_version_that_it_asked_in(version: int) -> None:
    async with running(handler=refuse) as cluster:
        client = await cluster.connect()

        answer = await send(client, create_topics(version))

        assert answer.error_code == KafkaError.NONE
        correlation_id, entity = decode_response(19, version, answer.response_data)
        created: Any = entity
        assert correlation_id == 42
        assert [(row.name, row.error_code) for row in created.topics] == [("orders", KafkaError.TOPIC_ALREADY_EXISTS)]


async def test_the_requester_is_the_client_and_not_the_broker() -> None:
    async with running(handler=refuse) as cluster:
        await send(await cluster.connect(), create_topics())

        (event,) = cluster.events
        assert isinstance(event, CreateTopics)
        assert (event.by.principal, event.by.client_id, event.by.peer) == ("User:alice", "tool", "10.1.2.3")


async def test_the_client_needs_the_right_itself() -> None:
    async with running(handler=refuse, authorizer=OnlyBrokers()) as cluster:
        answer = await send(await cluster.connect(), create_topics())

        created: Any = decode_response(19, 7, answer.response_data)[1]
        assert [row.error_code for row in created.topics] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
        assert cluster.events == []


async def test_only_brokers_may_forward_requests() -> None:
    async with running(authorizer=NoBrokers()) as cluster:
        answer = await send(await cluster.connect(), create_topics())
        assert (answer.error_code, answer.response_data) == (KafkaError.CLUSTER_AUTHORIZATION_FAILED, None)


async def test_a_standby_answers_an_envelope_with_not_controller() -> None:
    async with running(new_snapshot(Role.STANDBY)) as cluster:
        answer = await send(await cluster.connect(), create_topics())
        assert (answer.error_code, answer.response_data) == (KafkaError.NOT_CONTROLLER, None)


async def test_a_role_that_is_lost_meanwhile_is_a_not_controller_of_the_envelope() -> None:
    """Otherwise the client would get NOT_CONTROLLER from a broker that it never took for the controller."""
    delete = encode_request(7, "tool", new_request(20, 5, {"topic_names": ("orders",)}))
    async with running(handler=refuse) as cluster:
        answer = await send(await cluster.connect(), delete)
        assert (answer.error_code, answer.response_data) == (KafkaError.NOT_CONTROLLER, None)


@pytest.mark.parametrize(
    ("request_data", "values", "code"),
    [
        (create_topics(), {"request_principal": None}, KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics(), {"request_principal": b"\0"}, KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics(), {"request_principal": principal(version=1)}, KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics(), {"client_host_address": b"\1\2\3"}, KafkaError.INVALID_REQUEST),
        (b"", {}, KafkaError.UNSUPPORTED_VERSION),
        (create_topics()[:-3], {}, KafkaError.UNSUPPORTED_VERSION),
        (b"\0\x13\0\x63" + create_topics()[4:], {}, KafkaError.UNSUPPORTED_VERSION),
    ],
    ids=["no principal", "short principal", "strange principal", "address", "no request", "cut request", "version 99"],
)
async def test_a_request_that_cannot_be_read_is_an_error_code_of_the_envelope(
    request_data: bytes, values: dict[str, object], code: KafkaError
) -> None:
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        answer = await send(client, request_data, **values)
        assert (answer.error_code, answer.response_data) == (code, None)
        assert (await client.ask(18, 3)).error_code == KafkaError.NONE, "the connection stays open"


@pytest.mark.parametrize("api_key", [0, 3, 10, 18, 22, 30, 33, 44, 49, ENVELOPE, 67, 99])
async def test_an_api_that_brokers_do_not_forward_is_refused_and_never_relayed(api_key: int) -> None:
    """A broker that forwards requests would send the relayed request back here, without end."""
    async with running(brokers=1) as cluster:
        client = await cluster.connect()
        answer = await send(client, api_key.to_bytes(2, "big") + bytes(12))
        assert (answer.error_code, cluster.brokers[1].frames) == (KafkaError.INVALID_REQUEST, [])


async def test_an_envelope_on_a_listener_for_clients_closes_the_connection() -> None:
    async with running(between_brokers=("INTERNAL",)) as cluster:
        client = await cluster.connect()
        values = {"request_data": create_topics(), "request_principal": None, "client_host_address": LOOPBACK}
        await client.send(encode_request(1, "test", new_request(ENVELOPE, 0, values)))
        assert await client.receive() is None
