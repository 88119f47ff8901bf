"""No secret is written in clear, whichever way it takes into a record: proved by searching the bytes of the log."""

import base64
import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllerd.audit.secrets import HIDDEN, hidden, hidden_text, is_secret, without_secrets
from controllerd.audit.settings import Level
from controllerd.core.scram import ScramChange, ScramCredential
from controllerd.loop import detail_of, full_detail_of
from controllerd.record.records import (
    AlarmRecord,
    ConfigRecord,
    EventBegin,
    EventEnd,
    QuarantineRecord,
    Record,
    RefusedRecord,
    RejectedRecord,
    ReplyRecord,
    TermRecord,
)
from events.admin import AlterScram, Requester
from tests.audit.samples import CLUSTER, ONE_OF_EACH, make_writer, write_log
from tests.fakes.world import World

SECRET_KEYS = (
    "password",
    "ssl.keystore.password",
    "listener.name.external.ssl.key.password",
    "ssl.truststore.password",
    "sasl.jaas.config",
    "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
    "SCRAM-SHA-512",
    "salted_password",
    "salt",
    "stored_key",
    "server_key",
    "delegation.token.master.key",
    "password.encoder.old.secret",
    "tokenHmac",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "client_secret",
    "Credentials",
)
PLAIN_KEYS = ("audit.head_key_file", "zookeeper.connect", "keys", "monkey", "topic", "partition.key.count", "origin")
SECRETS = st.text("abcdefghijkXYZ0123456789+/_-", min_size=12, max_size=40).map(lambda text: f"S3cr3t{text}")
BYTES = st.binary(min_size=8).map(lambda some: b"\xf3S3cr3t\x00" + some)
BY = Requester("User:admin", "admin", "cli", 3, "127.0.0.1:1")


def texts(key: str, secret: str) -> Iterable[str]:
    """How a secret may stand in a text."""
    yield f"{key}={secret}"
    yield f"cannot parse {key} = {secret}, line 3"
    yield f'no JSON: {{"version":1,"config":{{"{key}":"{secret}","a":"b"}}}}'
    yield f"{{'{key}': '{secret}'}}"
    yield json.dumps(json.dumps({"config": {key: f"{secret} and {secret}"}}))
    yield f'bad value "{key}": "{secret}'
    yield f"{key}=[iterations=4096,password={secret}]"
    yield f'org.apache.kafka.Module required username="u" {key}="{secret}";'
    yield f"{key}=salt={secret},stored_key={secret}=,server_key={secret},iterations=4096"


def records(key: str, secret: str) -> Iterable[Record]:
    """Every record that takes texts or details, with the secret in each place."""
    for text in texts(key, secret):
        yield AlarmRecord("invalid configuration", f"user u: {text}")
        yield AlarmRecord(text, "")
        yield EventEnd(1, "AlterScram", "error", 1.0, f"ValueError: {text}")
        yield ReplyRecord(1, "AlterScram", f"{{'u': Refusal(message={text!r})}}")
        yield QuarantineRecord("/config/topics/t", text)
        yield RefusedRecord("write", ["t"], [0], [text])
        yield TermRecord("refused", 0, 0, "nobody", text)
        for path in ("/config/topics/t", "/config/clients/c", "/brokers/ids/1"):
            content = base64.b64encode(text.encode()).decode()
            yield RejectedRecord(path, 1, len(text), "00", content, text)
    yield ConfigRecord({f"kafka.{key}": {"value": secret, "origin": "file"}, "a": {key: [secret]}})
    yield ConfigRecord({"rows": [{"name": key, "value": secret}]})
    for path in ("/config/users/u", "/config/brokers/<default>", "/delegation_token/tokens/abc"):
        content = base64.b64encode(f"\xff{secret}".encode("latin-1")).decode()
        yield RejectedRecord(path, 1, 9, "00", content, "not UTF-8")
    yield EventBegin(1, "ConfigChange", 0, 0.1, {"configs": {key: secret}, "by": BY, "raw": secret.encode()})


def written(directory: Path) -> bytes:
    """The bytes of all segments, uncompressed, and what base64 in them stands for."""
    found = b""
    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        found += zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data
    contents = [json.loads(line)["data"].get("content", "") for line in found.splitlines() if line.startswith(b"{")]
    return found + b"".join(base64.b64decode(content) for content in contents)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS)
async def test_no_planted_secret_is_in_the_bytes_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, secret: str
) -> None:
    planted = [record for key in SECRET_KEYS for record in records(key, secret)]
    log = written(await write_log(tmp_path_factory.mktemp("log"), *planted))
    assert log.count(b'"kind"') == len(planted)
    assert secret.encode() not in log
    assert base64.b64encode(secret.encode()) not in log


