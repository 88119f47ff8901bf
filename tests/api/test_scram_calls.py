"""AlterUserScramCredentials: the event that a request becomes, and the row that each user gets."""

from typing import Any

import pytest

from controllerd.api.sessions import AclOperation, Principal
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.scram import ScramChange, ScramCredential
from controllerd.errors import CallFailed, NotController
from controllerd.views import Role
from events.admin import AlterScram, Requester
from events.base import Event
from tests.api.cluster import Client, new_snapshot, running

UPSERTION = {"name": "bob", "mechanism": 2, "iterations": 4096, "salt": b"salty", "salted_password": b"secret"}
CREDENTIAL = ScramCredential(2, 4096, b"salty", b"secret")


async def alter(client: Client, *deletions: tuple[str, int]) -> dict[str, tuple[KafkaError, str | None]]:
    """Delete these credentials and set one of bob's; error and text by user, in the order of the rows."""
    gone = [{"name": user, "mechanism": mechanism} for user, mechanism in deletions]
    entity: Any = await client.ask(51, 0, deletions=gone, upsertions=[UPSERTION])
    return {row.user: (KafkaError(row.error_code), row.error_message) for row in entity.results}


def alter_all(event: Event) -> object:
    assert isinstance(event, AlterScram)
    return dict.fromkeys(event.changes)


class MayNot:
    """An authorizer that forbids one operation."""

    def __init__(self, forbidden: AclOperation) -> None:
        self.forbidden = forbidden

    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        return operation is not self.forbidden


async def test_all_alterations_of_a_user_become_one_change() -> None:
    async with running(handler=alter_all) as cluster:
        client = await cluster.connect()
        await alter(client, ("bob", 1), ("alice", 1), ("alice", 1))
        (event,) = cluster.events
        assert isinstance(event, AlterScram)
        assert event.changes == {"bob": ScramChange((1,), (CREDENTIAL,)), "alice": ScramChange((1, 1))}
        assert event.by == Requester("User:ANONYMOUS", "ANONYMOUS", "test", 0, event.by.peer)


async def test_no_representation_of_the_event_shows_a_secret() -> None:
    async with running(handler=alter_all) as cluster:
        await alter(await cluster.connect())
        assert "secret" not in repr(cluster.events)
        assert "salty" not in repr(cluster.events)


async def test_each_user_gets_one_row_with_the_reason_of_a_refusal() -> None:
    refusal = Refusal(KafkaError.RESOURCE_NOT_FOUND, "no such credential")
    async with running(handler=lambda _: {"alice": refusal, "bob": None}) as cluster:
        rows = await alter(await cluster.connect(), ("alice", 1), ("alice", 2))
        assert rows == {"alice": refusal, "bob": (KafkaError.NONE, "")}


async def test_a_user_that_the_reply_lacks_has_a_row_all_the_same() -> None:
    async with running(handler=lambda _: {}) as cluster:
        rows = await alter(await cluster.connect())
        assert rows == {"bob": (KafkaError.UNKNOWN_SERVER_ERROR, None)}


@pytest.mark.parametrize(
    ("failure", "error"),
    [(NotController("deposed"), KafkaError.NOT_CONTROLLER), (CallFailed("broken"), KafkaError.UNKNOWN_SERVER_ERROR)],
)
async def test_the_error_of_a_failed_event_is_in_the_row_of_each_user(failure: Exception, error: KafkaError) -> None:
    async with running(handler=lambda _: failure) as cluster:
        rows = await alter(await cluster.connect(), ("alice", 1))
        assert rows == {"alice": (error, None), "bob": (error, None)}


async def test_a_standby_answers_not_controller_for_each_user() -> None:
    async with running(new_snapshot(Role.STANDBY)) as cluster:
        rows = await alter(await cluster.connect(), ("alice", 1))
        assert rows == dict.fromkeys(("alice", "bob"), (KafkaError.NOT_CONTROLLER, None))


async def test_without_the_right_to_alter_the_cluster_no_credential_changes() -> None:
    async with running(authorizer=MayNot(AclOperation.ALTER)) as cluster:
        rows = await alter(await cluster.connect())
        assert rows == {"bob": (KafkaError.CLUSTER_AUTHORIZATION_FAILED, None)}
        assert cluster.events == []
