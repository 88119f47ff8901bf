"""The recent past: the feed of audit records, elections, terms, and the findings of an observer."""

import msgspec

from controllerd.status.schema.common import Answer


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the audit log in the feed.

    ``id`` is the id of the boot, a dot, and a count since this daemon started; ``Last-Event-ID`` takes it.
    """

    id: str
    at: str
    at_ms: int
    event_id: int
    """The event of the queue to which it belongs; 0 outside of events."""
    controller_epoch: int
    kind: str
    """The kind of the audit record."""
    summary: str
    """One sentence for people."""
    topics: list[str]
    """The topics that it names, at most 20."""
    partitions: int
    """How many partitions it names."""


class HappeningList(Answer, frozen=True, kw_only=True):
    """``GET /v1/events`` without ``text/event-stream``: the newest of the recent records, oldest first."""

    kind: str = "HappeningList"
    items: list[Happening]
    oldest_id: str | None
    """The oldest of the recent records; null when there is none."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The event ``gap`` of the stream: the records after the id ``after`` are not in memory any more (409 otherwise).

    The stream continues at ``next_id``. A client that keeps a copy of the state must read it again.
    """

    code: str = "gap"
    status: int = 409
    after: str
    next_id: str
    detail: str


class ElectionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One election among the recent records."""

    at: str
    at_ms: int
    event_id: int
    topic: str
    partition: int
    strategy: str
    trigger: str
    """The name of the event that caused it."""
    was: int | None
    """The leader before; null where the recent records do not reach back so far."""
    leader: int | None
    """Null when it failed."""
    unclean: bool
    cause: str
    """Why the election failed, or why it was needed."""


class ElectionList(Answer, frozen=True, kw_only=True):
    """``GET /v1/elections``, newest first."""

    kind: str = "ElectionList"
    items: list[ElectionItem]


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """The time in which this instance or another controller held the role, as far as this instance saw it."""

    controller_epoch: int | None
    """Null for a term of another controller whose epoch was not read."""
    holder: str
    began: str
    began_ms: int
    ended: str | None
    reason: str


class TermList(Answer, frozen=True, kw_only=True):
    """``GET /v1/history``, newest first."""

    kind: str = "TermList"
    items: list[Term]


class ObservedState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a state znode, real or as this instance would have written it."""

    leader: int
    leader_epoch: int
    isr: list[int]


class ObservedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: its state before, after, and as this instance would have written it; null without a state."""

    cause: str
    topic: str
    partition: int
    before: ObservedState | None
    would: ObservedState | None
    after: ObservedState | None
    verdict: str


class ObservedTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The number of partitions by cause and ruling: equal, different, unclear, deliberate or not judged."""

    cause: str
    ruling: str
    partitions: int


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of an observer since it started."""

    looks: int
    """Images of ZooKeeper that were read."""
    torn: int
    """Images that could not be used, because the cluster changed while they were read."""
    unsettled: int
    """Causes whose effect is not complete yet."""
    would_refuse: str | None
    """Why this instance would refuse to become the active controller; null when it would not."""
    totals: list[ObservedTotal]
    latest: list[ObservedPartition]
    """The newest 200 comparisons, oldest first; the audit log has all of them."""
    not_judged: list[str]
    """The kinds of changes that are counted but not judged, because their cause does not show in ZooKeeper."""
    cannot_be_seen: list[str]
    """The events that ZooKeeper does not show at all."""


class ObservationsResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/observations``."""

    kind: str = "Observations"
    observations: Observations
