"""SCRAM credentials: which changes are refused, with which words, and what is stored for brokers."""

import hashlib
import hmac
from base64 import b64decode

import pytest

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.scram import ScramChange, ScramCredential, altered_config, scram_refusal, stored_credential

SHA_256, SHA_512, UNKNOWN = 1, 2, 0
STORED = {"SCRAM-SHA-256": "secret", "producer_byte_rate": "1"}


def credential(mechanism: int = SHA_256, iterations: int = 4096, password: bytes = b"salted") -> ScramCredential:
    return ScramCredential(mechanism, iterations, b"salt", password)


def upsert(*credentials: ScramCredential) -> ScramChange:
    return ScramChange(upsertions=credentials)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_credentials_of_both_mechanisms_may_be_set_at_once(iterations: int) -> None:
    assert scram_refusal("alice", upsert(credential(SHA_256, iterations), credential(SHA_512, iterations))) is None


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (upsert(credential(iterations=4095)), KafkaError.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert(credential(iterations=16385)), KafkaError.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsert(credential(UNKNOWN, 1)), KafkaError.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (ScramChange((3,)), KafkaError.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (ScramChange((3,), (credential(iterations=1),)), KafkaError.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (
            upsert(credential(password=b"")),
            KafkaError.UNACCEPTABLE_CREDENTIAL,
            "The salted password must not be empty",
        ),
    ],
)
def test_a_bad_change_is_refused_in_kafkas_words(change: ScramChange, error: KafkaError, text: str) -> None:
    assert scram_refusal("alice", change) == Refusal(error, text)


def test_a_user_needs_a_name() -> None:
    refusal = Refusal(KafkaError.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    assert scram_refusal("", upsert(credential(UNKNOWN))) == refusal


@pytest.mark.parametrize(
    "change",
    [ScramChange((SHA_256, SHA_256)), upsert(credential(), credential()), ScramChange((SHA_256,), (credential(),))],
)
def test_a_credential_is_altered_once_in_a_request(change: ScramChange) -> None:
    text = "A user credential cannot be altered twice in the same request"
    assert scram_refusal("alice", change) == Refusal(KafkaError.DUPLICATE_RESOURCE, text)


def test_a_credential_that_does_not_exist_cannot_be_deleted() -> None:
    text = "Attempt to delete a user credential that does not exist"
    assert altered_config(STORED, ScramChange((SHA_512,))) == Refusal(KafkaError.RESOURCE_NOT_FOUND, text)


def test_what_else_is_configured_for_the_user_stays() -> None:
    changed = altered_config(STORED, ScramChange((SHA_256,), (credential(SHA_512),)))

    assert changed == {"producer_byte_rate": "1", "SCRAM-SHA-512": stored_credential(credential(SHA_512))}


def test_a_stored_credential_verifies_the_proof_of_rfc_7677() -> None:
    """The exchange in the RFC: user ``user``, password ``pencil``, 4096 iterations."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    exchanged = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )

    stored = dict(part.split("=", 1) for part in stored_credential(ScramCredential(1, 4096, salt, salted)).split(","))

    signature = hmac.digest(b64decode(stored["server_key"]), exchanged, "sha256")
    assert signature == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    mask = hmac.digest(b64decode(stored["stored_key"]), exchanged, "sha256")
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(a ^ b for a, b in zip(mask, proof, strict=True))
    assert hashlib.sha256(client_key).digest() == b64decode(stored["stored_key"])
    assert stored["iterations"] == "4096"


def test_no_representation_shows_a_secret() -> None:
    assert "sal" not in repr(upsert(credential()))