@pytest.mark.parametrize("level", ["normal", "full"])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(salt=BYTES, password=BYTES)
async def test_a_change_of_scram_credentials_leaves_neither_salt_nor_password(
    tmp_path_factory: pytest.TempPathFactory, level: Level, salt: bytes, password: bytes
) -> None:
    event = AlterScram(BY, {"alice": ScramChange((), (ScramCredential(1, 4096, salt, password),))})
    detail = full_detail_of(event) if level == "full" else detail_of(event)
    begin = EventBegin(1, "AlterScram", 0, 0.1, {**detail, "as it is": event})
    log = written(await write_log(tmp_path_factory.mktemp("log"), begin, level=level))
    assert b"User:admin" in log
    for secret in (salt, password):
        assert base64.b64encode(secret) not in log
        assert repr(secret).encode() not in log
        assert secret.hex().encode() not in log


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_value_with_such_a_name_is_a_secret(key: str) -> None:
    assert is_secret(key)
    assert is_secret(key.upper())


@pytest.mark.parametrize("key", PLAIN_KEYS)
def test_a_value_with_another_name_is_no_secret(key: str) -> None:
    assert not is_secret(key)
    assert hidden({key: "value"}) == {key: "value"}
    assert hidden_text(f"{key}=value") == f"{key}=value"


def test_digests_of_zookeeper_acls_are_hidden() -> None:
    acl = "ACL(perms=31, acl_list=['ALL'], id=Id(scheme='digest', id='super:xQJmxLMiHGwaqBvst5y6rkB6HQs='))"
    assert "xQJm" not in hidden_text(acl)
    assert "xQJm" not in hidden_text("quorum digest super:xQJmxLMiHGwaqBvst5y6rkB6HQs= refused")


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach https://bob:hunter22@registry:8443/x",
        "passwd: hunter22",
        '{"name":"ssl.key.password","value":"hunter22"}',
        "AlterConfig(name='sasl.jaas.config', operation=0, value='hunter22')",
    ],
)
def test_logins_in_addresses_and_settings_as_rows_are_hidden(text: str) -> None:
    assert "hunter22" not in hidden_text(text)
    assert HIDDEN in hidden_text(text)


def test_text_beside_a_secret_stays_readable() -> None:
    shown = hidden_text("user alice: ssl.key.password=abc, then max.connections=5")
    assert shown == f"user alice: ssl.key.password={HIDDEN}, then max.connections=5"


def test_records_without_secrets_are_left_as_they_are() -> None:
    assert [without_secrets(record) for record in ONE_OF_EACH] == list(ONE_OF_EACH)


def test_a_long_random_content_takes_no_long_time() -> None:
    content = base64.b64encode(b"a" * 16_384 + b"password" * 1000).decode()
    record = RejectedRecord("/brokers/topics/t", 1, 24_384, "00", content, "no JSON")
    assert without_secrets(record) == record


def test_every_text_of_every_record_is_searched() -> None:
    for record in ONE_OF_EACH:
        for field in fields(record):
            if isinstance(getattr(record, field.name), str) and field.name not in {"content", "kind"}:
                planted = type(record)(
                    **{other.name: getattr(record, other.name) for other in fields(record)}
                    | {field.name: "password=hunter22"}
                )
                if record.kind not in {"request", "response", "decision"}:
                    assert "hunter22" not in repr(without_secrets(planted)), (record.kind, field.name)


async def test_no_secret_gets_into_the_log_of_a_controller_by_requests_or_broken_znodes(tmp_path: Path) -> None:
    secret = "S3cr3t-of-alice"
    audit = make_writer(tmp_path)
    await audit.start(CLUSTER)
    world = World(audit=audit)
    world.register(1)
    world.put_topic("t", {0: [1]})
    await world.start()
    broken = f'{{"version":1,"config":{{"sasl.jaas.config":"required password=\\"{secret}\\";","a":}}'.encode()
    for path in ("/config/topics/t", "/config/users/bob", "/config/brokers/1", "/config/brokers/<default>"):
        world.tree.put(path, broken)
    for entity in ("topics/t", "users/bob", "brokers/1", "brokers/<default>"):
        change = json.dumps({"version": 2, "entity_path": entity}).encode()
        world.tree.put(f"/config/changes/config_change_{len(entity):010}", change)
        await world.settle()
    credential = ScramCredential(1, 4096, secret.encode(), secret.encode())
    for user in ("alice", "bob", ""):
        await world.call(AlterScram(BY, {user: ScramChange((), (credential,))}))
    await audit.close()
    log = written(audit.directory)
    assert b'"kind":"rejected"' in log
    assert b'"name":"AlterScram"' in log
    for found in (secret.encode(), base64.b64encode(secret.encode()), secret.encode().hex().encode()):
        assert found not in log
