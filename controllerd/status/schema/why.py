"""The answers of ``why`` and of the doctor, with the envelope that every answer has."""

import msgspec

from controllerd.explain.answers import Transition, Why
from controllerd.status.schema.cluster import PartitionItem
from controllerd.status.schema.common import Answer


class WhyResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/partitions/{topic}/{partition}/why`` and ``GET /v1/topics/{topic}/why``."""

    kind: str = "Why"
    why: Why
    partition: PartitionItem | None
    """Null for a whole topic."""
    transitions: list[Transition]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check of the doctor."""

    check: str
    """Stable name, such as ``two-controllers`` or ``zombie-reassignments``."""
    severity: str
    """``ok``, ``warning``, ``critical``, or ``unknown`` when it could not be checked."""
    detail: str
    hint: str | None = None


class FindingList(Answer, frozen=True, kw_only=True):
    """``controllerctl doctor -o json``; every check is listed, also those that found nothing.

    No daemon serves it: most of the checks are made from outside of it, and without it.
    """

    kind: str = "FindingList"
    items: list[Finding]
