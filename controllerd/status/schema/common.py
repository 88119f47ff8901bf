"""What every answer of the HTTP endpoint shares: the envelope's head, errors and health.

The daemon encodes these types and ``controllerctl`` decodes them. Changes are additive within ``v1``. Times are ISO
8601 in UTC beside epoch milliseconds; durations are seconds.
"""

import msgspec


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope's head: which cluster, which term, which version of the picture."""

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
    """An error (RFC 9457); ``code`` is stable and for programs, ``hint`` says what to do next."""

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
    """``GET /livez`` and ``GET /readyz``; ``checks`` are listed when asked for or when one failed."""

    ok: bool
    degraded: bool
    checks: list[Check]


class RoleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /controller`` and ``GET /standby``; ``reason`` says why this instance has its role."""

    role: str
    controller_epoch: int
    reason: str
