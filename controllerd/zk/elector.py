"""The role: ``/controller`` and ``/controller_epoch``, always changed together in one transaction."""

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
    Check,
    Committed,
    Create,
    Delete,
    Node,
    Operation,
    ReplyLost,
    SetData,
    ZooKeeper,
    code_name,
)
from controllerd.zk.eligibility import Eligible, Epoch, read_epoch, refuse_unless_eligible
from controllerd.zk.journal import UNFENCED, Journal
from controllerd.zk.registrar import Registration, ZooKeeperRegistrar
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_ATTEMPTS: Final = 10
_NOBODY: Final = "nobody"
UNREADABLE: Final = Holder(node_id=-1, instance=None, since_ms=0)
"""The holder of a ``/controller`` that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Who we are in an election, and from whom we take the role."""

    node_id: int
    instance: str
    """The uuid of this instance, kept across restarts: what makes an old ``/controller`` ours."""
    takes_from_brokers: bool = False
    """``when_broker_holds = takeover``."""
    reach: Reach = PLAIN_AND_HIDDEN
    """The listeners on which brokers must not ask for more than we can."""


class ZooKeeperElector:
    """``ports.role.Elector`` over ZooKeeper. This instance leads if and only if its session owns ``/controller``."""

    def __init__(
        self, zk: ZooKeeper, writer: FencedWriter, contender: Contender, audit: AuditLog, clock: Clock
    ) -> None:
        self._zk = zk
        self._writer = writer
        self._contender = contender
        self._audit = audit
        self._clock = clock
        self._journal = Journal(zk, audit, clock)
        self._rejections = Rejections(audit)
        self.registrar = ZooKeeperRegistrar(zk, writer, contender.node_id, contender.instance, audit, clock)
        """Our registration under ``/brokers/ids``, which goes with the role."""
        self._epoch = 0

    async def elect(self, *, takeover: bool = False) -> Won | Held:
        """Try to get the role, if need be again and again while others try too.

        :raises RefusedToLead: this cluster must not be led by us.
        :raises StoreUnavailable: the session is gone, or ZooKeeper answers with nothing but conflicts.
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
        raise StoreUnavailable(f"no election in {_ATTEMPTS} attempts: others keep winning and giving up")

    async def eligibility(self) -> None:
        """Nothing, if this cluster may be led by us. Reads only, and contends for nothing.

        :raises RefusedToLead: it must not; the message says why and what to do.
        """
        (node,) = await self._zk.read([paths.CONTROLLER])
        await self._eligible(node)

    def take_from_brokers(self) -> None:
        """From now on replace a broker's own controller without being asked."""
        self._contender = replace(self._contender, takes_from_brokers=True)

    async def read_holder(self) -> Holder | None:
        """Who holds ``/controller``; one that cannot be understood is held by ``UNREADABLE``."""
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
        while (term := self._writer.term) is not None:
            (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
            if node is None or not self._owns(node):
                break
            own = await self.registrar.find_own()
            leaves = [own] if own is not None else []
            won = await self._try(node, holder_of(node), Epoch(self._epoch, term), change="renewed", leaves=leaves)
            if won is not None:
                return won
            if await self._epoch_moved(term):
                break
        self._writer.unbind_term()
        raise ControllerMoved("the role is no longer ours")

    async def resign(self) -> None:
        """Delete our ``/controller`` and our registration under the epoch check, in one transaction.

        Afterwards every write raises ``ControllerMoved``.
        """
        term = self._writer.term
        self._writer.unbind_term()
        if term is None:
            return
        (node,) = await self._zk.read_and_watch([paths.CONTROLLER], absent_too=True)
        while node is not None and self._owns(node):
            if await self._delete(node, await self.registrar.find_own(), term):
                break
            (node,) = await self._zk.read([paths.CONTROLLER])
        await self.registrar.unregister()  # has an effect only if the role was already lost
        self._record("resigned", self._epoch, term, holder_of(node), "gave the role back")

    def forget_term(self) -> None:
        """From now on every write raises ``ControllerMoved``. Does not touch ZooKeeper."""
        if self._writer.term is not None:
            self._record("fenced", self._epoch, self._writer.term, None, "the term is over")
        self._writer.unbind_term()

    def _judge(self, node: Node | None) -> Holder | None:
        """Who holds the role; what cannot be understood is kept in the audit log."""
        try:
            with self._rejections.judging(node):
                return _named_by(node)
        except BadZnode:
            return UNREADABLE

    async def _eligible(self, node: Node | None) -> Eligible:
        try:
            contender = self._contender
            return await refuse_unless_eligible(self._zk, contender.node_id, node, self._rejections, contender.reach)
        except RefusedToLead as error:
            self._record("refused", self._epoch, -1, holder_of(node), str(error))
            raise

    async def _is_still_held_as(self, node: Node | None) -> bool:
        """Whether a holder that we are about to replace is as new as the epoch that was read after it.

        A server that lags behind may have shown a former holder and then the epoch of the present one: the transaction
        compares the epoch, and every ``/controller`` has version 0, so that it would delete the wrong one.
        """
        if node is None:
            return True
        (now,) = await self._zk.read([paths.CONTROLLER])
        return now is not None and (now.czxid, now.version) == (node.czxid, node.version)

    def _reason_to_stand_by(self, holder: Holder, *, takeover: bool) -> str | None:
        """Why a present holder keeps the role; None if we replace it."""
        if holder is UNREADABLE:
            return "/controller cannot be understood and is never deleted by us"
        if holder.instance == self._contender.instance or takeover:
            return None
        if holder.is_controllerd:
            return f"{holder} holds the role"
        return (
            None if self._contender.takes_from_brokers else f"{holder} holds the role and when_broker_holds = standby"
        )

    async def _contend(self, node: Node | None, holder: Holder | None, cluster: Eligible) -> Won | None:
        if cluster.epoch is None:
            first = Create(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(0))
            await self._journal.commit([[first]])
            return None
        return await self._try(node, holder, cluster.epoch, change="elected", leaves=cluster.registrations)

    async def _try(
        self,
        node: Node | None,
        holder: Holder | None,
        before: Epoch,
        *,
        change: str,
        leaves: Sequence[Registration] = (),
    ) -> Won | None:
        """Commit the transaction that makes us the controller with the next epoch; None if another was faster.

        It deletes the registrations of controllerd in ``leaves``. If one of them is gone meanwhile,
        or replaced, the transaction fails, and the next attempt reads them anew.
        """
        data, (epoch, version) = self._payload(), before
        operations = _election(node, data, epoch + 1, version, leaves)
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
        """After a lost answer: we won if and only if the znode is our session's and the epoch is the one we wrote."""
        with self._journal.settling([operations]):
            await self._zk.sync()
            node, epoch_node = await self._zk.read([paths.CONTROLLER, paths.CONTROLLER_EPOCH])
        is_ours = self._owns(node) and node is not None and node.data == data
        won = is_ours and epoch_node is not None and epoch_node.data == codecs.encode_controller_epoch(epoch)
        self._journal.read_back(operations, [None] * len(operations), UNFENCED, took_effect=won)
        return won

    async def _delete(self, node: Node, registration: Registration | None, term: int) -> bool:
        """Try to delete ``/controller`` and our registration; return whether this is settled.

        After a lost answer, or a registration that changed meanwhile, another try is needed. Where
        ZooKeeper refuses to delete the registration, the role is given up without it.
        """
        delete: list[Operation] = [Check(paths.CONTROLLER_EPOCH, term), Delete(paths.CONTROLLER, node.version)]
        of_role = len(delete)
        delete += [registration.deletion] if registration is not None else []
        (outcome,) = await self._journal.commit([delete], fence=term)
        if isinstance(outcome, Aborted) and outcome.failed >= of_role:
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
        epoch = await read_epoch(self._zk, self._rejections)
        return epoch is None or epoch.version != term

    def _owns(self, node: Node | None) -> bool:
        return node is not None and node.ephemeral_owner == self._zk.session_id

    def _payload(self) -> bytes:
        mine = codecs.ControllerZnode(self._contender.node_id, self._clock.now_ms(), self._contender.instance)
        return codecs.encode_controller(mine)

    def _held(self, holder: Holder, reason: str, epoch: Epoch | None) -> Held:
        """``epoch`` is the holder's, None where it may be that of another."""
        self._record("held", epoch.value if epoch is not None else 0, -1, holder, reason)
        return Held(holder, reason)

    def _record(self, change: str, epoch: int, version: int, holder: Holder | None, reason: str) -> None:
        name = str(holder) if holder is not None else _NOBODY
        self._audit.record(TermRecord(change, epoch, version, name, reason))


def holder_of(node: Node | None) -> Holder | None:
    """Who a ``/controller`` znode names; ``UNREADABLE`` when that cannot be understood."""
    try:
        return _named_by(node)
    except BadZnode:
        return UNREADABLE


def _named_by(node: Node | None) -> Holder | None:
    if node is None:
        return None
    found = codecs.decode_controller(node.data)
    return Holder(BrokerId(found.broker_id), found.instance, found.timestamp_ms or 0)


def _election(
    node: Node | None, data: bytes, epoch: int, version: int, leaves: Sequence[Registration]
) -> list[Operation]:
    """Return the transaction of an election: a first one as Kafka does it.

    A takeover has the epoch first, so that a lost race is told from any other failure.
    """
    raised = SetData(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(epoch), version)
    create = Create(paths.CONTROLLER, data, ephemeral=True)
    deletions = [registration.deletion for registration in leaves]
    if node is None:
        return [create, raised, *deletions]
    return [raised, Delete(paths.CONTROLLER, node.version), *deletions, create]


def _index_of_epoch(operations: Sequence[Operation]) -> int:
    return next(index for index, operation in enumerate(operations) if isinstance(operation, SetData))


def _raise_unless_conflict(outcome: Aborted) -> None:
    if outcome.code not in CONFLICT_CODES:
        raise RefusedToLead(f"ZooKeeper refuses to give us the role: {code_name(outcome.code)}")
