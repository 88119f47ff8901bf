"""Reasons for which the deletion of a topic waits: Kafka's three, and ours."""

from controllerd.core.intents import DELETIONS
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.views import ChannelView
from events.operator import Pause
from tests.explain.seeding import Seeded, codes, text
from tests.fakes.reassigning import reassign
from tests.fakes.world import tp


async def delete(seeded: Seeded, topic: str = "payments") -> Seeded:
    """Request the deletion, as a tool does."""
    seeded.world.tree.put(f"/admin/delete_topics/{topic}", b"")
    await seeded.disks.settle()
    return seeded


async def test_replicas_are_offline() -> None:
    seeded = await Seeded(3, 5).start([5, 3], partitions=4)
    await seeded.kill(3)
    await delete(seeded)

    why = await seeded.why_topic()

    assert (why.condition, why.severity) == ("deleting", "warning")
    assert [(cause.code, cause.broker) for cause in why.causes] == [
        ("deletion-offline-replicas", 3),
        ("broker-gone", 3),
    ]
    assert why.causes[0].sentence == "offline replicas: 4 replicas on broker 3 cannot be deleted"
    assert why.next == [
        "bring broker 3 back",
        "or, if it never returns:",
        'controllerctl brokers forget 3 --reason "never returns"',
    ]


async def test_a_partition_has_the_same_causes_as_its_topic() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await seeded.kill(3)
    await delete(seeded)

    why = await seeded.why()

    assert why.condition == "deleting"
    assert why.headline.startswith("payments-0 is BEING DELETED for 1m0s (since 10:01:00Z")
    assert codes(why) == ["deletion-offline-replicas", "broker-gone"]


async def test_the_deletion_waits_for_a_reassignment() -> None:
    seeded = await Seeded(3, 5, 6).start([5, 3])
    await reassign(seeded.world, {tp("payments"): (5, 6)})
    await delete(seeded)

    why = await seeded.why_topic()

    assert codes(why)[0] == "deletion-waits-for-reassignment"
    assert why.causes[0].sentence == (
        "topic reassignment in progress: payments-0 (waits for the ISR of replica 6); the topic is deleted once "
        "it has ended"
    )
    assert "controllerctl reassign cancel payments-0" in why.next


async def test_a_broker_fails_to_delete() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    seeded.disks.refusing[3] = KafkaError.KAFKA_STORAGE_ERROR
    await delete(seeded)

    why = await seeded.why_topic()

    assert [(cause.code, cause.broker) for cause in why.causes] == [("deletion-failed", 3)]
    assert why.causes[0].sentence == (
        "replica deletion failure: broker 3 could not delete payments-0: KAFKA_STORAGE_ERROR"
    )


async def test_a_broker_has_not_answered() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    seeded.disks.silent.add(3)
    await delete(seeded)

    why = await seeded.why_topic()

    assert (why.severity, codes(why)) == ("ok", ["deletion-under-way"])
    assert why.causes[0].sentence == "broker 3 must delete replicas; the deletion waits for the answer"


async def test_a_broker_has_not_answered_for_long() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    seeded.disks.silent.add(3)
    await delete(seeded)

    why = await seeded.why_topic(channels={BrokerId(3): ChannelView(1, 120.0)})

    assert (why.severity, codes(why)) == ("warning", ["deletion-under-way", "broker-slow"])
    assert "controllerctl get requests --broker 3" in why.next


async def test_deletions_are_paused() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    until = seeded.world.clock.now_ms() + 3_600_000
    await seeded.world.call(Pause(DELETIONS, until, "audit of topics", "alice"))
    await delete(seeded)

    why = await seeded.why_topic()

    assert codes(why) == ["deletions-paused"]
    assert "audit of topics" in why.causes[0].sentence
    assert why.next == ["controllerctl resume deletions"]


async def test_a_topic_that_is_gone_was_deleted() -> None:
    seeded = await Seeded(3, 5).start([5, 3])
    await delete(seeded)

    why = await seeded.why_topic()

    assert (why.condition, codes(why)) == ("unknown", ["topic-deleted"])
    assert why.headline == "payments does not exist any more: payments was deleted at 10:00:00Z"
    assert "its deletion was requested at 10:00:00Z" in text(why)
