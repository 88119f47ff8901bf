"""The client of requests in tests."""

from typing import Final

from events.admin import Requester

ALICE: Final = Requester("User:alice", "alice", "app", 7, "127.0.0.1")
