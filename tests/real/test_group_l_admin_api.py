"""Requests of admin clients (scenarios.md, L1 to L16), on stock brokers under load, with a standby.

``test_comparison.py`` compares the answers with those of the built-in controller; these tests check the effects.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import pytest
import pytest_asyncio
from kio.schema.errors import ErrorCode

from tests.real.comparison.asking import (
    CREATE,
    DELETE,
    ELECT,
    FEATURES,
    GROW,
    LIST_MOVES,
    MOVE,
    PRODUCER_IDS,
    QUOTAS,
    Values,
    answer_of,
    ms,
)
from tests.real.comparison.creations import placed, topic
from tests.real.operator import tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

PREFERRED, UNCLEAN = 0, 1
DEAD: Final = 3
UNREGISTERED: Final = 77
BLOCK: Final = 1_000
"""The number of producer ids in a block."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One active and one standby instance, without a rebalance, and with small fetches for the throttle."""
    directory = tmp_path_factory.mktemp("admin")
    fetches = {"replica.fetch.max.bytes": "65536"}
    async with open_scene(directory, instances=2, overrides=fetches, settings=NO_REBALANCE) as scene:
        yield scene


async def call(
    scene: Scene, api: int, version: int, values: Values, *, port: int | None = None, client: str = "operator"
) -> Any:
    """One request to the active controllerd, or to the listener on ``port``."""
    if port is None:
        port = (await scene.waiting.active()).kafka_port.port
    return await answer_of(port, api, version, values, client=client)


async def elect(scene: Scene, kind: int, partitions: Mapping[str, Sequence[int]] | None) -> dict[str, ErrorCode]:
    """The errors of ElectLeaders by partition."""
    return {key: error for key, (error, _) in (await elect_with_texts(scene, kind, partitions)).items()}


async def elect_with_texts(
    scene: Scene, kind: int, partitions: Mapping[str, Sequence[int]] | None
) -> dict[str, tuple[ErrorCode, str | None]]:
    """The errors and messages of ElectLeaders by partition."""
    rows = None if partitions is None else [{"topic": name, "partitions": ids} for name, ids in partitions.items()]
    answer = await call(scene, ELECT, 2, {"election_type": kind, "topic_partitions": rows})
    assert answer.error_code is ErrorCode.none
    return {
        f"{result.topic}-{row.partition_id}": (row.error_code, row.error_message)
        for result in answer.replica_election_results
        for row in result.partition_result
    }


async def create(
    scene: Scene, *topics: Mapping[str, object], version: int = 7, client: str = "operator", validate: bool = False
) -> Any:
    """The whole answer to CreateTopics."""
    values = {"topics": topics, "timeout": ms(30_000), "validate_only": validate}
    return await call(scene, CREATE, version, values, client=client)


def errors(rows: Sequence[Any]) -> dict[str, ErrorCode]:
    """The errors by topic."""
    return {row.name: row.error_code for row in rows}


async def moved(scene: Scene, name: str) -> None:
    """Create a topic on brokers 2 and 1 that broker 1 leads."""
    await scene.create(name, {0: [1, 2]})
    await scene.until_isr(name, {1, 2})
    assert set((await scene.operator.reassign({tp(name): [2, 1]})).values()) == {ErrorCode.none}
    await scene.until_assigned(name, [2, 1])
    assert (await scene.state(name)).leader == 1


async def test_l1_no_election_takes_place_where_the_preferred_replica_leads(scene: Scene) -> None:
    async with scene.row("L1"):
        await scene.create("l1", {0: [1, 2], 1: [2, 3]})
        before = await scene.state("l1")
        assert set((await elect(scene, PREFERRED, {"l1": [0, 1]})).values()) == {ErrorCode.election_not_needed}
        assert await elect(scene, PREFERRED, None) == {}
        assert await scene.state("l1") == before


