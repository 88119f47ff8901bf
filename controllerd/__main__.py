"""The ``controllerd`` command: ``run`` a daemon, ``dev`` for a whole cluster, ``demo`` for a demonstration."""

import os
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from controllerd.config.load import load_config
from controllerd.errors import ConfigError

_EXIT_NOT_INSTALLED = 1

app = typer.Typer(
    help="The controller of a ZooKeeper-mode Apache Kafka cluster, as a daemon of its own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:  # typer calls it with the flag
    if wanted:
        typer.echo(f"controllerd {version('controllerd')}")
        raise typer.Exit


@app.callback()
def common(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """The controller of a ZooKeeper-mode Apache Kafka cluster, as a daemon of its own."""


@app.command()
def run(
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    from_server_properties: Annotated[
        Path | None, typer.Option(help="A broker's server.properties; the keys that concern a controller are used.")
    ] = None,
    zookeeper: Annotated[str | None, typer.Option(help="zookeeper.connect: host:port,host:port/chroot.")] = None,
    node_id: Annotated[int | None, typer.Option(help="Between 2000000000 and 2000000099.")] = None,
    listener: Annotated[list[str] | None, typer.Option(help="NAME://host:port to bind, once per listener.")] = None,
    advertised_listener: Annotated[
        list[str] | None, typer.Option(help="NAME://host:port to advertise, if different; once per listener.")
    ] = None,
    http: Annotated[str | None, typer.Option(help="host:port of the status endpoint.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Identity, lock and audit log of this instance.")] = None,
    when_broker_holds: Annotated[
        str | None, typer.Option(help="standby or takeover: what to do while a broker's own controller leads.")
    ] = None,
) -> None:
    """Run one instance until SIGTERM. Flags have precedence over CONTROLLERD__SECTION__KEY variables, variables over
    the file, and the file over a broker's server.properties.

    Example: controllerd run --zookeeper 127.0.0.1:2181/kafka --node-id 2000000000
    --listener PLAINTEXT://127.0.0.1:9095 --data-dir ./controllerd-data --when-broker-holds takeover
    """
    from controllerd.daemon.run import EXIT_CONFIG
    from controllerd.daemon.run import run as run_daemon

    flags: dict[str, object] = {
        "zookeeper.connect": zookeeper,
        "node.id": node_id,
        "kafka.listeners": listener,
        "kafka.advertised_listeners": advertised_listener,
        "http.listen": http,
        "node.data_dir": str(data_dir) if data_dir is not None else None,
        "controller.when_broker_holds": when_broker_holds,
    }
    load = partial(load_config, config, os.environ, flags, server_properties=from_server_properties)
    try:
        effective = load()
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(f"controllerd: {problem}", err=True)
        raise typer.Exit(EXIT_CONFIG) from None
    raise typer.Exit(run_daemon(effective, load))


@app.command()
def dev(
    brokers: Annotated[str, typer.Option(help="embedded (Python and Java only) or kafka (real brokers).")] = (
        "embedded"
    ),
    instances: Annotated[
        int, typer.Option(min=0, max=9, help="Instances of controllerd; with none a real broker leads.")
    ] = 1,
    kafka_version: Annotated[
        str | None, typer.Option(help="Release of the real brokers, from 2.6 on; 3.9.1 if absent.")
    ] = None,
    directory: Annotated[Path | None, typer.Option(help="Directory for all data; a temporary one if absent.")] = None,
) -> None:
    """Start ZooKeeper, three brokers and controllerd, print their addresses, and run until Ctrl-C.

    Requires the development tree, which is not part of the wheel.

    A process that ends is started again 30 s later. The ports are 2181, 9092 to 9094, 9095 and 9191 if all of them are
    free, and others if not.
    """
    _require_development_tree("dev")
    from controllerd.dev.commands import run_dev

    raise typer.Exit(run_dev(brokers, instances, directory, kafka_version))


@app.command()
def demo(
    brokers: Annotated[str, typer.Option(help="embedded (Python and Java only) or kafka (real brokers).")] = (
        "embedded"
    ),
    kafka_version: Annotated[
        str | None, typer.Option(help="Release of the real brokers, from 2.6 on; 3.9.1 if absent.")
    ] = None,
    directory: Annotated[Path | None, typer.Option(help="Directory for all data; a temporary one if absent.")] = None,
    summary: Annotated[Path, typer.Option(help="File for the result, as JSON.")] = Path("summary.json"),
) -> None:
    """Demonstrate failures of brokers and controllers on a running cluster, and check that no record is lost.

    Requires the development tree, which is not part of the wheel.
    """
    _require_development_tree("demo")
    from controllerd.dev.commands import run_demo

    raise typer.Exit(run_demo(brokers, directory, summary, kafka_version))


def _require_development_tree(command: str) -> None:
    """Exit with status 1 if `controllerd.dev` is missing, because the wheel does not contain it."""
    if find_spec("controllerd.dev") is None:
        typer.echo(
            f"controllerd: `controllerd {command}` requires the development tree, which is not part of the wheel: "
            f"run `make {command}` in a clone of the repository",
            err=True,
        )
        raise typer.Exit(_EXIT_NOT_INSTALLED)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
