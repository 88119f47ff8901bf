#!/usr/bin/env python3
"""Write ``events.md``: every event, its cause, its handler, its writes, requests and answers, and its failures.

Causes and handlers come from the code, effects from the audit log of a tour through all events (``tests/tour.py``, a
whole controller over an in-memory ZooKeeper, which also plays the recorded traces). The failures of each event are
described in this script.
"""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final, get_args

from events import registry
from events.base import Call, Event
from handlers import dispatch
from tests.tour import Effects, tour

PAGE: Final = Path(__file__).with_name("events.md")
HEAD: Final = """# Events

`make docs` generates this page, and a test compares it with the code. Every cause becomes one of these events in one
queue, and one task handles them one after the other (`controllerd/loop.py`). The number is the `ControllerState` during
the event, with Kafka's codes. *Seen* lists the effects of the handler in the audit log of a tour through all events:
paths with their operations (all behind the check of `/controller_epoch`), and requests to brokers. A standby ignores
events that need the role, or answers NOT_CONTROLLER.

The same rules hold for every event. If another controller has the epoch, the first write fails, the term ends, and
the callers are answered NOT_CONTROLLER. If the ZooKeeper session is lost, the handler stops at its next access to
ZooKeeper, and `Expire` follows. Any other exception before the first write is answered as an error; after a write the
whole state is loaded again under a new epoch. After three failures with one cause in ten minutes the instance stops
contending.
"""

Kind = type[Event]

_MODULES: Final = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")

FAMILIES: Final = (
    ("The role", registry.RoleEvent),
    ("Brokers and log directories", registry.BrokerEvent),
    ("Topics and their deletions", registry.TopicEvent),
    ("ISRs", registry.IsrEvent),
    ("Answers of brokers", registry.ResponseEvent),
    ("Elections and configurations", registry.ElectionEvent),
    ("Reassignments and their throttle", registry.ReassignmentEvent),
    ("Pauses", registry.PauseEvent),
    ("Features, credentials, producer ids", registry.AdminEvent),
    ("Checks by the clock", registry.CheckEvent),
)

