"""The answer to "why": the true cause in a few sentences, with facts, and what to do next."""

import msgspec

from controllerd.status.schema.cluster import PartitionItem, Transition
from controllerd.status.schema.common import Meta


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that holds a partition or topic up. ``code`` is stable and for programs."""

    code: str
    sentence: str
    broker: int | None = None
    since: str | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """What is the matter with one topic or partition, why, and what helps."""

    subject: str
    """``payments`` or ``payments-7``."""
    condition: str
    """``healthy``, ``offline``, ``under-replicated``, ``at-min-isr``, ``under-min-isr``, ``non-preferred``,
    ``waiting``, ``deleting``, ``reassigning``, ``quarantined``, ``unknown`` (the worst of all that apply)."""
    severity: str
    """``ok``, ``warning`` or ``critical``."""
    headline: str
    """``payments-7 is OFFLINE for 4m12s (since 10:02:11Z, event 88121 BrokerChange)``"""
    since: str | None
    causes: list[Cause]
    """The decisive one first; empty when all is well."""
    facts: list[str]
    """Lines such as ``replicas 3,5,6   isr 5   leader -1 (was 5, epoch 41)   unclean election: disabled (topic)``."""
    next: list[str]
    """What to do, as sentences and commands that can be copied; empty when nothing is to be done."""
    others: list[str] = []
    """For a topic: its partitions that are not healthy, each in one line."""


class WhyResponse(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``GET /v1/partitions/{topic}/{partition}/why`` and ``GET /v1/topics/{topic}/why``."""

    api_version: str = "v1"
    kind: str = "Why"
    meta: Meta
    why: Why
    partition: PartitionItem | None
    """Null for a whole topic."""
    transitions: list[Transition]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check of the doctor found."""

    check: str
    """Stable name, such as ``two-controllers`` or ``zombie-reassignments``."""
    severity: str
    """``ok``, ``warning``, ``critical``, or ``unknown`` when it could not be checked."""
    detail: str
    hint: str | None = None


class FindingList(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """``controllerctl doctor -o json``; every check is listed, also those that found nothing.

    No daemon serves it: most of the checks are made from outside of it, and without it.
    """

    api_version: str = "v1"
    kind: str = "FindingList"
    meta: Meta
    items: list[Finding]
