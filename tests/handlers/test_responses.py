"""Responses of brokers: failed log directories, and a newer controller epoch."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.releases import Release
from controllerd.views import Role
from events.responses import ApiVersionsReceived, LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived
from tests.fakes.world import World, tp


def answer(world: World, broker: int, **fields: object) -> LeaderAndIsrResponseReceived:
    values: dict[str, object] = {
        "broker": BrokerId(broker),
        "broker_epoch": world.context.epochs()[BrokerId(broker)],
        "controller_epoch": world.context.epoch,
        "error": KafkaError.NONE,
        "partition_errors": {},
        "partitions": frozenset({tp("t")}),
    }
    return LeaderAndIsrResponseReceived(**(values | fields))  # type: ignore[arg-type]


async def test_a_replica_on_a_failed_directory_loses_its_leadership(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()

    world.queue.put(answer(world, 1, partition_errors={tp("t"): KafkaError.KAFKA_STORAGE_ERROR}))
    await world.settle()

    assert world.state("t")[:3] == (2, 1, [2, 3])
    assert world.context.liveness.offline(world.context.record(tp("t"))) == (1,)


async def test_an_answer_of_the_same_controller_epoch_changes_nothing(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.forget()

    world.queue.put(answer(world, 1, partition_errors={tp("t"): KafkaError.STALE_CONTROLLER_EPOCH}))
    await world.settle()

    assert world.channels.sent == []
    assert world.zk.writes == []


async def test_an_answer_of_an_earlier_broker_epoch_is_ignored(world: World) -> None:
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.forget()

    late = answer(world, 1, broker_epoch=1, partition_errors={tp("t"): KafkaError.KAFKA_STORAGE_ERROR})
    world.queue.put(late)
    await world.settle()

    assert world.context.offline_dirs == {}


async def test_a_stale_controller_epoch_answer_makes_the_instance_check_zookeeper_and_resign(world: World) -> None:
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put("/controller_epoch", b"2")
    world.tree.remove("/controller")

    world.queue.put(
        UpdateMetadataResponseReceived(
            BrokerId(1), world.context.epochs()[BrokerId(1)], 1, KafkaError.STALE_CONTROLLER_EPOCH
        )
    )
    await world.loop.handle(await world.queue.take())

    assert world.snapshot.role is Role.STANDBY
    assert world.channels.open == set()


async def test_the_release_of_a_broker_is_known_until_it_dies(world: World) -> None:
    epoch = world.context.epochs()[BrokerId(1)]

    world.queue.put(ApiVersionsReceived(BrokerId(1), epoch, Release(2, 8)))
    world.queue.put(ApiVersionsReceived(BrokerId(2), 0, Release(2, 6)))
    await world.settle()

    assert world.context.releases == {1: Release(2, 8)}
    assert world.snapshot.releases == {1: Release(2, 8)}
    assert world.context.releases.oldest == Release(2, 8)

    world.die(1)
    await world.settle()

    assert world.context.releases.oldest is None
