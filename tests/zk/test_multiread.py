"""The bytes of the requests that kazoo lacks, read and written without a server."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol.serialization import CheckVersion as CheckRequest
from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.protocol.serialization import Delete as KazooDelete
from kazoo.protocol.serialization import SetData as KazooSetData
from kazoo.protocol.serialization import Transaction as KazooTransaction
from kazoo.security import OPEN_ACL_UNSAFE

from controllerd.zk.access import NO_NODE, Aborted, CheckVersion, Committed, Create, Delete, Operation, SetData, Znode
from controllerd.zk.multiread import UNREADABLE_VERSION, Multi, MultiRead

HEADER = struct.pack("!iqi", 7, 99, 0)
END = struct.pack("!iBi", -1, 1, -1)
NO_AUTH = -102


def stat(version: int, czxid: int, owner: int, size: int) -> bytes:
    return struct.pack("!qqqqiiiqiiq", czxid, 1, 2, 3, version, 4, 5, owner, size, 0, 6)


def entry(node: Znode | None) -> bytes:
    """A znode in the answer to a MultiRead."""
    if node is None:
        return struct.pack("!iBii", -1, 0, NO_NODE, NO_NODE)
    data = node.data
    buffer = struct.pack("!i", -1) if data is None else struct.pack("!i", len(data)) + data
    size = len(data or b"")
    return struct.pack("!iBi", 4, 0, 0) + buffer + stat(node.version, node.czxid, node.ephemeral_owner, size)


int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
nodes = st.builds(Znode, st.none() | st.binary(max_size=50), int32, int64, int64)


@given(st.lists(st.none() | nodes, max_size=20))
def test_the_znodes_of_a_multiread_are_decoded(found: list[Znode | None]) -> None:
    answer = HEADER + b"".join(map(entry, found)) + END

    assert MultiRead.deserialize(answer, len(HEADER)) == (99, found)


def test_a_znode_that_may_not_be_read_has_a_version_that_no_write_matches() -> None:
    answer = HEADER + struct.pack("!iBii", -1, 0, NO_AUTH, NO_AUTH) + entry(Znode(b"x", 1, 2)) + END

    assert MultiRead.deserialize(answer, len(HEADER)).nodes == [Znode(None, UNREADABLE_VERSION, 0), Znode(b"x", 1, 2)]


def test_a_transaction_is_serialized_as_kazoo_does() -> None:
    ours: list[Operation] = [
        CheckVersion("/epoch", 3),
        Create("/a", None),
        Create("/b", b"", ephemeral=True),
        SetData("/ä", b"data", 7),
        Delete("/d"),
    ]
    theirs = [
        CheckRequest("/chroot/epoch", 3),
        KazooCreate("/chroot/a", None, OPEN_ACL_UNSAFE, 0),
        KazooCreate("/chroot/b", b"", OPEN_ACL_UNSAFE, 1),
        KazooSetData("/chroot/ä", b"data", 7),
        KazooDelete("/chroot/d", -1),
    ]

    assert Multi(ours, "/chroot").serialize() == KazooTransaction(theirs).serialize()


def test_the_answer_to_a_transaction_has_versions_and_zxid() -> None:
    results = [
        struct.pack("!iBi", 13, 0, 0),
        struct.pack("!iBii", 1, 0, 0, 2) + b"/a",
        struct.pack("!iBi", 5, 0, 0) + stat(8, 1, 0, 4),
        struct.pack("!iBi", 2, 0, 0),
    ]

    (outcome,) = Multi.deserialize(HEADER + b"".join(results) + END, len(HEADER))

    assert outcome == Committed(99, (-1, 0, 8, -1))


def test_the_answer_to_a_refused_transaction_names_the_first_failure() -> None:
    results = [struct.pack("!iBii", -1, 0, code, code) for code in (0, -103, -2)]

    (outcome,) = Multi.deserialize(HEADER + b"".join(results) + END, len(HEADER))

    assert outcome == Aborted(99, 1, -103)
