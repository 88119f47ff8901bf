"""The quota of partitions that a client may create and delete: Kafka's controller mutation quota (KIP-599).

Each partition that is created or deleted costs one token. The bucket may be overdrawn by the mutation that empties it,
so that a topic larger than the bucket can be created at all; the next mutation waits until the balance is positive.
The caller passes the time.
"""

import math
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

RATE_CONFIG: Final = "controller_mutation_rate"
"""Key of the quota in the configuration of a user, a client id or both: partitions per second."""
DEFAULT_ENTITY: Final = "<default>"
"""Name of the znode that holds for all users and clients without one; no sanitized name looks like it."""
IDLE_S: Final = 3600.0
"""Seconds after which an unused bucket is forgotten, even if it is overdrawn."""
_SWEEP_S: Final = 30.0
_LONGEST_MS: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?|([+-]?Infinity)", re.ASCII)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ANY_CLIENT: Final = ""


class Mutation(Enum):
    """The requests that a quota limits; the value is the first version that is refused and not only slowed down."""

    CREATE_TOPICS = 6
    DELETE_TOPICS = 5
    CREATE_PARTITIONS = 3

    def is_strict(self, version: int) -> bool:
        """Whether a request of this version is answered with THROTTLING_QUOTA_EXCEEDED when the bucket is overdrawn."""
        return version >= self.value


class QuotaEntity(NamedTuple):
    """The user and client id that a quota limits: names of znodes, ``<default>``, or None where none is named."""

    user: str | None
    client: str | None


class QuotaWindow(NamedTuple):
    """``controller.quota.window.num`` and ``controller.quota.window.size.seconds``, with Kafka's defaults."""

    samples: int = 11
    seconds: int = 1

    @property
    def burst_s(self) -> float:
        """Seconds at the full rate that fit into the bucket."""
        return float(self.samples * self.seconds)


class ThrottleTime(NamedTuple):
    """The time that a client should wait, and when it was computed; the request may wait for leaders after that."""

    wait_ms: int
    since_s: float

    def left_ms(self, now_s: float) -> int:
        """``throttle_time_ms`` of an answer that leaves at ``now_s``."""
        return max(0, self.wait_ms - int((now_s - self.since_s) * 1000))


NO_THROTTLE: Final = ThrottleTime(0, 0.0)


def sanitize(name: str) -> str:
    """A user or client id as Kafka writes it into a znode's name: form encoding, but with ``%20`` and ``%2A``."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode(errors="replace")), name)


def entity_of(path: str) -> QuotaEntity | None:
    """Return the entity of a path below ``/config``, such as ``users/alice/clients/app``; None if it has no quota.

    Client ids are compared decoded, users as they are written, as in Kafka.
    """
    match path.split("/"):
        case ["clients", client] if client:
            return QuotaEntity(None, _canonical(client))
        case ["users", user] if user:
            return QuotaEntity(user, None)
        case ["users", user, "clients", client] if user and client:
            return QuotaEntity(user, _canonical(client))
        case _:
            return None


def _canonical(client: str) -> str:
    return client if client == DEFAULT_ENTITY else sanitize(_ENCODED.sub(_decoded, client.replace("+", " ")))


def _decoded(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")


def parse_rate(text: str) -> float:
    """The value of ``controller_mutation_rate``. :raises ValueError: it is no number, or a negative one.

    Kafka's controller takes a negative rate and refuses everything for ever, which no operator can mean.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{RATE_CONFIG} is not a number: {text!r}")
    rate = float(found[1] or found[2])
    if rate < 0:
        raise ValueError(f"{RATE_CONFIG} is negative: {text!r}")
    return rate


class TokenBucket:
    """A bucket that is full at first, and to which tokens come back at a rate. Below zero it is overdrawn."""

    def __init__(self, burst_s: float, now_s: float) -> None:
        self._burst_s = burst_s
        self._tokens = math.inf
        self._filled_at = now_s
        self.taken_at = now_s
        """The time at which tokens were taken last, or else the bucket was made; in the seconds of the clock."""

    def balance(self, rate: float, now_s: float) -> float:
        """Return the present balance. A new rate counts from the last time that it was computed."""
        came_back = rate * max(0.0, now_s - self._filled_at)
        self._tokens = min(rate * self._burst_s, self._tokens + came_back)
        self._filled_at = max(self._filled_at, now_s)
        return self._tokens

    def take(self, tokens: float, rate: float, now_s: float) -> float:
        """Take tokens, even if the balance becomes negative; return the balance."""
        self._tokens = self.balance(rate, now_s) - tokens
        self.taken_at = now_s
        return self._tokens


