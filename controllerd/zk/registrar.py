"""The registrations of controllerd under ``/brokers/ids``: how they are read, created and deleted.

Brokers older than 3.0 look the controller up as ``/brokers/ids/<id>`` before a controlled shutdown
(``KafkaServer.doControlledShutdown``), so the active instance registers there while it leads. A
registration under ``/brokers/ids`` makes every controller that reads it count one more live broker,
which may then be given replicas. Therefore it must exist only while its owner leads:

1. It is created by a transaction that checks the version of ``/controller_epoch`` that our election
   wrote, and the existence of ``/controller``. Every election raises the epoch, so the first
   check says that no instance was elected after us; the second says that no client deleted our
   ``/controller`` since. Without the second, an instance whose ``/controller`` an operator deleted
   would register in the moment before a broker is elected, and that broker would count it. Without
   the first, an instance that was frozen would register while another controller leads.
2. It is ephemeral and of the session that owns ``/controller``. When that session ends (a killed
   or frozen instance), ZooKeeper deletes both in one transaction. So no instance that is
   elected after the deletion of ``/controller`` can still find the registration.
3. The transaction by which an instance resigns deletes it together with ``/controller`` (SIGTERM).
4. Every election of an instance of controllerd deletes all registrations of controllerd in its own
   transaction: those of another instance, of our earlier session, and of our earlier term. A server
   that lags may hide one from the reads before the election; the first read of brokers after it
   cannot (a session sees its own writes and everything before), and what it finds is deleted behind
   the fence. Behind the fence every registration that is not of our session is left over, because
   its owner would have needed an epoch of its own to create it.
5. An instance that finds that another holder owns ``/controller`` deletes its registration at once.
   This is the one write without a term. It needs none: the znode belongs to our own session, so no
   other client can have created it, and no client needs it. An instance that cannot do so, because
   it was killed, frozen or cut off just before an operator deleted ``/controller``, stays
   registered until its session ends.

Only znodes with an id of our range and the field ``instance`` count as registrations of
controllerd. A real broker that was given such an id is never overwritten and never deleted.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from controllerd.core.model import OUR_IDS, Broker, BrokerId
from controllerd.errors import BadZnode, ControllerMoved
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.record.records import AlarmRecord
from controllerd.zk import codecs, paths
from controllerd.zk.access import (
    CONFLICT_CODES,
    Aborted,
    CheckVersion,
    Create,
    Delete,
    Operation,
    ReplyLost,
    SetData,
    TransactionOutcome,
    Znode,
    ZooKeeper,
    code_name,
)
from controllerd.zk.journal import UNFENCED, TransactionJournal
from controllerd.zk.writer import FencedWriter

log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 10
_CHECKS: Final = 2
"""The checks of the epoch and of ``/controller``, which precede the write itself."""


class Registration(NamedTuple):
    """A registration of an instance of controllerd, with the version that was read."""

    path: str
    node: Znode

    @property
    def deletion(self) -> Delete:
        """Return the operation that deletes exactly this registration."""
        return Delete(self.path, self.node.version)


async def find_registrations(zk: ZooKeeper, children: Iterable[str]) -> list[Registration]:
    """Return the registrations of controllerd among these children of ``/brokers/ids``.

    Nothing is read unless a child has an id of our range.
    """
    ids = sorted(id_ for id_ in map(paths.parse_broker_id, children) if id_ is not None and id_ in OUR_IDS)
    if not ids:
        return []
    nodes = await zk.read([paths.broker(id_) for id_ in ids])
    return [
        Registration(paths.broker(id_), node)
        for id_, node in zip(ids, nodes, strict=True)
        if node is not None and codecs.decode_controller_registration(id_, node.data) is not None
    ]


class ZooKeeperRegistrar:
    """``ports.role.Registrar`` over ZooKeeper: the registration of one instance."""

    def __init__(
        self, zk: ZooKeeper, writer: FencedWriter, node_id: int, instance: str, audit: AuditLog, clock: Clock
    ) -> None:
        self._zk = zk
        self._writer = writer
        self._id = BrokerId(node_id)
        self._instance = instance
        self._audit = audit
        self._journal = TransactionJournal(zk, audit, clock)
        self._clock = clock
        self._path = paths.broker(self._id)
        self._registered_in: int | None = None
        """The session in which a registration was sent, and has not been found gone since."""

    async def register(self, entry: Broker) -> str | None:
        """Create or update our registration. Return None, or the reason why it is refused.

        :raises ControllerMoved: the role is not ours. :raises StoreUnavailable: the session is lost.
        """
        for _ in range(_ATTEMPTS):
            checks, present = await self._our_role()
            change = self._change(present, entry)
            if change is None:
                return f"{self._path} is the registration of a broker; choose another node.id"
            if not change:
                return None
            outcome = await self._commit([*checks, *change], self._fence())
            if isinstance(outcome, Aborted) and (reason := _why_refused(outcome)) is not None:
                return reason
        return f"other clients keep changing {self._path}"

    async def unregister(self) -> None:
        """Delete the registration of our session, if there is one, without a term (rule 5 above)."""
        while (own := await self.find_own()) is not None:
            outcome = await self._commit([own.deletion], UNFENCED)
            if isinstance(outcome, Aborted) and outcome.code not in CONFLICT_CODES:
                reason = f"{own.path}: {code_name(outcome.code)}"
                log.error("registration of controllerd cannot be deleted", reason=reason)
                self._audit.record(AlarmRecord("registration of controllerd cannot be deleted", reason))
                return
        self._registered_in = None

    async def find_own(self) -> Registration | None:
        """Return the registration of our session. Reads nothing unless one was sent in this session."""
        if self._registered_in != self._zk.session_id:
            return None
        (node,) = await self._zk.read([self._path])
        return Registration(self._path, node) if self._owns(node) and node is not None else None

    async def is_registered(self) -> bool:
        """Whether the registration of our session exists. :raises StoreUnavailable: the session is lost."""
        return await self.find_own() is not None

    async def remove_left_over(self) -> None:
        """Delete every registration of controllerd that is not of our session, behind the fence.

        :raises ControllerMoved: the role is not ours.
        """
        found = await find_registrations(self._zk, await self._zk.children(paths.BROKER_IDS) or [])
        left = [each.deletion for each in found if not self._owns(each.node)]
        if left:
            log.warning("deleting left-over registrations of controllers", paths=[each.path for each in left])
            await self._writer.write(left)

    async def _our_role(self) -> tuple[list[Operation], Znode | None]:
        """Return the checks that the role is ours, and the znode at the path of our registration."""
        holder, present = await self._zk.read([paths.CONTROLLER, self._path])
        if holder is None or not self._owns(holder):
            raise ControllerMoved("/controller is not ours: nothing is registered")
        checks: list[Operation] = [
            CheckVersion(paths.CONTROLLER_EPOCH, self._fence()),
            CheckVersion(paths.CONTROLLER, holder.version),
        ]
        return checks, present

    def _fence(self) -> int:
        if self._writer.epoch_zk_version is None:
            raise ControllerMoved("this instance has no term: nothing is registered")
        return self._writer.epoch_zk_version

    def _change(self, present: Znode | None, entry: Broker) -> list[Operation] | None:
        """Return the write that makes the znode our registration.

        The list is empty if the znode is right already. The result is None if a broker owns the znode, which stays.
        """
        data = codecs.encode_controller_registration(entry, self._instance, timestamp_ms=self._clock.now_ms())
        create = Create(self._path, data, ephemeral=True)
        if present is None:
            return [create]
        if codecs.decode_controller_registration(self._id, present.data) is None:
            return None
        if not self._owns(present):
            return [Delete(self._path, present.version), create]
        return [] if _describes(present, entry) else [SetData(self._path, data, present.version)]

    async def _commit(self, operations: Sequence[Operation], fence: int) -> TransactionOutcome:
        """Commit; after a lost reply read the znode, and record whether the write took effect."""
        self._registered_in = self._zk.session_id
        (outcome,) = await self._journal.commit([operations], fence=fence)
        if isinstance(outcome, ReplyLost):
            with self._journal.settling([operations], fence=fence):
                await self._zk.sync()
                (node,) = await self._zk.read([self._path])
            last = operations[-1]
            if isinstance(last, Delete):
                is_done = not self._owns(node)
            else:
                is_done = self._owns(node) and node is not None and node.data == getattr(last, "data", None)
            self._journal.read_back(operations, [None] * len(operations), fence, took_effect=is_done)
        return outcome

    def _owns(self, node: Znode | None) -> bool:
        return node is not None and node.ephemeral_owner == self._zk.session_id


def _describes(present: Znode, entry: Broker) -> bool:
    try:
        known = codecs.decode_broker(entry.id, present.data, entry.epoch)
    except BadZnode:
        return False
    return (known.endpoints, known.rack) == (entry.endpoints, entry.rack)


def _why_refused(outcome: Aborted) -> str | None:
    """Return the reason why no further attempt can succeed; None if another may.

    :raises ControllerMoved: a check of our role failed.
    """
    if 0 <= outcome.failed < _CHECKS:
        raise ControllerMoved("the role is not ours any more: nothing is registered")
    return None if outcome.code in CONFLICT_CODES else f"ZooKeeper refuses it: {code_name(outcome.code)}"
