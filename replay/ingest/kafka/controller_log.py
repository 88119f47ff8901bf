"""The lines of ``controller.log``, from 2.6 to 3.9. Pure."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from replay.ingest.kafka.line_rules import (
    ACTIVE,
    BUMPED,
    COMPLETED,
    KNOWN_LEADER,
    MOVING,
    READY,
    STATE,
    STRATEGY,
    Body,
    Table,
    known,
    partition_of,
    rule,
    table,
)
from replay.ingest.kafka.scala_values import (
    TP,
    Fields,
    assignment,
    broker_epochs,
    leader_and_isr,
    leader_colon,
    named_assignments,
    named_leaderships,
    named_states,
    names,
    numbers,
    partitions,
    topic_ids,
)

_STRATEGIES: Final = {"PREFERRED": "Preferred", "UNCLEAN": "Offline"}
_RESIGNED: Final = "the broker is no longer the controller"


def _won(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": "term", "name": "elected", "epoch": int(match[1]), "reason": f"version {match[2]} of the epoch"}


def _ready(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": READY, "epoch": int(match[1])}


def _resigned(_: re.Match[str], __: Body) -> Iterator[Fields]:
    yield {"kind": "term", "name": "resigned", "reason": _RESIGNED}


def _brokers_changed(match: re.Match[str], _: Body) -> Iterator[Fields]:
    added, deleted, bounced = (numbers(match[group]) for group in (1, 2, 3))
    for broker in (*deleted, *bounced):
        yield {"kind": "brokers", "broker": broker, "after": "gone", "reason": _gone(broker, bounced)}
    for broker in (*bounced, *added):
        yield {"kind": "brokers", "broker": broker, "after": "live"}


def _gone(broker: int, bounced: list[int]) -> str | None:
    return "bounced" if broker in bounced else None


def _broker_epochs(match: re.Match[str], _: Body) -> Iterator[Fields]:
    for broker, epoch in broker_epochs(match[1]):
        yield {"kind": "brokers", "broker": broker, "after": "live", "zxid": epoch}


def _active(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": ACTIVE, "isr": numbers(match[1])}


def _shutting_down(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": "brokers", "broker": int(match[1]), "after": "shutting_down"}
    yield {"kind": STRATEGY, "name": "ControlledShutdown", "broker": int(match[1])}


def _topics(match: re.Match[str], _: Body) -> Iterator[Fields]:
    new = dict.fromkeys(names(match[1])) | dict(topic_ids(match[3]))
    for topic, topic_id in new.items():
        yield {"kind": "topics", "topic": topic, "name": topic_id}
    yield from ({"kind": "assignment", **each} for each in named_assignments(match[3]))
    for topic in names(match[2]):
        yield {"kind": COMPLETED, "topic": topic}


def _assignments(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield from ({"kind": "assignment", **each} for each in named_assignments(match[1]))


def _deletion(after: str, match: re.Match[str], _: Body) -> Iterator[Fields]:
    reason = match[2] if match.re.groups > 1 else None
    for topic in names(match[1]):
        yield {"kind": "deletion", "topic": topic, "after": after, "reason": reason}


def _deleted(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": COMPLETED, "topic": match[1]}


def _elections(match: re.Match[str], _: Body) -> Iterator[Fields]:
    strategy = _STRATEGIES.get(match[1], match[1])
    for topic, partition in partitions(match[2]):
        yield {"kind": STRATEGY, "name": strategy, "topic": topic, "partition": partition}


def _reelected(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": STRATEGY, "name": "Reassign", **partition_of(match[1], match[2])}


def _caught_up(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": "reassignment", "after": "completing", **partition_of(match[1], match[2])}


def _assigned(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield {"kind": "assignment", **partition_of(match[1], match[2]), **(assignment(match[3]) or {}), "after": "written"}


def _moving(match: re.Match[str], _: Body) -> Iterator[Fields]:
    origin, target = assignment(match[3]), assignment(match[4])
    if origin is not None and target is not None:
        yield {"kind": MOVING, **partition_of(match[1], match[2]), **target, "isr": origin["replicas"]}


def _isr(match: re.Match[str], _: Body) -> Iterator[Fields]:
    leadership = leader_and_isr(match[3]) or leader_colon(match[3])
    if leadership is not None:
        yield {"kind": "leadership", **partition_of(match[1], match[2]), **leadership, "reason": "AlterPartition"}


def _leader_epoch(match: re.Match[str], _: Body) -> Iterator[Fields]:
    epochs = {"leader_epoch": int(match[3]), "partition_epoch": int(match[4]) if match[4] else None}
    yield {"kind": BUMPED, **partition_of(match[1], match[2]), **epochs}


def _leaders(match: re.Match[str], _: Body) -> Iterator[Fields]:
    yield from ({"kind": KNOWN_LEADER, **each} for each in named_leaderships(match[1]))


def _states(match: re.Match[str], _: Body) -> Iterator[Fields]:
    for topic, partition, state in named_states(match[1]):
        if state == "OfflinePartition":
            yield {"kind": STATE, "topic": topic, "partition": partition, "after": state}


def _refused_isr(match: re.Match[str], body: Body) -> Iterator[Fields]:
    yield {"kind": "refused", "name": "AlterPartition", **partition_of(match[1], match[2]), "reason": body.text[:500]}


def _refused_request(match: re.Match[str], body: Body) -> Iterator[Fields]:
    yield {"kind": "refused", "name": match[1], "broker": int(match[2]), "reason": body.text[:500]}


def _failed_preferred(match: re.Match[str], _: Body) -> Iterator[Fields]:
    reason = f"the leader is still {match[3]}"
    yield {"kind": "refused", "name": "Preferred", **partition_of(match[1], match[2]), "reason": reason}


def _alarm(match: re.Match[str], body: Body) -> Iterator[Fields]:
    text = body.text[:500]
    yield {"kind": "alarm", "name": match[1], "reason": f"{text}: {body.cause}" if body.cause else text}


TABLE: Final[Table] = table(
    rule("", r"\d+ successfully elected as the controller\. Epoch incremented to (\d+) .* is now (-?\d+)", _won),
    rule("Ready to serve as the new controller with epoch ", r"(\d+)", _ready),
    rule("Resigned", r"$", _resigned),
    rule(
        "Newly added brokers: ",
        r"([\d,]*), deleted brokers: ([\d,]*), bounced brokers: ([\d,]*), all live brokers: ",
        _brokers_changed,
    ),
    rule("Initialized broker epochs cache: ", "(.*)$", _broker_epochs),
    rule("Updated broker epochs cache: ", "(.*)$", _broker_epochs),
    rule("Currently active brokers in the cluster: ", "(.*)$", _active),
    rule("Shutting down broker ", r"(\d+)", _shutting_down),
    rule(
        "New topics: ",
        r"\[(.*)\], deleted topics: \[(.*)\], new partition replica assignment \[(.*)\]$",
        _topics,
    ),
    rule("New partitions to be added ", "(.*)$", _assignments),
    rule("Starting topic deletion for topics ", "(.*)$", partial(_deletion, "queued")),
    rule("List of topics to be deleted: ", "(.*)$", partial(_deletion, "queued")),
    rule("Deletion of topic ", r"(\S+) \(re\)started$", partial(_deletion, "started")),
    rule("Deletion of topic ", r"(\S+) successfully completed$", _deleted),
    rule("Halted deletion of topics ", r"(\S*) due to (.*)$", partial(_deletion, "halted")),
    rule("Starting replica leader election ", r"\((\w+)\) for partitions (.*) triggered by \w+$", _elections),
    rule(
        "Partition ", rf"{TP} failed to complete preferred replica leader election .* still (-?\d+)", _failed_preferred
    ),
    rule("Leader ", rf"-?\d+ for partition {TP} being reassigned, is not in the new list of replicas", _reelected),
    rule("Leader ", rf"-?\d+ for partition {TP} being reassigned, .* but is dead", _reelected),
    rule("Target replicas ", rf".* caught up with the leader for reassigning partition {TP}$", _caught_up),
    rule("Successfully updated assignment of partition ", rf"{TP} to (.*)$", _assigned),
    rule("Updating assignment of partition ", rf"{TP} from (.*) to (ReplicaAssignment.*)$", _moving),
    rule("ISR for partition ", rf"{TP} updated to (.*)\.$", _isr),
    rule("Updated leader epoch for partition ", rf"{TP} to (\d+)(?:, zkVersion=(\d+))?", _leader_epoch),
    rule("All leaders = ", "(.*)$", _leaders),
    rule("Started partition state machine with initial state -> ", "(.*)$", _states),
    rule("Failed to update ISR to ", rf".* for partition {TP}, bad ZK version", _refused_isr),
    rule("Failed to update ISR for partition ", rf"{TP}", _refused_isr),
    rule("Rejecting AlterPartition ", rf".*?for {TP} because", _refused_isr),
    rule("Rejecting AlterIsr ", rf".*?for {TP} because", _refused_isr),
    rule("Ignoring ", r"(AlterPartition|AlterIsr|AllocateProducerIds) due to .* broker (\d+)$", _refused_request),
    rule("Error ", r"(\w+(?: \w+)?)", _alarm),
    rule("Controller ", "(moved to another broker)", _alarm),
    rule("Uncaught ", "(error processing event)", _alarm),
    rule("Forcing ", "(the controller to resign)", _alarm),
    *known(
        "A controller has been elected but just resigned",
        "Adding replica",
        "All shutting down brokers",
        "Broker ",
        "Checking need to trigger auto leader balancing",
        "Controller ",
        "Creating FeatureZNode",
        "Current list of topics",
        "Currently shutting brokers",
        "Dead Replicas",
        "Delete topic callback invoked",
        "Delete topics listener fired",
        "Deleting isr change notifications",
        "Deleting log dir event notifications",
        "Deletion failed for replicas",
        "Deletion for replicas",
        "Deletion successfully completed for replicas",
        "Error",
        "Failed ",
        "FeatureZNode at path",
        "Fetching topic deletions",
        "Handling deletion for topics",
        "Handling log directory failure",
        "Haven't been able",
        "Ignoring ",
        "Initializing ",
        "Leader ",
        "Leader not yet assigned",
        "List of topics ineligible for deletion",
        "Live brokers",
        "Mark replicas",
        "New broker startup callback",
        "New partition creation callback",
        "No more partitions need to be reassigned",
        "Not adding replica",
        "Not sending request",
        "Partition ",
        "Partitions ",
        "Preferred replicas by broker",
        "Processing ",
        "Received a ShutdownEventThread event",
        "Register BrokerModifications handler",
        "Registering handlers",
        "Removed ",
        "Removing ",
        "Resigning",
        "Restoring the partition replica assignment",
        "Resuming ",
        "Retrying ",
        "Sending ",
        "Shutdown completed",
        "Shutting down",
        "Skipping ",
        "Some replicas",
        "Started replica state machine",
        "Starting",
        "Stopped",
        "Token",
        "Topics not in preferred replica",
        "Triggering ",
        "Unclean leader election has been enabled",
        "Unregister BrokerModifications handler",
        "Updated broker",
        "Updating ",
        "Waiting for any successful result",
        "shutdownInitiated",
        "starting the token expiry check scheduler",
    ),
)
