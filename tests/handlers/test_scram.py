"""Admin clients change SCRAM credentials: one compare-and-set per user, with a notification for brokers."""

import json

import pytest

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.scram import ScramChange, ScramCredential, stored_credential
from controllerd.errors import NotController
from controllerd.record.records import AlarmRecord
from events.admin import AlterScram, Requester
from tests.fakes.world import World

BY = Requester("User:admin", "admin", "app", 0, "127.0.0.1")
PASSWORD = ScramCredential(1, 4096, b"salt", b"salted password")
SET = ScramChange(upsertions=(PASSWORD,))
ALICE = "/config/users/alice"
FAILED = Refusal(KafkaError.UNKNOWN_SERVER_ERROR)


def alter(**changes: ScramChange) -> AlterScram:
    return AlterScram(BY, changes)


def config(world: World, path: str = ALICE) -> dict[str, str]:
    found: dict[str, str] = json.loads(world.tree.nodes[path].data or b"")["config"]
    return found


async def test_credentials_of_a_new_user_are_written_and_brokers_notified(world: World) -> None:
    assert await world.call(alter(alice=SET)) == {"alice": None}

    assert config(world) == {"SCRAM-SHA-256": stored_credential(PASSWORD)}
    (fence, written, notification) = world.zk.transactions[0]
    assert [fence.path, written.path, notification.path] == [
        "/controller_epoch",
        ALICE,
        "/config/changes/config_change_",
    ]


async def test_a_credential_is_deleted(world: World) -> None:
    await world.call(alter(alice=SET))

    assert await world.call(alter(alice=ScramChange(deletions=(1,)))) == {"alice": None}
    assert config(world) == {}


async def test_a_refused_user_does_not_keep_others_from_being_changed(world: World) -> None:
    reply = await world.call(alter(bob=ScramChange((1,)), alice=SET, eve=ScramChange((9,))))

    assert [(user, refusal and refusal.error) for user, refusal in reply.items()] == [
        ("bob", KafkaError.RESOURCE_NOT_FOUND),
        ("alice", None),
        ("eve", KafkaError.UNSUPPORTED_SASL_MECHANISM),
    ]


async def test_many_users_cost_few_transactions(world: World) -> None:
    users = [f"user-{number}" for number in range(1_000)]
    before = world.zk.round_trips

    reply = world.queue.call(alter(**dict.fromkeys(users, SET)))
    await world.loop.handle(await world.queue.take())

    assert await reply == dict.fromkeys(users)
    assert world.zk.round_trips - before < 20


async def test_a_configuration_that_another_client_writes_meanwhile_is_kept(world: World) -> None:
    world.zk.before_transaction[1] = lambda: world.tree.put(ALICE, b'{"version":1,"config":{"a":"1"}}')

    assert await world.call(alter(alice=SET)) == {"alice": None}
    assert config(world) == {"a": "1", "SCRAM-SHA-256": stored_credential(PASSWORD)}


async def test_a_write_that_keeps_losing_the_race_is_refused_with_an_alarm(world: World) -> None:
    for number in range(1, 20):
        world.zk.before_transaction[number] = lambda: world.tree.put(ALICE, b'{"version":1,"config":{}}')

    assert await world.call(alter(alice=SET)) == {"alice": FAILED}
    assert [alarm.what for alarm in world.audit.of(AlarmRecord)] == ["credentials were not written"]


async def test_a_configuration_that_cannot_be_understood_is_left_alone(world: World) -> None:
    world.tree.put(ALICE, b"rubbish")

    assert await world.call(alter(alice=SET)) == {"alice": FAILED}
    assert world.tree.nodes[ALICE].data == b"rubbish"


async def test_a_lost_answer_is_resolved_though_the_notification_is_a_sequential_znode(world: World) -> None:
    world.zk.lose_reply_of.add(1)

    assert await world.call(alter(alice=SET)) == {"alice": None}
    assert len(world.zk.transactions) == 1


async def test_the_audit_log_has_no_secret(world: World) -> None:
    await world.call(alter(alice=SET))

    log = str(world.audit.records)
    assert "salted password" not in log
    assert stored_credential(PASSWORD) not in log


async def test_a_standby_changes_nothing() -> None:
    with pytest.raises(NotController):
        await World().call(alter(alice=SET))
