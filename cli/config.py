"""``controllerctl config``: the configuration of an instance and its origin, and the check of a file."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cli.connect import daemon_client
from cli.exit_codes import CliError, ExitCode
from cli.lists import ListDefinition, TableColumn, fetch_list, print_found
from cli.output import note, print_facts, print_value
from cli.settings import OutputFormat, settings_of
from controllerd.core.text import counted

if TYPE_CHECKING:
    from controllerd.config.model import Config
    from controllerd.status.schema.config import ConfigItem

app: Final = typer.Typer(
    help="Show the configuration of an instance, check a file, explain a key.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]*\)")


def _plain(value: Any) -> str:
    """Return the value as TOML writes it."""
    import json

    return "-" if value is None else json.dumps(value)


CONFIG: Final["ListDefinition[ConfigItem]"] = ListDefinition(
    "/v1/config",
    (
        TableColumn("KEY", lambda item: item.key),
        TableColumn("VALUE", lambda item: _plain(item.value)),
        TableColumn("ORIGIN", lambda item: item.origin),
    ),
    lambda item: item.key,
    "no keys",
)


@app.command()
def show(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="Only keys that differ from their defaults.")] = False,
) -> None:
    """Show every key of the daemon's configuration with its value and its origin: a file, a variable, a flag.

    Secrets are not shown.

    Examples: controllerctl config show --changed · controllerctl config show -o json
    """
    from controllerd.status.schema.config import ConfigList

    settings = settings_of(context)
    found = fetch_list(daemon_client(settings, "the configuration of a daemon"), CONFIG, ConfigList)
    if changed:
        from msgspec import json, structs

        kept = [item for item in found.items if item.origin != "default"]
        whole = json.decode(found.body, type=ConfigList)
        found = found._replace(items=kept, body=json.encode(structs.replace(whole, items=kept)))
    print_found(settings, CONFIG, found)


@app.command()
def check(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Configuration file of the daemon, as /etc/controllerd/prod.toml.")
    ],
    properties: Annotated[
        Path | None,
        typer.Option(
            "--from-server-properties", metavar="FILE", help="server.properties of a broker, used below FILE."
        ),
    ] = None,
) -> None:
    """Check a configuration file, without a daemon. Exits with status 78 if anything is wrong.

    Variables CONTROLLERD__SECTION__KEY count as they would for the daemon.

    Examples: controllerctl config check /etc/controllerd/prod.toml ·
    controllerctl config check new.toml --from-server-properties /etc/kafka/server.properties
    """
    from controllerd.config.load import load_config
    from controllerd.errors import ConfigError

    settings, problems, config = settings_of(context), list[str](), None
    try:
        config = load_config(file, os.environ, {}, server_properties=properties)
    except ConfigError as error:
        problems = error.problems
    if settings.wants_json:
        print_value(settings, {"file": str(file), "ok": not problems, "problems": problems})
    elif settings.output is not OutputFormat.NAME:
        for problem in problems:
            typer.echo(problem)
    if config is None:
        raise CliError(ExitCode.BAD_CONFIG, f"{file}: {len(problems)} problem{'s' * (len(problems) != 1)}")
    if settings.output is OutputFormat.NAME:
        typer.echo(str(file))
    elif not settings.wants_json:
        _print_valid(file, config)


def _print_valid(file: Path, config: "Config") -> None:
    given = [key for key, origin in config.origins.items() if origin != "default"]
    typer.echo(f"{file} is valid: {counted(len(given), 'key')} given, the others have their defaults")
    if config.ignored:
        note(f"{counted(len(config.ignored), 'name')} in the broker's file without a meaning for a controller")


@app.command()
def explain(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key as section.key, or by its name in Kafka.")],
) -> None:
    """Explain a key, without a daemon: its meaning, type, default, and name in Kafka's server.properties.

    Examples: controllerctl config explain zookeeper.session_timeout_ms ·
    controllerctl config explain auto.leader.rebalance.enable
    """
    settings, facts = settings_of(context), explained(key)
    if settings.wants_json:
        print_value(settings, facts)
    elif settings.output is OutputFormat.NAME:
        typer.echo(str(facts["key"]))
    else:
        print_facts(settings, [(name, "-" if value is None else str(value)) for name, value in facts.items()])


def explained(asked: str) -> dict[str, str | None]:
    """Return the explanation of a key. :raises CliError: there is no key of this name."""
    from controllerd.config.kafka_names import KAFKA_NAMES, KEYS
    from controllerd.config.key_reference import MEANINGS, keys

    key = KEYS.get(asked, asked)
    for name, kind, default in keys():
        if name == key:
            return {
                "key": name,
                "meaning": _words(MEANINGS[name]),
                "type": _words(kind),
                "default": _words(default),
                "kafka": KAFKA_NAMES.get(name),
                "variable": f"CONTROLLERD__{name.replace('.', '__').upper()}",
            }
    raise CliError(ExitCode.NOT_FOUND, f"there is no key {asked!r}{_near(asked, [*MEANINGS, *KEYS])}")


def _near(asked: str, known: list[str]) -> str:
    """Return the closest known names; a name without its section matches, too."""
    from difflib import get_close_matches

    plain = asked.replace("_", ".")
    close = [name for name in known if name.replace("_", ".").endswith(f".{plain}")]
    close = close or get_close_matches(asked, dict.fromkeys(known), 3)
    return f"; did you mean {' or '.join(close[:3])}?" if close else "; controllerctl config show lists them"


def _words(markdown: str) -> str:
    return _LINK.sub(r"\1", markdown).replace("`", "").replace("\\|", "|")
