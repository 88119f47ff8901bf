"""Znodes of later versions, which are distinguished from broken ones even if no field of them is known."""

from collections.abc import Callable

import pytest

from controllerd.core.model import BrokerId
from controllerd.errors import BadZnode, NewerZnode
from controllerd.zk import codecs

DECODERS: list[Callable[[bytes | None], object]] = [
    lambda data: codecs.decode_isr_change("isr_change_1", data),
    lambda data: codecs.decode_log_dir_event("log_dir_event_1", data),
    lambda data: codecs.decode_config_change("config_change_1", data),
    codecs.decode_preferred_election,
    codecs.decode_reassignments,
    lambda data: codecs.decode_pending_deletions(BrokerId(1), data),
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [b'{"version":99}', b'{"version":99,"partitions":7,"owed":true,"broker":"x"}'])
def test_a_later_format_is_newer_whatever_its_fields(decode: Callable[[bytes | None], object], data: bytes) -> None:
    with pytest.raises(NewerZnode, match="99 is newer"):
        decode(data)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1}', b'{"version":"99"}', b"[99]", None])
def test_a_broken_znode_is_not_newer(decode: Callable[[bytes | None], object], data: bytes | None) -> None:
    with pytest.raises(BadZnode) as caught:
        decode(data)
    assert not isinstance(caught.value, NewerZnode)
