"""Reads a file, the environment and flags into one checked configuration, and reports all problems at once."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controllerd.config.kafka_names import KEYS, named
from controllerd.config.model import (
    AuditConfig,
    Config,
    ControllerConfig,
    HttpConfig,
    KafkaConfig,
    LogConfig,
    MetricsConfig,
    NodeConfig,
    Section,
    ZookeeperConfig,
)
from controllerd.config.server_properties import NOTHING, ServerProperties, read_server_properties
from controllerd.config.validation import contradictions
from controllerd.config.values import convert
from controllerd.errors import ConfigError
from controllerd.identity import ROLE_FILE

_SECTIONS: Final[Mapping[str, type[Section]]] = {
    "zookeeper": ZookeeperConfig,
    "node": NodeConfig,
    "kafka": KafkaConfig,
    "http": HttpConfig,
    "controller": ControllerConfig,
    "audit": AuditConfig,
    "log": LogConfig,
    "metrics": MetricsConfig,
}
_KEYS: Final = {
    f"{section}.{field.name}": field for section, kind in _SECTIONS.items() for field in msgspec.structs.fields(kind)
}
_PREFIX: Final = "CONTROLLERD__"


class _Given(NamedTuple):
    value: object
    origin: str
    from_text: bool


def load_config(
    file: Path | None,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    *,
    server_properties: Path | None = None,
) -> Config:
    """Load the effective configuration.

    The sources, each with precedence over the ones before it: the remembered role in the data directory, a broker's
    ``server.properties``, the file, variables ``CONTROLLERD__SECTION__KEY``, the flags. ``flags`` are named
    ``section.key``; None and empty lists mean that a flag was not given. Under systemd the data directory defaults to
    ``STATE_DIRECTORY``.

    :raises ConfigError: with every problem found, each with its key and the origin of the value.
    """
    problems: list[str] = []
    given = _defaults_of_systemd(env)
    in_file = _read_file(file, problems) if file else {}
    brokers = read_server_properties(server_properties) if server_properties else NOTHING
    unreadable = bool(problems) or not brokers.is_readable
    problems += brokers.problems
    given |= {key: _Given(value, str(server_properties), True) for key, value in brokers.values.items()}
    given |= _known(in_file, problems)
    given |= _known(_read_env(env), problems)
    given |= _known(_read_flags(flags), problems)
    given = _remembered(given, problems) | given
    values = _convert_all(given, problems)
    _derive(values)
    if not unreadable:  # the keys of an unreadable file are unknown
        problems += _missing(values, given)
    problems += contradictions(values)
    if problems:
        raise ConfigError(problems)
    return _build(values, {key: given[key].origin if key in given else "default" for key in _KEYS}, brokers)


def _defaults_of_systemd(env: Mapping[str, str]) -> dict[str, _Given]:
    folder = env.get("STATE_DIRECTORY", "").split(":")[0]
    return {"node.data_dir": _Given(folder, "STATE_DIRECTORY", True)} if folder else {}


def _read_file(file: Path, problems: list[str]) -> dict[str, _Given]:
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"cannot read {file}: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{file} is not TOML: {error}")
        return {}
    return {key: _Given(value, str(file), False) for key, value in _flatten(tables, "", 0)}


def _flatten(table: Mapping[str, object], above: str, depth: int) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        # Kafka's spelling zookeeper.session.timeout.ms parses as nested tables: keep its path for the suggestion.
        if isinstance(value, dict) and f"{above}{name}" not in _KEYS:
            yield from _flatten(value, f"{above}{name}.", depth + 1)
        else:
            yield f"{above}{name}", value


def _read_env(env: Mapping[str, str]) -> dict[str, _Given]:
    return {
        name.removeprefix(_PREFIX).replace("__", ".").lower(): _Given(value, name, True)
        for name, value in sorted(env.items())
        if name.startswith(_PREFIX)
    }


def _read_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    return {key: _Given(value, "flag", True) for key, value in flags.items() if value not in (None, [], ())}


def _remembered(given: Mapping[str, _Given], problems: list[str]) -> dict[str, _Given]:
    """Return the remembered role from the data directory; configured values have precedence."""
    if "node.data_dir" not in given:
        return {}
    file = Path(str(given["node.data_dir"].value)) / ROLE_FILE
    try:
        return {"controller.when_broker_holds": _Given(file.read_text(encoding="utf-8").strip(), str(file), True)}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"cannot read {file}: {error}")
        return {}


def _known(given: dict[str, _Given], problems: list[str]) -> dict[str, _Given]:
    """The known keys. Unknown keys become problems."""
    for key, (_, origin, _) in given.items():
        if key in _SECTIONS:
            problems.append(f"{key} ({origin}): is a section, expected [{key}] with keys inside")
        elif key not in _KEYS:
            problems.append(f"{key} ({origin}): unknown key{_suggestion(key, origin)}")
    return {key: value for key, value in given.items() if key in _KEYS}


def _suggestion(key: str, origin: str) -> str:
    if key in KEYS:  # Kafka's own name of a key
        return f"; did you mean {KEYS[key]}?"
    plain = {known.replace("_", "."): known for known in _KEYS}
    close = difflib.get_close_matches(key.replace("_", "."), plain, n=1, cutoff=0.7)
    if not close:
        section, _, name = key.rpartition(".")
        close = [other.replace("_", ".") for other in _KEYS if other.endswith(f".{name}")][:1]
        if not close and section in _SECTIONS:
            return f"; [{section}] has {', '.join(field.name for field in msgspec.structs.fields(_SECTIONS[section]))}"
    if not close:
        return ""
    known = plain[close[0]]
    return f"; did you mean {_variable(known) if origin.startswith(_PREFIX) else known}?"


def _variable(key: str) -> str:
    return _PREFIX + key.replace(".", "__").upper()


def _convert_all(given: Mapping[str, _Given], problems: list[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, (raw, origin, from_text) in given.items():
        try:
            values[key] = convert(key, _KEYS[key].type, raw, from_text=from_text)
        except ValueError as error:
            problems.append(f"{named(key, origin)}: {error}")
    return values


def _derive(values: dict[str, object]) -> None:
    """Set the defaults that depend on other keys."""
    if "zookeeper.session_timeout_ms" in values:
        values.setdefault("zookeeper.connection_timeout_ms", values["zookeeper.session_timeout_ms"])
    data_dir = values.get("node.data_dir")
    if isinstance(data_dir, Path):
        values.setdefault("audit.dir", data_dir / "audit")


def _missing(values: Mapping[str, object], given: Mapping[str, _Given]) -> list[str]:
    required = [key for key, field in _KEYS.items() if field.required and key != "audit.dir"]
    if values.get("kafka.mode") != "hidden" and values.get("controller.mode") != "observe":
        required.append("kafka.listeners")
    return [
        f"{named(key)}: required; set it in the file, as {_variable(key)}, or by its flag"
        for key in required
        if key not in given or values.get(key) == ()
    ]


def _build(values: Mapping[str, object], origins: Mapping[str, str], brokers: ServerProperties) -> Config:
    sections = {
        name: kind(**{key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")})
        for name, kind in _SECTIONS.items()
    }
    return Config(**sections, origins=origins, ignored=brokers.ignored)  # type: ignore[arg-type]  # each value was converted to its key's type
