"""Stores the last settings of brokers in the data directory, for a start at which no broker answers."""

import asyncio
from pathlib import Path
from typing import Final, Protocol

import msgspec

from controllerd.cluster_files import StoredFile, read_stored, write_stored
from controllerd.core.broker_answers import SettingsAnswer
from controllerd.core.cluster_settings import NAMES, understood
from controllerd.core.model import BrokerId
from controllerd.core.protocol_versions import parse_broker_version
from controllerd.core.settings_book import Remembered

SETTINGS_FILE: Final = "broker_settings.json"


class SettingsMemory(Protocol):
    """Stores the known settings of brokers across restarts."""

    async def load(self, cluster_id: str) -> Remembered:
        """Return the stored settings of this cluster; empty if there are none, or those of another cluster."""
        ...

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Replace the stored settings. :raises OSError: they cannot be written."""
        ...


class NoMemory:
    """Implements ``SettingsMemory`` without storage."""

    async def load(self, cluster_id: str) -> Remembered:  # noqa: ARG002  # the protocol's signature
        """Return no settings."""
        return Remembered()

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Store nothing."""


class _KeptAnswer(msgspec.Struct, forbid_unknown_fields=True):
    broker: int
    broker_epoch: int
    settings: dict[str, str]
    hidden: dict[str, str] = {}
    of_broker: list[str] = []


class _KeptSettings(StoredFile, forbid_unknown_fields=True):
    protocol_version: str | None
    brokers: list[_KeptAnswer]


class SettingsFile:
    """Implements ``SettingsMemory`` with one file, which is replaced atomically."""

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / SETTINGS_FILE

    async def load(self, cluster_id: str) -> Remembered:
        """Return the content of the file. An unusable file counts as empty, because brokers will answer again."""
        known = await asyncio.to_thread(read_stored, self.path, _KeptSettings, cluster_id, _understood)
        return known or Remembered()

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Replace the file atomically. :raises OSError: it cannot be written."""
        brokers = [
            _KeptAnswer(broker, answer.broker_epoch, dict(answer.values), dict(answer.hidden), sorted(answer.of_broker))
            for broker, answer in sorted(known.answers.items())
        ]
        kept = _KeptSettings(cluster_id, 1, known.protocol_version, brokers)
        await asyncio.to_thread(write_stored, self.path, kept)


def _understood(kept: _KeptSettings) -> Remembered:
    """Convert the content of the file. :raises ValueError: a value cannot be parsed."""
    if kept.protocol_version is not None:
        parse_broker_version(kept.protocol_version)
    return Remembered({BrokerId(row.broker): _answer(row) for row in kept.brokers}, kept.protocol_version)


def _answer(row: _KeptAnswer) -> SettingsAnswer:
    values = understood({name: row.settings.get(name) for name in NAMES})
    understood(row.hidden)  # a check: it raises ValueError for a value that cannot be parsed
    return SettingsAnswer(row.broker_epoch, values, row.hidden, frozenset(row.of_broker))
