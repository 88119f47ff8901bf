"""Reports the transactions of the simulated ZooKeeper to the judge."""

from collections.abc import Callable
from typing import Final

from tests.sim.oracle_seen import ANY_VERSION, Operation, Transaction
from tests.sim.oracle_zookeeper import ZooKeeperOracle
from tests.sim.zk_server import SimZooKeeper
from tests.sim.zk_tree import Change, Txn

_KINDS: Final = {"create": "create", "setData": "set", "delete": "delete", "check": "check"}


def watch(zookeeper: SimZooKeeper, oracle: ZooKeeperOracle) -> None:
    """Report every committed transaction to the judge from now on; call it before the first transaction."""
    zookeeper.observers.append(observer(zookeeper, oracle.on_transaction))


def observer(zookeeper: SimZooKeeper, see: Callable[[Transaction], None]) -> Callable[[Txn], None]:
    """Translate transactions; a session that the server no longer knows is being removed."""

    def observe(txn: Txn) -> None:
        is_over = txn.session != 0 and txn.session not in zookeeper.sessions
        operations = [_operation(change) for change in txn.changes]
        see(Transaction(txn.zxid, txn.session, operations, txn.time, is_over))

    return observe


def _operation(change: Change) -> Operation:
    # A create requires no version; of other writes the server may know the required version.
    demanded = change.version if change.op == "check" else getattr(change, "expected", None)
    expected = ANY_VERSION if change.op == "create" else demanded
    return Operation(_KINDS[change.op], change.path, change.data, expected, change.ephemeral)
