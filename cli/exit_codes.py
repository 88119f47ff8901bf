"""Exit codes that scripts may rely on; ``controllerctl exit-codes`` prints them."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """The reason for which controllerctl ended."""

    DONE = 0
    NO = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    PARTIAL = 5
    IN_PROGRESS = 6
    DECLINED = 7
    OTHER_CLUSTER = 8
    DAMAGED = 65
    NO_INPUT = 66
    UNREACHABLE = 69
    INTERNAL = 70
    UNWRITTEN = 74
    FORBIDDEN = 77
    BAD_CONFIG = 78
    TIMED_OUT = 124
    INTERRUPTED = 130


MEANINGS: Final = {
    ExitCode.DONE: "done, or nothing to do",
    ExitCode.NO: "the answer is no: a check found something",
    ExitCode.USAGE: "wrong usage",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.REFUSED: "refused: not the active controller, fenced, this cluster must not be led, the broker is alive",
    ExitCode.PARTIAL: "partial: some items failed",
    ExitCode.IN_PROGRESS: "still in progress",
    ExitCode.DECLINED: "declined at the prompt, or no terminal to ask on",
    ExitCode.OTHER_CLUSTER: "the cluster at this address is not the expected one",
    ExitCode.DAMAGED: "a log is damaged or was altered",
    ExitCode.NO_INPUT: "there is no log to read",
    ExitCode.UNREACHABLE: "the daemon or ZooKeeper cannot be reached",
    ExitCode.INTERNAL: "the daemon failed",
    ExitCode.UNWRITTEN: "the answer could not be written: the disk is full, or its reader is gone",
    ExitCode.FORBIDDEN: "not permitted",
    ExitCode.BAD_CONFIG: "bad configuration",
    ExitCode.TIMED_OUT: "no answer within --timeout",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; a started operation continues",
}


class CliError(Exception):
    """Ends the command: one line on standard error that says what to do next, and an exit code."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code: Final = code
