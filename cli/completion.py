"""Completion: the scripts for bash, zsh and fish, and the names that they offer, which the daemon provides.

A daemon that is slow, down or refuses must not disturb the prompt: in that case there are no names, and no message.
"""

import os
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.contexts import choose_context, default_file, read_contexts
from cli.exit_codes import CliError
from cli.settings import DEFAULT_API

if TYPE_CHECKING:
    from cli.client import Client, Query

BUDGET_S: Final = 0.5
"""The longest time that a prompt may wait."""
FRESH_S: Final = 10.0
"""Seconds for which names are cached on disk, for the next completions."""
_OFFERED: Final = 200
_VARIABLE: Final = "_CONTROLLERCTL_COMPLETE"
_BASH: Final = r"""
_controllerctl_completion() {
    local IFS=$'\n' rest=$COMP_LINE word words=()
    # As they were typed: bash splits addresses at their colons, which are pieces without a blank before them.
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && $rest == [![:space:]]* ]]; then words[-1]+=$word; else words+=("$word"); fi
        rest=${rest#*"$word"}
    done
    COMPREPLY=( $( COMP_WORDS="${words[*]}" COMP_CWORD=$(( ${#words[@]} - 1 )) \
                   _CONTROLLERCTL_COMPLETE=complete_bash "$1" ) )
}

complete -o default -F _controllerctl_completion controllerctl
"""
"""A script of our own, because typer's loses the command behind ``--api http://...``."""


class Shell(Enum):
    """The shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Shell of the script.")],
) -> None:
    """Print the script that completes commands, flags, and names of topics, partitions and brokers.

    Examples: controllerctl completion bash > /etc/bash_completion.d/controllerctl ·
    source <(controllerctl completion zsh)
    """
    if shell is Shell.BASH:
        typer.echo(_BASH.strip())
        return
    os.environ[_VARIABLE] = f"source_{shell.value}"  # as the shell itself would ask
    try:
        context.find_root().command(args=[], prog_name="controllerctl")
    finally:
        del os.environ[_VARIABLE]


# -- names -------------------------------------------------------------------------------------------------------------


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics that begin with this text."""
    return _offer(context, "topics", incomplete, _ask_topics)


def partitions(context: typer.Context, incomplete: str) -> list[str]:
    """Return the partitions whose names, or whose topics, begin with this text."""
    return _offer(context, "partitions", incomplete, _ask_partitions)


def topics_or_partitions(context: typer.Context, incomplete: str) -> list[str]:
    """Return topics, or partitions if no topic begins with this text, as behind the dash after a whole name."""
    return _offer(context, "topics or partitions", incomplete, _ask_either)


def brokers(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of brokers that begin with this text."""
    return _offer(context, "brokers", incomplete, _ask_brokers)


def contexts(incomplete: str) -> list[str]:
    """Return the contexts of the configuration file that begin with this text."""
    path = Path(os.environ.get("CONTROLLERCTL_CONFIG") or default_file())
    try:
        known, _ = read_contexts(path)
    except CliError:
        return []
    return sorted(name for name in known if name.startswith(incomplete))


def _ask_topics(client: "Client", incomplete: str) -> list[str]:
    from controllerd.status.schema.cluster import TopicList

    query: Query = {"topic": f"{incomplete}*", "limit": _OFFERED}
    return [item.topic for item in client.get("/v1/topics", TopicList, query).content.items]


def _ask_partitions(client: "Client", incomplete: str) -> list[str]:
    from cli.arguments import split_name
    from controllerd.status.schema.cluster import PartitionList

    name = split_name(incomplete)
    topic = name.topic if name is not None else incomplete.removesuffix("-")
    query: Query = {"topic": f"{topic}*", "limit": _OFFERED}
    found = client.get("/v1/partitions", PartitionList, query).content.items
    return [f"{item.topic}-{item.partition}" for item in found]


def _ask_either(client: "Client", incomplete: str) -> list[str]:
    named = [topic for topic in _ask_topics(client, incomplete) if topic.startswith(incomplete)]
    return named or _ask_partitions(client, incomplete)


def _ask_brokers(client: "Client", _incomplete: str) -> list[str]:
    from controllerd.status.schema.cluster import BrokerList

    return [str(item.id) for item in client.get("/v1/brokers", BrokerList).content.items]


def _offer(context: typer.Context, kind: str, incomplete: str, ask: "Callable[[Client, str], list[str]]") -> list[str]:
    """Return the names, from the cache while they are fresh; none after any failure."""
    try:
        client, api = _client(context)
        cache = _cache_file(kind, api, incomplete)
        names = _cached(cache)
        if names is None:
            names = ask(client, incomplete)
            _keep(cache, names)
    except (CliError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def _client(context: typer.Context) -> "tuple[Client, str]":
    """Return a client. No callback has run: the global flags are those parsed so far, and the environment."""
    from cli.client import Client

    given = context.find_root().params
    name, config = given.get("name"), given.get("config")
    _, known = choose_context(name, Path(config) if config else None)
    api = given.get("api") or known.api or DEFAULT_API
    token = os.environ.get("CONTROLLERCTL_TOKEN") or known.read_token()
    return Client(api, BUDGET_S, token=token, ca_file=known.ca_file), api


def _cache_file(*parts: str) -> Path:
    from hashlib import sha256

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "controllerctl" / f"names-{sha256(repr(parts).encode()).hexdigest()[:24]}"


def _cached(path: Path) -> list[str] | None:
    try:
        age_s = time.time() - path.stat().st_mtime
        return path.read_text().splitlines() if 0 <= age_s < FRESH_S else None
    except OSError:
        return None


def _keep(path: Path, names: Sequence[str]) -> None:
    """Keep names in a folder of this user alone: names of topics may be confidential."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in path.parent.glob("names-*"):
        if time.time() - old.stat().st_mtime > FRESH_S:
            old.unlink(missing_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text("\n".join(names))
    partial.replace(path)
