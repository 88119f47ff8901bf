"""Writes ``state-change.log`` and ``controller.log`` with Kafka's pattern and hourly rotation. Blocks on the disk."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from controllerd.kafkalogs.texts import CONTROLLER, STATE_CHANGE, File, Line

_HOUR: Final = "%Y-%m-%d-%H"


def formatted(at_ms: int, line: Line) -> str:
    """Format a line by Kafka's pattern ``[%d] %p %m (%c)%n``, in UTC."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    text = f"[{moment:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03}] {line.level} {line.text} ({line.logger})\n"
    return f"{text}{line.cause}\n" if line.cause else text


class KafkaLogFiles:
    """The two open files. The file of a past hour is renamed to, for example, ``state-change.log.2026-01-31-03``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._files: dict[File, TextIO] = {}
        self._hour = ""

    def make_folder(self) -> None:
        """Create the folder and its parents. :raises OSError: it cannot be created."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, at_ms: int, line: Line) -> None:
        """Append a line. :raises OSError: it cannot be written."""
        hour = f"{datetime.fromtimestamp(at_ms / 1000, UTC):{_HOUR}}"
        if hour != self._hour:
            self._begin(hour)
        self._files[line.file].write(formatted(at_ms, line))

    def _begin(self, hour: str) -> None:
        self.close()
        for name in (STATE_CHANGE, CONTROLLER):
            file = self._folder / name
            _rename_old(file, hour)
            self._files[name] = self._open.enter_context(file.open("a", encoding="utf-8"))
        self._hour = hour

    def flush(self) -> None:
        """Flush both files to the operating system. :raises OSError: they cannot be written."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Close both files. The next ``write`` opens them again."""
        self._hour = ""
        self._files.clear()
        self._open.close()


def _rename_old(file: Path, hour: str) -> None:
    """Rename a file whose last write was in an earlier hour, possibly by an earlier process."""
    if not file.exists():
        return
    last = f"{datetime.fromtimestamp(file.stat().st_mtime, UTC):{_HOUR}}"
    if last != hour:
        file.rename(file.with_name(f"{file.name}.{last}"))
