"""``controllerctl config``: what an instance is configured for and who says so, and whether a file would do."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cli.exit_codes import CliError, ExitCode
from cli.listing import Column, Listing, fetch_list, print_found
from cli.output import note, print_facts, print_value
from cli.settings import OutputFormat, settings_of
from controllerd.core.counted import counted

if TYPE_CHECKING:
    from controllerd.config.model import Config
    from controllerd.status.schema.config import ConfigItem

app: Final = typer.Typer(
    help="Show what an instance is configured for, check a file, explain a key.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]*\)")


def _plain(value: Any) -> str:
    """As TOML writes it."""
    import json

    return "-" if value is None else json.dumps(value)


CONFIG: Final["Listing[ConfigItem]"] = Listing(
    "/v1/config",
    (
        Column("KEY", lambda item: item.key),
        Column("VALUE", lambda item: _plain(item.value)),
        Column("ORIGIN", lambda item: item.origin),
    ),
    lambda item: item.key,
    "no keys",
)


@app.command()
def show(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not the default.")] = False,
) -> None:
    """Show every key of the daemon's configuration with its value and where that is from: a file, a variable, a flag.

    Secrets are not shown.

    Examples: controllerctl config show --changed · controllerctl config show -o json
    """
    from controllerd.status.schema.config import ConfigList

    settings = settings_of(context)
    found = fetch_list(settings.asking_client("the configuration of a daemon"), CONFIG, ConfigList)
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
        Path, typer.Argument(metavar="FILE", help="A configuration of the daemon, as /etc/controllerd/prod.toml.")
    ],
    properties: Annotated[
        Path | None,
        typer.Option("--from-server-properties", metavar="FILE", help="What a broker's file says counts below it."),
    ] = None,
) -> None:
    """Say everything that is wrong with a configuration file; no daemon is asked. Ends with 78 if anything is.

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
        _praise(file, config)


def _praise(file: Path, config: "Config") -> None:
    given = [key for key, origin in config.origins.items() if origin != "default"]
    typer.echo(f"{file} is fine: {counted(len(given), 'key')} given, the others have their defaults")
    if config.ignored:
        note(f"{counted(len(config.ignored), 'name')} in the broker's file without a meaning for a controller")


@app.command()
def explain(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="As section.key, or Kafka's name of it.")],
) -> None:
    """Say what a key means, what it may be, its default, and its name in Kafka's server.properties. No daemon is asked.

    Examples: controllerctl config explain zookeeper.session_timeout_ms ·
    controllerctl config explain auto.leader.rebalance.enable
    """
    settings, told = settings_of(context), explained(key)
    if settings.wants_json:
        print_value(settings, told)
    elif settings.output is OutputFormat.NAME:
        typer.echo(str(told["key"]))
    else:
        print_facts(settings, [(name, "-" if value is None else str(value)) for name, value in told.items()])


def explained(asked: str) -> dict[str, str | None]:
    """Everything about a key, in plain words. :raises CliError: there is none of this name."""
    from controllerd.config.explained import MEANINGS, keys
    from controllerd.config.kafka_names import KAFKA_NAMES, KEYS

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
    """What was meant, perhaps; a name without its section is enough."""
    from difflib import get_close_matches

    plain = asked.replace("_", ".")
    close = [name for name in known if name.replace("_", ".").endswith(f".{plain}")]
    close = close or get_close_matches(asked, dict.fromkeys(known), 3)
    return f"; did you mean {' or '.join(close[:3])}?" if close else "; controllerctl config show lists them"


def _words(markdown: str) -> str:
    return _LINK.sub(r"\1", markdown).replace("`", "").replace("\\|", "|")