class MutationQuota:
    """The quota of one request. Each topic of the request is charged; ``throttle`` is the resulting throttle time.

    A strict quota refuses mutations while the bucket is overdrawn. The mutation that overdraws the bucket is allowed,
    and causes no throttle time. Any other quota refuses nothing, and throttles the client as soon as the bucket is
    overdrawn.
    """

    def __init__(self, bucket: TokenBucket | None, rate: float, *, strict: bool) -> None:
        self._bucket = bucket
        self._rate = rate
        self._strict = strict
        self.throttle = NO_THROTTLE
        """The throttle time for the client; set when the bucket was found overdrawn."""

    def take(self, partitions: int, now_s: float) -> bool:
        """Charge for the partitions of a topic; False if the topic must be refused with THROTTLING_QUOTA_EXCEEDED."""
        if self._bucket is None:
            return True
        if not self._strict:
            self._note(self._bucket.take(partitions, self._rate, now_s), now_s)
            return True
        balance = self._bucket.balance(self._rate, now_s)
        if balance < 0:
            self._note(balance, now_s)
            return False
        self._bucket.take(partitions, self._rate, now_s)
        return True

    def _note(self, balance: float, now_s: float) -> None:
        if balance < 0:
            self.throttle = ThrottleTime(_wait_ms(balance, self._rate), now_s)


def _wait_ms(balance: float, rate: float) -> int:
    """Milliseconds until the balance is back at zero, at most 2^31-1 (24 days): Kafka's number overflows there."""
    wait_ms = -balance / rate * 1000 if rate > 0 else math.inf
    return math.floor(wait_ms + 0.5) if wait_ms < _LONGEST_MS else _LONGEST_MS


class MutationQuotas:
    """All quotas, and the buckets of their users. Buckets are not shared between controllers, as in Kafka."""

    def __init__(self, window: QuotaWindow | None = None) -> None:
        self._burst_s = (window or QuotaWindow()).burst_s
        self._rates: dict[QuotaEntity, float] = {}
        self._buckets: dict[QuotaEntity, TokenBucket] = {}
        self._swept_at = -math.inf

    def set_window(self, window: QuotaWindow) -> None:
        """Set the window of buckets that are made from now on; tokens that were taken before still count."""
        self._burst_s = window.burst_s

    def set_rate(self, entity: QuotaEntity, rate: float | None) -> None:
        """Set the partitions per second of an entity; None removes its quota. Tokens that were taken still count."""
        if rate is None:
            self._rates.pop(entity, None)
        else:
            self._rates[entity] = rate

    def replace_rates(self, rates: Mapping[QuotaEntity, float]) -> None:
        """Replace all quotas, as they are read at the start of a term."""
        self._rates = dict(rates)

    def rate_of(self, user: str, client_id: str | None) -> float | None:
        """The quota that holds for this client, in partitions per second; None: there is none."""
        _, rate = self._find(user, client_id) or (None, None)
        return rate

    def quota_for(
        self, user: str, client_id: str | None, mutation: Mutation, version: int, now_s: float
    ) -> MutationQuota:
        """The quota of a request of this principal (its name without type) and client id, for that request alone."""
        self._sweep(now_s)
        found = self._find(user, client_id)
        strict = mutation.is_strict(version)
        owner, rate = found or (None, math.inf)
        if owner is None or math.isinf(rate):
            return MutationQuota(None, 0.0, strict=strict)
        if owner not in self._buckets:
            self._buckets[owner] = TokenBucket(self._burst_s, now_s)
        return MutationQuota(self._buckets[owner], rate, strict=strict)

    def _find(self, user: str, client_id: str | None) -> tuple[QuotaEntity, float] | None:
        for entity, owner in _candidates(sanitize(user), sanitize(client_id or "")):
            if entity in self._rates:
                return owner, self._rates[entity]
        return None

    def _sweep(self, now_s: float) -> None:
        """Forget the buckets that were not used for an hour. A refused mutation does not count as use."""
        if now_s - self._swept_at < _SWEEP_S:
            return
        self._swept_at = now_s
        self._buckets = {owner: bucket for owner, bucket in self._buckets.items() if now_s - bucket.taken_at <= IDLE_S}


def _candidates(user: str, client: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """Yield the entities whose quota may hold, by precedence, each with the owner of its bucket.

    All client ids of a user share the bucket of the user's quota. Under a default quota, each user has a bucket of its
    own. A client without an id is not limited by the quotas of client ids, not even by their default.
    """
    for who in (user, DEFAULT_ENTITY) if user else ():
        if client:
            both = QuotaEntity(user, client)
            yield QuotaEntity(who, client), both
            yield QuotaEntity(who, DEFAULT_ENTITY), both
        yield QuotaEntity(who, None), QuotaEntity(user, _ANY_CLIENT)
    if client:
        own = QuotaEntity(None, client)
        yield own, own
        yield QuotaEntity(None, DEFAULT_ENTITY), own
