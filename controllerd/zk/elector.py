"""The role of the active controller: the election, the takeover, a new term, and the resignation.

This instance leads if and only if its session owns ``/controller``. The rules that keep two
instances from leading:

**One transaction.** An election creates ``/controller`` and raises ``/controller_epoch``, on the
condition of the version that was read, both or neither. If only ``/controller`` were created, two
terms would share an epoch, and neither the fence (``writer``) nor a broker could tell the requests
of the one from those of the other.

**A takeover** replaces a present holder: its ``/controller`` is deleted in the same transaction. An
earlier process of this instance is replaced at once, a broker only if that is configured, another
live controllerd only for an operator, and a holder that cannot be decoded never. The version of
``/controller`` does not show which holder is deleted: it is 0 for each of them. The version of
``/controller_epoch`` does, but only if both were read in the same term. ZooKeeper does not promise that:
a server that lags may show the former holder first, and then the epoch of the present one. So
``/controller`` is read again after the epoch, and must still be the same znode, by its czxid.

**The watch comes first.** Each decision is made on a read of ``/controller`` that armed its watch,
whether it exists or not. So the end of a holder that keeps the role, and an election that comes
between, is noticed in any case.

**A lost reply** is settled by reading, after a ``sync``. The election took effect if and only if
``/controller`` is of our session, with the data that we wrote, and the epoch is the one that we
wrote. If not, the next attempt reads everything anew. In the same way a resignation took effect if
``/controller`` is not of our session.

**The fence** is unbound before an election and before a resignation, and bound after an election,
to the version that this election wrote. So no write of this instance falls into either of them.

The transaction of an election also deletes the registrations of controllerd below ``/brokers/ids``
(``registrar`` has their rules).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from controllerd.core.model import BrokerId
from controllerd.core.reach import PLAIN_AND_HIDDEN, Reach
from controllerd.errors import BadZnode, ControllerMoved, RefusedToLead, StoreUnavailable
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.ports.results import Held, Won
from controllerd.record.records import TermRecord
from controllerd.views import Holder
from controllerd.zk import codecs, paths
from controllerd.zk.access import (
    CONFLICT_CODES,
    Aborted,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Operation,
    ReplyLost,
    SetData,
    Znode,
    ZooKeeper,
    code_name,
)
from controllerd.zk.eligibility import Eligible, Epoch, read_epoch, refuse_unless_eligible
from controllerd.zk.journal import UNFENCED, TransactionJournal
from controllerd.zk.registrar import Registration, ZooKeeperRegistrar
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_ATTEMPTS: Final = 10
_NO_HOLDER: Final = "nobody"
UNREADABLE: Final = Holder(node_id=-1, instance=None, since_ms=0)
"""The holder of a ``/controller`` that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Contender:
    """This instance in an election, and the holders that it replaces."""

    node_id: int
    instance: str
    """The uuid of this instance, kept across restarts: by it an old ``/controller`` is known to be ours."""
    takes_from_brokers: bool = False
    """``when_broker_holds = takeover``."""
    reach: Reach = PLAIN_AND_HIDDEN
    """The listeners that must be plaintext, because this controller has neither TLS nor SASL."""


