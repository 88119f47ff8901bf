"""Closing a connection on purpose: the one safe answer when no exact answer can be given."""

from enum import Enum


class Reason(Enum):
    """Why a connection was closed by us, in the words of logs and counters."""

    MALFORMED = "malformed request"
    FRAME = "bad frame"
    UNKNOWN_API = "unknown api"
    UNSUPPORTED_VERSION = "unsupported version"
    NOT_RELAYED = "api is not relayed"
    NOT_AUTHORIZED = "not authorized"
    NO_TARGET = "no broker to relay to"
    TARGET_LOST = "relay target lost"
    CALL_TIMEOUT = "controller busy"
    NO_ERROR_FIELD = "version cannot tell the error"
    IDLE = "idle"
    SLOW = "slow client"
    TOO_MANY = "too many connections"
    DEFECT = "internal error"


class HangUp(Exception):
    """Close this connection without a word."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail
