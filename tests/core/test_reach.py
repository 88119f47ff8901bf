"""Over which listeners brokers, clients and we reach each other: what stands in the way, in the words of operators."""

import pytest

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.core.reach import PLAIN_AND_HIDDEN, Reach

PLAINTEXT, SSL, SASL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_SSL
VISIBLE = Reach(("INTERNAL",), frozenset({"INTERNAL", "CLIENTS"}), is_visible=True)
INTERNAL = Reach(("CONTROL", "INTERNAL"))


def broker(number: int = 3, **listeners: SecurityProtocol) -> Broker:
    ends = tuple(Endpoint(name, "host", 9000 + at, protocol) for at, (name, protocol) in enumerate(listeners.items()))
    return Broker(BrokerId(number), 1, ends)


@pytest.mark.parametrize("reach", [VISIBLE, INTERNAL, PLAIN_AND_HIDDEN])
def test_a_broker_whose_listeners_are_plaintext_is_talked_to(reach: Reach) -> None:
    plain = broker(INTERNAL=PLAINTEXT, CONTROL=PLAINTEXT, CLIENTS=PLAINTEXT)

    assert (reach.why_not_reached(plain), reach.why_not_led([plain])) == (None, None)


@pytest.mark.parametrize(
    ("reach", "asking", "says"),
    [
        (VISIBLE, broker(INTERNAL=SASL), "broker 3 asks for SASL_SSL on INTERNAL: TLS and SASL are not supported yet"),
        (
            INTERNAL,
            broker(INTERNAL=PLAINTEXT, CONTROL=SSL),
            "broker 3 asks for SSL on CONTROL: TLS and SASL are not supported yet",
        ),
    ],
)
def test_a_broker_that_asks_for_more_where_we_talk_is_not_talked_to_and_its_cluster_not_led(
    reach: Reach, asking: Broker, says: str
) -> None:
    assert (reach.why_not_reached(asking), reach.why_not_led([asking])) == (says, says)


def test_a_listener_of_ours_that_brokers_protect_keeps_us_from_leading_and_not_from_talking() -> None:
    asking = broker(INTERNAL=PLAINTEXT, CLIENTS=SSL)

    assert VISIBLE.why_not_reached(asking) is None
    assert VISIBLE.why_not_led([asking]) == "broker 3 asks for SSL on CLIENTS: TLS and SASL are not supported yet"


def test_a_broker_without_our_listener_is_asked_for_what_it_has_instead() -> None:
    secure, plain = broker(SSL=SSL, SASL_SSL=SASL), broker(1, SSL=SSL, OTHER=PLAINTEXT)

    assert VISIBLE.why_not_reached(secure) == "broker 3 asks for SSL on SSL: TLS and SASL are not supported yet"
    assert VISIBLE.why_not_reached(plain) is None


def test_a_cluster_without_the_listener_for_our_requests_is_not_led() -> None:
    brokers = [broker(1, INTERNAL=PLAINTEXT), broker(2, INTERNAL=PLAINTEXT, EDGE=PLAINTEXT)]
    mixed = [*brokers, broker(3, CONTROL=PLAINTEXT)]

    reason = "no broker has the listener CONTROL, over which controllerd sends requests; they have EDGE, INTERNAL"
    assert INTERNAL.why_not_led(brokers) == reason
    assert (INTERNAL.why_not_led(mixed), INTERNAL.why_not_led([])) == (None, None)


@pytest.mark.parametrize("reach", [INTERNAL, PLAIN_AND_HIDDEN])
def test_where_clients_are_not_to_find_us_their_listeners_are_their_own_affair(reach: Reach) -> None:
    asking = broker(INTERNAL=PLAINTEXT, CONTROL=PLAINTEXT, CLIENTS=SASL)

    assert (reach.why_not_led([asking]), reach.uncovered([asking])) == (None, {})


def test_listeners_that_we_do_not_have_are_uncovered_each_with_its_brokers() -> None:
    brokers = [broker(1, INTERNAL=PLAINTEXT), broker(2, EXTERNAL=SSL), broker(3, EXTERNAL=SSL, EDGE=PLAINTEXT)]

    assert VISIBLE.uncovered(brokers) == {
        "EDGE": "not among kafka.listeners (on broker 3)",
        "EXTERNAL": "not among kafka.listeners (on broker 2, 3)",
    }


def test_a_listener_of_ours_is_uncovered_where_a_broker_protects_it() -> None:
    brokers = [broker(1, CLIENTS=PLAINTEXT), broker(2, CLIENTS=SSL)]

    assert VISIBLE.uncovered(brokers) == {
        "CLIENTS": "it asks for SSL: TLS and SASL are not supported yet (on broker 2)"
    }