FAILURES: Final[Mapping[str, str]] = {
    "Startup": "Refused to lead (secured ZooKeeper, migration, the node id is a broker's): alarm, standby, tried "
    "again every 30 s. A damaged topic, state or registration znode is put in quarantine and everything else is "
    "served.",
    "ControllerChange": "ZooKeeper away: the event waits with the session.",
    "Reelect": "As Startup. Another process wins the election: standby.",
    "RegisterBrokerAndReelect": "As Reelect.",
    "Expire": "Nothing can fail: the handler only stops the senders and drops the state.",
    "ShutdownEventThread": "The role was lost before: logged. After one second the event is cancelled, and the end of "
    "the session gives the role back.",
    "Resync": "As each of the events whose reads it repeats.",
    "SelfAudit": "A znode that differs is read again after 5 s. If it still differs, and no event handled it in "
    "between, an alarm is raised and the events that were missing are queued. For a state znode that was deleted only "
    "the alarm is raised.",
    "Takeover": "The holder is another controllerd, or `/controller` cannot be decoded: refused with the reason.",
    "Resign": "Not active: refused.",
    "BrokerChange": "A registration that cannot be used is put in quarantine with an alarm, and its broker keeps its "
    "known state; a broker without the required listener gets no channel. Partitions without an electable replica "
    "stay offline.",
    "BrokerModifications": "As BrokerChange, for one broker.",
    "BrokerRefresh": "The broker was removed meanwhile: nothing happens.",
    "QuarantineCheck": "Still damaged: the znode stays in quarantine until the next check in 10 s.",
    "DelegationTokenExpiryCheck": "A token that cannot be decoded is put in quarantine and not changed. A token that "
    "changed meanwhile is examined by the next check.",
    "TopicChange": "A damaged topic znode is put in quarantine; a partition with a repeated broker is left out; an "
    "assignment that names controllerd is replaced first; a partition without a live replica waits.",
    "PartitionModifications": "As TopicChange. Partitions that are added while the topic is being deleted are removed "
    "again.",
    "IsrChangeNotification": "A damaged notification is deleted after an alarm; a notification of a newer format is "
    "not changed.",
    "AlterPartitionReceived": "Per partition: FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, "
    "INVALID_REQUEST, NOT_CONTROLLER (the leader has a higher epoch than the controller), UNKNOWN_TOPIC_ID, "
    "UNKNOWN_SERVER_ERROR (ask again: in quarantine). A lost compare-and-set brings the leader a newer leader epoch.",
    "AllocateProducerIds": "STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED; a block that cannot be decoded: "
    "UNKNOWN_SERVER_ERROR and an alarm.",
    "ControlledShutdown": "BROKER_NOT_AVAILABLE for an unknown broker, STALE_BROKER_EPOCH. Partitions that no other "
    "replica can lead are in the answer, and the broker asks again.",
    "LeaderAndIsrResponseReceived": "An answer to an earlier epoch of the broker or of the controller is ignored. "
    "STALE_CONTROLLER_EPOCH: the role is checked, and given up if it is lost.",
    "UpdateMetadataResponseReceived": "As LeaderAndIsrResponseReceived.",
    "ApiVersionsReceived": "An answer of an earlier broker epoch is ignored.",
    "BrokerSettingsReceived": "An answer of a broker that was removed is ignored. Brokers that disagree, or a "
    "configuration that differs, raise an alarm. For an authorizer, a policy class, ACLs on znodes or a migration the "
    "role is given up. A protocol version with other optional behaviour loads the whole state again under a new epoch.",
    "TopicDeletion": "An unknown topic: its marker is deleted. Deletion disabled: all markers are deleted. A topic "
    "that cannot be deleted now waits, and the status has the reason.",
    "TopicDeletionRetry": "Refused again: the next attempt is made after twice the time, at most ten minutes.",
    "TopicDeletionStopReplicaResponseReceived": "A failed deletion of a replica halts its topic and is tried again.",
    "LogDirEventNotification": "A notification of an unknown broker is deleted; damaged ones as for "
    "IsrChangeNotification.",
    "UpdateFeatures": "Per feature: INVALID_REQUEST, FEATURE_UPDATE_FAILED; the others are written. Below 2.7: "
    "INVALID_REQUEST for the request as a whole.",
    "ForgetBroker": "A registered broker: refused. If no topic waits for the broker, nothing happens.",
    "ReplicaLeaderElection": "Per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (being deleted), "
    "ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE. A damaged znode is deleted "
    "after an alarm.",
    "AutoPreferredReplicaLeaderElection": "A preferred replica outside the ISR is not elected. The next check is "
    "scheduled in any case.",
    "UncleanLeaderElectionEnable": "Partitions without a live replica stay offline.",
    "TopicUncleanLeaderElectionEnable": "As UncleanLeaderElectionEnable.",
    "ConfigChange": "A damaged notification or configuration is not changed and raises an alarm.",
    "ZkPartitionReassignment": "Invalid JSON: alarm, and the znode stays and stays watched. An entry that cannot be "
    "carried out is removed from the znode, and the others are carried out.",
    "ApiPartitionReassignment": "Per partition: INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, "
    "NO_REASSIGNMENT_IN_PROGRESS.",
    "PartitionReassignmentIsrChange": "Not caught up yet: nothing happens.",
    "ReassignmentsMayComplete": "Not caught up yet: nothing happens.",
    "ReassignmentRetry": "Refused again: the next attempt is made after twice the time, at most ten minutes. The end "
    "of the term ends the attempts: the next active controller resumes all unfinished reassignments.",
    "ListPartitionReassignments": "Unknown partitions are left out of the answer.",
    "Pause": "Refused: a name that cannot be paused, a time in the past or more than 7 days away, a znode that cannot "
    "be decoded (it is not changed, and deletions wait until it is repaired or deleted).",
    "Resume": "Nothing of that name is paused: nothing happens. Refused as Pause is.",
    "PauseCheck": "The end cannot be written: the pause goes on, and is checked again after 10 s.",
    "DrainBroker": "A broker that is not registered: refused. Leaderships that no other replica can take stay, with "
    "the reason in the answer. After a failover a broker that was drained as a whole is in sync again, and the "
    "automatic rebalance moves no leadership back to it.",
    "ThrottleReassignments": "Refused, with nothing set: another throttle with another value (unless overridden), an "
    "unknown partition, a configuration or a stored throttle that cannot be decoded. Settings that were written "
    "before a write failed are removed again after a minute.",
    "ThrottleCheck": "Settings that cannot be removed are remembered and tried again after 30 s, by the controller "
    "that is active then.",
    "CreateTopics": "Per topic: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, "
    "INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, "
    "THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR (ZooKeeper refuses it); the others are created. A topic is "
    "written with its configuration or not at all.",
    "DeleteTopics": "Per topic: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED, THROTTLING_QUOTA_EXCEEDED. A "
    "deletion that cannot begin now waits, as for TopicDeletion.",
    "CreatePartitions": "Per topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (being deleted), "
    "INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS, THROTTLING_QUOTA_EXCEEDED, "
    "UNKNOWN_SERVER_ERROR (the znode cannot be decoded, or another writer keeps changing it).",
    "AlterScram": "Per user: UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL, DUPLICATE_RESOURCE, "
    "RESOURCE_NOT_FOUND (a credential to delete), UNKNOWN_SERVER_ERROR with an alarm (the znode cannot be decoded or "
    "written); the others are changed.",
}


