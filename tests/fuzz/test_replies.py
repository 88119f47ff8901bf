"""After any response of a broker the channel goes on, and sends the request again until it is answered."""

import logging
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest
import structlog

from channel_manager.manager import ChannelManager
from channel_manager.settings import ChannelSettings
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint
from tests.channel_manager.requests import leader_and_isr, stop_replica, update_metadata
from tests.channel_manager.test_manager import Reports, channels
from tests.fuzz.replies import DENIED, STALE, UNKNOWN_CODES, LyingBroker, ReceivedRequest, lying_broker, problems
from tests.fuzz.spoil import Expect
from tests.fuzz.target import LoudLog

SEEDS: Final = range(4)
LIES: Final = 300
ROUNDS: Final = 60
FAST: Final = ChannelSettings(backoff_s=0.001, authorization_backoff_s=0.001, coalesce=False)
EXPECTED_ERRORS: Final = ("broker refuses us", "broker knows a higher controller epoch")


@pytest.fixture
def log() -> Iterator[LoudLog]:
    """The errors in the log."""
    before, found = structlog.get_config(), LoudLog()
    structlog.configure(processors=[found], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield found
    structlog.configure(**before)


async def play(broker: LyingBroker) -> Reports:
    """Send every kind of control request to this broker."""
    desk = Reports()
    async with channels(desk, FAST) as manager:
        manager.add_broker(Broker(BrokerId(1), 1, (Endpoint("PLAINTEXT", "127.0.0.1", broker.port),)))
        send(manager)
        assert await manager.drain(60), "a request was never answered"
    return desk


def send(manager: ChannelManager) -> None:
    for epoch in range(ROUNDS):
        for request in (leader_and_isr(epoch), update_metadata(0), stop_replica(delete=True)):
            manager.send(BrokerId(1), request)


def last_of_each(received: list[ReceivedRequest]) -> list[ReceivedRequest]:
    """The last response to each request."""
    return list({each.correlation_id: each for each in received}.values())


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_a_broker_answers_each_request_is_answered_once_in_order_input_32(
    seed: int, log: LoudLog
) -> None:
    async with lying_broker(seed, LIES) as broker:
        desk = await play(broker)

    assert problems(broker.received) == []
    assert desk.defects == []
    assert [line for line in log.lines if not line.startswith(EXPECTED_ERRORS)] == []
    assert [each.correlation_id for each in last_of_each(broker.received)] == list(range(1, 3 * ROUNDS + 1))
    assert len(desk.events) == 3 * ROUNDS
    assert len({received.reply.what for received in broker.received}) > 20


async def test_an_unknown_error_code_is_reported_as_an_unknown_error_input_32() -> None:
    async with lying_broker(7, LIES) as broker:
        desk = await play(broker)

    ends = {each.correlation_id: each.reply for each in last_of_each(broker.received)}
    strange = [
        exchange.response.error
        for exchange in desk.exchanges
        if (end := ends[exchange.correlation_id]).expect is Expect.ANSWER and end.code in UNKNOWN_CODES
    ]
    assert strange
    assert set(strange) == {KafkaError.UNKNOWN_SERVER_ERROR}


async def test_a_higher_controller_epoch_among_bad_answers_is_reported_each_time_input_33() -> None:
    async with lying_broker(8, LIES) as broker:
        desk = await play(broker)

    stale = [each for each in last_of_each(broker.received) if each.reply.code == STALE]
    assert len(desk.stale) >= len(stale) > 0
    assert set(desk.stale) == {(BrokerId(1), 5)}


async def test_a_refusal_for_lack_of_rights_is_held_on_the_same_connection_input_34() -> None:
    async with lying_broker(9, LIES) as broker:
        await play(broker)

    pairs = list(pairwise(broker.received))
    held = [(before, now) for before, now in pairs if before.reply.code == DENIED]
    assert held
    assert all(now.frame == before.frame and now.connection == before.connection for before, now in held)