async def test_l2_the_named_leader_moves_alone_and_without_names_all_that_need_it(scene: Scene) -> None:
    async with scene.row("L2"):
        for name in ("l2-a", "l2-b", "l2-c"):
            await moved(scene, name)
        assert await elect(scene, PREFERRED, {"l2-a": [0]}) == {"l2-a-0": ErrorCode.none}
        assert [(await scene.state(name)).leader for name in ("l2-a", "l2-b", "l2-c")] == [2, 1, 1]
        assert await elect(scene, PREFERRED, None) == {"l2-b-0": ErrorCode.none, "l2-c-0": ErrorCode.none}
        assert [(await scene.state(name)).leader for name in ("l2-b", "l2-c")] == [2, 2]


async def test_l3_an_unknown_partition_keeps_no_other_from_moving(scene: Scene) -> None:
    async with scene.row("L3"):
        await moved(scene, "l3")
        missing = (ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
        answer = await elect_with_texts(scene, PREFERRED, {"l3": [0, 9], "l3-unknown": [0]})
        assert (answer.pop("l3-9"), answer.pop("l3-unknown-0")) == (missing, missing)
        assert [error for error, _ in answer.values()] == [ErrorCode.none]
        assert (await scene.state("l3")).leader == 2


async def test_l4_l5_l6_l7_elections_while_a_broker_is_dead(scene: Scene) -> None:
    """Broker 2 was down while only broker 3 got records, and can hardly catch up; then broker 3 is killed."""
    stale = [f"l5-{number}" for number in range(5)]
    async with scene.row("L4 to L7", within_s=2 * SESSION_S):
        await scene.create("l4", {0: [DEAD, 1]}, ONE_ALONE)
        await scene.create("l6", {0: [DEAD]}, ONE_ALONE)
        await scene.create("l7", {0: [1, 2]}, ONE_ALONE)
        for name in stale:
            await scene.create(name, {0: [DEAD, 2]}, ONE_ALONE)
            await scene.throttle(name, 2)
        await scene.shut_down(2)
        for name in stale:
            await scene.until_led(name, DEAD, 1, {DEAD})
        await asyncio.gather(*(scene.ballast(name) for name in stale))
        await scene.start(2)
        await scene.until_others_in_sync(stale)
        await scene.kill(DEAD)
        for name in stale:
            await scene.until_led(name, -1, 2, {DEAD})
        await scene.until_led("l6", -1, 1, {DEAD})

        strategy = "under strategy PreferredReplicaPartitionLeaderElectionStrategy"
        failed = (ErrorCode.preferred_leader_not_available, f"Failed to elect leader for partition l4-0 {strategy}")
        assert await elect_with_texts(scene, PREFERRED, {"l4": [0]}) == {"l4-0": failed}
        assert await elect(scene, UNCLEAN, {"l6": [0]}) == {"l6-0": ErrorCode.eligible_leaders_not_available}
        assert await elect(scene, UNCLEAN, {"l7": [0]}) == {"l7-0": ErrorCode.election_not_needed}

        assert await elect(scene, UNCLEAN, {stale[0]: [0]}) == {f"{stale[0]}-0": ErrorCode.none}
        assert [(await scene.state(name)).leader for name in stale] == [2, -1, -1, -1, -1]
        two = {name: [0] for name in stale[1:3]}
        assert await elect(scene, UNCLEAN, two) == {f"{name}-0": ErrorCode.none for name in two}
        everything = await elect(scene, UNCLEAN, None)
        assert everything.pop("l6-0") is ErrorCode.eligible_leaders_not_available
        assert everything == {f"{name}-0": ErrorCode.none for name in stale[3:]}
        assert [(await scene.state(name)).leader for name in stale] == [2] * len(stale)
        await scene.unthrottle(2)
        await scene.start(DEAD)


async def test_l8_bad_targets_are_refused_one_by_one_and_the_others_move(scene: Scene) -> None:
    async with scene.row("L8"):
        await scene.create("l8", {p: [1, 2] for p in range(5)})
        targets = {0: [1, UNREGISTERED], 1: [-1], 2: [1, 1], 3: [2, 3], 9: [1]}
        answer = await scene.operator.reassign({tp("l8", p): target for p, target in targets.items()})
        assert answer == {
            **dict.fromkeys((tp("l8", p) for p in (0, 1, 2)), ErrorCode.invalid_replica_assignment),
            tp("l8", 3): ErrorCode.none,
            tp("l8", 9): ErrorCode.unknown_topic_or_partition,
        }
        unknown = await scene.operator.reassign({tp("l8-unknown"): [1]})
        assert unknown == {tp("l8-unknown"): ErrorCode.unknown_topic_or_partition}
        await scene.until_assigned("l8", [2, 3], partition=3)
        assert [(await scene.assignment("l8", p)).replicas for p in (0, 1, 2, 4)] == [(1, 2)] * 4


async def test_l9_without_a_reassignment_the_list_is_empty(scene: Scene) -> None:
    async with scene.row("L9"):
        await scene.create("l9", {0: [1]})
        assert await scene.operator.reassignments() == {}
        rows = [{"name": name, "topic_id": None} for name in ("l9",)]
        answer = await call(scene, DELETE, 6, {"topics": rows, "timeout": ms(30_000)})
        assert errors(answer.responses) == {"l9": ErrorCode.none}
        wanted = [{"name": "l9", "partition_indexes": [0]}]
        listed = await call(scene, LIST_MOVES, 0, {"topics": wanted})
        assert (listed.error_code, listed.topics) == (ErrorCode.none, ())
        await scene.until_gone("/brokers/topics/l9")


L10: Final[Mapping[str, tuple[int, Sequence[Sequence[int]] | None, ErrorCode]]] = {
    "decrease": (1, None, ErrorCode.invalid_partitions),
    "no-op": (3, None, ErrorCode.invalid_partitions),
    "no-op by hand": (3, [], ErrorCode.invalid_partitions),
    "too few lists": (5, [[1, 2]], ErrorCode.invalid_replica_assignment),
    "too many lists": (4, [[1, 2], [2, 3]], ErrorCode.invalid_replica_assignment),
    "duplicate brokers": (4, [[1, 1]], ErrorCode.invalid_replica_assignment),
    "unequal": (5, [[1, 2], [3]], ErrorCode.invalid_replica_assignment),
    "another factor": (4, [[1, 2, 3]], ErrorCode.invalid_replica_assignment),
    "unknown broker": (4, [[1, UNREGISTERED]], ErrorCode.invalid_replica_assignment),
    "empty lists": (4, [[]], ErrorCode.invalid_replica_assignment),
    "no lists": (5, [], ErrorCode.invalid_replica_assignment),
}


async def test_l10_bad_growth_is_refused_validated_or_not(scene: Scene) -> None:
    async with scene.row("L10"):
        await scene.create("l10", {p: [1, 2] for p in range(3)})
        for case, (count, lists, error) in L10.items():
            given = None if lists is None else [{"broker_ids": ids} for ids in lists]
            for validate in (True, False):
                values = {"topics": [{"name": "l10", "count": count, "assignments": given}], "validate_only": validate}
                answer = await call(scene, GROW, 3, values)
                assert errors(answer.results) == {"l10": error}, case
        assert len((await scene.operator.read("/brokers/topics/l10"))["partitions"]) == 3
        values = {"topics": [{"name": "l10", "count": 4, "assignments": [{"broker_ids": [3, 1]}]}]}
        answer = await call(scene, GROW, 3, {**values, "validate_only": True})
        assert errors(answer.results) == {"l10": ErrorCode.none}
        answer = await call(scene, GROW, 3, {**values, "validate_only": False})
        assert errors(answer.results) == {"l10": ErrorCode.none}
        await scene.until_led("l10", 3, 0, {1, 3}, partition=3)


async def test_l11_a_standby_refuses_to_create_delete_and_expand_topics(scene: Scene) -> None:
    async with scene.row("L11"):
        await scene.create("l11", {0: [1]})
        active = await scene.waiting.active()
        (standby,) = (each for each in scene.cluster.controllers if each is not active)
        port, timeout = standby.kafka_port.port, ms(30_000)
        created = {"topics": [topic("l11-new")], "timeout": timeout, "validate_only": False}
        deleted = {"topics": [{"name": "l11", "topic_id": None}], "timeout": timeout}
        grown = {"topics": [{"name": "l11", "count": 2, "assignments": None}], "validate_only": False}
        for api, version, values, field in (
            (CREATE, 7, created, "topics"),
            (DELETE, 6, deleted, "responses"),
            (GROW, 3, grown, "results"),
        ):
            answer = await call(scene, api, version, values, port=port)
            assert set(errors(getattr(answer, field)).values()) == {ErrorCode.not_controller}
        assert len((await scene.operator.read("/brokers/topics/l11"))["partitions"]) == 1
        assert not await scene.operator.exists("/brokers/topics/l11-new")
        assert not await scene.operator.exists("/admin/delete_topics/l11")


async def limit(scene: Scene, client: str, rate: float | None) -> None:
    """Set a quota for a client id by a broker, and wait until it is in force."""
    for name in (client, f"{client}-probe"):
        entity = [{"entity_type": "client-id", "entity_name": name}]
        ops = [{"key": "controller_mutation_rate", "value": rate or 0.0, "remove": rate is None}]
        values = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
        answer = await call(scene, QUOTAS, 1, values, port=scene.cluster.brokers[1].port)
        assert [row.error_code for row in answer.entries] == [ErrorCode.none]
    numbers = iter(range(100))

    async def in_force() -> bool:
        probes = [topic(f"{client}-probe-{next(numbers)}") for _ in range(3)]
        answer = await create(scene, *probes, client=f"{client}-probe")
        return ErrorCode.throttling_quota_exceeded in errors(answer.topics).values()

    await scene.until_seen(in_force, "the quota is known")


async def test_l12_requests_beyond_a_quota_are_refused_or_throttled(scene: Scene) -> None:
    """Requests are refused from CreateTopics 6, DeleteTopics 5 and CreatePartitions 3 on, and throttled before."""
    refused, fine = ErrorCode.throttling_quota_exceeded, ErrorCode.none
    async with scene.row("L12"):
        await limit(scene, "l12", 0.1)

        def named(*names: str) -> dict[str, object]:
            rows = [{"name": name, "topic_id": None} for name in names]
            return {"topics": rows, "topic_names": names, "timeout": ms(30_000)}

        def grown(name: str, count: int) -> dict[str, object]:
            return {"topics": [{"name": name, "count": count, "assignments": None}], "validate_only": False}

        first = await create(scene, topic("l12-a", 5, 1), client="l12")
        assert (errors(first.topics), bool(first.throttle_time)) == ({"l12-a": fine}, False)
        strict = await create(scene, topic("l12-b"), topic("l12-c"), client="l12")
        assert (errors(strict.topics), bool(strict.throttle_time)) == ({"l12-b": refused, "l12-c": refused}, True)
        assert not await scene.operator.exists("/brokers/topics/l12-b")
        validated = await create(scene, topic("l12-b"), client="l12", validate=True)
        assert errors(validated.topics) == {"l12-b": fine}
        permissive = await create(scene, topic("l12-d"), version=5, client="l12")
        assert (errors(permissive.topics), bool(permissive.throttle_time)) == ({"l12-d": fine}, True)

        for version, error in ((3, refused), (2, fine)):
            answer = await call(scene, GROW, version, grown("l12-d", 2), client="l12")
            assert (errors(answer.results), bool(answer.throttle_time)) == ({"l12-d": error}, True)
        for version, error in ((5, refused), (4, fine)):
            answer = await call(scene, DELETE, version, named("l12-d"), client="l12")
            assert (errors(answer.responses), bool(answer.throttle_time)) == ({"l12-d": error}, True)

        unbounded = await create(scene, topic("l12-e", 20, 1))
        assert (errors(unbounded.topics), bool(unbounded.throttle_time)) == ({"l12-e": fine}, False)
        answer = await call(scene, GROW, 3, grown("l12-e", 40))
        assert (errors(answer.results), bool(answer.throttle_time)) == ({"l12-e": fine}, False)
        answer = await call(scene, DELETE, 6, named("l12-e"))
        assert (errors(answer.responses), bool(answer.throttle_time)) == ({"l12-e": fine}, False)


async def test_l13_the_longest_name_is_accepted_and_colliding_ones_are_refused(scene: Scene) -> None:
    longest, invalid = "l" * 249, ErrorCode.invalid_topic_exception
    async with scene.row("L13"):
        answer = await create(scene, placed(longest, p0=[1, 2]), topic("l" * 250), topic("l13.a_b"))
        assert errors(answer.topics) == {longest: ErrorCode.none, "l" * 250: invalid, "l13.a_b": ErrorCode.none}
        await scene.until_hosted(longest, {1, 2})
        answer = await create(scene, topic("l13_a.b"), topic("l13.c"), topic("l13_c"))
        assert errors(answer.topics) == {"l13_a.b": invalid, "l13.c": ErrorCode.none, "l13_c": invalid}


async def test_l14_no_feature_can_be_finalized(scene: Scene) -> None:
    async with scene.row("L14"):
        before = await scene.operator.read("/feature")
        rows = [("unknown", 1, 1), ("gone", 0, 2), ("low", 0, 1), ("down", 1, 2), ("kind", 1, 9), ("", 1, 1)]
        updates = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in rows]
        for validate in (True, False):
            values = {"feature_updates": updates, "validate_only": validate}
            answer = await call(scene, FEATURES, 1, values)
            assert answer.error_code is ErrorCode.none
            found = {row.feature: row.error_code for row in answer.results}
            assert found == dict.fromkeys((name for name, _, _ in rows), ErrorCode.invalid_request)
        assert await scene.operator.read("/feature") == before


