"""The reader of ZooKeeper's transaction log finds terms and writes outside of a term; this test needs no broker."""

from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.dev.cluster import CHROOT
from controllerd.dev.txnlog import Logged, LoggedTransaction
from controllerd.zk import codecs, paths
from controllerd.zk.codecs import ControllerZnode
from tests.real.history import Term, registrations, states, terms, writers
from tests.real.operator import tp

BROKER, OURS, OTHER = 11, 22, 33
"""Ids of sessions."""
ORDERS = tp("orders")


def logged(session_id: int, zxid: int, *operations: Logged) -> LoggedTransaction:
    return LoggedTransaction(session_id, zxid, operations)


def won(session_id: int, zxid: int, epoch: int, node: int) -> LoggedTransaction:
    """An election as a broker writes it."""
    holder = codecs.encode_controller(ControllerZnode(node, 0, None, -1))
    return logged(
        session_id,
        zxid,
        Logged("create", CHROOT + paths.CONTROLLER, holder, ephemeral=True),
        Logged("setData", CHROOT + paths.CONTROLLER_EPOCH, b"%d" % epoch, epoch),
    )


def stated(session_id: int, zxid: int, epoch: int, *after: Logged) -> LoggedTransaction:
    """A partition state with this controller epoch."""
    one = BrokerId(1)
    state = codecs.encode_state(LeaderAndIsr(one, 3, (one,), epoch, 4))
    written = Logged("setData", CHROOT + paths.partition_state(ORDERS), state, 4)
    return logged(session_id, zxid, Logged("check", CHROOT + paths.CONTROLLER_EPOCH, version=epoch), written, *after)


def test_terms_are_read_in_their_order_with_their_winners() -> None:
    history = [won(BROKER, 1, 1, 2), stated(BROKER, 2, 1), won(OURS, 3, 2, 2_000_000_000)]

    assert terms(history) == [Term(1, 2, BROKER), Term(2, 2_000_000_000, OURS)]


def test_a_state_is_of_its_term_when_the_controller_of_that_term_wrote_it() -> None:
    history = [won(BROKER, 1, 1, 2), stated(BROKER, 2, 1)]

    assert [each.is_of_its_term for each in states(history)] == [True]


def test_a_late_write_of_an_earlier_controller_is_of_no_term() -> None:
    history = [won(BROKER, 1, 1, 2), won(OURS, 2, 2, 2_000_000_000), stated(BROKER, 3, 1), stated(BROKER, 4, 2)]

    assert [each.is_of_its_term for each in states(history)] == [False, False]


def test_a_write_with_another_epoch_is_of_no_term() -> None:
    assert [each.is_of_its_term for each in states([won(BROKER, 1, 1, 2), stated(BROKER, 2, 5)])] == [False]


def test_a_state_before_any_election_is_of_no_term() -> None:
    assert [each.is_of_its_term for each in states([stated(OTHER, 1, 1)])] == [False]


def test_a_refused_transaction_has_no_effect() -> None:
    refused = stated(OTHER, 2, 1, Logged("refused", error="BadVersionError"))

    assert list(states([won(BROKER, 1, 1, 2), refused])) == []
    assert OTHER not in writers([refused])


def test_a_session_that_only_checks_writes_nothing() -> None:
    assert writers([logged(OTHER, 1, Logged("check", CHROOT + paths.CONTROLLER, version=0))]) == {}


def test_sessions_of_brokers_are_known_by_their_registrations() -> None:
    registered = logged(BROKER, 1, Logged("create", f"{CHROOT}{paths.BROKER_IDS}/2", b"{}", ephemeral=True))

    assert registrations([registered, stated(OTHER, 2, 1)]) == {BROKER: 2}
    assert writers([registered]) == {BROKER: [f"{paths.BROKER_IDS}/2"]}
