"""Every line of ``controller.log`` that gives something."""

from typing import Any

import pytest

from replay.ingest.kafka.line_rules import ACTIVE, BUMPED, COMPLETED, KNOWN_LEADER, MOVING, READY, STATE, STRATEGY
from replay.ingest.kafka.messages import read_message

LOGGER = "kafka.controller.KafkaController"
ISR_3_9 = (
    "LeaderAndIsr(leader=1, leaderEpoch=4, isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1)), "
    "leaderRecoveryState=RECOVERED, partitionEpoch=9)"
)
ASSIGNED = "ReplicaAssignment(replicas=3,1,2, addingReplicas=3, removingReplicas=2)"
SETTLED = "ReplicaAssignment(replicas=3,1, addingReplicas=, removingReplicas=)"


def rows(body: str, *, prefix: str = "[Controller id=2] ", cause: str | None = None) -> list[dict[str, Any]]:
    found = read_message(prefix + body, LOGGER, cause)
    assert found.node == 2
    assert found.verdict == ("facts" if found.rows else "known")
    return list(found.rows)


def test_a_term_begins_is_ready_and_ends() -> None:
    elected = "2 successfully elected as the controller. Epoch incremented to 12 and epoch zk version is now 13"

    assert rows(elected) == [{"kind": "term", "name": "elected", "epoch": 12, "reason": "version 13 of the epoch"}]
    assert rows("Ready to serve as the new controller with epoch 12") == [{"kind": READY, "epoch": 12}]
    assert [row["name"] for row in rows("Resigned")] == ["resigned"]


def test_brokers_come_go_and_bounce() -> None:
    found = rows("Newly added brokers: 4,5, deleted brokers: 1, bounced brokers: 3, all live brokers: 2,3,4,5")

    assert [(row["broker"], row["after"], row.get("reason")) for row in found] == [
        (1, "gone", None),
        (3, "gone", "bounced"),
        (3, "live", None),
        (4, "live", None),
        (5, "live", None),
    ]


def test_the_first_brokers_of_a_controller_are_read_with_their_epochs() -> None:
    assert rows("Currently active brokers in the cluster: Set(2, 3)") == [{"kind": ACTIVE, "isr": [2, 3]}]
    assert [
        (row["broker"], row["zxid"]) for row in rows("Initialized broker epochs cache: HashMap(2 -> 25, 3 -> 31)")
    ] == [
        (2, 25),
        (3, 31),
    ]


def test_a_controlled_shutdown_is_read() -> None:
    shutting_down, strategy = rows("Shutting down broker 3")

    assert (shutting_down["kind"], shutting_down["after"]) == ("brokers", "shutting_down")
    assert strategy == {"kind": STRATEGY, "name": "ControlledShutdown", "broker": 3}


@pytest.mark.parametrize(
    ("assignments", "topic_id"),
    [
        (f"Map(b.c-0 -> {SETTLED}, b.c-1 -> {ASSIGNED})", None),
        (
            f"Set(TopicIdReplicaAssignment(b.c,Some(yvZNN9-QV_NM),Map(b.c-0 -> {SETTLED}, b.c-1 -> {ASSIGNED})))",
            "yvZNN9-QV_NM",
        ),
    ],
    ids=["2.6", "2.8 to 3.9"],
)
def test_new_topics_are_read_with_their_assignments(assignments: str, topic_id: str | None) -> None:
    topic, first, second = rows(
        f"New topics: [Set(b.c)], deleted topics: [HashSet()], new partition replica assignment [{assignments}]"
    )

    assert (topic["kind"], topic["topic"], topic["name"]) == ("topics", "b.c", topic_id)
    assert (first["topic"], first["partition"], first["replicas"], first["adding"]) == ("b.c", 0, [3, 1], [])
    assert (second["partition"], second["adding"], second["removing"]) == (1, [3], [2])


def test_deleted_topics_and_added_partitions_are_read() -> None:
    gone = rows("New topics: [Set()], deleted topics: [Set(a, b-1)], new partition replica assignment [Map()]")
    added = rows(f"New partitions to be added Map(b-1-6 -> {SETTLED})")

    assert gone == [{"kind": COMPLETED, "topic": "a"}, {"kind": COMPLETED, "topic": "b-1"}]
    assert [(row["kind"], row["topic"], row["partition"]) for row in added] == [("assignment", "b-1", 6)]


def test_a_deletion_is_read_step_by_step() -> None:
    prefix = "[Topic Deletion Manager 2] "

    assert [(r["topic"], r["after"]) for r in rows("Starting topic deletion for topics a,b-1")] == [
        ("a", "queued"),
        ("b-1", "queued"),
    ]
    assert rows("List of topics to be deleted: ") == []
    assert [r["after"] for r in rows("Deletion of topic b-1 (re)started", prefix=prefix)] == ["started"]
    (halted,) = rows("Halted deletion of topics b-1 due to offline replicas", prefix=prefix)
    assert (halted["after"], halted["reason"]) == ("halted", "offline replicas")
    assert rows("Deletion of topic b-1 successfully completed", prefix=prefix) == [{"kind": COMPLETED, "topic": "b-1"}]


@pytest.mark.parametrize(("kind", "strategy"), [("PREFERRED", "Preferred"), ("UNCLEAN", "Offline")])
def test_requested_elections_are_read(kind: str, strategy: str) -> None:
    found = rows(
        f"Starting replica leader election ({kind}) for partitions a-0,b-1-5 triggered by AdminClientTriggered"
    )

    assert [(row["name"], row["topic"], row["partition"]) for row in found] == [
        (strategy, "a", 0),
        (strategy, "b-1", 5),
    ]


