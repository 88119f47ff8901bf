"""The parts that all answers of the HTTP endpoint share: the envelope, problems, checks.

The daemon encodes these types and ``controllerctl`` decodes them. Changes are additive within ``v1``. Times are ISO
8601 in UTC beside epoch milliseconds; durations are seconds.
"""

import msgspec


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the envelope: the cluster, the controller epoch and the version of the snapshot (``seq``)."""

    cluster_id: str
    controller_epoch: int
    seq: int
    generated_at: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion"}):
    """The fields that every answer begins with; each type names its ``kind``."""

    api_version: str = "v1"
    kind: str


class Answer(Envelope, frozen=True, kw_only=True):
    """An answer about the cluster."""

    meta: Meta


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). ``code`` is stable and meant for programs; ``hint`` names the next step."""

    title: str
    status: int
    detail: str
    code: str
    type: str = "about:blank"
    kafka_error: str | None = None
    hint: str | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a health answer. A check that is not ``required`` only marks the answer as degraded."""

    name: str
    ok: bool
    detail: str
    required: bool = True


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /livez`` and ``GET /readyz``; ``checks`` are listed with ``?verbose``, or when one of them failed."""

    ok: bool
    degraded: bool
    checks: list[Check]


class RoleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /controller`` and ``GET /standby``; ``reason`` explains why this instance has its role."""

    role: str
    controller_epoch: int
    reason: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check of ``controllerctl doctor``."""

    check: str
    """Stable name, such as ``two-controllers`` or ``zombie-reassignments``."""
    severity: str
    """``ok``, ``warning``, ``critical``, or ``unknown`` when it could not be checked."""
    detail: str
    hint: str | None = None


class FindingList(Answer, frozen=True, kw_only=True):
    """``controllerctl doctor -o json``; every check is listed, also a check that found nothing.

    No daemon serves it: ``controllerctl`` makes most of the checks itself, some of them without a daemon.
    """

    kind: str = "FindingList"
    items: list[Finding]
