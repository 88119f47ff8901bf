"""SCRAM credentials of users (KIP-554): the rules for changes, and the stored texts.

The rules, their order and their sentences are those of Kafka's own controller. Salts and salted passwords are secrets:
no representation of these values shows them.
"""

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError, Refusal

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class ScramMechanism(NamedTuple):
    """A mechanism: the key of its credential in the configuration of a user, and the hash."""

    name: str
    hash: str


MECHANISMS: Final[Mapping[int, ScramMechanism]] = {
    1: ScramMechanism("SCRAM-SHA-256", "sha256"),
    2: ScramMechanism("SCRAM-SHA-512", "sha512"),
}
"""By their codes on the wire."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A credential to set; the mechanism as its code, known or not."""

    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramChange:
    """The changes of one request for one user, repeated rows included: mechanisms to delete, and credentials to set."""

    deletions: tuple[int, ...] = ()
    upsertions: tuple[ScramCredential, ...] = ()


def scram_refusal(user: str, change: ScramChange) -> Refusal | None:
    """Why a change is refused whatever the configuration of the user is, or None."""
    if not user:
        return _unacceptable("Username must not be empty")
    problems = [problem for each in change.upsertions if (problem := _credential_refusal(each)) is not None]
    if problems:
        return problems[-1]  # as Kafka's controller answers with the last one
    if any(mechanism not in MECHANISMS for mechanism in change.deletions):
        return _unknown_mechanism()
    named = Counter([*change.deletions, *(each.mechanism for each in change.upsertions)])
    if any(times > 1 for times in named.values()):
        text = "A user credential cannot be altered twice in the same request"
        return Refusal(KafkaError.DUPLICATE_RESOURCE, text)
    return None


def _credential_refusal(credential: ScramCredential) -> Refusal | None:
    if credential.mechanism not in MECHANISMS:
        return _unknown_mechanism()
    if credential.iterations > MAX_ITERATIONS:
        return _unacceptable("Too many iterations")
    if credential.iterations < MIN_ITERATIONS:
        return _unacceptable("Too few iterations")
    return None if credential.salted_password else _unacceptable("The salted password must not be empty")


def altered_config(config: Mapping[str, str], change: ScramChange) -> dict[str, str] | Refusal:
    """Return the configuration of a user after a change that ``scram_refusal`` allows; its other entries stay."""
    gone = {MECHANISMS[mechanism].name for mechanism in change.deletions}
    if gone - config.keys():
        text = "Attempt to delete a user credential that does not exist"
        return Refusal(KafkaError.RESOURCE_NOT_FOUND, text)
    kept = {key: value for key, value in config.items() if key not in gone}
    return kept | _stored(change.upsertions)


def _stored(credentials: Iterable[ScramCredential]) -> dict[str, str]:
    return {MECHANISMS[each.mechanism].name: stored_credential(each) for each in credentials}


def stored_credential(credential: ScramCredential) -> str:
    """The text from which brokers authenticate (RFC 5802); no client can log in with it."""
    algorithm, salted = MECHANISMS[credential.mechanism].hash, credential.salted_password
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    salt, stored, server = (base64.b64encode(part).decode() for part in (credential.salt, stored_key, server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def _unacceptable(text: str) -> Refusal:
    return Refusal(KafkaError.UNACCEPTABLE_CREDENTIAL, text)


def _unknown_mechanism() -> Refusal:
    return Refusal(KafkaError.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
