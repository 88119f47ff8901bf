#!/usr/bin/env python3
"""Write ``events.md``: every event, its cause, its handler, its writes, requests and answers, and its failures.

Causes, failures and handlers come from the code, effects from the audit log of a tour through all events
(``tests/tour.py``, a whole controller over an in-memory ZooKeeper, which also plays the recorded traces).
"""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final, get_args

from events import admin, cluster, elections, operator, reassignments, replicas, responses, topics
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
    ("The role", cluster.RoleEvent),
    ("Brokers", cluster.BrokerEvent),
    ("Checks by the clock", cluster.CheckEvent),
    ("Topics and their deletions", topics.TopicEvent),
    ("ISRs and log directories", replicas.ReplicaEvent),
    ("Responses of brokers", responses.ResponseEvent),
    ("Elections and configurations", elections.ElectionEvent),
    ("Reassignments", reassignments.ReassignmentEvent),
    ("Pauses, drained brokers, throttles", operator.OperatorEvent),
    ("Other calls of brokers, admin clients and operators", admin.AdminEvent),
)


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
    yield f"- **When it fails** {kind.failures}"
    yield ""


def handler_named(name: str) -> type:
    """The handler of that name in ``dispatch``."""
    found: object = dispatch
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]  # a function; only its name and docstring are asked for


def generated() -> str:
    """The whole page. :raises AttributeError: an event has no text about its failures."""
    by_name, seen = handlers(), asyncio.run(tour())
    lines = [HEAD]
    for title, family in FAMILIES:
        lines += [f"## {title}", ""]
        for kind in get_args(family):
            lines += section(kind, by_name.get(kind.__name__), seen.get(kind.__name__, Effects()))
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(generated(), "utf-8")
