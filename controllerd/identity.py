"""The identity of this instance across restarts: a uuid in the data directory, which one process locks.

``/controller`` has the uuid beside the node id, so that a restarted instance can replace its own entry at once.
"""

import fcntl
import os
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from controllerd.cluster_files import write_durably
from controllerd.errors import ConfigError

_LOCK_FILE: Final = "lock"
_INSTANCE_FILE: Final = "instance"
ROLE_FILE: Final = "when_broker_holds"
"""The file in the data directory with an operator's value of ``controller.when_broker_holds``."""


@dataclass(slots=True)
class Identity:
    """The uuid of the instance, and the lock of its data directory until ``release`` or the end of the process."""

    instance: str
    data_dir: Path
    _lock: int | None = field(repr=False)

    def release(self) -> None:
        """Release the lock of the directory. May be called again."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remember_takeover(self) -> Path:
        """Store the decision to take the role from brokers at the next starts. Returns the file. Blocks on the disk.

        :raises OSError: it cannot be written.
        """
        file = self.data_dir / ROLE_FILE
        write_durably(file, b"takeover\n")
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def claim_data_dir(path: Path) -> Identity:
    """Create the directory if necessary, lock it, and read or generate the uuid of this instance.

    :raises ConfigError: another process has the lock, the directory cannot be written, or its uuid is invalid.
    """
    try:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o640)
    except OSError as error:
        raise ConfigError([f"node.data_dir: {path} cannot be used: {error.strerror}"]) from error
    with ExitStack() as on_refusal:
        on_refusal.callback(os.close, lock)
        _lock_or_refuse(lock, path)
        identity = Identity(_instance_of(path), path, lock)
        on_refusal.pop_all()
    return identity


def _lock_or_refuse(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        raise ConfigError(
            [f"node.data_dir: {path} is in use by process {holder}; give each instance a data directory of its own"]
        ) from error
    except OSError as error:
        raise ConfigError([f"node.data_dir: {path} cannot be locked: {error.strerror}"]) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _instance_of(path: Path) -> str:
    file = path / _INSTANCE_FILE
    try:
        return str(uuid.UUID(file.read_text(encoding="ascii").strip()))
    except FileNotFoundError:
        return _draw_instance(file)
    except OSError as error:
        raise ConfigError([f"node.data_dir: {file} cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        # With a new uuid, this instance would take its own entry in /controller for another instance's. So an
        # operator must decide.
        raise ConfigError(
            [f"node.data_dir: {file} does not hold a uuid; delete it to start as a new instance"]
        ) from error


def _draw_instance(file: Path) -> str:
    instance = str(uuid.uuid4())
    try:
        write_durably(file, f"{instance}\n".encode("ascii"))
    except OSError as error:
        raise ConfigError([f"node.data_dir: {file} cannot be written: {error.strerror}"]) from error
    return instance
