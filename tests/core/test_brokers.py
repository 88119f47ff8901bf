"""New, bounced and dead brokers."""

from hypothesis import given
from hypothesis import strategies as st

from controllerd.core.liveness import BrokerDiff, diff_brokers
from controllerd.core.model import BrokerId


def brokers(**epochs: int) -> dict[BrokerId, int]:
    return {BrokerId(int(name[1:])): epoch for name, epoch in epochs.items()}


def test_each_broker_is_new_bounced_or_dead_and_all_are_sorted() -> None:
    known = brokers(b9=10, b3=11, b4=12, b1=13, b2=14)
    observed = brokers(b8=20, b7=21, b4=30, b3=31, b2=14)

    assert diff_brokers(known, observed) == ((7, 8), (3, 4), (1, 9))


def test_nothing_changed_is_falsy() -> None:
    assert not diff_brokers(brokers(b1=1), brokers(b1=1))


def test_any_change_is_truthy() -> None:
    assert BrokerDiff(new=(BrokerId(1),))
    assert BrokerDiff(bounced=(BrokerId(1),))
    assert BrokerDiff(dead=(BrokerId(1),))


def test_an_epoch_that_went_back_is_no_bounce() -> None:
    assert not diff_brokers(brokers(b1=5), brokers(b1=4))


epochs = st.dictionaries(st.integers(0, 6).map(BrokerId), st.integers(1, 3))


@given(epochs, epochs)
def test_the_three_parts_never_overlap_and_explain_every_membership_change(
    known: dict[BrokerId, int], observed: dict[BrokerId, int]
) -> None:
    diff = diff_brokers(known, observed)

    assert len({*diff.new, *diff.bounced, *diff.dead}) == len(diff.new) + len(diff.bounced) + len(diff.dead)
    assert (known.keys() | set(diff.new)) - set(diff.dead) == observed.keys()
