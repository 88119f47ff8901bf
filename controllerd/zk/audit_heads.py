"""The head of an instance's audit log in ZooKeeper, where whoever can change the files of the log cannot change it."""

from typing import Final

from controllerd.errors import StoreUnavailable
from controllerd.zk import paths
from controllerd.zk.access import ANY_VERSION, NO_NODE, Aborted, Committed, Create, SetData, ZooKeeper

_PARENTS: Final = ("/controllerd", paths.AUDIT_HEADS)


async def put_audit_head(zk: ZooKeeper, node_id: int, head: bytes) -> None:
    """Write the encoded head. No fence, because nobody else has this path and an instance without the role has a log;
    and no record of it, which would be another head.

    :raises StoreUnavailable: it was not written, or nobody knows.
    """
    path = paths.audit_head(node_id)
    (outcome,) = await zk.commit([[SetData(path, head, ANY_VERSION)]])
    if isinstance(outcome, Aborted) and outcome.code == NO_NODE:
        parents = [[Create(parent, None)] for parent in _PARENTS]
        *_, outcome = await zk.commit([*parents, [Create(path, head)]])
    if not isinstance(outcome, Committed):
        raise StoreUnavailable(f"{path} was not written: {outcome}")
