"""The last settings of brokers, kept in the data directory for a start at which no broker answers."""

import asyncio
from pathlib import Path
from typing import Final, Protocol

import msgspec

from controllerd.cluster_files import Kept, read_kept, write_kept
from controllerd.core.broker_answers import Answer
from controllerd.core.cluster_settings import NAMES, understood
from controllerd.core.model import BrokerId
from controllerd.core.protocol_versions import parse_broker_version
from controllerd.core.settings_book import Remembered

SETTINGS_FILE: Final = "broker_settings.json"


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
    hidden: dict[str, str] = {}
    of_broker: list[str] = []


class _KeptSettings(Kept, forbid_unknown_fields=True):
    protocol_version: str | None
    brokers: list[_Answer]


class SettingsFile:
    """Implements ``SettingsMemory`` with one file, written as a whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / SETTINGS_FILE

    async def load(self, cluster_id: str) -> Remembered:
        """Return the content of the file; an unusable file counts as none, because brokers answer again."""
        known = await asyncio.to_thread(read_kept, self.path, _KeptSettings, cluster_id, _understood)
        return known or Remembered()

    async def save(self, cluster_id: str, known: Remembered) -> None:
        """Replace the file as a whole. :raises OSError: it cannot be written."""
        brokers = [
            _Answer(broker, answer.broker_epoch, dict(answer.values), dict(answer.hidden), sorted(answer.of_broker))
            for broker, answer in sorted(known.answers.items())
        ]
        kept = _KeptSettings(cluster_id, 1, known.protocol_version, brokers)
        await asyncio.to_thread(write_kept, self.path, kept)


def _understood(kept: _KeptSettings) -> Remembered:
    """Return the kept settings. :raises ValueError: a value cannot be parsed."""
    if kept.protocol_version is not None:
        parse_broker_version(kept.protocol_version)
    return Remembered({BrokerId(row.broker): _answer(row) for row in kept.brokers}, kept.protocol_version)


def _answer(row: _Answer) -> Answer:
    values = understood({name: row.settings.get(name) for name in NAMES})
    understood(row.hidden)
    return Answer(row.broker_epoch, values, row.hidden, frozenset(row.of_broker))