def handlers() -> dict[str, str]:
    """The handler of every event by the event's name, as ``dispatch`` has it."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(dispatch))):
        if isinstance(node, ast.match_case) and isinstance(node.body[0], ast.Return):
            call = node.body[0].value
            if isinstance(call, ast.Call):
                for kind in ast.walk(node.pattern):
                    if isinstance(kind, ast.MatchClass):
                        found[ast.unparse(kind.cls).rpartition(".")[2]] = ast.unparse(call.func)
    return found


def reply_of(kind: Kind) -> str:
    """The type of a caller's answer; empty for an event without one."""
    for base in getattr(kind, "__orig_bases__", ()):
        if getattr(base, "__origin__", None) is Call:
            reply = get_args(base)[0]
            return (
                "nothing"
                if reply is type(None)
                else _MODULES.sub("", str(reply) if get_args(reply) else reply.__name__)
            )
    return ""


def section(kind: Kind, handler: str | None, effects: Effects) -> Iterator[str]:
    """The lines of one event's section."""
    name = kind.__name__
    yield f"### {name} ({kind.state.value})"
    yield ""
    yield str(inspect.getdoc(kind)).replace("``", "`")
    yield ""
    carried = ", ".join(f"`{field.name}`" for field in fields(kind))
    if carried:
        yield f"- **Carries** {carried}."
    if handler is not None:
        work = handler_named(handler)
        what = " ".join(str(inspect.getdoc(work)).replace("``", "`").split())
        yield f"- **Does** (`{work.__module__}.{work.__name__}`): {what}"
    if effects.writes:
        yield f"- **Seen to write** {', '.join(f'`{write}`' for write in sorted(effects.writes))}."
    if effects.sends:
        yield f"- **Seen to send** {', '.join(sorted(effects.sends))}."
    if reply := reply_of(kind):
        yield f"- **Answers** `{reply}`."
    yield f"- **When it fails** {FAILURES[name]}"
    yield ""


def handler_named(name: str) -> type:
    """The handler of that name in ``dispatch``."""
    found: object = dispatch
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]  # a function; only its name and docstring are asked for


def generated() -> str:
    """The whole page. :raises KeyError: an event has no line about its failures, or a line has no event."""
    kinds = [kind for _, family in FAMILIES for kind in get_args(family)]
    if unknown := FAILURES.keys() - {kind.__name__ for kind in kinds}:
        raise KeyError(*unknown)
    by_name, seen = handlers(), asyncio.run(tour())
    lines = [HEAD]
    for title, family in FAMILIES:
        lines += [f"## {title}", ""]
        for kind in get_args(family):
            lines += section(kind, by_name.get(kind.__name__), seen.get(kind.__name__, Effects()))
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(generated(), "utf-8")
