"""Contexts: the clusters of an operator by name, in ``controllerctl/config.toml``, as kubectl and kafkactl have them.

current = "prod"

[contexts.prod]
api = "https://controllerd.prod.example:9191"
token_file = "~/.config/controllerctl/prod.token"
ca_file = "/etc/ssl/prod-ca.pem"
expected_cluster_id = "F3b7X-qcQQO2zc0sIq49Pw"
zk = "zk1:2181,zk2:2181/kafka"
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from cli.exit_codes import CliError, ExitCode


@dataclass(frozen=True, slots=True)
class Context:
    """The addresses and credentials of one cluster. At most one of the three tokens is given."""

    api: str | None = None
    zk: str | None = None
    token: str | None = None
    token_file: str | None = None
    token_env: str | None = None
    """Name of the environment variable that holds the token."""
    ca_file: str | None = None
    expected_cluster_id: str | None = None

    def read_token(self) -> str | None:
        """Return the token of any of the three settings. :raises CliError: it cannot be read."""
        if self.token_file is not None:
            return _read_token_file(self.token_file)
        if self.token_env is None:
            return self.token
        token = os.environ.get(self.token_env)
        if not token:
            raise CliError(ExitCode.BAD_CONFIG, f"token_env: the environment variable {self.token_env} is not set")
        return token


NO_CONTEXT: Final = Context()
_KEYS: Final = tuple(field.name for field in fields(Context))


def default_file() -> Path:
    """Return the file of the contexts unless another one is named."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "controllerctl" / "config.toml"


def choose_context(name: str | None, file: Path | None) -> tuple[str | None, Context]:
    """Return the named context, or the file's current one; an empty one without a file.

    :raises CliError: there is no such context or file, or the file makes no sense.
    """
    path = file or default_file()
    if not path.is_file():
        if file is not None or name is not None:
            wanted = f" with a table [contexts.{name}]" if name else ""
            state = "is not a file" if path.exists() else "does not exist"
            raise CliError(ExitCode.BAD_CONFIG, f"{path} {state}; create it{wanted}, or name another --config")
        return None, NO_CONTEXT
    contexts, current = read_contexts(path)
    name = name or current
    if name is None:
        return None, NO_CONTEXT
    if name not in contexts:
        raise CliError(ExitCode.BAD_CONFIG, f"{path} has no context {name!r}; {_known(contexts)}")
    return name, contexts[name]


def read_contexts(path: Path) -> tuple[dict[str, Context], str | None]:
    """Every context of a file, and the name of the current one. :raises CliError: the file makes no sense."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise CliError(ExitCode.BAD_CONFIG, f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CliError(ExitCode.BAD_CONFIG, f"{path} is not TOML: {error}") from None
    _refuse_unknown(path, "", content, ("current", "contexts"))
    contexts, current = content.get("contexts", {}), content.get("current")
    if not isinstance(contexts, dict) or not isinstance(current, str | None):
        raise CliError(ExitCode.BAD_CONFIG, f"{path}: current is a name, contexts are tables [contexts.NAME]")
    return {name: _context(path, name, table) for name, table in contexts.items()}, current


def _context(path: Path, name: str, table: object) -> Context:
    if not isinstance(table, dict):
        raise CliError(ExitCode.BAD_CONFIG, f"{path}: contexts.{name} must be a table")
    _refuse_unknown(path, f"contexts.{name}.", table, _KEYS)
    for key, value in table.items():
        if not isinstance(value, str) or not value:
            raise CliError(ExitCode.BAD_CONFIG, f"{path}: contexts.{name}.{key} must be a text that is not empty")
    tokens = [key for key in ("token", "token_file", "token_env") if key in table]
    if len(tokens) > 1:
        raise CliError(ExitCode.BAD_CONFIG, f"{path}: contexts.{name} has {' and '.join(tokens)}: keep one")
    return Context(**table)


def _refuse_unknown(path: Path, prefix: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
    from difflib import get_close_matches

    for key in table:
        if key not in known:
            close = get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise CliError(ExitCode.BAD_CONFIG, f"{path}: unknown key {prefix}{key}; {hint}")


def _known(contexts: Mapping[str, Context]) -> str:
    return f"there are {', '.join(sorted(contexts))}" if contexts else "it has none"


def _read_token_file(name: str) -> str:
    path = Path(name).expanduser()
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise CliError(ExitCode.BAD_CONFIG, f"the token in {path} cannot be read: {error.strerror}") from None
    if not token:
        raise CliError(ExitCode.BAD_CONFIG, f"the token file {path} is empty")
    return token
