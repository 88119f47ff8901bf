"""Every line of ``state-change.log`` that gives something, as each version from 2.6 to 3.9 writes it."""

import json
from typing import Any

import pytest

from replay.ingest.kafka.messages import ParsedMessage, read_message

TOPIC = "a-topic.with-dashes.and.dots-7"
LOGGER = "state.change.logger"


def controller(body: str, cause: str | None = None) -> ParsedMessage:
    return read_message(f"[Controller id=2 epoch=12] {body}", LOGGER, cause)


def broker(body: str) -> ParsedMessage:
    return read_message(f"[Broker id=3] {body}", LOGGER)


def only(found: ParsedMessage) -> dict[str, Any]:
    (row,) = found.rows
    return row


LEADERSHIPS = {
    "2.6 to 3.1": "LeaderAndIsr(leader=1, leaderEpoch=4, isr=List(1, 22, 3), zkVersion=9)",
    "3.2": "LeaderAndIsr(leader=1, leaderEpoch=4, isr=List(1, 22, 3), leaderRecoveryState=RECOVERED, zkVersion=9)",
    "3.3 and 3.4": (
        "LeaderAndIsr(leader=1, leaderEpoch=4, isr=List(1, 22, 3), leaderRecoveryState=RECOVERED, partitionEpoch=9)"
    ),
    "3.5 to 3.9": (
        "LeaderAndIsr(leader=1, leaderEpoch=4, isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1), "
        "BrokerState(brokerId=22, brokerEpoch=5), BrokerState(brokerId=3, brokerEpoch=-1)), "
        "leaderRecoveryState=RECOVERED, partitionEpoch=9)"
    ),
}


@pytest.mark.parametrize("version", LEADERSHIPS)
def test_an_election_is_read_with_leader_epochs_and_isr(version: str) -> None:
    body = f"Changed partition {TOPIC}-3 from OfflinePartition to OnlinePartition with state {LEADERSHIPS[version]}"

    found = controller(body)

    assert (found.node, found.epoch, found.newest_epoch, found.is_broker) == (2, 12, 12, False)
    assert only(found) == {
        "kind": "leadership",
        "topic": TOPIC,
        "partition": 3,
        "before": "OfflinePartition",
        "after": "OnlinePartition",
        "leader": 1,
        "leader_epoch": 4,
        "isr": [1, 22, 3],
        "partition_epoch": 9,
        "state_epoch": 12,
        "recovery": None if version == "2.6 to 3.1" else 0,
    }


def test_a_new_partition_is_read_with_its_assignment() -> None:
    body = f"Changed partition {TOPIC}-3 state from NonExistentPartition to NewPartition with assigned replicas 1,2,3"

    assignment, state = controller(body).rows

    assert assignment["replicas"] == [1, 2, 3]
    assert (state["kind"], state["before"], state["after"]) == (
        "partition_state",
        "NonExistentPartition",
        "NewPartition",
    )


SHRUNK = {
    "2.6": ("(Leader:-1,ISR:2,LeaderEpoch:5,ControllerEpoch:12)", None, None),
    "3.1": ("(Leader:-1,ISR:2,LeaderEpoch:5,ZkVersion:9,ControllerEpoch:12)", 9, None),
    "3.2 to 3.9": (
        "(Leader:-1,ISR:2,LeaderRecoveryState:RECOVERING,LeaderEpoch:5,ZkVersion:9,ControllerEpoch:12)",
        9,
        1,
    ),
}


@pytest.mark.parametrize("version", SHRUNK)
def test_an_offline_replica_is_read_with_the_isr_that_is_left(version: str) -> None:
    text, partition_epoch, recovery = SHRUNK[version]
    end = "after removing replica 1 from the ISR as part of transition to OfflineReplica"

    row = only(controller(f"Partition {TOPIC}-3 state changed to {text} {end}"))

    assert (row["topic"], row["partition"], row["leader"], row["isr"], row["leader_epoch"]) == (TOPIC, 3, -1, [2], 5)
    assert (row["partition_epoch"], row["recovery"], row["state_epoch"]) == (partition_epoch, recovery, 12)
    assert row["reason"] == "replica 1 went offline"


