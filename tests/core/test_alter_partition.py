"""AlterPartition, rule by rule: the first that applies decides."""

from typing import Any

import pytest

from controllerd.core.alter_partition import Accepted, AlreadySo, Proposal, judge
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment

RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


CURRENT = LeaderAndIsr(BrokerId(2), 5, ids(2, 3), 9, 7)
ASSIGNMENT = ReplicaAssignment(ids(1, 2, 3))
LIVE = set(ids(1, 2, 3, 4))


def proposal(isr: tuple[int, ...] = (2, 3, 1), **changes: Any) -> Proposal:
    return Proposal(BrokerId(2), 5, 7, ids(*isr), RECOVERED)._replace(**changes)


def test_a_good_proposal_is_written_with_leader_epoch_kept_and_our_controller_epoch() -> None:
    verdict = judge(proposal(), CURRENT, ASSIGNMENT, LIVE, controller_epoch=10)

    assert verdict == Accepted(LeaderAndIsr(BrokerId(2), 5, ids(2, 3, 1), 10, 7))


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (proposal(partition_epoch=8), KafkaError.NOT_CONTROLLER),
        (proposal(leader_epoch=6), KafkaError.NOT_CONTROLLER),
        (proposal(leader_epoch=4), KafkaError.FENCED_LEADER_EPOCH),
        (proposal(leader_epoch=4, partition_epoch=6), KafkaError.FENCED_LEADER_EPOCH),
        (proposal(partition_epoch=6), KafkaError.INVALID_UPDATE_VERSION),
        (proposal((3, 2), partition_epoch=6), KafkaError.INVALID_UPDATE_VERSION),
        (proposal((2, 3), recovery_state=RECOVERING), KafkaError.INVALID_REQUEST),
        (proposal((2,), recovery_state=RECOVERING), KafkaError.INVALID_REQUEST),
        (proposal(()), KafkaError.INVALID_REQUEST),
        (proposal((2, 2)), KafkaError.INVALID_REQUEST),
        (proposal((2, 9)), KafkaError.INELIGIBLE_REPLICA),
        (proposal((2, 4)), KafkaError.INVALID_REQUEST),
        (proposal((3, 1)), KafkaError.INVALID_REQUEST),
        (proposal((3, 2), leader=BrokerId(3)), KafkaError.INVALID_REQUEST),
    ],
)
def test_a_bad_proposal_is_refused_with_the_error_of_the_first_rule_it_breaks(ask: Proposal, error: KafkaError) -> None:
    assert judge(ask, CURRENT, ASSIGNMENT, LIVE, controller_epoch=10) is error


def test_a_partition_without_state_is_unknown() -> None:
    assert judge(proposal(), None, ASSIGNMENT, LIVE, 10) is KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_a_repeat_of_what_holds_already_succeeds_even_with_an_older_partition_epoch() -> None:
    assert judge(proposal((2, 3), partition_epoch=3), CURRENT, ASSIGNMENT, LIVE, 10) == AlreadySo(CURRENT)


def test_the_same_members_in_another_order_are_no_repeat() -> None:
    assert isinstance(judge(proposal((3, 2)), CURRENT, ASSIGNMENT, LIVE, 10), Accepted)


@pytest.mark.parametrize("error", [KafkaError.INELIGIBLE_REPLICA, KafkaError.OPERATION_NOT_ATTEMPTED])
def test_a_member_that_is_not_live_makes_it_ineligible_under_the_name_of_the_version(error: KafkaError) -> None:
    assert judge(proposal(), CURRENT, ASSIGNMENT, set(ids(2, 3)), 10, ineligible=error) is error


def test_a_leader_that_finished_recovering_may_say_so() -> None:
    recovering = CURRENT._replace(isr=ids(2), recovery_state=RECOVERING)

    verdict = judge(proposal((2,)), recovering, ASSIGNMENT, LIVE, 10)

    assert isinstance(verdict, Accepted)
    assert verdict.wanted.recovery_state is RECOVERED


def test_a_recovering_leader_may_not_grow_its_isr_before_it_is_done() -> None:
    recovering = CURRENT._replace(isr=ids(2), recovery_state=RECOVERING)

    assert judge(proposal((2, 3), recovery_state=RECOVERING), recovering, ASSIGNMENT, LIVE, 10) is (
        KafkaError.INVALID_REQUEST
    )