def test_a_failed_preferred_election_is_read() -> None:
    (row,) = rows("Partition a-0 failed to complete preferred replica leader election to 1. Leader is still 2")

    assert (row["kind"], row["topic"], row["reason"]) == ("refused", "a", "the leader is still 2")


def test_a_reassignment_is_read_step_by_step() -> None:
    (moving,) = rows(f"Updating assignment of partition b-1-0 from {SETTLED} to {ASSIGNED}")
    (caught_up,) = rows(
        "Target replicas ArrayBuffer(3, 1) have all caught up with the leader for reassigning partition b-1-0"
    )
    (elected,) = rows(
        "Leader 2 for partition b-1-0 being reassigned, is not in the new list of replicas 3,1. Re-electing leader"
    )
    (assigned,) = rows(f"Successfully updated assignment of partition b-1-0 to {SETTLED}")

    assert (moving["kind"], moving["replicas"], moving["isr"]) == (MOVING, [3, 1, 2], [3, 1])
    assert (caught_up["kind"], caught_up["after"]) == ("reassignment", "completing")
    assert (elected["kind"], elected["name"]) == (STRATEGY, "Reassign")
    assert (assigned["kind"], assigned["topic"], assigned["replicas"]) == ("assignment", "b-1", [3, 1])


@pytest.mark.parametrize(("end", "version"), [("", None), (", zkVersion=9", 9)], ids=["2.6", "3.1 to 3.9"])
def test_a_raised_leader_epoch_is_read(end: str, version: int | None) -> None:
    (row,) = rows(f"Updated leader epoch for partition b-1-0 to 7{end}")

    assert row == {"kind": BUMPED, "topic": "b-1", "partition": 0, "leader_epoch": 7, "partition_epoch": version}


def test_isr_changes_of_brokers_are_read() -> None:
    (row,) = rows(f"ISR for partition b-1-0 updated to {ISR_3_9}.")

    assert (row["kind"], row["topic"], row["isr"], row["partition_epoch"]) == ("leadership", "b-1", [1], 9)


def test_lists_of_leaderships_and_states_are_read() -> None:
    leader = "(Leader:2,ISR:2,1,LeaderRecoveryState:RECOVERED,LeaderEpoch:2,ZkVersion:3,ControllerEpoch:12)"
    leaders = rows(f"All leaders = b-1-0 -> {leader},a-5 -> {leader}")
    states = rows(
        "Started partition state machine with initial state -> Map(b-1-0 -> OnlinePartition, a-5 -> OfflinePartition)",
        prefix="[PartitionStateMachine controllerId=2] ",
    )

    assert [(row["kind"], row["topic"], row["leader"]) for row in leaders] == [
        (KNOWN_LEADER, "b-1", 2),
        (KNOWN_LEADER, "a", 2),
    ]
    assert [(row["kind"], row["topic"], row["partition"]) for row in states] == [(STATE, "a", 5)]


@pytest.mark.parametrize(
    "body",
    [
        f"Failed to update ISR to {ISR_3_9} for partition b-1-0, bad ZK version.",
        "Failed to update ISR for partition b-1-0",
        f"Rejecting AlterPartition from node 3 for b-1-0 because leader is recovering and ISR is greater: {ISR_3_9}",
        "Rejecting AlterPartition request from node 3 for b-1-0 because it specified ineligible replicas 1",
    ],
)
def test_refused_isr_changes_are_read(body: str) -> None:
    (row,) = rows(body)

    assert (row["kind"], row["name"], row["topic"], row["partition"]) == ("refused", "AlterPartition", "b-1", 0)


@pytest.mark.parametrize("api", ["AlterPartition", "AlterIsr"])
def test_requests_of_unknown_brokers_are_read(api: str) -> None:
    (row,) = rows(f"Ignoring {api} due to unknown broker 7")

    assert (row["kind"], row["name"], row["broker"]) == ("refused", api, 7)


def test_errors_are_read_with_their_cause() -> None:
    (row,) = rows("Error processing event BrokerChange", cause="java.lang.IllegalStateException: no")
    (moved,) = rows(
        "Controller moved to another broker when processing BrokerChange.", cause="x.ControllerMovedException"
    )

    assert row["reason"] == "Error processing event BrokerChange: java.lang.IllegalStateException: no"
    assert (moved["kind"], moved["name"]) == ("alarm", "moved to another broker")


@pytest.mark.parametrize(
    "message",
    [
        "[Controller id=2] Broker failure callback for 3",
        "[Controller id=2] Leader 2 for partition a-0 being reassigned, is already in the new list of replicas 1",
        "[ControllerEventThread controllerId=2] Starting",
        "[RequestSendThread controllerId=2] Controller 2 connected to localhost:9092 (id: 1 rack: null) for sending",
        "[ReplicaStateMachine controllerId=2] Triggering offline replica state changes",
        "[Channel manager on controller 2]: Controller 2 trying to connect to broker 1",
        "[Topic Deletion Manager 2] Handling deletion for topics a",
    ],
)
def test_lines_without_a_fact_have_the_verdict_known(message: str) -> None:
    assert read_message(message, LOGGER).verdict == "known"


def test_an_unknown_line_has_the_verdict_unknown() -> None:
    assert read_message("[Controller id=2] Quite something else", LOGGER).verdict == "unknown"