def test_a_failed_election_is_read_with_its_reason() -> None:
    cause = "kafka.common.StateChangeFailedException: Failed to elect leader for partition a-0 under strategy Offline"

    row = only(
        controller(
            f"Controller 2 epoch 12 failed to change state for partition {TOPIC}-3 "
            "from OfflinePartition to OnlinePartition",
            cause,
        )
    )

    assert (row["kind"], row["topic"], row["before"], row["reason"]) == ("refused", TOPIC, "OfflinePartition", cause)


def test_a_failed_replica_state_change_is_read_with_its_replica() -> None:
    body = f"Controller 2 epoch 12 initiated state change of replica 5 for partition {TOPIC}-3 from A to B failed"

    row = only(controller(body))

    assert (row["kind"], row["name"], row["broker"], row["topic"]) == ("refused", "replica_state", 5, TOPIC)


@pytest.mark.parametrize(
    ("body", "api", "brokers", "more"),
    [
        (
            "Sending LeaderAndIsr request to broker 3 with 2 become-leader and 5 become-follower partitions",
            "LeaderAndIsr",
            [3],
            {"partitions": 7, "leaders": 2},
        ),
        (
            "Sending UpdateMetadata request to brokers HashSet(1, 2, 3) for 7 partitions",
            "UpdateMetadata",
            [1, 2, 3],
            {"partitions": 7},
        ),
        ("Sending StopReplica request for 4 replicas to broker 3", "StopReplica", [3], {"partitions": 4}),
        (
            "Sending StopReplica request (delete = true) for 4 replicas to broker 3",
            "StopReplica",
            [3],
            {"partitions": 4, "delete": True},
        ),
    ],
)
def test_requests_are_read_with_their_partitions_and_brokers(
    body: str, api: str, brokers: list[int], more: dict[str, object]
) -> None:
    request, *sent = controller(body).rows

    assert (request["kind"], request["name"]) == ("request", api)
    assert json.loads(str(request["data"])) == {"brokers": brokers, **more}
    assert [row["broker"] for row in sent] == brokers


def test_a_request_to_no_broker_gives_no_fact() -> None:
    assert controller("Sending UpdateMetadata request to brokers HashSet() for 7 partitions").verdict == "known"


def test_a_reassignment_is_read_with_its_leadership_and_its_assignment() -> None:
    leadership, assignment = controller(
        "Sent LeaderAndIsr request (Leader:2,ISR:2,1,LeaderRecoveryState:RECOVERED,LeaderEpoch:2,ZkVersion:3,"
        "ControllerEpoch:12) with new replica assignment ReplicaAssignment(replicas=3,1,2, addingReplicas=3, "
        f"removingReplicas=2) to leader 2 for partition being reassigned {TOPIC}-0"
    ).rows

    assert (leadership["topic"], leadership["leader"], leadership["isr"]) == (TOPIC, 2, [2, 1])
    assert (assignment["replicas"], assignment["adding"], assignment["removing"]) == ([3, 1, 2], [3], [2])


def test_at_level_trace_every_transition_and_response_is_read() -> None:
    state = only(controller(f"Changed partition {TOPIC}-3 state from OnlinePartition to OfflinePartition"))
    replica = only(controller(f"Changed state of replica 5 for partition {TOPIC}-3 from NewReplica to OnlineReplica"))
    answer = only(
        controller(
            "Received response LeaderAndIsrResponseData(errorCode=11, partitionErrors=[]) for request LEADER_AND_ISR "
            "with correlation id 5 sent to broker localhost:9092 (id: 3 rack: null)"
        )
    )

    assert (state["kind"], state["topic"], state["after"]) == ("partition_state", TOPIC, "OfflinePartition")
    assert (replica["kind"], replica["broker"], replica["after"]) == ("replica_state", 5, "OnlineReplica")
    assert (answer["kind"], answer["name"], answer["broker"], answer["error"]) == ("response", "LeaderAndIsr", 3, 11)


