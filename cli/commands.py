"""The commands: where each of them is, and what the list of all says about it. Only the one that is called is imported.

To import them all takes as long as most commands take.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer._click import Command, Context

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "status": (
        "cli.status:status",
        "Show who leads, how this instance does, and what needs attention; -o wide shows the last events as well.",
    ),
    "why": ("cli.why:why", "Say what is the matter with a topic or partition, why, and what helps."),
    "doctor": ("cli.doctor.command:doctor", "Check the cluster and the daemon: what is wrong, and what to do next."),
    "diff": (
        "cli.diff:diff",
        "Compare what ZooKeeper says with what the controller knows and brokers tell; ends with 1 on a difference.",
    ),
    "observations": (
        "cli.observations:observations",
        "Show what the controller that is watched did, beside what this instance would have done.",
    ),
    "takeover": (
        "cli.role:takeover",
        "Make this instance the active controller, whoever is it now: in one transaction, so that there is no gap.",
    ),
    "resign": ("cli.role:resign", "Make this instance give the role away and stand by."),
    "pause": (
        "cli.holding:pause",
        "Leave the automatic rebalance of leaders, or all deletions of topics, alone for a while.",
    ),
    "resume": (
        "cli.holding:resume",
        "End a pause before its time: of auto-rebalance, deletions, or a drained broker that may lead again (drain-3).",
    ),
    "resync": (
        "cli.holding:resync",
        "Read brokers, topics and requests from ZooKeeper again, without an election; for whoever edited znodes.",
    ),
    "completion": (
        "cli.completion:completion",
        "Print the script that completes commands, flags, and names of topics, partitions and brokers.",
    ),
    "exit-codes": ("cli.info:exit_codes", "List the exit codes and what they mean."),
    "version": ("cli.info:version", "Show the version of controllerctl; status shows the daemon's."),
    "get": ("cli.get:app", "List brokers, topics, partitions and what is under way."),
    "describe": ("cli.describe:app", "Show one topic, partition or broker with everything that belongs to it."),
    "events": ("cli.events:app", "Follow what the controller does."),
    "reassign": ("cli.reassign:app", "Move replicas between brokers: plan, apply, follow, cancel."),
    "elect": ("cli.elect:app", "Elect leaders: preferred ones, or where nobody leads any live replica."),
    "topics": ("cli.topics:app", "Create, enlarge and delete topics."),
    "drain": ("cli.holding:drain_app", "MoveLeadershipAway a broker before it is stopped."),
    "audit": (
        "cli.audit_contents:app",
        "Verify an audit log, export its head, look at its newest records; from files.",
    ),
    "config": ("cli.config:app", "Show what an instance is configured for, check a file, explain a key."),
    "brokers": ("cli.brokers:app", "Tell the controller about brokers."),
    "replay": (
        "cli.replay:app",
        "Find out from files what happened: reports, the state at any moment, the cause of an outage.",
    ),
}
"""Where each is and the first sentence of its help, in the order of the list."""


class ListedCommands(TyperGroup):
    """Commands that the help, completion and advice list by the table alone, and that are imported when called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update((name, TyperCommand(name, help=line)) for name, (_, line) in COMMANDS.items())

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        """The command that is called, as its module has it. Raises as typer's own does when there is none."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _imported(name), rest


def _imported(name: str) -> "Command":
    alone = typer.Typer(rich_markup_mode=None)
    add(alone, name)
    return typer.main.get_group(alone).commands[name]


def add(app: typer.Typer, name: str) -> None:
    """Import a command, and make it one of the app."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
