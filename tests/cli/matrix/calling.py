"""Calling commands within this process, in front of the cluster that the table of commands names."""

import io
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Final

from cli.app import main
from tests.cli.documents import run
from tests.cli.matrix.clusters import ServedCluster, fresh
from tests.cli.matrix.files import Files
from tests.cli.matrix.table import NO_DAEMON, Row
from tests.cli.running import Outcome

NO_SERVER: Final = "http://127.0.0.1:1"
_WAITS_S: Final = 20.0
_PRESSES_AGAIN_S: Final = 2.0
"""As a person would: a signal that comes just before the command waits for an answer is seen with the answer only."""


@dataclass(frozen=True)
class Call:
    """Calls the commands of the table."""

    shown: Mapping[str, ServedCluster]
    files: Files
    folder: str

    def words(self, text: str) -> list[str]:
        """The words of a command, its files filled in."""
        return [word.format(out=self.folder, **self.files._asdict()) for word in text.split()]

    def __call__(self, text: str, *more: str, row: Row, on: str | None = None, until: str = "\n") -> Outcome:
        """How a command ends. One that changes something has a cluster of its own; ``@name`` in front says which.

        What would never end is interrupted once it has printed ``until``.
        """
        named, words = text[1:].split(" ", 1) if text.startswith("@") else (None, text)
        cluster = on or named or row.on
        if cluster == NO_DAEMON:
            return self.at(NO_SERVER, words, *more, row=row, until=until)
        if not row.changes:
            return self.at(self.shown[cluster].url, words, *more, row=row, until=until)
        with fresh(cluster) as own:
            return self.at(own.url, words, *more, row=row, until=until)

    def at(self, url: str, text: str, *more: str, row: Row, until: str = "\n") -> Outcome:
        """The same at an address."""
        consent = ["--yes"] if row.changes else []
        arguments = [*self.words(text), *more, *consent, "--api", url]
        return interrupted_when_it_prints(arguments, until) if row.is_endless else run(*arguments)


def interrupted_when_it_prints(arguments: list[str], text: str) -> Outcome:
    """Ctrl-C once the text is there, or never if the command ends before."""
    out = io.StringIO()
    return _interrupted(arguments, out, lambda: text in out.getvalue())


def interrupted_when(arguments: list[str], is_time: Callable[[], bool]) -> Outcome:
    """Ctrl-C as soon as it is time for it."""
    return _interrupted(arguments, io.StringIO(), is_time)


def _interrupted(arguments: list[str], out: io.StringIO, is_time: Callable[[], bool]) -> Outcome:
    """The command runs in the main thread, as a command does, so that the signal arrives there."""
    err, has_ended = io.StringIO(), threading.Event()

    def press() -> None:
        began = time.monotonic()
        while not is_time() and time.monotonic() - began < _WAITS_S:
            if has_ended.wait(0.005):
                return
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        while not has_ended.wait(_PRESSES_AGAIN_S):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=press)
    with redirect_stdout(out), redirect_stderr(err):
        presser.start()
        try:
            code: object = main(arguments)
        except SystemExit as ended:
            code = ended.code
        finally:
            has_ended.set()
            presser.join()
    return Outcome(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())