def test_lines_without_epoch_in_their_prefix_are_of_the_controller_too() -> None:
    error = read_message(
        "[Controller id=2] Received error STALE_BROKER_EPOCH in LeaderAndIsr response (x) from broker 3", LOGGER
    )
    marked = read_message(f"[Controller id=2] Mark replicas {TOPIC}-3,b-0 on broker 3 as offline", LOGGER)

    assert only(error)["reason"] == "broker 3 answered STALE_BROKER_EPOCH to LeaderAndIsr"
    assert [(row["kind"], row["topic"], row["partition"], row["broker"]) for row in marked.rows] == [
        ("offline_dirs", TOPIC, 3, 3),
        ("offline_dirs", "b", 0, 3),
    ]


NOW = f"Leader {TOPIC}-3 with topic id Some(9cefCnkJQ7_Q51Pgd-KqJg) starts at leader epoch 6 from offset 17 with"
LISTS = "high watermark 15, ISR [3,1], adding replicas [1] and removing replicas [2]"
BEFORE = f"Leader {TOPIC}-3 starts at leader epoch 6 from offset 17 with high watermark 15 ISR [3,1] addingReplicas [1]"
LEADS = {
    "2.6 to 3.1": (f"{BEFORE} removingReplicas [2]. Previous leader epoch was 5.", None),
    "3.4": (f"{NOW} partition epoch 9, {LISTS}. Previous leader epoch was 5.", 9),
    "3.5 to 3.9": (f"{NOW} partition epoch 9, {LISTS} (under-min-isr). Previous leader Some(1) and so on.", 9),
}


@pytest.mark.parametrize("version", LEADS)
def test_a_broker_that_becomes_leader_is_read(version: str) -> None:
    body, partition_epoch = LEADS[version]

    found = broker(body)

    assert (found.node, found.epoch, found.is_broker) == (3, 0, True)
    row = only(found)
    assert (row["kind"], row["topic"], row["partition"], row["leader"], row["leader_epoch"]) == (
        "broker_leader",
        TOPIC,
        3,
        3,
        6,
    )
    assert (row["isr"], row["adding"], row["removing"], row["partition_epoch"]) == ([3, 1], [1], [2], partition_epoch)


def test_update_metadata_of_a_broker_gives_the_controller_epoch() -> None:
    body = (
        "Add 6 partitions and deleted 0 partitions from metadata cache in response to UpdateMetadata request "
        "sent by controller 2 epoch 12 with correlation id 3"
    )

    assert (broker(body).verdict, broker(body).newest_epoch, broker(body).epoch) == ("known", 12, 0)


@pytest.mark.parametrize(
    "body",
    [
        "Finished LeaderAndIsr request in 12ms correlationId 1 from controller 2 for 3 partitions",
        f"Follower {TOPIC}-3 starts at leader epoch 6 from offset 17 with high watermark 15. And so on",
        "Stopped fetchers as part of become-follower request from controller 2 epoch 12 with correlation id 1",
        f"Skipped the become-leader state change for {TOPIC}-3 with topic id None",
    ],
)
def test_lines_without_a_fact_have_the_verdict_known(body: str) -> None:
    assert broker(body).verdict == "known"


def test_an_unknown_line_has_the_verdict_unknown() -> None:
    assert controller("Something that no version has ever written").verdict == "unknown"
    assert broker("Leader of the pack").verdict == "unknown"
    assert read_message("no prefix at all", LOGGER).verdict == "unknown"


def test_lines_of_other_loggers_have_the_verdict_other() -> None:
    assert (
        read_message("[QuorumController id=1] elected", "org.apache.kafka.controller.QuorumController").verdict
        == "other"
    )
    assert read_message("[KafkaServer id=1] started", "kafka.server.KafkaServer").verdict == "other"
    assert read_message("[KafkaServer id=1] started").verdict == "other"


@pytest.mark.parametrize("logger", [None, "logger", "change.logger", "state.change.logger"])
def test_a_logger_may_be_shortened_or_left_out(logger: str | None) -> None:
    message = f"[Controller id=2 epoch=12] Changed partition {TOPIC}-3 state from OnlinePartition to OfflinePartition"

    assert read_message(message, logger).verdict == "facts"
