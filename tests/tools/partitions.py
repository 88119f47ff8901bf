"""kafka-reassign-partitions and kafka-leader-election."""

import json
from typing import Final

from tests.real.operator import ELECTION_TOOL, REASSIGN_TOOL, moves, tp
from tests.tools.cells import SLOW, Client, Way, cell, contains

REASSIGN: Final = Client("kafka-reassign-partitions", REASSIGN_TOOL)
ELECT: Final = Client("kafka-leader-election", ELECTION_TOOL)
RATES: Final = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
IN_WORDS: Final = "refused in Kafka's words"


async def throttled(way: Way, name: str) -> dict[str, str]:
    """The throttle of a topic, and the rate of each broker."""
    topic = {key: value for key, value in (await way.configs(f"topics/{name}")).items() if "throttled" in key}
    for broker in (1, 2, 3):
        rates = await way.configs(f"brokers/{broker}")
        topic |= {f"{key} of {broker}": value for key, value in rates.items() if key in RATES}
    return topic


@cell(REASSIGN, "`--generate`")
async def generate(way: Way) -> None:
    name = await way.topic({0: [1], 1: [1]})
    wanted = way.file({"topics": [{"topic": name}], "version": 1})
    told = await way.tool(REASSIGN, "--generate", "--topics-to-move-json-file", wanted, "--broker-list", "2,3")
    contains(told, "Current partition replica assignment", "Proposed partition reassignment configuration")
    current, proposed = (json.loads(line)["partitions"] for line in told.splitlines() if line.startswith("{"))
    assert {(row["topic"], row["partition"]): row["replicas"] for row in current} == {(name, 0): [1], (name, 1): [1]}
    assert sorted((row["topic"], row["partition"]) for row in proposed) == [(name, 0), (name, 1)]
    assert {broker for row in proposed for broker in row["replicas"]} == {2, 3}
    assert await way.replicas(name) == {0: (1,), 1: (1,)}


@cell(REASSIGN, "`--execute`, then `--verify`", alone=True)
async def execute(way: Way) -> None:
    name = await way.topic({0: [1], 1: [1]})
    plan = way.file(moves({tp(name): [2], tp(name, 1): [3, 2]}))
    told = await way.tool(REASSIGN, "--execute", "--reassignment-json-file", plan)
    contains(told, f"Successfully started partition reassignments for {name}-0,{name}-1")
    await way.scene.until_assigned(name, [2])
    await way.scene.until_assigned(name, [3, 2], partition=1)
    told = await way.tool(REASSIGN, "--verify", "--reassignment-json-file", plan)
    contains(told, f"Reassignment of partition {name}-0 is completed.")
    contains(told, f"Reassignment of partition {name}-1 is completed.")
    await way.scene.until_hosted(name, {2})
    await way.scene.until_hosted(name, {2, 3}, partition=1)


@cell(REASSIGN, "`--execute --throttle`, `--list`, `--verify` while under way, `--cancel`", alone=True)
async def throttle_and_cancel(way: Way) -> None:
    name = await way.slow_topic()
    plan = way.file(moves({tp(name): [SLOW]}))
    told = await way.tool(REASSIGN, "--execute", "--reassignment-json-file", plan, "--throttle", "1")
    contains(told, "The inter-broker throttle limit was set to 1 B/s")
    contains(told, f"Successfully started partition reassignment for {name}-0")
    assert await throttled(way, name) == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "0:3",
        **{f"{key} of {broker}": "1" for key in RATES for broker in (1, SLOW)},
    }
    told = await way.tool(REASSIGN, "--list")
    contains(told, "Current partition reassignments:", f"{name}-0: replicas: 3,1. adding: 3. removing: 1.")
    told = await way.tool(REASSIGN, "--verify", "--reassignment-json-file", plan)
    contains(told, f"Reassignment of partition {name}-0 is still in progress.")
    told = await way.tool(REASSIGN, "--cancel", "--reassignment-json-file", plan)
    contains(told, f"Successfully cancelled partition reassignment for: {name}-0", "Clearing broker-level throttles")
    await way.scene.until_assigned(name, [1])
    contains(await way.tool(REASSIGN, "--list"), "No partition reassignments found.")
    assert await throttled(way, name) == {}
    await way.scene.until_hosted(name, {1})


@cell(REASSIGN, "`--execute` while another is under way, without and with `--additional`", alone=True)
async def additional(way: Way) -> None:
    name = await way.slow_topic()
    first, second = way.file(moves({tp(name): [SLOW]})), way.file(moves({tp(name, 1): [2]}))
    await way.tool(REASSIGN, "--execute", "--reassignment-json-file", first, "--throttle", "1")
    says = "Cannot execute because there is an existing partition assignment."
    await way.refused(REASSIGN, "--execute", "--reassignment-json-file", second, says=says)
    assert (await way.replicas(name))[1] == (1,)
    options = ("--additional", "--throttle", "100000000")
    told = await way.tool(REASSIGN, "--execute", "--reassignment-json-file", second, *options)
    contains(told, f"Successfully started partition reassignment for {name}-1")
    both = way.file(moves({tp(name): [SLOW], tp(name, 1): [2]}))
    for partition, target in ((0, [SLOW]), (1, [2])):  # the new throttle is that of both
        await way.scene.until_assigned(name, target, partition=partition)
    told = await way.tool(REASSIGN, "--verify", "--reassignment-json-file", both)
    contains(told, "Clearing broker-level throttles on brokers", f"Clearing topic-level throttles on topic {name}")
    assert await throttled(way, name) == {}