class ZooKeeperElector:
    """``ports.role.Elector`` over ZooKeeper."""

    def __init__(
        self, zk: ZooKeeper, writer: FencedWriter, contender: Contender, audit: AuditLog, clock: Clock
    ) -> None:
        self._zk = zk
        self._writer = writer
        self._contender = contender
        self._audit = audit
        self._clock = clock
        self._journal = TransactionJournal(zk, audit, clock)
        self._rejections = Rejections(audit)
        self.registrar = ZooKeeperRegistrar(zk, writer, contender.node_id, contender.instance, audit, clock)
        """The registration of this instance under ``/brokers/ids``, which exists only while it leads."""
        self._epoch = 0

    async def elect(self, *, takeover: bool = False) -> Won | Held:
        """Try to get the role, up to ten times while other instances try as well.

        :raises RefusedToLead: this cluster must not be led by this instance.
        :raises StoreUnavailable: the session is lost, or each attempt ended in a conflict.
        """
        self._writer.unbind_term()
        for _ in range(_ATTEMPTS):
            (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
            holder = self._judge(node)
            cluster = await self._eligible(node)
            is_still_held = await self._is_still_held_as(node)
            if holder is not None and (reason := self._reason_to_stand_by(holder, takeover=takeover)) is not None:
                return self._held(holder, reason, cluster.epoch if is_still_held else None)
            if not is_still_held:
                continue
            if (won := await self._contend(node, holder, cluster)) is not None:
                return won
        raise StoreUnavailable(f"no election in {_ATTEMPTS} attempts: other instances keep taking and losing the role")

    async def check_eligibility(self) -> None:
        """Check that this cluster may be led by this instance. Reads only, and takes part in no election.

        :raises RefusedToLead: the cluster must not be led; the message says why and what to do.
        """
        (node,) = await self._zk.read([paths.CONTROLLER])
        await self._eligible(node)

    def take_from_brokers(self) -> None:
        """From now on replace the built-in controller of a broker in every election."""
        self._contender = replace(self._contender, takes_from_brokers=True)

    async def read_holder(self) -> Holder | None:
        """Return the holder of ``/controller``; ``UNREADABLE`` if the znode cannot be decoded."""
        (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
        return self._judge(node)

    async def is_ours(self) -> bool:
        """Whether ``/controller`` belongs to our present session."""
        (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
        return self._owns(node)

    async def renew(self) -> Won:
        """Begin a new term in one transaction, so that no other instance can take the role in between.

        :raises ControllerMoved: the role is no longer ours.
        """
        while (term := self._writer.epoch_zk_version) is not None:
            (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
            if node is None or not self._owns(node):
                break
            own = await self.registrar.find_own()
            registrations = [own] if own is not None else []
            won = await self._try(
                node, holder_of(node), Epoch(self._epoch, term), change="renewed", registrations=registrations
            )
            if won is not None:
                return won
            if await self._epoch_moved(term):
                break
        self._writer.unbind_term()
        raise ControllerMoved("the role is no longer ours")

    async def resign(self) -> None:
        """Delete our ``/controller`` and our registration behind the fence, in one transaction.

        Afterwards every write raises ``ControllerMoved``.
        """
        term = self._writer.epoch_zk_version
        self._writer.unbind_term()
        if term is None:
            return
        (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
        while node is not None and self._owns(node):
            if await self._delete(node, await self.registrar.find_own(), term):
                break
            (node,) = await self._zk.read([paths.CONTROLLER])
        await self.registrar.unregister()  # deletes something only if the role had been lost before
        self._record("resigned", self._epoch, term, holder_of(node), "gave the role back")

    def forget_term(self) -> None:
        """End the term without a request to ZooKeeper: from now on every write raises ``ControllerMoved``."""
        if self._writer.epoch_zk_version is not None:
            self._record("fenced", self._epoch, self._writer.epoch_zk_version, None, "the term has ended")
        self._writer.unbind_term()

    def _judge(self, node: Znode | None) -> Holder | None:
        """Return the holder of the role; a znode that cannot be decoded is kept in the audit log."""
        try:
            with self._rejections.judging(node):
                return _decode_holder(node)
        except BadZnode:
            return UNREADABLE

    async def _eligible(self, node: Znode | None) -> Eligible:
        try:
            contender = self._contender
            return await refuse_unless_eligible(self._zk, contender.node_id, node, self._rejections, contender.reach)
        except RefusedToLead as error:
            self._record("refused", self._epoch, -1, holder_of(node), str(error))
            raise

    async def _is_still_held_as(self, node: Znode | None) -> bool:
        """Whether the holder that was read before the epoch is still the present one (the takeover rule)."""
        if node is None:
            return True  # the transaction creates ``/controller``, which fails if it exists by now
        (now,) = await self._zk.read([paths.CONTROLLER])
        return now is not None and (now.czxid, now.version) == (node.czxid, node.version)

    def _reason_to_stand_by(self, holder: Holder, *, takeover: bool) -> str | None:
        """Return why a present holder keeps the role; None if this instance replaces it."""
        if holder is UNREADABLE:
            return "/controller cannot be decoded, so this instance never deletes it"
        if holder.instance == self._contender.instance or takeover:
            return None
        if holder.is_controllerd:
            return f"{holder} holds the role"
        return (
            None if self._contender.takes_from_brokers else f"{holder} holds the role and when_broker_holds = standby"
        )

    async def _contend(self, node: Znode | None, holder: Holder | None, cluster: Eligible) -> Won | None:
        """Try to win the election; None if another attempt is needed.

        If ``/controller_epoch`` is missing, only create it: the next attempt reads its version.
        """
        if cluster.epoch is None:
            first = Create(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(0))
            await self._journal.commit([[first]])
            return None
        return await self._try(node, holder, cluster.epoch, change="elected", registrations=cluster.registrations)

    async def _try(
        self,
        node: Znode | None,
        holder: Holder | None,
        before: Epoch,
        *,
        change: str,
        registrations: Sequence[Registration] = (),
    ) -> Won | None:
        """Commit the transaction that makes this instance the controller; None if another client was faster.

        It also deletes the ``registrations``. If one of them is gone meanwhile, or replaced, the transaction fails, and
        the next attempt reads them anew.
        """
        data, (epoch, version) = self._encode_own(), before
        operations = _election(node, data, epoch + 1, version, registrations)
        (outcome,) = await self._journal.commit([operations])
        if isinstance(outcome, Aborted):
            _raise_unless_conflict(outcome)
            return None
        if isinstance(outcome, ReplyLost) and not await self._took_effect(operations, data, epoch + 1):
            return None
        written = outcome.versions[_index_of_epoch(operations)] if isinstance(outcome, Committed) else version + 1
        self._epoch = epoch + 1
        self._writer.bind_term(written, self._epoch)
        self._record(change, self._epoch, written, holder, "")
        return Won(self._epoch, written, holder)

    async def _took_effect(self, operations: Sequence[Operation], data: bytes, epoch: int) -> bool:
        """Find out, after a lost reply, whether the election took effect ("A lost reply" above)."""
        with self._journal.settling([operations]):
            await self._zk.sync()
            node, epoch_node = await self._zk.read([paths.CONTROLLER, paths.CONTROLLER_EPOCH])
        is_ours = self._owns(node) and node is not None and node.data == data
        won = is_ours and epoch_node is not None and epoch_node.data == codecs.encode_controller_epoch(epoch)
        self._journal.read_back(operations, [None] * len(operations), UNFENCED, took_effect=won)
        return won

    async def _delete(self, node: Znode, registration: Registration | None, term: int) -> bool:
        """Try to delete ``/controller`` and our registration; return whether no other try is needed.

        Another try is needed after a lost reply without effect, and after a registration that changed meanwhile. Where
        ZooKeeper refuses to delete the registration, only ``/controller`` is deleted.
        """
        delete: list[Operation] = [CheckVersion(paths.CONTROLLER_EPOCH, term), Delete(paths.CONTROLLER, node.version)]
        registration_at = len(delete)
        delete += [registration.deletion] if registration is not None else []
        (outcome,) = await self._journal.commit([delete], fence=term)
        if isinstance(outcome, Aborted) and outcome.failed >= registration_at:
            # After a conflict the caller reads the registration anew. After a refusal nothing would change.
            return outcome.code not in CONFLICT_CODES and await self._delete(node, None, term)
        if not isinstance(outcome, ReplyLost):
            return True
        with self._journal.settling([delete], fence=term):
            await self._zk.sync()
            (left,) = await self._zk.read([paths.CONTROLLER])
        is_gone = not self._owns(left)
        self._journal.read_back(delete, [None] * len(delete), term, took_effect=is_gone)
        return is_gone

    async def _epoch_moved(self, term: int) -> bool:
        """Whether ``/controller_epoch`` is gone or has another version than the one of our term."""
        epoch = await read_epoch(self._zk, self._rejections)
        return epoch is None or epoch.version != term

    def _owns(self, node: Znode | None) -> bool:
        return node is not None and node.ephemeral_owner == self._zk.session_id

    def _encode_own(self) -> bytes:
        mine = codecs.ControllerZnode(self._contender.node_id, self._clock.now_ms(), self._contender.instance)
        return codecs.encode_controller(mine)

    def _held(self, holder: Holder, reason: str, epoch: Epoch | None) -> Held:
        """Record and return the holder; ``epoch`` is its epoch, None where it may be that of another holder."""
        self._record("held", epoch.value if epoch is not None else 0, -1, holder, reason)
        return Held(holder, reason)

    def _record(self, change: str, epoch: int, version: int, holder: Holder | None, reason: str) -> None:
        name = str(holder) if holder is not None else _NO_HOLDER
        self._audit.record(TermRecord(change, epoch, version, name, reason))


def holder_of(node: Znode | None) -> Holder | None:
    """Return the holder that a ``/controller`` znode names; ``UNREADABLE`` if it cannot be decoded."""
    try:
        return _decode_holder(node)
    except BadZnode:
        return UNREADABLE


def _decode_holder(node: Znode | None) -> Holder | None:
    if node is None:
        return None
    found = codecs.decode_controller(node.data)
    return Holder(BrokerId(found.broker_id), found.instance, found.timestamp_ms or 0)


def _election(
    node: Znode | None, data: bytes, epoch: int, version: int, registrations: Sequence[Registration]
) -> list[Operation]:
    """Return the transaction of an election.

    Without a holder it has Kafka's order. A takeover has the epoch first, so that a lost race can be distinguished from
    every other failure: ZooKeeper names the first operation that failed.
    """
    raised = SetData(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(epoch), version)
    create = Create(paths.CONTROLLER, data, ephemeral=True)
    deletions = [registration.deletion for registration in registrations]
    if node is None:
        return [create, raised, *deletions]
    return [raised, Delete(paths.CONTROLLER, node.version), *deletions, create]


def _index_of_epoch(operations: Sequence[Operation]) -> int:
    return next(index for index, operation in enumerate(operations) if isinstance(operation, SetData))


def _raise_unless_conflict(outcome: Aborted) -> None:
    if outcome.code not in CONFLICT_CODES:
        raise RefusedToLead(f"ZooKeeper refuses the election: {code_name(outcome.code)}")