async def test_l15_producer_ids_are_given_in_disjoint_blocks(scene: Scene) -> None:
    async with scene.row("L15"):
        epochs = {broker: await scene.operator.czxid(f"/brokers/ids/{broker}") for broker in (1, 2, 3)}

        async def block(broker: int) -> Any:
            return await call(scene, PRODUCER_IDS, 0, {"broker_id": broker, "broker_epoch": epochs[broker]})

        blocks = await asyncio.gather(*(block(broker) for broker in (1, 2, 3) * 8))
        assert {answer.error_code for answer in blocks} == {ErrorCode.none}
        assert {answer.producer_id_len for answer in blocks} == {BLOCK}
        starts = sorted(answer.producer_id_start for answer in blocks)
        assert starts == list(range(starts[0], starts[0] + len(blocks) * BLOCK, BLOCK))
        stale = {"broker_id": 1, "broker_epoch": epochs[1] - 1}
        answer = await call(scene, PRODUCER_IDS, 0, stale)
        assert answer.error_code is ErrorCode.stale_broker_epoch
        answer = await call(scene, PRODUCER_IDS, 0, {"broker_id": UNREGISTERED, "broker_epoch": 0})
        assert answer.error_code is ErrorCode.broker_id_not_registered


async def test_a_refused_move_leaves_no_trace(scene: Scene) -> None:
    async with scene.row("L8, once more"):
        await scene.create("l8-trace", {0: [1, 2]})
        before = await scene.operator.read("/brokers/topics/l8-trace")
        rows = [{"name": "l8-trace", "partitions": [{"partition_index": 0, "replicas": [UNREGISTERED]}]}]
        answer = await call(scene, MOVE, 0, {"topics": rows})
        assert answer.responses[0].partitions[0].error_code is ErrorCode.invalid_replica_assignment
        assert await scene.operator.read("/brokers/topics/l8-trace") == before
