"""The reasons why this instance must not lead a cluster, checked before every election."""

from typing import Final, NamedTuple

from controllerd.core.model import Broker, BrokerId
from controllerd.core.reach import PLAIN_AND_HIDDEN, Reach
from controllerd.errors import BadZnode, RefusedToLead
from controllerd.zk import codecs, paths
from controllerd.zk.access import Znode, ZooKeeper
from controllerd.zk.registrar import Registration, find_registrations
from controllerd.zk.rejections import Rejections

MIRROR: Final = 2**31 - 1
"""Clients name the connection to a coordinator 2147483647 minus its id, so such ids must not be those of nodes."""


class Epoch(NamedTuple):
    """The controller epoch in ``/controller_epoch``, and the data version of the znode."""

    value: int
    version: int


class Eligible(NamedTuple):
    """The facts of a cluster that may be led: its epoch, and the registrations that a new term must delete."""

    epoch: Epoch | None
    """None if ``/controller_epoch`` is missing and may be created."""
    registrations: tuple[Registration, ...]
    """The registrations of controllerd, of any term."""


async def read_epoch(zk: ZooKeeper, rejections: Rejections) -> Epoch | None:
    """Return the controller epoch, None if the znode is missing. :raises RefusedToLead: it is not a number."""
    (node,) = await zk.read([paths.CONTROLLER_EPOCH])
    return _decode_epoch(node, rejections)


def _decode_epoch(node: Znode | None, rejections: Rejections) -> Epoch | None:
    if node is None:
        return None
    try:
        with rejections.judging(node):
            return Epoch(codecs.decode_controller_epoch(node.data), node.version)
    except BadZnode as error:
        raise RefusedToLead(f"{error}. Repair the znode: it must hold the epoch of the last controller") from error


async def refuse_unless_eligible(
    zk: ZooKeeper, node_id: int, controller: Znode | None, rejections: Rejections, reach: Reach = PLAIN_AND_HIDDEN
) -> Eligible:
    """Refuse a cluster that is migrating or secured, has a broker of our id, or has no usable epoch.

    A cluster is also refused if a broker demands TLS or SASL on a listener that ``reach`` would use. The checks take
    few round trips, because brokers take part in the same election.

    :raises RefusedToLead: the message says why and what to do.
    """
    migration, epoch_node = await zk.read([paths.MIGRATION, paths.CONTROLLER_EPOCH])
    _refuse_migration(migration, controller)
    epoch = _decode_epoch(epoch_node, rejections)
    if epoch is None:
        await _refuse_missing_epoch(zk, controller)
    registered = await zk.children(paths.BROKER_IDS) or []
    ours = await find_registrations(zk, registered)
    brokers = sorted(set(registered) - {each.path.rpartition("/")[2] for each in ours})
    _refuse_id_clash(node_id, brokers)
    await _refuse_secured(zk, brokers)
    await _refuse_protected(zk, brokers, reach)
    return Eligible(epoch, tuple(ours))


def _refuse_migration(migration: Znode | None, controller: Znode | None) -> None:
    if migration is not None or _kraft_epoch(controller) >= 0:
        raise RefusedToLead("the cluster is being migrated to KRaft; finish or roll back the migration first")


def _kraft_epoch(controller: Znode | None) -> int:
    if controller is None:
        return codecs.ControllerZnode(0).kraft_controller_epoch
    try:
        return codecs.decode_controller(controller.data).kraft_controller_epoch
    except BadZnode:
        # The holder cannot be decoded: the election stands by, which is no reason to refuse the cluster.
        return codecs.ControllerZnode(0).kraft_controller_epoch


async def _refuse_missing_epoch(zk: ZooKeeper, controller: Znode | None) -> None:
    if controller is not None:
        raise RefusedToLead(f"{paths.CONTROLLER_EPOCH} is missing though {paths.CONTROLLER} exists; restore it")
    topics = await zk.children(paths.BROKER_TOPICS) or []
    # Only a controller creates the parent of a topic's partitions, with the first states of the partitions.
    parents = [paths.topic_partitions(topic) for topic in sorted(topics)]
    existing = [path for path, node in zip(parents, await zk.read(parents), strict=True) if node is not None]
    if existing:
        raise RefusedToLead(
            f"{paths.CONTROLLER_EPOCH} is missing though {existing[0]} exists, which only a controller creates; "
            "restore it to at least the highest controller_epoch of the state znodes of partitions"
        )


def _refuse_id_clash(node_id: int, brokers: list[str]) -> None:
    for clash in (node_id, MIRROR - node_id):
        if str(clash) in brokers:
            raise RefusedToLead(f"our node id {node_id} clashes with the registered broker {clash}; choose another")


async def _refuse_secured(zk: ZooKeeper, brokers: list[str]) -> None:
    """Refuse a cluster with ACLs: brokers with ``zookeeper.set.acl`` set them on everything that they create."""
    checked = [paths.BROKERS, paths.BROKER_IDS, paths.BROKER_TOPICS]
    checked += [f"{paths.BROKER_IDS}/{broker}" for broker in brokers]
    for path, is_open in zip(checked, await zk.have_open_acl(checked), strict=True):
        if is_open is False:
            raise RefusedToLead(
                f"the ACL of {path} does not give every client every right; a secured ZooKeeper is not supported yet, "
                "because controllerd would create open znodes in it"
            )


async def _refuse_protected(zk: ZooKeeper, brokers: list[str], reach: Reach) -> None:
    """Refuse a cluster whose brokers demand TLS or SASL.

    A registration that cannot be decoded is no reason; the active controller puts it in quarantine later.
    """
    ids = sorted(broker for broker in map(paths.parse_broker_id, brokers) if broker is not None)
    if reach == PLAIN_AND_HIDDEN or not ids:
        return
    nodes = await zk.read([paths.broker(broker) for broker in ids])
    found = (_decoded(broker, node) for broker, node in zip(ids, nodes, strict=True))
    reason = reach.why_not_led([broker for broker in found if broker is not None])
    if reason is not None:
        raise RefusedToLead(reason)


def _decoded(broker: BrokerId, node: Znode | None) -> Broker | None:
    if node is None:
        return None
    try:
        return codecs.decode_broker(broker, node.data, node.czxid)
    except BadZnode:
        return None
