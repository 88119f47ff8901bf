"""The bodies and answers of the verbs that move the role and forget brokers."""

from typing import Literal

import msgspec

from controllerd.status.schema.common import Envelope


class TakeoverResponse(Envelope, frozen=True, kw_only=True):
    """``POST /v1/takeover``; equal epochs mean that the role was ours already."""

    kind: str = "Takeover"
    epoch_before: int
    epoch_after: int
    held_by: str
    took_s: float


class ResignResponse(Envelope, frozen=True, kw_only=True):
    """``POST /v1/resign``."""

    kind: str = "Resignation"
    took_s: float


class ForgetResponse(Envelope, frozen=True, kw_only=True):
    """``POST /v1/brokers/{id}/forget``: what the broker held up, and how many replicas it owes from now on."""

    kind: str = "BrokerForgotten"
    broker: int
    topics: list[str]
    replicas: int
    took_s: float


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/brokers/{id}/forget``; ``confirm`` repeats the id, so that no slip forgets a broker."""

    reason: str = ""
    confirm: int | None = None


class AdminRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an admin verb; the reason ends up in the audit log."""

    reason: str = ""


class TakeoverRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """The body of ``POST /v1/takeover``; ``remember``: from now on the role is taken from brokers unasked."""

    reason: str = ""
    remember: bool = False
    from_: Literal["any", "broker", "instance"] = "any"
    """Refused when the holder is of the other kind: a broker's built-in controller, or an instance of controllerd."""
