"""Group L: the answers to admin clients about topics, features and producer ids, over a socket."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from controllerd.__main__ import app
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.daemon.run import EXIT_CONFIG
from events.admin import AllocateProducerIds, ProducerIdBlock
from tests.fakes.world import World, registration
from tests.scenarios.acts import cluster, with_topic
from tests.scenarios.worlds import served

NONE, INVALID = KafkaError.NONE, KafkaError.INVALID_REQUEST
COUNT, ASSIGNMENT = KafkaError.INVALID_PARTITIONS, KafkaError.INVALID_REPLICA_ASSIGNMENT
REFUSED: Final = KafkaError.THROTTLING_QUOTA_EXCEEDED
CREATE, DELETE, GROW, FEATURES = 19, 20, 37, 57
ROWS: Final = {CREATE: "topics", DELETE: "responses", GROW: "results"}
UP, DOWN = 1, 2


def new(name: str, partitions: int = 1) -> dict[str, object]:
    """A topic to create."""
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}


async def ask(world: World, api: int, version: int, **values: object) -> tuple[dict[str, int], bool]:
    """The error of each topic, and whether the client must wait; each request has a connection of its own."""
    async with served(world) as client:
        entity = await client.ask(api, version, **values)
    rows = getattr(entity, ROWS[api])
    return {row.name: row.error_code for row in rows}, bool(entity.throttle_time)


def topics_of(world: World) -> set[str]:
    """The topics that have a znode."""
    head = "/brokers/topics/"
    return {path.removeprefix(head) for path in world.tree.nodes if path.startswith(head) and path.count("/") == 3}


@pytest.mark.parametrize("validate", [True, False], ids=["validated", "in earnest"])
@pytest.mark.parametrize(
    ("count", "lists", "error", "says"),
    [
        (1, None, COUNT, "Topic currently has 3 partitions, which is higher than the requested 1."),
        (3, None, COUNT, "Topic already has 3 partitions."),
        (3, [], COUNT, "Topic already has 3 partitions."),
        (5, [[1, 2]], ASSIGNMENT, "Increasing the number of partitions by 2 but 1 assignments provided."),
        (4, [[1, 2], [2, 1]], ASSIGNMENT, "Increasing the number of partitions by 1 but 2 assignments provided."),
        (5, [], ASSIGNMENT, "Increasing the number of partitions by 2 but 0 assignments provided."),
        (4, [[1, 1]], ASSIGNMENT, "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 3."),
        (
            5,
            [[1, 2], [1]],
            ASSIGNMENT,
            (
                "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [4] have "
                "replication factors [1], respectively."
            ),
        ),
        (4, [[1, 77]], ASSIGNMENT, "Unknown broker(s) in replica assignment: 77."),
        (4, [[]], ASSIGNMENT, "Cannot have replication factor of 0 for partition id 3."),
        (
            4,
            [[1, 2, 3]],
            ASSIGNMENT,
            (
                "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [3] have "
                "replication factors [3], respectively."
            ),
        ),
    ],
)
async def test_l10_bad_growth_is_refused_in_kafkas_words(
    count: int, lists: Sequence[Sequence[int]] | None, error: KafkaError, says: str, validate: bool
) -> None:
    world = await cluster(1, 2, 3)
    world.put_topic("t", {p: [1, 2] for p in range(3)})
    await world.settle()
    given = None if lists is None else [{"broker_ids": ids} for ids in lists]

    async with served(world) as client:
        rows = [{"name": "t", "count": count, "assignments": given}]
        (row,) = (await client.ask(GROW, 3, topics=rows, validate_only=validate)).results

    assert (row.error_code, row.error_message) == (error, says)
    assert len(json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")["partitions"]) == 3


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        (CREATE, 7, {"topics": [new("new")]}),
        (DELETE, 6, {"topics": [{"name": "t", "topic_id": None}]}),
        (GROW, 3, {"topics": [{"name": "t", "count": 2, "assignments": None}]}),
    ],
    ids=["create", "delete", "grow"],
)
async def test_l11_an_instance_that_does_not_lead_changes_no_topic(
    api: int, version: int, values: Mapping[str, object]
) -> None:
    world = await with_topic(await cluster(1), "t", 1)
    world.zk.expire()
    standby = World(tree=world.tree, session_id=2)

    errors, _ = await ask(standby, api, version, **values)

    assert set(errors.values()) == {KafkaError.NOT_CONTROLLER}
    assert topics_of(world) == {"t"}


async def limited(world: World, rate: str | None = "1") -> World:
    """Set a quota for the client of these tests: one partition a second, eleven at once; it is exceeded by one."""
    config = {} if rate is None else {"controller_mutation_rate": rate}
    world.tree.put("/config/clients/test", json.dumps({"version": 1, "config": config}).encode())
    world.tree.put("/config/changes/config_change_0000000001", b'{"version":2,"entity_path":"clients/test"}')
    await world.settle()
    assert await ask(world, CREATE, 7, topics=[new("t", 12)]) == ({"t": NONE}, False)
    return world


async def change(world: World, api: int, version: int) -> tuple[dict[str, int], bool]:
    """Create, delete or add one more partition."""
    grown = {"name": "t", "count": 13, "assignments": None}
    gone: dict[str, object] = {"topic_names": ("t",), "topics": [{"name": "t", "topic_id": None}]}
    values: dict[int, dict[str, object]] = {
        CREATE: {"topics": [new("other")]},
        DELETE: gone,
        GROW: {"topics": [grown]},
    }
    errors, waits = await ask(world, api, version, **values[api])
    assert len(errors) == 1
    return errors, waits


@pytest.mark.parametrize(("api", "version"), [(CREATE, 6), (CREATE, 7), (DELETE, 5), (DELETE, 6), (GROW, 3)])
async def test_l12_a_strict_request_beyond_the_quota_is_refused(api: int, version: int) -> None:
    world = await limited(await cluster(1))
    before = {path: node.data for path, node in world.tree.nodes.items()}

    errors, waits = await change(world, api, version)

    assert (set(errors.values()), waits) == ({REFUSED}, True)
    assert {path: node.data for path, node in world.tree.nodes.items()} == before


@pytest.mark.parametrize(("api", "version"), [(CREATE, 5), (DELETE, 4), (GROW, 2)])
async def test_l12_a_permissive_request_beyond_the_quota_is_done_and_slowed_down(api: int, version: int) -> None:
    world = await limited(await cluster(1))

    errors, waits = await change(world, api, version)

    assert (set(errors.values()), waits) == ({NONE}, True)


@pytest.mark.parametrize(("api", "version"), [(CREATE, 7), (DELETE, 6), (GROW, 3)])
async def test_l12_without_a_quota_no_client_waits(api: int, version: int) -> None:
    world = await limited(await cluster(1), rate=None)

    errors, waits = await change(world, api, version)

    assert (set(errors.values()), waits) == ({NONE}, False)


async def test_l13_names_of_249_letters_are_taken_and_longer_ones_are_not() -> None:
    world = await cluster(1)
    longest, longer = "l" * 249, "l" * 250

    errors, _ = await ask(world, CREATE, 7, topics=[new(longest), new(longer)])

    assert errors == {longest: NONE, longer: KafkaError.INVALID_TOPIC_EXCEPTION}
    assert topics_of(world) == {longest}


async def test_l13_names_that_metrics_cannot_tell_apart_are_refused() -> None:
    world = await with_topic(await cluster(1), "a.b_c", 1)

    async with served(world) as client:
        (row,) = (await client.ask(CREATE, 7, topics=[new("a_b.c")])).topics

    says = "Topic 'a_b.c' collides with existing topics: a.b_c"
    assert (row.error_code, row.error_message) == (KafkaError.INVALID_TOPIC_EXCEPTION, says)
    assert topics_of(world) == {"a.b_c"}


async def with_features(*supported: tuple[int, int] | None) -> World:
    """Register a broker for each range of levels of the feature f; f is finalized at 2, and g, unsupported, at 1."""
    world = World()
    for broker, levels in enumerate(supported, 1):
        body = json.loads(registration(broker, 9000 + broker))
        if levels is not None:
            body["features"] = {"f": {"min_version": levels[0], "max_version": levels[1]}}
        world.tree.put(f"/brokers/ids/{broker}", json.dumps(body).encode())
    finalized = {"f": {"max_version_level": 2}}
    world.tree.put("/feature", json.dumps({"version": 2, "status": 1, "features": finalized}).encode())
    return await world.start()


def levels_of(world: World) -> dict[str, int]:
    """The finalized levels."""
    body = json.loads(world.tree.nodes["/feature"].data or b"")
    return {name: row["max_version_level"] for name, row in body["features"].items()}


async def update(world: World, *rows: tuple[str, int, int], validate: bool = False) -> Any:
    """Request levels."""
    updates = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in rows]
    async with served(world) as client:
        return await client.ask(FEATURES, 1, feature_updates=updates, validate_only=validate)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (("f", 3, UP), NONE),
        (("f", 4, UP), INVALID),
        (("f", 2, UP), INVALID),
        (("f", 1, UP), INVALID),
        (("f", 1, DOWN), NONE),
        (("f", 3, DOWN), INVALID),
        (("f", 0, DOWN), NONE),
        (("f", 0, UP), INVALID),
        (("unknown", 1, UP), INVALID),
        (("unknown", 0, DOWN), INVALID),
        (("", 1, UP), INVALID),
        (("f", 3, 9), INVALID),
    ],
    ids=[
        "raised",
        "beyond a broker",
        "as it is",
        "lowered by raising",
        "lowered",
        "raised by lowering",
        "deleted",
        "deleted by raising",
        "unknown",
        "deletion of unknown",
        "without name",
        "of no kind",
    ],
)
async def test_l14_a_feature_is_judged_by_its_level_its_direction_and_every_broker(
    row: tuple[str, int, int], error: KafkaError
) -> None:
    world = await with_features((1, 5), (1, 3))

    answer = await update(world, row)

    assert (answer.error_code, [result.error_code for result in answer.results]) == (NONE, [error])
    assert (levels_of(world) == {"f": 2}) == (error is not NONE)


async def test_l14_of_several_features_only_the_valid_changes_are_made() -> None:
    world = await with_features((1, 5), (1, 3))

    answer = await update(world, ("f", 3, UP), ("unknown", 1, UP))

    assert {row.feature: row.error_code for row in answer.results} == {"f": NONE, "unknown": INVALID}
    assert levels_of(world) == {"f": 3}


async def test_l14_a_validated_update_changes_nothing() -> None:
    world = await with_features((1, 5))

    answer = await update(world, ("f", 3, UP), validate=True)

    assert [row.error_code for row in answer.results] == [NONE]
    assert levels_of(world) == {"f": 2}


async def test_l14_an_instance_that_does_not_lead_finalizes_nothing() -> None:
    answer = await update(World(), ("f", 1, UP))

    assert answer.error_code == KafkaError.NOT_CONTROLLER


def block_for(world: World, broker: int) -> AllocateProducerIds:
    """The call of a broker that has used up its producer ids."""
    return AllocateProducerIds(BrokerId(broker), world.context.epochs()[BrokerId(broker)])


async def test_l15_blocks_of_many_brokers_at_once_never_overlap() -> None:
    world = await cluster(1, 2, 3)
    replies = [world.queue.call(block_for(world, broker)) for broker in (1, 2, 3) * 10]
    await world.settle()

    blocks = await asyncio.gather(*replies)

    assert sorted(block.start for block in blocks) == [1000 * number for number in range(30)]
    assert {(block.error, block.length) for block in blocks} == {(NONE, 1000)}


async def test_l15_the_next_controller_goes_on_where_the_last_one_ended() -> None:
    world = await cluster(1)
    await world.call(block_for(world, 1))
    world.zk.expire()
    successor = await World(tree=world.tree, session_id=2, node_id=world.c.node_id + 1).start()

    assert await successor.call(block_for(successor, 1)) == ProducerIdBlock(NONE, 1000, 1000)


async def test_l15_a_broker_of_an_earlier_registration_gets_no_ids() -> None:
    world = await cluster(1)
    stale = block_for(world, 1)
    world.bounce(1)
    await world.settle()

    assert (await world.call(stale)).error is KafkaError.STALE_BROKER_EPOCH


def test_l16_where_a_policy_judges_new_topics_the_daemon_does_not_start(tmp_path: Path) -> None:
    """No server listens at the address of ZooKeeper: the configuration is refused before the daemon would connect."""
    file = tmp_path / "server.properties"
    file.write_text("create.topic.policy.class.name=com.example.NoTopics\nzookeeper.connect=127.0.0.1:1/kafka\n")
    flags = ["--node-id", "2000000000", "--listener", "PLAINTEXT://127.0.0.1:0", "--data-dir", str(tmp_path / "data")]

    ended = CliRunner().invoke(app, ["run", "--from-server-properties", str(file), *flags])

    (problem,) = ended.stderr.splitlines()
    assert (ended.exit_code, "create.topic.policy.class.name" in problem) == (EXIT_CONFIG, True)
    assert not (tmp_path / "data").exists()