@cell(REASSIGN, "`--execute` to a broker that there is not", "refused before anything is asked for", alone=True)
async def unknown_broker(way: Way) -> None:
    name = await way.topic({0: [1]})
    plan = way.file(moves({tp(name): [77]}))
    await way.refused(REASSIGN, "--execute", "--reassignment-json-file", plan, says="Unknown broker id 77")
    assert await way.replicas(name) == {0: (1,)}


def _one(name: str) -> tuple[str, ...]:
    return ("--topic", name, "--partition", "0")


def _file(way: Way, *names: str) -> str:
    return way.file({"partitions": [{"topic": name, "partition": 0} for name in names]})


@cell(ELECT, "`--election-type preferred` of a partition")
async def preferred(way: Way) -> None:
    name = await way.moved_topic()
    told = await way.tool(ELECT, "--election-type", "preferred", *_one(name))
    contains(told, f"Successfully completed leader election (PREFERRED) for partitions {name}-0")
    assert (await way.scene.state(name)).leader == 2


@cell(ELECT, "`preferred` where it leads already", "passed over, with a note")
async def not_needed(way: Way) -> None:
    name = await way.topic({0: [1, 2]})
    before = await way.scene.state(name)
    told = await way.tool(ELECT, "--election-type", "preferred", *_one(name))
    contains(told, f"Valid replica already elected for partitions {name}-0")
    assert (await way.scene.state(name)).leader_epoch == before.leader_epoch


@cell(ELECT, "`preferred`, `--path-to-json-file`")
async def preferred_file(way: Way) -> None:
    moved, settled = await way.moved_topic(), await way.topic({0: [1, 2]})
    told = await way.tool(ELECT, "--election-type", "preferred", "--path-to-json-file", _file(way, moved, settled))
    contains(told, f"(PREFERRED) for partitions {moved}-0", f"Valid replica already elected for partitions {settled}-0")
    assert (await way.scene.state(moved)).leader == 2


@cell(ELECT, "`preferred`, `--all-topic-partitions`", alone=True)
async def preferred_all(way: Way) -> None:
    names = [await way.moved_topic(), await way.moved_topic()]
    told = await way.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    contains(
        told, "Successfully completed leader election (PREFERRED) for partitions ", *(f"{name}-0" for name in names)
    )
    assert [(await way.scene.state(name)).leader for name in names] == [2, 2]


@cell(ELECT, "`preferred` of what there is not", IN_WORDS)
async def preferred_unknown(way: Way) -> None:
    says = "The partition does not exist."
    await way.refused(ELECT, "--election-type", "preferred", *_one("no-such-topic"), says=says)


@cell(ELECT, "`preferred` of a dead replica", IN_WORDS, while_away=True)
async def preferred_dead(way: Way) -> None:
    name = way.prepared["preferred"]
    strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
    says = f"Failed to elect leader for partition {name}-0 under strategy {strategy}"
    await way.refused(ELECT, "--election-type", "preferred", *_one(name), says=says)
    assert (await way.scene.state(name)).leader == 1


@cell(ELECT, "`--election-type unclean` of a partition", while_away=True)
async def unclean(way: Way) -> None:
    name = way.prepared["unclean-one"]
    told = await way.tool(ELECT, "--election-type", "unclean", *_one(name))
    contains(told, f"Successfully completed leader election (UNCLEAN) for partitions {name}-0")
    await way.led_uncleanly(name)


@cell(ELECT, "`unclean`, `--path-to-json-file`", while_away=True)
async def unclean_file(way: Way) -> None:
    name = way.prepared["unclean-file"]
    told = await way.tool(ELECT, "--election-type", "unclean", "--path-to-json-file", _file(way, name))
    contains(told, f"Successfully completed leader election (UNCLEAN) for partitions {name}-0")
    await way.led_uncleanly(name)


@cell(ELECT, "`unclean` where a replica leads", "passed over, with a note", while_away=True)
async def unclean_not_needed(way: Way) -> None:
    name = way.prepared["preferred"]
    told = await way.tool(ELECT, "--election-type", "unclean", *_one(name))
    contains(told, f"Valid replica already elected for partitions {name}-0")
    assert (await way.scene.state(name)).leader == 1


@cell(ELECT, "`unclean` without a live replica", IN_WORDS, while_away=True)
async def unclean_nobody(way: Way) -> None:
    name = way.prepared["unavailable"]
    says = f"Failed to elect leader for partition {name}-0 under strategy OfflinePartitionLeaderElectionStrategy(true)"
    await way.refused(ELECT, "--election-type", "unclean", *_one(name), says=says)
    assert (await way.scene.state(name)).leader == -1


@cell(
    ELECT,
    "`unclean`, `--all-topic-partitions`",
    "elects where a replica is left; where none is, refused in Kafka's words",
    while_away=True,
    alone=True,
)
async def unclean_all(way: Way) -> None:
    name, lost = way.prepared["unclean-all"], way.prepared["unavailable"]
    done = await way.ended(ELECT, "--election-type", "unclean", "--all-topic-partitions")
    contains(done.stdout, "Successfully completed leader election (UNCLEAN) for partitions ", f"{name}-0")
    contains(done.stdout + done.stderr, f"Error completing leader election (UNCLEAN) for partition: {lost}-0")
    assert done.exit_status == 1
    await way.led_uncleanly(name)
