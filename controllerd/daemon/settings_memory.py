"""The last settings of brokers, kept in the data directory for a start at which no broker answers."""

import asyncio
import os
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog

from controllerd.core.cluster_settings import NAMES, understood
from controllerd.core.model import BrokerId
from controllerd.core.protocol_versions import version_told
from controllerd.core.settings_book import Answer, Remembered

log = structlog.get_logger(__name__)

SETTINGS_FILE: Final = "broker_settings.json"
_VERSION: Final = 1


class SettingsMemory(Protocol):
    """Keeps the known settings of brokers beyond the end of the process."""

    async def load(self, cluster_id: str) -> Remembered:
        """Return the last settings of this cluster; empty if those of another cluster are kept."""
        ...

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Replace the kept settings. :raises OSError: they cannot be written."""
        ...


class NoMemory:
    """Implements ``SettingsMemory`` without keeping anything."""

    async def load(self, cluster_id: str) -> Remembered:  # noqa: ARG002  # the protocol's signature
        """Nothing."""
        return Remembered()

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Nothing happens."""


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    broker: int
    broker_epoch: int
    settings: dict[str, str]
    from_default: list[str] = []


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    cluster_id: str
    protocol_version: str | None
    brokers: list[_Answer]


class SettingsFile:
    """Implements ``SettingsMemory`` with one file, written as a whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / SETTINGS_FILE

    async def load(self, cluster_id: str) -> Remembered:
        """Return the content of the file; an unusable file counts as none, because brokers answer again."""
        return await asyncio.to_thread(self._load, cluster_id)

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Write beside the file, force it to the disk, then replace. :raises OSError: it cannot be written."""
        await asyncio.to_thread(self._save, cluster_id, known)

    def _load(self, cluster_id: str) -> Remembered:
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=_Kept)
            known = _checked(kept)
        except FileNotFoundError:
            return Remembered()
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            log.warning("could not use kept broker settings", file=str(self.path), reason=str(error))
            return Remembered()
        if kept.cluster_id != cluster_id:
            log.info("ignored kept broker settings of another cluster", file=str(self.path), cluster=kept.cluster_id)
            return Remembered()
        return known

    def _save(self, cluster_id: str, known: Remembered) -> None:
        brokers = [
            _Answer(broker, answer.broker_epoch, dict(answer.values), sorted(answer.from_default))
            for broker, answer in sorted(known.answers.items())
        ]
        data = msgspec.json.encode(_Kept(_VERSION, cluster_id, known.protocol_version, brokers))
        fresh = self.path.with_suffix(".new")
        with fresh.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(self.path)


def _checked(kept: _Kept) -> Remembered:
    """Return the kept settings. :raises ValueError: a value cannot be parsed."""
    if kept.version != _VERSION:
        raise ValueError(f"its version is {kept.version}, not {_VERSION}")
    if kept.protocol_version is not None:
        version_told(kept.protocol_version)
    return Remembered({BrokerId(row.broker): _answer(row) for row in kept.brokers}, kept.protocol_version)


def _answer(row: _Answer) -> Answer:
    values = understood({name: row.settings.get(name) for name in NAMES})
    return Answer(row.broker_epoch, values, frozenset(row.from_default))
