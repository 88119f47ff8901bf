"""The list of servers that kazoo gets."""

import pytest

from controllerd.zk.driver import named_often_enough


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        ("a:1", "a:1,a:1,a:1"),
        ("a:1/kafka", "a:1,a:1,a:1/kafka"),
        ("a:1,b:2/kafka/one", "a:1,b:2,a:1,b:2/kafka/one"),
        ("a:1,b:2,c:3", "a:1,b:2,c:3"),
        ("a:1,b:2,c:3,d:4/kafka", "a:1,b:2,c:3,d:4/kafka"),
    ],
)
def test_no_attempt_to_connect_may_take_more_than_a_third_of_the_session(hosts: str, named: str) -> None:
    assert named_often_enough(hosts) == named
