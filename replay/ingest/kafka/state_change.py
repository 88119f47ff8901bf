"""The lines of ``state-change.log``, by the controller and by brokers, from 2.6 to 3.9. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Final

from replay.ingest.kafka.line_rules import SENT, Body, Table, known, partition_of, rule, table
from replay.ingest.kafka.scala_values import TP, Fields, assignment, leader_and_isr, leader_colon, numbers, partitions

_APIS: Final = {"LEADER_AND_ISR": "LeaderAndIsr", "UPDATE_METADATA": "UpdateMetadata", "STOP_REPLICA": "StopReplica"}
_ERROR_CODE: Final = re.compile(r"errorCode=(-?\d+)")


def _created(match: re.Match[str], _: Body) -> Iterator[Fields]:
    partition = partition_of(match[1], match[2])
    yield {"kind": "assignment", **partition, "replicas": numbers(match[4]), "adding": [], "removing": []}
    yield {"kind": "partition_state", **partition, "before": match[3], "after": "NewPartition"}


def _elected(match: re.Match[str], body: Body) -> Iterator[Fields]:
    leadership = leader_and_isr(match[5])
    if leadership is not None:
        change = {"before": match[3], "after": match[4], "state_epoch": body.epoch}
        yield {"kind": "leadership", **partition_of(match[1], match[2]), **leadership, **change}


def _traced_partition(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": "partition_state", **partition_of(match[1], match[2]), "before": match[3], "after": match[4]}


def _traced_replica(match: re.Match[str], _: Body) -> Iterator[Fields]:
    partition = partition_of(match[2], match[3])
    yield {"kind": "replica_state", **partition, "broker": int(match[1]), "before": match[4], "after": match[5]}


def _shrunk(match: re.Match[str], _: Body) -> Iterator[Fields]:
    leadership = leader_colon(match[3])
    if leadership is not None:
        reason = f"replica {match[4]} went offline" if match[4] else None
        yield {"kind": "leadership", **partition_of(match[1], match[2]), **leadership, "reason": reason}


def _failed_partition(match: re.Match[str], body: Body) -> Iterator[Fields]:
    yield {
        "kind": "refused",
        "name": "partition_state",
        **partition_of(match[1], match[2]),
        "before": match[3],
        "after": match[4],
        "reason": body.cause or f"no change from {match[3]} to {match[4]}",
    }


def _failed_replica(match: re.Match[str], body: Body) -> Iterator[Fields]:
    yield {
        "kind": "refused",
        "name": "replica_state",
        **partition_of(match[2], match[3]),
        "broker": int(match[1]),
        "before": match[4],
        "after": match[5],
        "reason": body.cause or f"no change of replica {match[1]} from {match[4]} to {match[5]}",
    }


def _request(api: str, brokers: list[int], count: int, **more: object) -> Iterator[Fields]:
    data = json.dumps({"brokers": brokers, "partitions": count, **more})
    if brokers:
        yield {"kind": "request", "name": api, "data": data}
    for broker in brokers:
        yield {"kind": SENT, "name": api, "broker": broker}


def _sends_leaders(match: re.Match[str], _: Body) -> Iterator[Fields]:
    leaders, followers = int(match[2]), int(match[3])
    return _request("LeaderAndIsr", [int(match[1])], leaders + followers, leaders=leaders)


def _sends_metadata(match: re.Match[str], _: Body) -> Iterator[Fields]:
    return _request("UpdateMetadata", numbers(match[1]), int(match[2]))


def _sends_stop(match: re.Match[str], _: Body) -> Iterator[Fields]:
    delete = {} if match[1] is None else {"delete": match[1] == "true"}
    return _request("StopReplica", [int(match[3])], int(match[2]), **delete)


def _moving(match: re.Match[str], _: Body) -> Iterator[Fields]:
    leadership = leader_colon(match[1])
    if leadership is not None:
        yield {"kind": "leadership", **partition_of(match[3], match[4]), **leadership, "reason": "reassignment"}
        yield {"kind": "assignment", **partition_of(match[3], match[4]), **(assignment(match[2]) or {})}


def _answered(match: re.Match[str], _: Body) -> Iterator[Fields]:
    error = _ERROR_CODE.search(match[1])
    api = _APIS.get(match[2], match[2])
    yield {"kind": "response", "name": api, "broker": int(match[3]), "error": int(error[1]) if error else 0}


def _error(match: re.Match[str], _: Body) -> Iterator[Fields]:
    reason = f"broker {match[3]} answered {match[1]} to {match[2]}"
    yield {"kind": "alarm", "name": "error of a broker", "broker": int(match[3]), "reason": reason}


def _offline_dirs(match: re.Match[str], _: Body) -> Iterator[Fields]:
    for topic, partition in partitions(match[1]):
        yield {"kind": "offline_dirs", "broker": int(match[2]), "topic": topic, "partition": partition}


_FROM_TO: Final = r" from (\w+) to (\w+)"

CONTROLLER: Final[Table] = table(
    rule("Changed partition ", rf"{TP} state from (\w+) to NewPartition with assigned replicas ([\d,]*)$", _created),
    rule("Changed partition ", rf"{TP}{_FROM_TO} with state (LeaderAndIsr\(.*)$", _elected),
    rule("Changed partition ", rf"{TP} state{_FROM_TO}$", _traced_partition),
    rule("Changed state of replica ", rf"(\d+) for partition {TP}{_FROM_TO}$", _traced_replica),
    rule("Partition ", rf"{TP} state changed to (\(Leader:[^)]*\))(?: after removing replica (\d+))?", _shrunk),
    rule("Controller ", rf"\d+ epoch \d+ failed to change state for partition {TP}{_FROM_TO}", _failed_partition),
    rule(
        "Controller ",
        rf"\d+ epoch \d+ initiated state change of replica (\d+) for partition {TP}{_FROM_TO} failed",
        _failed_replica,
    ),
    rule("Sending LeaderAndIsr request to broker ", r"(\d+) with (\d+) become-leader and (\d+)", _sends_leaders),
    rule("Sending UpdateMetadata request to brokers ", r"(.*) for (\d+) partitions", _sends_metadata),
    rule(
        "Sending StopReplica request ",
        r"(?:\(delete = (true|false)\) )?for (\d+) replicas to broker (\d+)",
        _sends_stop,
    ),
    rule(
        "Sent LeaderAndIsr request ",
        rf"(\(Leader:[^)]*\)) with new replica assignment (.*) to leader \S+ for partition being reassigned {TP}$",
        _moving,
    ),
    rule(
        "Received response ",
        r"(.*) for request (?:API )?(\w+) with correlation id \d+ sent to broker .*\(id: (-?\d+) rack: ",
        _answered,
    ),
    rule("Received error ", r"(\S+) in (\w+) response .* from broker (\d+)$", _error),
    rule("Mark replicas ", r"(.*) on broker (\d+) as offline$", _offline_dirs),
    *known(
        "Sending become-leader LeaderAndIsr request",
        "Sending become-follower LeaderAndIsr request",
        "Sending UpdateMetadata request ",
        "Sending StopReplica request ",
        "Failed to send LeaderAndIsr request with new replica assignment",
    ),
)


def _leads(match: re.Match[str], body: Body) -> Iterator[Fields]:
    yield {
        "kind": "broker_leader",
        **partition_of(match[1], match[2]),
        "broker": body.node,
        "leader": body.node,
        "leader_epoch": int(match[3]),
        "partition_epoch": None if match[4] is None else int(match[4]),
        "isr": numbers(match[5]),
        "adding": numbers(match[6]),
        "removing": numbers(match[7]),
    }


BROKER: Final[Table] = table(
    *known("Follower ", "Add "),
    rule(
        "Leader ",
        rf"{TP} (?:with topic id \S+ )?starts at leader epoch (\d+) from offset -?\d+ with "
        r"(?:partition epoch (-?\d+), )?high watermark -?\d+,? ISR \[([\d,]*)\],? "
        r"adding ?[rR]eplicas \[([\d,]*)\](?: and)? removing ?[rR]eplicas \[([\d,]*)\]",
        _leads,
    ),
    *known(
        "A ZooKeeper client exception has occurred",
        "Cached leader info",
        "Completed LeaderAndIsr request",
        "Creating new partition",
        "Deleted partition",
        "Deleting ",
        "Error while processing LeaderAndIsr request",
        "Expected partition",
        "Finished LeaderAndIsr request",
        "Handling LeaderAndIsr request",
        "Handling StopReplica request",
        "Ignoring LeaderAndIsr request",
        "Ignoring StopReplica request",
        "Received LeaderAndIsr",
        "Received StopReplica request",
        "Received UpdateMetadata",
        "Received update metadata",
        "Skipped the ",
        "Started fetchers",
        "Stopped fetchers",
        "The topic partition",
        "Topic ID in memory",
        "Topic Id in memory",
        "Transitioning ",
        "Truncated logs",
        "Unable to ",
        "Updating PartitionFetchState",
        "Updating log for",
        "While handling full LeaderAndIsr request",
    ),
)
