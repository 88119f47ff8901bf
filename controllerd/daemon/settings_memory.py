"""The last settings that brokers said, kept in the data directory for a start at which none of them answers."""

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
    """Keeps what is known of brokers' settings beyond the end of the process."""

    async def load(self, cluster_id: str) -> Remembered:
        """What was known of this cluster last; nothing of any other."""
        ...

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Keep this instead. :raises OSError: it cannot be written."""
        ...


class NoMemory:
    """Nothing is kept."""

    async def load(self, cluster_id: str) -> Remembered:  # noqa: ARG002  # the protocol's signature
        """Nothing."""
        return Remembered()

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Nothing happens."""


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    broker: int
    broker_epoch: int
    settings: dict[str, str]


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
        """What the file says; one that cannot be used is the same as none, because brokers say it again."""
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
            log.warning("kept settings of brokers cannot be used", file=str(self.path), reason=str(error))
            return Remembered()
        if kept.cluster_id != cluster_id:
            log.info("kept settings are of another cluster", file=str(self.path), cluster=kept.cluster_id)
            return Remembered()
        return known

    def _save(self, cluster_id: str, known: Remembered) -> None:
        brokers = [
            _Answer(broker, answer.broker_epoch, dict(answer.values))
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
    """What was kept. :raises ValueError: a value makes no sense."""
    if kept.version != _VERSION:
        raise ValueError(f"its version is {kept.version}, not {_VERSION}")
    if kept.protocol_version is not None:
        version_told(kept.protocol_version)
    answers = {
        BrokerId(row.broker): Answer(row.broker_epoch, understood({name: row.settings.get(name) for name in NAMES}))
        for row in kept.brokers
    }
    return Remembered(answers, kept.protocol_version)
