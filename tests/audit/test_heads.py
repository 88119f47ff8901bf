"""Exported heads: what is written can be read, and what is no head or was changed is refused with the reason."""

from pathlib import Path

import pytest

from controllerd.audit.heads import (
    BadHead,
    BadSignature,
    ExportedHead,
    decode_head,
    decode_heads,
    encode_head,
    encode_heads,
    read_key,
)
from controllerd.audit.lines import Head

KEY = b"0123456789abcdef"
HEAD = ExportedHead.of(Head("boot", 4711, "0a" * 32), cluster="prod", node=1, epoch=7, exported_ms=1_700_000_000_000)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_head_survives_encoding_and_decoding(key: bytes | None) -> None:
    assert decode_head(encode_head(HEAD, key), key).head == HEAD.head


def test_a_head_is_one_line() -> None:
    assert encode_head(HEAD, KEY).count(b"\n") == 0


def test_a_signed_head_can_be_read_without_the_key() -> None:
    assert decode_head(encode_head(HEAD, KEY)).head == HEAD.head


def test_a_head_is_signed_anew_with_another_key() -> None:
    signed = decode_head(encode_head(HEAD, b"fedcba9876543210"))
    assert decode_head(encode_head(signed, KEY), KEY).head == HEAD.head


@pytest.mark.parametrize(
    ("change", "to"),
    [
        (b'"seq":4711', b'"seq":4710'),
        (b'"node":1', b'"node":2'),
        (b'"epoch":7', b'"epoch":8'),
        (b'"hash":"0a', b'"hash":"0b'),
        (b"prod", b"test"),
    ],
)
def test_no_field_can_be_changed_under_a_signature(change: bytes, to: bytes) -> None:
    with pytest.raises(BadSignature, match="does not fit"):
        decode_head(encode_head(HEAD, KEY).replace(change, to), KEY)


def test_another_key_is_reported() -> None:
    with pytest.raises(BadSignature, match="signed with another key"):
        decode_head(encode_head(HEAD, KEY), b"fedcba9876543210")


def test_a_missing_signature_is_reported() -> None:
    with pytest.raises(BadSignature, match="is not signed"):
        decode_head(encode_head(HEAD), KEY)


def test_an_unknown_algorithm_is_reported() -> None:
    with pytest.raises(BadSignature, match="'ed25519'"):
        decode_head(encode_head(HEAD, KEY).replace(b"hmac-sha256", b"ed25519"), KEY)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not an exported head"),
        (b"[]", "not an exported head"),
        (b"\xff", "not an exported head"),
        (b'{"v":2}', "version 2"),
        (encode_head(HEAD).replace(b'"seq":4711', b'"seq":0'), "seq"),
        (encode_head(HEAD).replace(b"0a0a", b"xxxx"), "hash"),
        (encode_head(HEAD).replace(b'{"v":1', b'{"v":1,"more":1'), "more"),
    ],
)
def test_an_invalid_head_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadHead, match=says):
        decode_head(data)


def test_a_file_of_heads_has_them_in_its_order() -> None:
    newer = ExportedHead.of(Head("boot", 5000, "0c" * 32), cluster="prod", node=1, epoch=7, exported_ms=1)
    data = b"\n" + encode_heads([HEAD, newer], KEY)
    assert [head.seq for head in decode_heads(data, KEY)] == [4711, 5000]


def test_the_line_of_a_bad_head_is_named() -> None:
    with pytest.raises(BadHead, match="line 2: not an exported head"):
        decode_heads(encode_head(HEAD) + b"\nnonsense\n")


def test_a_file_without_heads_is_refused() -> None:
    with pytest.raises(BadHead, match="no exported head"):
        decode_heads(b"\n\n")


def test_a_key_is_read_without_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    assert read_key(path) == KEY


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    with pytest.raises(BadHead, match="has 6 bytes"):
        read_key(path)
