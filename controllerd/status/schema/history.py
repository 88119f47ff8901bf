"""The live feed: what happens, one record after the other (``GET /v1/events``)."""

import msgspec

from controllerd.status.schema.common import Answer


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the audit log as the feed shows it.

    ``id`` counts since this daemon started and is what ``Last-Event-ID`` takes, behind the boot's id and a dot.
    """

    id: str
    at: str
    at_ms: int
    event_id: int
    """The event of the queue that it belongs to; 0 outside of events."""
    controller_epoch: int
    kind: str
    """The audit record's kind."""
    summary: str
    """One sentence for people."""
    topics: list[str]
    """The topics it names, at most 20."""
    partitions: int
    """How many partitions it is about."""


class HappeningList(Answer, frozen=True, kw_only=True):
    """``GET /v1/events`` without ``text/event-stream``: the newest of those that are remembered, oldest first."""

    kind: str = "HappeningList"
    items: list[Happening]
    oldest_id: str | None
    """The oldest that is remembered; null when there is none."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The event ``gap`` of the stream: what came behind the id ``after`` cannot be told any more (409 otherwise).

    The stream goes on at ``next_id``; whoever keeps a picture must read it anew.
    """

    code: str = "gap"
    status: int = 409
    after: str
    next_id: str
    detail: str
